// Transcripts of the Claude Agent SDK in a directory of your own, as Claude Code writes them:
// `annals`, and every tool that reads Claude Code's logs, reads them too.
//
//     for await (const message of query({ prompt, options: { sessionStore } })) …
import { foldSessionSummary, getSessionMessages, listSessions } from "@anthropic-ai/claude-agent-sdk";
import { Store } from "annals";
import { SessionStore } from "annals/claude-agent-sdk";

const [root = "transcripts", state = "state"] = process.argv.slice(2);
const store = new Store([{ layout: "claude-code", path: root }], { state });
const sessionStore = new SessionStore(store, { state, foldSessionSummary });

// What the SDK calls while an agent runs.
const sessionId = "7b0d1c8e-3f5a-4d6b-9c2e-1a2b3c4d5e6f";
const key = { projectKey: "-home-me-app", sessionId };
const record = { sessionId, cwd: "/home/me/app", isSidechain: false, timestamp: "2026-11-18T10:00:00.000Z" };
const prompt = { ...record, type: "user", uuid: "0b3f0000-0000-4000-8000-000000000001", parentUuid: null };
const answer = { ...record, type: "assistant", uuid: "0b3f0000-0000-4000-8000-000000000002", parentUuid: prompt.uuid };
const entries = [
  { ...prompt, message: { role: "user", content: "Why does the build fail?" } },
  { ...answer, message: { role: "assistant", model: "claude-sonnet-4-5", content: [{ type: "text", text: "A flag." }] } },
];
await sessionStore.append(key, entries);
await sessionStore.append(key, entries); // A retry writes nothing.

// The SDK and annals read the same session.
console.log((await listSessions({ sessionStore, dir: "/home/me/app" })).map((session) => session.summary));
console.log((await getSessionMessages(sessionId, { sessionStore, dir: "/home/me/app" })).length, "messages");
console.log((await store.search("build")).hits.map((hit) => hit.snippet));
