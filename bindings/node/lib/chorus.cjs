"use strict";
// The conversation service of Chorus, over a root of its layout.

const { randomUUID } = require("node:crypto");
const path = require("node:path");
const { Store } = require("./store.cjs");

/** Opens `.chorus`; `cwd` is the directory that new conversations record. */
function open(root, { cwd = path.dirname(path.resolve(root)), ...options } = {}) {
  const store = new Store([{ layout: "chorus", path: root }], options);
  const rows = (wanted) => store.sessionsSync().filter(wanted);
  const row = (id) => store.sessionSync(id).info;
  const write = (id, work) => {
    const writer = store.resumeSync(id, { live: true });
    try {
      return work(writer);
    } finally {
      writer.closeSync();
    }
  };

  const listConversations = (workspaceId, agentId) =>
    rows((row) => row.workspace === workspaceId && row.agent === agentId).map(conversation);

  const createConversation = (workspaceId, agentId, { title, branchName, sessionId } = {}) => {
    const folder = `${workspaceId}/${agentId}`;
    const members = Object.fromEntries(
      Object.entries({ branchName, sessionId }).filter(([, value]) => value !== undefined),
    );
    const writer = store.beginSync(cwd, { id: randomUUID(), folder, members, title: title ?? "New Conversation" });
    const { id } = writer;
    writer.closeSync();
    return conversation(row(id));
  };

  const loadConversation = (id) => {
    const session = store.sessionSync(id);
    const entries = session.messagesSync({ allBranches: true });
    const messages = entries.map((entry) => JSON.parse(session.rawSync(entry.id)));
    return { conversation: conversation(session.info), messages };
  };

  const updateConversation = (id, { title, ...members }) => {
    if (title !== undefined) write(id, (writer) => writer.retitleSync(title));
    if (Object.keys(members).length > 0) store.setMembersSync(id, members);
    return conversation(row(id));
  };

  const updateConversationSettings = (id, settings) => store.setMembersSync(id, { settings });

  const appendMessage = (id, message) => {
    write(id, (writer) => writer.appendRawSync(message));
  };

  const deleteConversation = (id) => {
    store.deleteSync(id);
  };

  const getConversationBranchName = (id) => row(id).git_branch ?? null;

  const deleteConversationsByBranch = (branchName) => {
    const found = rows((row) => row.git_branch === branchName);
    for (const { id } of found) store.deleteSync(id);
    return found.length;
  };

  const getConversationPath = (id) => row(id).file;

  return {
    store,
    listConversations,
    createConversation,
    loadConversation,
    updateConversation,
    updateConversationSettings,
    appendMessage,
    deleteConversation,
    getConversationBranchName,
    deleteConversationsByBranch,
    getConversationPath,
  };
}

const conversation = (row) => ({
  id: row.id,
  sessionId: row.session_id,
  agentId: row.agent,
  workspaceId: row.workspace,
  title: row.title,
  createdAt: row.started,
  updatedAt: row.updated,
  messageCount: row.messages,
  branchName: row.git_branch ?? null,
});

module.exports = { open };
