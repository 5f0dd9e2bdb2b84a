// Runs the examples and the code in docs/NODE.md.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import test from "node:test";
import { promisify } from "node:util";
import { temporary } from "./common.mjs";

const run = promisify(execFile);
const here = path.dirname(new URL(import.meta.url).pathname);
const example = async (t, name) => {
  const dir = temporary(t);
  const file = path.join(here, "../examples", name);
  const { stdout } = await run(process.execPath, [file, path.join(dir, "root"), path.join(dir, "state")]);
  return stdout;
};

test("chorus", async (t) => {
  const expected = [
    "Fix the parser [ 'user: Why does the parser fail?', 'assistant: It has no body.' ]",
    "1 conversation",
    "main true",
    "0 conversations",
    "1 deleted",
    "",
  ];
  assert.equal(await example(t, "chorus.mjs"), expected.join("\n"));
});

test("clog", async (t) => {
  const expected = [
    "refused",
    "[",
    "  'telegram:  is online.',",
    "  'tui: what errors happened today?',",
    "  'telegram: None.'",
    "]",
    "telegram 2 Errors of today",
    "telegram 3 Errors of today",
    "1 thread, { status: 'idle' } true",
    "",
  ];
  assert.deepEqual((await example(t, "clog.mjs")).split("\n").sort(), expected.sort());
});

test("orchestrator", async (t) => {
  const expected = [
    "[ 'user', 'assistant' ]",
    "15000 input tokens, 0.10725 USD",
    "active",
    "1 file repaired",
    "2 messages",
    "0 to clean up",
    "",
  ];
  assert.equal(await example(t, "orchestrator.mjs"), expected.join("\n"));
});

const sdk = (() => {
  try {
    return createRequire(import.meta.url).resolve("@anthropic-ai/claude-agent-sdk");
  } catch {
    return null;
  }
})();

test("claude-agent-sdk", { skip: !sdk && "@anthropic-ai/claude-agent-sdk is not installed" }, async (t) => {
  const expected = ["[ 'Why does the build fail?' ]", "2 messages", "[ 'Why does the build fail?' ]", ""];
  assert.equal(await example(t, "claude-agent-sdk.mjs"), expected.join("\n"));
});

test("docs/NODE.md", async (t) => {
  const text = fs.readFileSync(path.join(here, "../NODE.md"), "utf8");
  const blocks = [...text.matchAll(/^```js\n(.*?)^```/gms)].map((found) => found[1]);
  assert.ok(blocks.length >= 3);
  const dir = temporary(t);
  for (const [at, block] of blocks.entries()) {
    // Beside the package, so that its own name resolves.
    const file = path.join(here, `docs-example-${at}.mjs`);
    fs.writeFileSync(file, block);
    t.after(() => fs.rmSync(file));
    const env = { ...process.env, HOME: dir, ANNALS_STATE_DIR: path.join(dir, "state") };
    await run(process.execPath, [file], { env, cwd: dir, timeout: 120_000 });
  }
});
