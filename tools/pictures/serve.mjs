#!/usr/bin/env node
// Takes the pictures of docs/SERVE.md: pages of `annals serve` over the history of `annals demo`, in Chromium.
//
//   tools/pictures/serve.mjs --annals PROGRAM --modules DIR [--chromium FILE]
//
// DIR contains the npm package playwright-core. The time is fixed, so that the pictures change only with the pages.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const OUT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "docs", "pictures");
const given = (name) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? undefined : process.argv[at + 1];
};
const annals = given("annals");
const modules = given("modules");
if (!annals || !modules) {
  console.error("usage: serve.mjs --annals PROGRAM --modules DIR [--chromium FILE]");
  process.exit(2);
}
const { chromium } = createRequire(join(resolve(modules), "x.js"))("playwright-core");

const home = mkdtempSync(join(tmpdir(), "annals-pictures-"));
const root = join(home, "demo");
const env = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CONFIG_HOME: join(home, "config"),
  TZ: "UTC", ANNALS_NOW: "2026-11-18T12:00:00Z", CLAUDE_CONFIG_DIR: root };

async function main() {
  const made = spawnSync(annals, ["demo", "--keep", root], { env });
  if (made.status !== 0) throw new Error(made.stderr.toString());
  const server = spawn(annals, ["--root", `claude-code:${root}`, "serve", "--json"], { env, stdio: ["ignore", "pipe", "inherit"] });
  const browser = await chromium.launch({ executablePath: given("chromium") ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"] });
  try {
    let text = "";
    let address;
    for await (const part of server.stdout) {
      text += part;
      try {
        address = JSON.parse(text);
        break;
      } catch {
        // The document is not complete yet.
      }
    }
    const { origin } = new URL(address.page);
    const headers = { Authorization: `Bearer ${address.token}` };
    const listed = await (await fetch(`${address.api}sessions`, { headers })).json();
    const richest = listed.sessions.reduce((best, row, at) => {
      const points = (row) => row.conversations * 2 + row.agents;
      return points(row) > points(listed.sessions[best]) ? at : best;
    }, 0);
    const session = listed.addresses[richest].replace("/api/v1", "");
    const shots = [["conversation", `${session}?from=0`, "light"], ["tree", `${session}/tree`, "light"], ["search", "/search?q=upload", "light"], ["cost", "/cost?by=day", "dark"]];
    const context = await browser.newContext({ viewport: { width: 1280, height: 760 } });
    const page = await context.newPage();
    await page.goto(address.page);
    await page.waitForURL(`${origin}/`);
    mkdirSync(OUT, { recursive: true });
    for (const [name, path, colorScheme] of shots) {
      await page.emulateMedia({ colorScheme });
      await page.goto(origin + path, { waitUntil: "networkidle" });
      const file = join(OUT, `serve-${name}.png`);
      await page.screenshot({ path: file });
      console.log(file);
    }
  } finally {
    await browser.close();
    server.kill("SIGTERM");
    rmSync(home, { recursive: true, force: true });
  }
}

main().catch((error) => {
  console.error(error);
  rmSync(home, { recursive: true, force: true });
  process.exit(1);
});
