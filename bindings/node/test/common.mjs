// What the tests share: a store in a temporary directory.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Store } from "annals";

/** Returns a temporary directory that is removed after the test. */
export function temporary(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "annals-node-"));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export function open(t, layout = "claude-code", options = {}) {
  const dir = temporary(t);
  const root = path.join(dir, "root");
  const store = new Store([{ layout, path: root }], { state: path.join(dir, "state"), zone: "UTC", ...options });
  return { dir, root, store };
}

/** Writes a session of so many messages, and returns its id. */
export async function fill(store, messages, cwd = "/home/me/app") {
  const writer = await store.begin(cwd, { durability: "os" });
  for (let from = 0; from < messages; from += 1000) {
    const drafts = [];
    for (let at = from; at < Math.min(messages, from + 1000); at++) {
      const text = `message ${at}: ${"the quick brown fox jumps over the lazy dog ".repeat(5)}`;
      drafts.push(
        at % 2
          ? { role: "assistant", content: text, model: "claude-sonnet-4-5", usage: { input_tokens: 10, output_tokens: 5 } }
          : { role: "user", content: text },
      );
    }
    await writer.append(...drafts);
  }
  await writer.close();
  return writer.id;
}
