import assert from "node:assert/strict";
import test from "node:test";
import { Worker } from "node:worker_threads";
import { fill, open } from "./common.mjs";

test("follow reports what is written", { timeout: 60_000 }, async (t) => {
  const { store } = open(t);
  const writer = await store.begin("/home/me/app");
  await writer.user("before");
  const events = store.follow({ session: writer.id, last: 1 });
  const seen = [];
  for await (const event of events) {
    if (event.kind === "entry") seen.push([event.entry.blocks[0].text, event.earlier]);
    if (event.kind === "caught_up") await writer.user("after");
    if (seen.length === 2) break;
  }
  assert.deepEqual(seen, [["before", true], ["after", false]]);
  assert.deepEqual(await events.next(), { value: undefined, done: true });
  await writer.close();
});

test("a signal ends following and searching", { timeout: 60_000 }, async (t) => {
  const { store } = open(t);
  await fill(store, 2000);
  const abort = new AbortController();
  const events = store.follow({ signal: abort.signal });
  while ((await events.next()).value.kind !== "caught_up");
  const next = events.next();
  abort.abort();
  await assert.rejects(next, { name: "AbortError" });

  const search = new AbortController();
  const found = store.search("fox OR dog", { limit: 1000, signal: search.signal });
  search.abort();
  await assert.rejects(found, { name: "AbortError" });
  await assert.rejects(store.search("fox", { signal: AbortSignal.abort() }), { name: "AbortError" });
  await assert.rejects(store.follow({ signal: AbortSignal.abort() }).next(), { name: "AbortError" });
  assert.equal((await store.search("fox", { signal: new AbortController().signal })).total, 2000);
});

test("following goes on after a cursor", { timeout: 60_000 }, async (t) => {
  const { store } = open(t);
  const writer = await store.begin("/home/me/app");
  await writer.user("before");
  const follow = async (since) => {
    const texts = [];
    for await (const event of store.follow({ session: writer.id, since })) {
      if (event.kind === "entry") texts.push(event.entry.blocks[0].text);
      if (event.kind === "caught_up") return { texts, cursor: event.cursor };
    }
  };
  const start = await follow();
  assert.deepEqual(start.texts, []);
  await writer.append("one", "two");
  const next = await follow(start.cursor);
  assert.deepEqual(next.texts, ["one", "two"]);
  assert.deepEqual((await follow(next.cursor)).texts, []);
  await assert.rejects(store.follow({ since: "nonsense" }).next(), { kind: "bad_input" });
  await writer.close();
});

test("a session that does not exist cannot be followed", async (t) => {
  const { store } = open(t);
  await assert.rejects(store.follow({ session: "nothing" }).next(), { kind: "not_found" });
});

test("a slow reader gets every event", { timeout: 60_000 }, async (t) => {
  const { store } = open(t);
  const writer = await store.begin("/home/me/app", { durability: "os" });
  await writer.user("first");
  const events = store.follow({ session: writer.id });
  while ((await events.next()).value.kind !== "caught_up");
  await writer.append(...Array.from({ length: 2000 }, (_, at) => `prompt ${at}`));
  for (let at = 0; at < 2000; ) {
    const { value } = await events.next();
    if (value.kind !== "entry") continue;
    assert.equal(value.entry.blocks[0].text, `prompt ${at++}`);
  }
  events.close();
  await writer.close();
});

const WORKER = `
  const { parentPort, workerData } = require("node:worker_threads");
  const { Store } = require("annals");
  (async () => {
    const store = new Store([{ layout: "claude-code", path: workerData.root }], { zone: "UTC" });
    const writer = await store.resume(workerData.id, { live: true, durability: "os" });
    for (let at = 0; at < 25; at++) await writer.user(\`\${workerData.name} \${at}\`);
    await writer.close();
    parentPort.postMessage("written");
    for await (const event of store.follow()) parentPort.postMessage(event.kind);
  })();
`;

test("worker threads write to one session, and may be terminated", { timeout: 60_000 }, async (t) => {
  const { store, root } = open(t);
  const writer = await store.begin("/home/me/app");
  await writer.user("first");
  await writer.close();
  const workers = ["a", "b", "c"].map(
    (name) => new Worker(WORKER, { eval: true, workerData: { name, root, id: writer.id } }),
  );
  const messages = workers.map(
    (worker) =>
      new Promise((resolve, reject) => {
        worker.on("error", reject);
        worker.on("message", (kind) => kind === "caught_up" && resolve());
      }),
  );
  await Promise.all(messages);
  await Promise.all(workers.map((worker) => worker.terminate()));
  const entries = await (await store.session(writer.id)).messages({ allBranches: true });
  const texts = new Set(entries.map((entry) => entry.blocks[0].text));
  assert.equal(entries.length, 76);
  for (const name of ["a", "b", "c"]) {
    for (let at = 0; at < 25; at++) assert.ok(texts.has(`${name} ${at}`), `${name} ${at}`);
  }
});
