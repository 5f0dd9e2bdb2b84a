// The storage part of an operator such as clog: threads with a channel and a title, their messages
// and notes. The caller chooses the ids of messages, so a retry is refused instead of written twice.
import { Store } from "annals";

const [root = "storage", state = "state"] = process.argv.slice(2);
const store = new Store([{ layout: "clog", path: root }], { state });

const chat = await store.begin("/srv", {
  id: "thread_abc123",
  title: "Operator Conversation",
  members: { channel: "telegram" },
});
await chat.append({ role: "system", content: " is online.", id: "msg_01" });
/** @type {import("annals").Draft} */
const question = { role: "user", content: "what errors happened today?", id: "msg_02", channel: "tui" };
await chat.append(question);
await chat.append(question).catch((error) => console.log(error.kind));
await chat.note("The user wants a daily report.");
await chat.retitle("Errors of today");
await chat.close();

const resumed = await store.resume("thread_abc123");
await resumed.assistant("None.");
await resumed.close();

const session = await store.session("thread_abc123");
console.log(session.info.title, (await session.messages()).map((entry) => entry.role));
const fork = await store.fork(session.info.id, "msg_02");
for (const row of await store.sessions()) console.log(row.channel, row.messages, "messages");
await store.delete(fork);
console.log((await store.sessions()).length, "conversation");
