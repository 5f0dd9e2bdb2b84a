"use strict";
// The file store of clog: threads with their messages and notes, state, logs of runs.

const { Store } = require("./store.cjs");

/** Opens `storage`; `cwd` is the directory that new threads record. */
function open(root, { cwd = process.cwd(), ...options } = {}) {
  const store = new Store([{ layout: "clog", path: root }], options);

  const thread = (writer) => ({
    threadId: writer.id.replace(TIME, ""),
    conversationId: `conversation-${writer.id}`,
    /** Appends a message. One whose `messageId` exists is refused. */
    append: async ({ messageId, createdAt, ...draft }) => {
      const timestamp = createdAt === undefined ? undefined : new Date(createdAt).toISOString();
      return (await writer.append({ ...draft, id: messageId, timestamp }))[0];
    },
    note: (content) => writer.note(content),
    retitle: (title) => writer.retitle(title),
    close: () => writer.close(),
  });

  return {
    store,
    createThread: async ({ threadId, channel, title }) => {
      const members = channel === undefined ? {} : { channel };
      return thread(await store.begin(cwd, { id: threadId, title, members }));
    },
    /** Opens a thread by its id or its conversation's. */
    thread: async (id) => thread(await store.resume(id, { live: true })),
    threads: async () => (await store.sessions()).map(row),
    messages: async (id, filter) => (await (await store.session(id)).messages(filter)).map(message),
    fork: async (id, messageId) => (await store.session(await store.fork(id, messageId))).info.thread,
    /** Moves a thread to the trash. */
    delete: (id) => store.delete(id),
    state: {
      get: (name) => store.state(name),
      set: (name, value) => store.setState(name, value),
    },
    runLog: (started = new Date()) => ({ write: (text) => store.writeRunLog(started, text) }),
  };
}

/** The start time before the thread in ids of sessions. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z-/;

const row = (it) => ({
  threadId: it.thread,
  conversationId: it.conversation,
  channel: it.channel,
  title: it.title,
  messages: it.messages,
  createdAt: Date.parse(it.started),
  updatedAt: Date.parse(it.updated),
});

const message = (entry) => ({
  messageId: entry.id,
  role: entry.role,
  channel: entry.channel ?? null,
  content: entry.blocks.map((block) => block.text ?? "").join("\n"),
  createdAt: Date.parse(entry.time),
});

module.exports = { open };
