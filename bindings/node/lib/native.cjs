"use strict";
// Calls of the native handles: arguments to JSON, answers from JSON, failures to errors.

const native = require("../annals.node");

class AnnalsError extends Error {
  constructor(message, kind = "refused", path = undefined, candidates = []) {
    super(message);
    this.name = "AnnalsError";
    this.kind = kind;
    if (path !== undefined) this.path = path;
    this.candidates = candidates;
  }
}

/** The longest time to parse before other work of the event loop gets its turn, in ms. */
const TURN = 1;
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Returns the error for what a native call threw. */
function toError(thrown) {
  if (thrown?.message?.startsWith("{")) {
    const { message, kind, path, candidates } = JSON.parse(thrown.message);
    const error = new AnnalsError(message, kind, path, candidates);
    Error.captureStackTrace?.(error, toError);
    return error;
  }
  return new AnnalsError(String(thrown?.message ?? thrown), "bad_input");
}

/** Yields the JSON texts of a long answer (src/reply.rs). */
function* partsOf(buffer) {
  for (let from = 0; from < buffer.length; ) {
    const end = buffer.indexOf(0, from);
    const to = end < 0 ? buffer.length : end;
    yield buffer.toString("utf8", from, to);
    from = to + 1;
  }
}

/** Begins to parse a long answer: the value, and the array that the other parts belong to. */
function begin(parts) {
  const value = JSON.parse(parts.next().value);
  const name = parts.next().value;
  const member = name === undefined ? null : JSON.parse(name);
  if (member === null) return { value, rows: Array.isArray(value) ? value : [] };
  return { value, rows: (value[member] = []) };
}

function append(rows, part) {
  for (const row of JSON.parse(part)) rows.push(row);
}

function parseSync(reply) {
  if (typeof reply === "string") return JSON.parse(reply);
  if (!Buffer.isBuffer(reply)) return reply;
  const parts = partsOf(reply);
  const { value, rows } = begin(parts);
  for (const part of parts) append(rows, part);
  return value;
}

async function parse(reply) {
  const parts = partsOf(reply);
  const { value, rows } = begin(parts);
  let began = performance.now();
  for (const part of parts) {
    append(rows, part);
    if (performance.now() - began > TURN) {
      await nextTurn();
      began = performance.now();
    }
  }
  return value;
}

/** Returns a value as JSON. One that has none, such as a BigInt, is bad input. */
function toJson(value) {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new AnnalsError(error.message, "bad_input");
  }
}

/** Refuses members that are invalid dates: in JSON they would be null, which is no condition. */
function refuseInvalidDates(members) {
  if (typeof members !== "object") return;
  for (const name in members) {
    const value = members[name];
    if (value instanceof Date && Number.isNaN(value.getTime())) throw new AnnalsError(`${name} is an invalid Date`, "bad_input");
  }
}

/** Arguments as JSON; a Date becomes RFC 3339. */
function encode(request) {
  refuseInvalidDates(request);
  return toJson(request ?? {});
}

/** Calls a handle and returns what it answered, unparsed. */
async function callRaw(handle, name, request, stop) {
  const text = encode(request);
  try {
    return await handle.call(name, text, stop);
  } catch (thrown) {
    throw toError(thrown);
  }
}

async function call(handle, name, request, stop) {
  const reply = await callRaw(handle, name, request, stop);
  if (typeof reply === "string") return JSON.parse(reply);
  return Buffer.isBuffer(reply) ? parse(reply) : reply;
}

function callSync(handle, name, request) {
  return parseSync(trySync(() => handle.callSync(name, encode(request))));
}

/** Returns a function that runs each work after the earlier ones, whether they succeeded or not. */
function inOrder() {
  let pending = null;
  return (work) => {
    const done = pending ? pending.then(work, work) : work();
    pending = done;
    const clear = () => {
      if (pending === done) pending = null;
    };
    done.then(clear, clear);
    return done;
  };
}

function trySync(work) {
  try {
    return work();
  } catch (thrown) {
    throw toError(thrown);
  }
}

module.exports = { native, AnnalsError, toJson, refuseInvalidDates, call, callRaw, callSync, inOrder, trySync, toError };
