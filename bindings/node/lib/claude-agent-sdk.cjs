"use strict";
// SessionStore of @anthropic-ai/claude-agent-sdk: transcripts as logs of Claude Code.

const fs = require("node:fs/promises");
const path = require("node:path");

/** Mirrors that stay open. */
const MAX_OPEN = 64;

class SessionStore {
  #store;
  #state;
  #fold;
  #mirrors = new Map();
  #pending = new Map();

  /** Summaries need `state`, a directory for them, and `foldSessionSummary` of the SDK. */
  constructor(store, { state, foldSessionSummary } = {}) {
    this.#store = store;
    this.#state = state && path.join(state, "claude-agent-sdk");
    this.#fold = foldSessionSummary;
    if (!state || !foldSessionSummary) this.listSessionSummaries = undefined;
  }

  async append(key, entries) {
    if (entries.length === 0) return;
    const mirror = this.#mirror(key);
    await mirror.append(entries);
    if (this.listSessionSummaries && key.subpath === undefined) {
      await this.#inOrder(key, () => this.#summarize(key, entries, mirror.path));
    }
  }

  async load(key) {
    const lines = await this.#mirror(key).load();
    return lines && lines.map((line) => JSON.parse(line));
  }

  async listSessions(projectKey) {
    const rows = await this.#store.sessions();
    const own = rows.filter(({ file }) => path.basename(path.dirname(file)) === projectKey);
    const found = own.map(async ({ id, file }) => {
      const mtime = await mtimeOf(file);
      return mtime === undefined ? [] : [{ sessionId: id, mtime }];
    });
    return (await Promise.all(found)).flat();
  }

  async listSessionSummaries(projectKey) {
    const dir = path.join(this.#state, encodeURIComponent(projectKey));
    const names = await fs.readdir(dir).catch(orMissing([]));
    const documents = names.filter((name) => name.endsWith(".json"));
    return Promise.all(documents.map(async (name) => JSON.parse(await fs.readFile(path.join(dir, name)))));
  }

  async delete(key) {
    await this.#mirror(key).delete();
    for (const known of [...this.#mirrors.keys()]) {
      if (known.startsWith(nameOf({ ...key, subpath: "" }))) this.#mirrors.delete(known);
    }
    if (key.subpath === undefined && this.listSessionSummaries) {
      await this.#inOrder(key, () => fs.rm(this.#summary(key), { force: true }));
    }
  }

  async listSubkeys(key) {
    return this.#mirror({ projectKey: key.projectKey, sessionId: key.sessionId }).subs();
  }

  #mirror(key) {
    const name = nameOf(key);
    let mirror = this.#mirrors.get(name);
    this.#mirrors.delete(name);
    mirror ??= this.#store.mirror(key.projectKey, key.sessionId, key.subpath);
    this.#mirrors.set(name, mirror);
    if (this.#mirrors.size > MAX_OPEN) this.#mirrors.delete(this.#mirrors.keys().next().value);
    return mirror;
  }

  #summary({ projectKey, sessionId }) {
    return path.join(this.#state, encodeURIComponent(projectKey), `${encodeURIComponent(sessionId)}.json`);
  }

  async #summarize(key, entries, log) {
    const file = this.#summary(key);
    const text = await fs.readFile(file, "utf8").catch(orMissing(undefined));
    const folded = this.#fold(text && JSON.parse(text), key, entries, { mtime: await mtimeOf(log) });
    await fs.mkdir(path.dirname(file), { recursive: true });
    await fs.writeFile(`${file}.new`, JSON.stringify(folded));
    await fs.rename(`${file}.new`, file);
  }

  /** Runs work on a session's summary after earlier work on it. */
  #inOrder(key, work) {
    const name = nameOf(key);
    const done = (this.#pending.get(name) ?? Promise.resolve()).then(work, work);
    this.#pending.set(name, done);
    const clear = () => this.#pending.get(name) === done && this.#pending.delete(name);
    done.then(clear, clear);
    return done;
  }
}

const nameOf = ({ projectKey, sessionId, subpath }) => [projectKey, sessionId, subpath ?? ""].join("\0");

async function mtimeOf(file) {
  const found = await fs.stat(file).catch(orMissing(undefined));
  return found && Math.floor(found.mtimeMs);
}

const orMissing = (value) => (error) => {
  if (error.code === "ENOENT") return value;
  throw error;
};

module.exports = { SessionStore };
