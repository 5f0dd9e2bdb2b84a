"use strict";
// The class Mirror.

const { call, callRaw, inOrder, toError, toJson } = require("./native.cjs");

class Mirror {
  #handle;
  #inOrder = inOrder();

  constructor(handle) {
    this.#handle = handle;
  }

  get path() {
    return this.#handle.path;
  }

  /** Appends after the earlier calls, so that lines have the order of calls. */
  async append(lines) {
    const encoded = lines.map((line) => (line instanceof Uint8Array ? line : toJson(line)));
    const buffers = encoded.map((line) => Buffer.from(line));
    return this.#inOrder(async () => {
      try {
        return JSON.parse(await this.#handle.append(buffers));
      } catch (thrown) {
        throw toError(thrown);
      }
    });
  }

  async load() {
    return (await callRaw(this.#handle, "load")) ?? null;
  }

  subs() {
    return call(this.#handle, "subs");
  }

  async delete() {
    await call(this.#handle, "delete");
  }
}

module.exports = { Mirror };
