// The storage part of an operator such as clog: threads, messages, notes, state, logs of runs. The
// caller chooses the ids of messages, so a retry is refused instead of written twice.
import { open } from "annals/clog";

const [root = "storage", state = "state"] = process.argv.slice(2);
const clog = open(root, { state, cwd: "/srv" });
const chat = await clog.createThread({ threadId: "thread_abc123", channel: "telegram", title: "Operator Conversation" });
await chat.append({ messageId: "msg_01", role: "system", content: " is online.", createdAt: 1774402340418 });
/** @type {import("annals/clog").NewMessage} */
const question = { messageId: "msg_02", role: "user", channel: "tui", content: "what errors happened today?" };
await chat.append(question);
await chat.append(question).catch((error) => console.log(error.kind));
await chat.note("The user wants a daily report.");
await chat.retitle("Errors of today");
await chat.close();

const resumed = await clog.thread(chat.conversationId);
await resumed.append({ role: "assistant", content: "None." });
await resumed.close();
console.log((await clog.messages("thread_abc123")).map(({ channel, content }) => `${channel}: ${content}`));

const fork = await clog.fork("thread_abc123", "msg_02");
for (const { channel, messages, title } of await clog.threads()) console.log(channel, messages, title);
await clog.delete(fork);
await clog.state.set("status", { status: "idle" });
const log = await clog.runLog().write("[info] online");
console.log((await clog.threads()).length, "thread,", await clog.state.get("status"), log.endsWith("system.log"));
