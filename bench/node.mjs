// Measures the Node package: the cost of a call, of reading a long session, and of appends.
//
//     node bench/node.mjs PACKAGE [MESSAGES]
//
// PACKAGE is a directory with the built package (docs/NODE.md). Prints the median of several runs.
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";

const [directory, messages = "10000"] = process.argv.slice(2);
const load = createRequire(path.resolve(directory, "package.json"));
const { Store } = load("./lib/index.cjs");
const dir = fs.mkdtempSync(path.join(process.env.BENCH_DIR ?? os.tmpdir(), "annals-bench-"));
const store = new Store([{ layout: "claude-code", path: dir }], { zone: "UTC" });

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
async function time(runs, work) {
  const times = [];
  for (let run = 0; run < runs; run++) {
    const began = performance.now();
    await work();
    times.push(performance.now() - began);
  }
  return median(times);
}
const print = (name, value) => console.log(`${name.padEnd(44)} ${value}`);

const writer = await store.begin("/home/me/app", { durability: "os" });
const text = "the quick brown fox jumps over the lazy dog ".repeat(5);
for (let from = 0; from < Number(messages); from += 1000) {
  await writer.append(...Array.from({ length: 1000 }, (_, at) => `message ${from + at}: ${text}`));
}
const session = await store.session(writer.id);
const small = await store.begin("/home/me/app", { durability: "os" });
await small.user("Go on.");
const one = await store.session(small.id);
const { leaf } = small;
await time(200, () => one.raw(leaf)); // Warms up.
const called = await time(2000, () => one.raw(leaf));
const calledSync = await time(2000, () => one.rawSync(leaf));
print("call that reads one record", `${(called * 1000).toFixed(1)} µs (Sync ${(calledSync * 1000).toFixed(1)})`);
await small.close();

const read = await time(9, () => session.messages());
const readSync = await time(9, () => session.messagesSync());
const rows = session.messagesSync();
const json = JSON.stringify(rows);
const parse = await time(9, () => JSON.parse(json));
print(`messages of ${rows.length}`, `${read.toFixed(1)} ms (Sync ${readSync.toFixed(1)}, JSON.parse alone ${parse.toFixed(1)})`);

for (const durability of ["os", "disk"]) {
  const log = await store.begin("/home/me/app", { durability });
  print(`append, ${durability}`, `${((await time(300, () => log.user("Go on."))) * 1000).toFixed(0)} µs`);
  print(`append, ${durability}, Sync`, `${((await time(300, () => log.userSync("Go on."))) * 1000).toFixed(0)} µs`);
  await log.close();
}
const fd = fs.openSync(path.join(dir, "plain"), "a");
const line = `${JSON.stringify({ text: "Go on.".padEnd(500) })}\n`;
const plain = await time(300, () => {
  fs.writeSync(fd, line);
  fs.fdatasyncSync(fd);
});
print("write and fdatasync alone", `${(plain * 1000).toFixed(0)} µs`);
await writer.close();
fs.rmSync(dir, { recursive: true });
