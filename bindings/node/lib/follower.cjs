"use strict";
// The class Follower: an async iterator of events.

const { toError } = require("./native.cjs");

class Follower {
  #handle = null;
  #events = [];
  #next = 0;
  #wake = null;
  #failure = null;
  #isEnded = false;
  #removeSignal = () => {};

  constructor(store, options, signal) {
    if (signal?.aborted) {
      this.#fail(signal.reason);
      return;
    }
    try {
      this.#handle = store.follow(JSON.stringify(options), () => this.#wake?.());
    } catch (thrown) {
      throw toError(thrown);
    }
    if (signal) {
      const abort = () => {
        this.#fail(signal.reason);
        this.close();
      };
      signal.addEventListener("abort", abort, { once: true });
      this.#removeSignal = () => signal.removeEventListener("abort", abort);
    }
  }

  #fail(reason) {
    this.#failure = reason;
    this.#isEnded = true;
    this.#wake?.();
  }

  #take() {
    try {
      const taken = this.#handle.take();
      if (taken === null) this.#isEnded = true;
      else if (taken.length > 0) [this.#events, this.#next] = [taken, 0];
    } catch (thrown) {
      this.#fail(toError(thrown));
    }
  }

  async next() {
    for (;;) {
      if (this.#failure) {
        const failure = this.#failure;
        this.#failure = null;
        throw failure;
      }
      if (this.#next < this.#events.length) {
        return { value: JSON.parse(this.#events[this.#next++]), done: false };
      }
      if (!this.#isEnded) this.#take();
      if (this.#failure || this.#next < this.#events.length) continue;
      if (this.#isEnded) {
        this.#removeSignal();
        return { value: undefined, done: true };
      }
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
  }

  async return(value) {
    this.close();
    return { value, done: true };
  }

  close() {
    this.#removeSignal();
    this.#isEnded = true;
    this.#events = [];
    this.#next = 0;
    this.#handle?.close();
    this.#wake?.();
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    this.close();
  }
}

module.exports = { Follower };
