// The types name exactly what the package exports.
import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";
import * as annals from "annals";

const types = fs.readFileSync(new URL("index.d.cts", import.meta.resolve("annals")), "utf8");

function declared(name) {
  const body = types.match(new RegExp(`^export class ${name} .*?\\{\\n(.*?)^\\}`, "ms"))[1];
  return [...body.matchAll(/^ {2}(?:static |readonly )*(\[Symbol\.\w+\]|\w+)/gm)].map((found) => found[1]).sort();
}

/** Node 20 describes its symbols otherwise. */
const nameOf = (symbol) => `[${symbol.description.replace("nodejs.", "Symbol.")}]`;

test("classes", () => {
  const names = [...types.matchAll(/^export class (\w+)/gm)].map((found) => found[1]).sort();
  assert.deepEqual(Object.keys(annals).sort(), names);
});

for (const name of ["Store", "Writer", "Session", "Mirror", "Follower"]) {
  test(`members of ${name}`, () => {
    const own = Reflect.ownKeys(annals[name].prototype);
    const members = own.map((key) => (typeof key === "symbol" ? nameOf(key) : key));
    const statics = Object.getOwnPropertyNames(annals[name]).filter((key) => typeof annals[name][key] === "function");
    const fields = { Store: ["roots"], Session: ["info", "conversations", "agents", "flaws"] }[name] ?? [];
    const hidden = name === "Session" ? ["open", "openSync"] : [];
    const found = new Set([...members, ...statics, ...fields].filter((member) => !hidden.includes(member)));
    const constructs = declared(name).includes("constructor");
    if (!constructs) found.delete("constructor");
    assert.deepEqual([...found].sort(), [...new Set(declared(name))]);
  });
}
