// A writer that is killed loses nothing that it acknowledged.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import readline from "node:readline";
import test from "node:test";
import { open } from "./common.mjs";

const CHILD = `
  const { Store } = require("annals");
  (async () => {
    const store = new Store([{ layout: "claude-code", path: process.argv[1] }]);
    const writer = await store.begin("/home/me/app", { durability: process.argv[2] });
    console.log(writer.id);
    for (let at = 0; ; at++) console.log((await writer.user(\`prompt \${at}\`)).id);
  })();
`;

for (const durability of ["disk", "os"]) {
  test(`kill -9 while appending (${durability})`, { timeout: 60_000 }, async (t) => {
    const { store, root } = open(t);
    for (const after of [1, 7, 40]) {
      const child = spawn(process.execPath, ["-e", CHILD, root, durability], {
        cwd: import.meta.dirname ?? new URL(".", import.meta.url).pathname,
        stdio: ["ignore", "pipe", "inherit"],
      });
      const acknowledged = [];
      for await (const line of readline.createInterface({ input: child.stdout })) {
        acknowledged.push(line);
        if (acknowledged.length === after + 1) child.kill("SIGKILL");
      }
      const [id, ...entries] = acknowledged;
      assert.ok(entries.length >= after);
      const messages = await (await store.session(id)).messages();
      const found = new Set(messages.map((message) => message.id));
      for (const entry of entries) assert.ok(found.has(entry), `${entry} was acknowledged and is lost`);
      const writer = await store.resume(id, { live: true });
      await writer.user("The writer was killed; go on.");
      await writer.close();
    }
  });
}
