// Long answers are parsed in parts, so that the event loop is never blocked for long.
import assert from "node:assert/strict";
import test from "node:test";
import { fill, open } from "./common.mjs";

/** Text that is parsed in one millisecond of the test's own clock, so that no result depends on the machine. */
const PER_MS = 64 * 1024;

test("reading and searching 10,000 messages parses at most 5 ms in one turn", { timeout: 300_000 }, async (t) => {
  const { store } = open(t, "claude-code", { index: false });
  const id = await fill(store, 10_000);
  const session = await store.session(id);
  const parse = JSON.parse;
  let clock = 0;
  t.mock.method(performance, "now", () => clock);
  t.mock.method(JSON, "parse", (text, reviver) => {
    clock += text.length / PER_MS;
    return parse(text, reviver);
  });

  /** The most that was parsed between two turns of the event loop while a promise is pending, in ms. */
  async function longestTurn(work) {
    let longest = 0;
    let last = clock;
    let isDone = false;
    const turn = () => {
      longest = Math.max(longest, clock - last);
      last = clock;
      if (!isDone) setImmediate(turn);
    };
    setImmediate(turn);
    const value = await work();
    isDone = true;
    return { longest: Math.max(longest, clock - last), value };
  }

  const read = await longestTurn(() => session.messages());
  assert.equal(read.value.length, 10_000);
  assert.match(read.value.at(-1).blocks[0].text, /^message 9999:/);
  assert.ok(read.longest > 0 && read.longest <= 5, `${read.longest} ms`);

  const found = await longestTurn(() => store.search("fox", { limit: 1000 }));
  assert.deepEqual([found.value.hits.length, found.value.total], [1000, 10_000]);
  assert.ok(found.longest > 0 && found.longest <= 5, `${found.longest} ms`);

  // The synchronous call blocks, so the measurement notices it.
  const blocking = await longestTurn(async () => session.messagesSync());
  assert.ok(blocking.longest > 5, `${blocking.longest} ms`);
  assert.deepEqual(blocking.value, read.value);
});
