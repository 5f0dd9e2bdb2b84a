#!/usr/bin/env node
// Checks the pages of `annals serve` in Chromium, with and without scripts.
//
//   verify_pages.mjs --annals PROGRAM --modules DIR [--chromium FILE] [--messages N] [--short]
//
// DIR contains the npm packages playwright-core and axe-core. Every page must answer, have its landmarks, write nothing to the
// console, ask no other server, fit a screen of 360 pixels, and have no violation that axe-core finds, in light and dark. A long session opens in windows, a message that is written appears,
// back and forward lead where they should, and text of a log stays text. As a control, a page that breaks these rules is
// checked too, and each break must be noticed.
//
// Exit codes: 0 all passed, 1 something failed, 2 could not run.
import { spawn } from "node:child_process";
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const FIXTURES = join(HERE, "..", "..", "fixtures", "claude-code");
const given = (name) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? undefined : process.argv[at + 1];
};
const annals = given("annals");
const modules = given("modules");
if (!annals || !modules) {
  console.error("usage: verify_pages.mjs --annals PROGRAM --modules DIR [--chromium FILE] [--messages N]");
  process.exit(2);
}
const require = createRequire(join(resolve(modules), "x.js"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const MESSAGES = Number(given("messages") ?? 100_000);
const LONG = "10000000-0000-4000-8000-000000000001";
const LIVE = "20000000-0000-4000-8000-000000000002";

const folder = mkdtempSync(join(tmpdir(), "annals-pages-"));
const root = join(folder, "root");
const projects = join(root, "projects");
let failed = 0;
let checked = 0;
function expect(holds, what) {
  checked += 1;
  if (holds) return;
  failed += 1;
  console.log(`FAILED ${what}`);
}

// --- a history ------------------------------------------------------------------------------

const uuid = (number) => `00000000-0000-4000-8000-${number.toString(16).padStart(12, "0")}`;
const begin = Date.now() - 40 * 864e5;

function line(session, number, text, cwd) {
  const type = number % 2 ? "assistant" : "user";
  const message = type === "user"
    ? { role: "user", content: text }
    : { role: "assistant", id: `msg_${session.slice(0, 4)}${number}`, type: "message", model: "claude-sonnet-4-5-20250929",
        content: [{ type: "text", text }], stop_reason: "end_turn",
        usage: { input_tokens: 1200, output_tokens: 300, cache_read_input_tokens: 20000, cache_creation_input_tokens: 0 } };
  return JSON.stringify({ type, uuid: uuid(number + 1), parentUuid: number ? uuid(number) : null, sessionId: session, cwd,
    version: "2.1.50", userType: "external", isSidechain: false, requestId: `req_${number}`,
    timestamp: new Date(session === LONG ? begin + number * 1000 : Date.now() - 60_000 + number * 1000).toISOString(), message }) + "\n";
}

function writeHistory() {
  for (const name of ["branch-three-way", "file-history", "subagents-every-placement", "2.1.325-s02-tools", "2.1.325-s06-compact", "2.1.325-s03-todos", "image", "hostile-text", "torn-tail"]) {
    cpSync(join(FIXTURES, name), root, { recursive: true, force: true, filter: (path) => !path.endsWith("README.md") });
  }
  const long = join(projects, "-home-me-long");
  mkdirSync(long, { recursive: true });
  const lines = [];
  for (let at = 0; at < MESSAGES; at += 1) {
    lines.push(line(LONG, at, at % 2 ? `Answer ${at}. It was done, and *tested*.` : `Prompt ${at}: do the next step.`, "/home/me/long"));
  }
  writeFileSync(join(long, `${LONG}.jsonl`), lines.join(""));
  const live = join(projects, "-home-me-live");
  mkdirSync(live, { recursive: true });
  writeFileSync(join(live, `${LIVE}.jsonl`), line(LIVE, 0, "What happens <b>now</b>?", "/home/me/live") + line(LIVE, 1, "This.", "/home/me/live"));
  return join(live, `${LIVE}.jsonl`);
}

// --- the server -----------------------------------------------------------------------------

async function serve() {
  const env = { PATH: process.env.PATH, HOME: folder, ANNALS_STATE_DIR: join(folder, "state"), TZ: "UTC" };
  const server = spawn(annals, ["--root", `claude-code:${root}`, "serve", "--write", "--json"], { env, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const part of server.stdout) {
    text += part;
    try {
      return { server, address: JSON.parse(text) };
    } catch {
      // The document is not complete yet.
    }
  }
  throw new Error(`annals serve ended: ${text}`);
}

// --- checks of a page -----------------------------------------------------------------------

/// Records what a page does that it should not.
function observe(page, host) {
  const seen = [];
  page.on("console", (message) => seen.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => seen.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { seen.push("dialog"); dialog.dismiss(); });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.host !== host) seen.push(`request: ${request.url()}`);
  });
  return seen;
}

async function problems(page) {
  return page.evaluate(() => {
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`wider than the screen: ${document.documentElement.scrollWidth}`);
    if (document.querySelectorAll("main").length !== 1) found.push("not one main");
    if (!document.querySelector("h1")) found.push("no heading");
    if (!document.documentElement.lang) found.push("no language");
    if (!document.title) found.push("no title");
    for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
      if (!field.labels?.length && !field.ariaLabel) found.push(`no label: ${field.name}`);
    }
    for (const link of document.querySelectorAll("a[href], button")) {
      if (!(link.textContent.trim() || link.ariaLabel || link.title)) found.push(`no text: ${link.outerHTML.slice(0, 80)}`);
    }
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push(`repeated id: ${id}`);
    return found;
  });
}

/// Returns what axe-core finds on a page. It is evaluated by the debugger, which the policy of the page does not concern.
async function violations(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) => nodes.slice(0, 2).map((node) => `axe: ${id}: ${node.target.join(" ")}`));
  });
}

async function main() {
  const log = writeHistory();
  const { server, address } = await serve();
  const ended = new Promise((done) => server.once("exit", (code, signal) => done(signal ?? code)));
  const browser = await chromium.launch({
    executablePath: given("chromium") ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
  });
  try {
    const { host, origin } = new URL(address.page);
    const api = async (path) => {
      const answer = await fetch(address.api + path, { headers: { Authorization: `Bearer ${address.token}` } });
      return answer.json();
    };
    const listed = await api("sessions");
    const of = (test) => listed.addresses[listed.sessions.findIndex(test)]?.replace("/api/v1", "");
    const long = of((row) => row.id === LONG);
    const live = of((row) => row.id === LIVE);
    const branchy = of((row) => row.conversations > 2);
    const agents = of((row) => row.agents > 1);
    const paths = ["/", "/projects", "/sessions", "/sessions?sort=cost", "/search", "/search?q=the", "/search?q=role%3Anobody", "/cost", "/cost?by=session", "/cost?by=model", "/watch", "/check", "/archive", "/trash",
      ...[long, live, branchy, agents].flatMap((path) => [path, `${path}/tree`, `${path}/files`])];
    for (const address of listed.addresses) {
      const session = address.replace("/api/v1", "");
      const { files } = await api(address.replace("/api/v1/", ""));
      if (files?.length) paths.push(`${session}/files`, `${session}/files/0`, `${session}/files/0?view=split`);
    }
    paths.push(...listed.addresses.map((path) => path.replace("/api/v1", "")));

    const context = await browser.newContext();
    const page = await context.newPage();
    const seen = observe(page, host);
    await page.goto(address.page);
    await page.waitForURL(`${origin}/`);
    expect(!page.url().includes("key"), "the key leaves the address");
    const cookies = await context.cookies();
    expect(cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === "Strict", "one strict cookie");
    const stranger = await browser.newContext();
    const other = await stranger.newPage();
    expect((await other.goto(address.page)).status() === 401, "the key works once");
    await stranger.close();

    // Another server of this machine gets no cookie, and cannot read or embed a page.
    const sent = [];
    const neighbour = createServer((request, response) => { sent.push(request.headers.cookie); response.end("<!doctype html><title>x</title>"); });
    await new Promise((done) => neighbour.listen(0, "127.0.0.1", done));
    const attacker = await context.newPage();
    await attacker.goto(`http://127.0.0.1:${neighbour.address().port}/`);
    expect(sent.every((cookie) => !cookie), "the cookie does not reach another port");
    const read = await attacker.evaluate(async (target) => {
      const answer = await fetch(target, { credentials: "include" }).then((it) => it.text(), () => "refused");
      const frame = document.createElement("iframe");
      frame.src = target;
      document.body.append(frame);
      return answer;
    }, `${origin}/sessions`);
    expect(read === "refused", "another site cannot read a page");
    await attacker.close();
    neighbour.close();

    for (const [width, scripts, colorScheme] of [[1280, true, "light"], [360, true, "dark"], [1920, true, "dark"], [1280, false, "light"], [360, false, "light"]]) {
      const own = await browser.newContext({ viewport: { width, height: 800 }, javaScriptEnabled: scripts, colorScheme });
      await own.addCookies(cookies);
      const page = await own.newPage();
      const seen = observe(page, host);
      for (const path of new Set(paths)) {
        const before = seen.length;
        const answer = await page.goto(origin + path, { waitUntil: "load" });
        const where = `${path} at ${width}${scripts ? "" : " without scripts"}`;
        expect(answer.status() === 200, `${where}: status ${answer.status()}`);
        const length = (await answer.body()).length;
        expect(length < 200_000, `${where}: ${length} bytes`);
        if (scripts) for (const problem of await problems(page)) expect(false, `${where}: ${problem}`);
        if (scripts && width < 1900) for (const violation of await violations(page)) expect(false, `${where}: ${violation}`);
        for (const one of seen.slice(before)) expect(false, `${where}: ${one}`);
        checked += 1;
      }
      await own.close();
    }

    // A long session: windows come while scrolling, and few are on the page.
    const started = performance.now();
    await page.goto(origin + long);
    await page.getByText(`Answer ${MESSAGES - 1}.`).waitFor();
    console.log(`${MESSAGES} messages: the end is shown after ${Math.round(performance.now() - started)} ms`);
    const count = () => page.locator("article").count();
    expect(await count() <= 160, `few messages at first: ${await count()}`);
    for (let turn = 0; turn < 6; turn += 1) {
      const start = await page.locator("#messages > .window").first().getAttribute("data-start");
      if (start === "0") break;
      await page.evaluate(() => scrollTo(0, 0));
      await page.locator(`#messages > .window[data-start="${start}"]`).evaluate((part) => new Promise((done) => {
        const look = () => (part.previousElementSibling || !part.isConnected ? done() : requestAnimationFrame(look));
        look();
      }));
    }
    expect(await count() <= 320, `windows far away leave the page: ${await count()}`);
    const middle = Math.floor(MESSAGES / 2);
    await page.goto(`${origin}${long}?at=${uuid(middle + 1)}#m-${uuid(middle + 1)}`);
    const target = page.locator(`[id="m-${uuid(middle + 1)}"]`);
    await target.waitFor();
    expect(await target.evaluate((it) => { const box = it.getBoundingClientRect(); return box.top >= 0 && box.top < innerHeight; }), "the address of a message shows it");

    // A message appears as it is written.
    await page.goto(origin + live);
    await page.getByText("This.").waitFor();
    await page.waitForTimeout(500);
    for (let number = 2; number < 6; number += 1) {
      const text = `Written ${number} <i>now</i>`;
      const shown = page.getByText(text).waitFor();
      const wrote = performance.now();
      appendFileSync(log, line(LIVE, number, text, "/home/me/live"));
      await shown;
      console.log(`a new message is on the page after ${Math.round(performance.now() - wrote)} ms`);
    }
    await page.goto(`${origin}/watch`);
    await page.waitForTimeout(500);
    appendFileSync(log, line(LIVE, 6, "Seen by who watches", "/home/me/live"));
    await page.getByText("Seen by who watches").waitFor();

    // Search while typing, back and forward, keys.
    await page.goto(`${origin}/search`);
    await page.locator("#q").pressSequentially("happens");
    await page.locator("#results mark").first().waitFor();
    expect(page.url().endsWith("?q=happens"), "the address follows the query");
    await page.locator(".group li a").first().click();
    await page.locator("article").first().waitFor();
    await page.goBack();
    await page.locator("#results mark").first().waitFor();
    expect(await page.locator("#q").inputValue() === "happens", "back leads to the same results");
    await page.goForward();
    await page.locator("article").first().waitFor();
    await page.keyboard.press("?");
    await page.locator("#keys[open]").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    expect(await page.evaluate(() => document.activeElement.id) === "q", "/ leads to the search field");

    // Forms, without scripts.
    const plain = await browser.newContext({ javaScriptEnabled: false });
    await plain.addCookies(cookies);
    const form = await plain.newPage();
    await form.goto(origin + live);
    await form.locator(".write > summary").click();
    await form.locator(".right input[name=tag]").fill("from-a-form");
    await form.getByRole("button", { name: "Tag" }).click();
    await form.locator(".badge.tag", { hasText: "from-a-form" }).waitFor();
    // A fork at a message leads to the copy, which ends there; the trash gives it back.
    await form.locator(".act a").first().click();
    expect(await form.locator("#fork input[name=at]").inputValue() === uuid(1), "the form forks at the message");
    await form.getByRole("button", { name: "Fork" }).click();
    await form.waitForURL((url) => !url.pathname.endsWith(LIVE));
    const copy = form.url();
    expect(await form.locator("article").count() === 1, "the copy ends at the message");
    await form.locator(".write > summary").click();
    await form.getByRole("button", { name: "Move to the trash" }).click();
    await form.waitForURL(`${origin}/trash`);
    expect((await form.goto(copy)).status() === 404, "what is in the trash is gone");
    await form.goto(`${origin}/trash`);
    await form.getByRole("button", { name: "Put back" }).first().click();
    expect((await form.goto(copy)).status() === 200, "the trash gives it back");
    await plain.close();
    for (const one of seen) expect(false, `the console: ${one}`);

    await control(browser);
    await context.close();
  } finally {
    await browser.close();
    server.kill("SIGTERM");
    expect(await ended === 0, "the server ends cleanly");
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(failed ? `${failed} of ${checked} checks failed` : `${checked} checks passed`);
  process.exit(failed ? 1 : 0);
}

/// A page that breaks the rules: each break must be noticed.
async function control(browser) {
  const broken = createServer((_, response) => response.end("<!doctype html><body style='width:3000px'><p style='color:#ccc'>pale</p><input name=x><a href='/'></a><p id=a><p id=a><script>console.log('x'); fetch('http://127.0.0.1:9/').catch(() => {}); throw new Error('y')</script>"));
  await new Promise((done) => broken.listen(0, "127.0.0.1", done));
  const host = `127.0.0.1:${broken.address().port}`;
  const page = await browser.newPage();
  const seen = observe(page, host);
  await page.goto(`http://${host}/`);
  const found = [...seen, ...(await problems(page)), ...(await violations(page))].join("\n");
  for (const wanted of ["console: x", "error: y", "request: http://127.0.0.1:9/", "wider", "not one main", "no heading", "no label", "no text", "repeated id", "axe: html-has-lang", "axe: color-contrast"]) {
    expect(found.includes(wanted), `the control: ${wanted} was not noticed`);
  }
  await page.close();
  broken.close();
}

main().catch((error) => {
  console.error(error);
  rmSync(folder, { recursive: true, force: true });
  process.exit(2);
});
