// For every fixture the rows are those of `annals … --json`.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import { Store } from "annals";
import { temporary } from "./common.mjs";

const { ANNALS_PROGRAM: program, ANNALS_FIXTURES: fixtures } = process.env;
const skip = !(program && fixtures && fs.existsSync(program)) && "ANNALS_PROGRAM is not built";

const folders = (dir) => fs.readdirSync(dir, { withFileTypes: true }).filter((it) => it.isDirectory());
const layouts = skip ? [] : folders(fixtures).filter(({ name }) => !name.startsWith("_"));
const cases = skip
  ? []
  : layouts.flatMap(({ name: layout }) =>
      folders(path.join(fixtures, layout)).map(({ name }) => ({ layout, path: path.join(fixtures, layout, name) })),
    );

/** Rows in an order that does not depend on the order of members. */
const sorted = (rows) => rows.map((row) => JSON.stringify(canonical(row))).sort();
function canonical(value) {
  if (Array.isArray(value)) return value.map(canonical);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, canonical(member)]));
}

test("rows are those of the program", { skip, timeout: 300_000 }, async (t) => {
  const state = temporary(t);
  const env = { PATH: process.env.PATH, HOME: state, ANNALS_STATE_DIR: state, TZ: "UTC" };
  assert.ok(cases.length > 10);
  for (const root of cases) {
    const ask = (...words) => {
      const options = ["--root", `${root.layout}:${root.path}`, "--no-index", "--json"];
      // Some fixtures are damaged; the rows are printed all the same.
      try {
        return JSON.parse(execFileSync(program, [...words, ...options], { env, stdio: ["ignore", "pipe", "ignore"] }));
      } catch (error) {
        return JSON.parse(error.stdout);
      }
    };
    const store = new Store([root], { zone: "UTC", state, index: false });
    const rows = await store.sessions();
    assert.deepEqual(sorted(rows), sorted(ask("sessions").sessions), root.path);
    assert.deepEqual(sorted(await store.projects()), sorted(ask("projects").projects), root.path);
    const cost = await store.cost("model");
    const { rows: costs, total } = ask("cost", "--by", "model");
    assert.deepEqual([cost.rows, cost.total], [costs, total], root.path);
  }
});
