// The adapter behaves as the SDK's own store in memory does, for the same calls.
import assert from "node:assert/strict";
import path from "node:path";
import test from "node:test";
import { SessionStore } from "annals/claude-agent-sdk";
import { open } from "./common.mjs";

const sdk = await import("@anthropic-ai/claude-agent-sdk").catch(() => null);
const skip = !sdk && "@anthropic-ai/claude-agent-sdk is not installed";

const key = { projectKey: "proj", sessionId: "sess" };
const sub = (name) => ({ ...key, subpath: `subagents/${name}` });
const entry = (more) => ({ type: "x", ...more });

function stores(t) {
  const { store, dir } = open(t);
  const state = path.join(dir, "state");
  const own = new SessionStore(store, { state, foldSessionSummary: sdk.foldSessionSummary });
  return { own, theirs: new sdk.InMemorySessionStore() };
}

/** Applies calls to both stores, and compares what they return. Times differ. */
async function same(t, ...calls) {
  const { own, theirs } = stores(t);
  for (const [name, ...args] of calls) {
    const [ours, expected] = await Promise.all([own[name](...args), theirs[name](...args)]);
    assert.deepEqual(comparable(ours), comparable(expected), `${name} ${JSON.stringify(args)}`);
  }
  return own;
}

function comparable(value) {
  if (!Array.isArray(value) || value[0]?.type) return value;
  const rows = value.map((row) => {
    if (typeof row !== "object") return row;
    assert.ok(Number.isInteger(row.mtime) && row.mtime > 1e12, "mtime is in milliseconds");
    const { mtime, ...rest } = row;
    return rest;
  });
  return rows.sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
}

test("append and load", { skip }, async (t) => {
  await same(
    t,
    ["load", key],
    ["append", key, [entry({ uuid: "b", n: 1 }), entry({ uuid: "a", n: 2 })]],
    ["append", key, []],
    ["append", key, [entry({ uuid: "z", text: "zwei Zeilen\nü\u0000😀" })]],
    ["append", key, [entry({ n: 3 }), entry({ n: 3 })]],
    ["load", key],
    ["load", sub("agent-1")],
  );
});

test("sub-agents and projects are apart", { skip }, async (t) => {
  await same(
    t,
    ["append", key, [entry({ uuid: "m" })]],
    ["append", sub("agent-1"), [entry({ uuid: "s" })]],
    ["append", { ...key, projectKey: "other" }, [entry({ from: "other" })]],
    ["load", key],
    ["load", sub("agent-1")],
    ["load", { ...key, projectKey: "other" }],
    ["listSessions", "proj"],
    ["listSessions", "other"],
    ["listSessions", "never"],
    ["listSubkeys", key],
    ["listSubkeys", { projectKey: "other", sessionId: "sess" }],
    ["listSubkeys", { projectKey: "proj", sessionId: "never" }],
  );
});

test("deleting", { skip }, async (t) => {
  await same(
    t,
    ["delete", { projectKey: "proj", sessionId: "never" }],
    ["append", key, [entry({ n: 1 })]],
    ["append", sub("agent-1"), [entry({ n: 1 })]],
    ["append", sub("agent-2"), [entry({ n: 2 })]],
    ["append", { ...key, sessionId: "sess2" }, [entry({ n: 3 })]],
    ["append", { ...key, projectKey: "other" }, [entry({ n: 4 })]],
    ["delete", sub("agent-1")],
    ["listSubkeys", key],
    ["load", sub("agent-1")],
    ["load", sub("agent-2")],
    ["load", key],
    ["delete", key],
    ["load", key],
    ["load", sub("agent-2")],
    ["listSubkeys", key],
    ["listSessions", "proj"],
    ["listSessionSummaries", "proj"],
    ["load", { ...key, sessionId: "sess2" }],
    ["load", { ...key, projectKey: "other" }],
    ["append", key, [entry({ n: 5 })]],
    ["append", sub("agent-2"), [entry({ n: 6 })]],
    ["load", key],
    ["load", sub("agent-2")],
  );
});

test("summaries", { skip }, async (t) => {
  const at = (second, more) => entry({ timestamp: `2026-01-01T00:00:0${second}.000Z`, ...more });
  const own = await same(
    t,
    ["append", key, [at(0, { customTitle: "first" }), at(1)]],
    ["append", key, [at(2, { customTitle: "second" })]],
    ["append", sub("agent-1"), [at(9, { customTitle: "of a sub-agent" })]],
    ["append", { projectKey: "other", sessionId: "elsewhere" }, [at(0)]],
    ["listSessionSummaries", "proj"],
    ["listSessionSummaries", "never"],
  );
  const [summary] = await own.listSessionSummaries("proj");
  const [listed] = await own.listSessions("proj");
  assert.ok(summary.mtime >= listed.mtime);
  const again = sdk.foldSessionSummary(summary, key, [at(3)]);
  assert.equal(again.mtime, summary.mtime);
});

test("without the fold there are no summaries", (t) => {
  const { store } = open(t);
  assert.equal(new SessionStore(store).listSessionSummaries, undefined);
});
