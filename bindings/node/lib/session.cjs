"use strict";
// The class Session.

const { call, callRaw, callSync, trySync } = require("./native.cjs");

class Session {
  #handle;

  constructor(handle, head) {
    this.#handle = handle;
    Object.assign(this, head);
  }

  static async open(handle) {
    return new Session(handle, await call(handle, "head"));
  }

  static openSync(handle) {
    return new Session(handle, callSync(handle, "head"));
  }

  async grow() {
    const grew = await call(this.#handle, "grow");
    if (grew) Object.assign(this, await call(this.#handle, "head"));
    return grew;
  }

  messages(filter) {
    return call(this.#handle, "messages", filter);
  }

  messagesSync(filter) {
    return callSync(this.#handle, "messages", filter);
  }

  message(id) {
    return call(this.#handle, "message", { id });
  }

  ancestry(id) {
    return call(this.#handle, "ancestry", { id });
  }

  context(leaf) {
    return call(this.#handle, "context", { leaf });
  }

  raw(id) {
    return callRaw(this.#handle, "raw", { id });
  }

  rawSync(id) {
    return trySync(() => this.#handle.callSync("raw", JSON.stringify({ id })));
  }

  stats(zone) {
    return call(this.#handle, "stats", { zone });
  }

  todos() {
    return call(this.#handle, "todos");
  }

  files() {
    return call(this.#handle, "files");
  }

  file(path, version) {
    return callRaw(this.#handle, "file", { path, version });
  }

  cost() {
    return call(this.#handle, "cost");
  }
}

module.exports = { Session };
