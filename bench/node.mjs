// Measures the Node package for bench/bindings.py: one call, the rows of a long session, appends.
//
//     node bench/node.mjs PACKAGE_DIR ROOT STATE_DIR LONG_SESSION SHORT_SESSION
//
// PACKAGE_DIR is bindings/node with a release build of its addon. Prints one JSON object, in the
// units of the example `bench_calls` of the library. Then makes durable appends as that example does: for `N`
// awaited ones, for `N sync` with the twin.
import { createRequire } from "node:module";
import readline from "node:readline";
import path from "node:path";

const [directory, root, state, longId, shortId] = process.argv.slice(2);
const { Store } = createRequire(path.resolve(directory, "package.json"))("./lib/index.cjs");
const store = new Store([{ layout: "claude-code", path: root }], { state, index: false, zone: "UTC" });

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
// Threads of libuv's pool included.
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
const wall = () => performance.now();

/** The time of a call in ms: the median of several rounds of calls. */
async function time(now, rounds, calls, work) {
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const began = now();
    for (let call = 0; call < calls; call++) await work();
    times.push((now() - began) / calls);
  }
  return median(times);
}

const long = await store.session(longId);
const short = await store.session(shortId);
const rows = long.messagesSync();
const leaf = short.messagesSync().at(-1).id;
const json = JSON.stringify(rows);
await time(cpu, 5, 200, () => short.raw(leaf)); // Warms up.
const found = {
  call_us: 1000 * (await time(cpu, 40, 200, () => short.raw(leaf))),
  call_wall_us: 1000 * (await time(wall, 40, 200, () => short.raw(leaf))),
  call_sync_us: 1000 * (await time(cpu, 40, 200, () => short.rawSync(leaf))),
  messages_ms: await time(cpu, 15, 1, () => long.messages()),
  messages_sync_ms: await time(cpu, 15, 1, () => long.messagesSync()),
  parse_ms: await time(cpu, 15, 1, () => JSON.parse(json)),
};
const begin = (durability) => store.begin("/home/me/app", { durability });
const fast = await begin("os");
found.append_os_us = 1000 * (await time(cpu, 300, 1, () => fast.user("Go on.")));
found.append_os_sync_us = 1000 * (await time(cpu, 300, 1, () => fast.userSync("Go on.")));
await fast.close();
console.log(JSON.stringify(found));

const writer = await begin("disk");
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [count, kind] = line.split(" ");
  const times = [];
  for (let number = 0; number < Number(count); number++) {
    const began = wall();
    if (kind === "sync") writer.userSync("Go on.");
    else await writer.user("Go on.");
    times.push(1000 * (wall() - began));
  }
  console.log(JSON.stringify(times));
}
await writer.close();
