"use strict";
// The class Store.

const os = require("node:os");
const { native, call, callSync, trySync } = require("./native.cjs");
const { Follower } = require("./follower.cjs");
const { Mirror } = require("./mirror.cjs");
const { Session } = require("./session.cjs");
const { Writer } = require("./writer.cjs");

class Store {
  #handle;

  constructor(roots, options = {}) {
    const { zone = Intl.DateTimeFormat().resolvedOptions().timeZone } = options;
    const text = JSON.stringify({ ...options, roots, zone });
    this.#handle = trySync(() => new native.StoreHandle(text));
    this.roots = JSON.parse(trySync(() => this.#handle.roots()));
  }

  static discover(env = process.env, cwd = process.cwd(), options = {}) {
    const home = env.HOME || os.homedir();
    const state = env.ANNALS_STATE_DIR || `${env.XDG_STATE_HOME || `${home}/.local/state`}/annals`;
    return new Store([], { state, ...options, discover: true, vars: env, home, cwd });
  }

  async begin(cwd, options) {
    return new Writer(await call(this.#handle, "begin", beginRequest(cwd, options)));
  }

  beginSync(cwd, options) {
    return new Writer(callSync(this.#handle, "begin", beginRequest(cwd, options)));
  }

  async resume(id, write = {}) {
    return new Writer(await call(this.#handle, "resume", { id, write }));
  }

  resumeSync(id, write = {}) {
    return new Writer(callSync(this.#handle, "resume", { id, write }));
  }

  fork(id, at, options) {
    return call(this.#handle, "fork", { ...options, id, at });
  }

  async delete(id) {
    return trashed(await call(this.#handle, "delete", { id }));
  }

  deleteSync(id) {
    return trashed(callSync(this.#handle, "delete", { id }));
  }

  undelete(id) {
    return call(this.#handle, "undelete", { id });
  }

  async reset(project, options) {
    return (await call(this.#handle, "reset", { ...options, project })).map(trashed);
  }

  mirror(project, session, sub, write = {}) {
    const request = JSON.stringify({ project, session, sub, write });
    return new Mirror(trySync(() => this.#handle.mirror(request)));
  }

  convert(into, options) {
    return call(this.#handle, "convert", { ...options, into });
  }

  async session(id) {
    return Session.open(await call(this.#handle, "open", { id }));
  }

  sessionSync(id) {
    return Session.openSync(callSync(this.#handle, "open", { id }));
  }

  async tail(id, messages) {
    return Session.open(await call(this.#handle, "open", { id, tail: messages }));
  }

  sessions(filter) {
    return call(this.#handle, "sessions", filter);
  }

  sessionsSync(filter) {
    return callSync(this.#handle, "sessions", filter);
  }

  projects() {
    return call(this.#handle, "projects");
  }

  conversations(id) {
    return call(this.#handle, "conversations", { id });
  }

  async search(query, { signal, ...options } = {}) {
    signal?.throwIfAborted();
    const request = { ...options, query };
    if (!signal) return call(this.#handle, "search", request);
    const stop = new native.StopFlag();
    let abort;
    const aborted = new Promise((_, reject) => {
      abort = () => {
        stop.stop();
        reject(signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
    });
    try {
      return await Promise.race([call(this.#handle, "search", request, stop), aborted]);
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  updateIndex() {
    return call(this.#handle, "updateIndex");
  }

  cost(by, options) {
    return call(this.#handle, "cost", { ...options, by });
  }

  follow({ signal, ...options } = {}) {
    return new Follower(this.#handle, options, signal);
  }

  check(id) {
    return call(this.#handle, "check", { id });
  }

  /** Sets members of a session's row in the session list of its layout. */
  setMembersSync(id, members) {
    callSync(this.#handle, "setMembers", { id, members });
  }

  /** Sessions that were not used for some days; with `apply` they go to the trash. */
  clean(options) {
    return call(this.#handle, "clean", options);
  }

  /** Damaged files of sessions; with `apply` they are repaired and the originals kept. */
  repair(sessions, options) {
    return call(this.#handle, "repair", { ...options, sessions });
  }

  /** What could not be read since the last call, as texts. */
  takeFailures() {
    return this.#handle.takeFailures();
  }
}

function beginRequest(cwd, { durability, live, network, ...options } = {}) {
  return { ...options, cwd, write: { durability, live, network } };
}

function trashed({ id, session, files }) {
  return { id, session, files: files.length, bytes: files.reduce((sum, file) => sum + (file.bytes ?? 0), 0) };
}

module.exports = { Store };
