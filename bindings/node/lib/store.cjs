"use strict";
// The class Store.

const os = require("node:os");
const path = require("node:path");
const { native, call, callSync, trySync } = require("./native.cjs");
const { Follower } = require("./follower.cjs");
const { Mirror } = require("./mirror.cjs");
const { Session } = require("./session.cjs");
const { Writer } = require("./writer.cjs");

class Store {
  #handle;

  constructor(roots, options = {}) {
    const { zone = options.discover ? undefined : Intl.DateTimeFormat().resolvedOptions().timeZone } = options;
    const text = JSON.stringify({ ...options, roots, zone });
    this.#handle = trySync(() => new native.StoreHandle(text));
    this.roots = JSON.parse(trySync(() => this.#handle.roots()));
  }

  static discover(env = process.env, cwd = process.cwd(), options = {}) {
    return new Store([], { ...options, discover: true, vars: env, home: env.HOME || os.homedir(), cwd });
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

  delete(id) {
    return call(this.#handle, "delete", { id });
  }

  deleteSync(id) {
    return callSync(this.#handle, "delete", { id });
  }

  undelete(id) {
    return call(this.#handle, "undelete", { id });
  }

  reset(project, options) {
    return call(this.#handle, "reset", { ...options, project });
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

  /** A state document of a program such as clog; null if there is none. */
  state(name, { root } = {}) {
    return call(this.#handle, "document", { name, root });
  }

  /** Creates or replaces a state document. */
  setState(name, value, { root } = {}) {
    return call(this.#handle, "document", { name, root, value });
  }

  /** Appends text to the log of the run that started at a time, and returns the path of the log. */
  writeRunLog(started, text, { root } = {}) {
    return call(this.#handle, "writeRunLog", { started, text, root });
  }

  /** What could not be read since the last call, as texts. */
  takeFailures() {
    return this.#handle.takeFailures();
  }
}

function beginRequest(cwd, { durability, live, network, ...options } = {}) {
  return { ...options, cwd: path.resolve(cwd), write: { durability, live, network } };
}

module.exports = { Store };
