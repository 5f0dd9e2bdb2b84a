"use strict";
// The class Writer.

const { call, callSync, inOrder, refuseInvalidDates } = require("./native.cjs");

class Writer {
  #handle;
  #inOrder = inOrder();
  #known;

  constructor(handle) {
    this.#handle = handle;
    this.#known = handle.state();
  }

  get id() {
    return this.#state()[0];
  }

  get agent() {
    return this.#state()[1];
  }

  get path() {
    return this.#state()[2];
  }

  get leaf() {
    return this.#state()[3];
  }

  /** The state; of a closed writer, the last known. */
  #state() {
    this.#known = this.#handle.state() ?? this.#known;
    return this.#known;
  }

  /** Runs a call after the earlier ones of this writer, so that entries have the order of calls. */
  #call(name, request) {
    return this.#inOrder(() => call(this.#handle, name, request));
  }

  async append(...drafts) {
    return this.#call("append", drafts.map(spelled));
  }

  appendSync(...drafts) {
    return callSync(this.#handle, "append", drafts.map(spelled));
  }

  /** Whole records of the layout, as they are. */
  appendRaw(...records) {
    return this.#call("appendRaw", records);
  }

  appendRawSync(...records) {
    return callSync(this.#handle, "appendRaw", records);
  }

  async user(text, options) {
    return last(await this.append({ ...options, role: "user", content: text }));
  }

  userSync(text, options) {
    return last(this.appendSync({ ...options, role: "user", content: text }));
  }

  assistant(content, options) {
    return this.append({ ...options, role: "assistant", content });
  }

  assistantSync(content, options) {
    return this.appendSync({ ...options, role: "assistant", content });
  }

  async toolResult(call, output, { isError = false, ...options } = {}) {
    const result = { type: "tool_result", tool_use_id: call, content: output, is_error: isError };
    return last(await this.append({ ...options, role: "user", content: [result] }));
  }

  async delegate(call, kind, description) {
    return new Writer(await this.#call("delegate", { call, kind, description }));
  }

  setTodos(todos) {
    return this.#call("setTodos", todos);
  }

  retitle(text) {
    return this.#call("retitle", { text });
  }

  retitleSync(text) {
    callSync(this.#handle, "retitle", { text });
  }

  tag(text) {
    return this.#call("tag", { text });
  }

  async note(text) {
    return last(await this.#call("note", { text }));
  }

  compact(summary, tokens) {
    return this.#call("compact", { summary, tokens });
  }

  totals() {
    return callSync(this.#handle, "totals");
  }

  close() {
    return this.#call("close");
  }

  closeSync() {
    callSync(this.#handle, "close");
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }
}

/** Returns a draft whose usage, if it is spelled as in rows, is spelled as in the Messages API. */
function spelled(draft) {
  refuseInvalidDates(draft);
  const usage = draft?.usage;
  if (!usage || !ROW_COUNTS.some((name) => name in usage)) return draft;
  const { input, output, cache_write_5m = 0, cache_write_1h = 0, cache_read, web_searches, ...rest } = usage;
  const api = {
    ...rest,
    input_tokens: input ?? 0,
    output_tokens: output ?? 0,
    cache_creation_input_tokens: cache_write_5m + cache_write_1h,
    cache_read_input_tokens: cache_read ?? 0,
  };
  if (cache_write_1h) {
    api.cache_creation = { ephemeral_5m_input_tokens: cache_write_5m, ephemeral_1h_input_tokens: cache_write_1h };
  }
  if (web_searches) api.server_tool_use = { web_search_requests: web_searches };
  return { ...draft, usage: api };
}

const ROW_COUNTS = ["input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches"];

const last = (entries) => entries[entries.length - 1];

module.exports = { Writer };
