import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import test from "node:test";
import * as annals from "annals";
import { AnnalsError, Store } from "annals";
import { open as orchestrator } from "annals/orchestrator";
import { open } from "./common.mjs";

const texts = (entries) => entries.map((entry) => entry.blocks.map((block) => block.text ?? block.kind).join("|"));
const fails = (kind, more) => (error) => {
  assert.ok(error instanceof AnnalsError, String(error?.stack));
  assert.equal(error.kind, kind, error.message);
  more?.(error);
  return true;
};

test("a session is written and read back", async (t) => {
  const { store, root } = open(t);
  const writer = await store.begin("/home/me/app");
  const prompt = await writer.user("Why does the build fail?");
  assert.equal(writer.leaf, prompt.id);
  const [call] = await writer.assistant(
    [{ type: "tool_use", id: "toolu_1", name: "Bash", input: { command: "cargo build" } }],
    { model: "claude-sonnet-4-5", usage: { input: 1000, output: 20 } },
  );
  assert.equal(call.parent, prompt.id);
  const result = await writer.toolResult("toolu_1", "error: no such feature", { isError: true });
  assert.equal(result.blocks[0].is_error, true);
  assert.ok(writer.path.startsWith(root) && writer.path.includes(writer.id));
  assert.deepEqual(writer.totals().messages, 3);
  await writer.close();

  const session = await store.session(writer.id.slice(0, 8));
  assert.equal(session.info.id, writer.id);
  assert.equal(session.info.messages, 3);
  assert.equal(session.info.cost_usd, "0.0033");
  assert.equal(await session.cost(), "0.0033");
  assert.equal(session.conversations.length, 1);
  assert.deepEqual(session.flaws, []);
  const messages = await session.messages();
  assert.deepEqual(texts(messages), ["Why does the build fail?", "tool_use", "tool_result"]);
  assert.deepEqual(session.messagesSync(), messages);
  assert.deepEqual(await session.message(prompt.id), messages[0]);
  assert.deepEqual(await session.ancestry(result.id), messages);
  assert.deepEqual(texts(await session.messages({ role: "user", text: "BUILD" })), ["Why does the build fail?"]);
  assert.equal((await session.messages({ limit: 1, offset: 1 })).length, 1);
  const raw = JSON.parse(Buffer.from(await session.raw(prompt.id)).toString());
  assert.equal(raw.uuid, prompt.id);
  assert.deepEqual(session.rawSync(prompt.id), await session.raw(prompt.id));
  const stats = await session.stats("UTC");
  assert.equal(stats.total.responses, 1);
  assert.equal(stats.by_model["claude-sonnet-4-5"].usage.output, 20);
});

test("a session grows, and its end is read alone", async (t) => {
  const { store } = open(t);
  const writer = store.beginSync("/home/me/app");
  writer.userSync("one");
  const session = store.sessionSync(writer.id);
  assert.equal(await session.grow(), false);
  await writer.append("two", { role: "assistant", content: "three" });
  assert.equal(await session.grow(), true);
  assert.equal(session.info.messages, 3);
  assert.deepEqual(texts(await session.messages()), ["one", "two", "three"]);
  writer.closeSync();

  const again = store.resumeSync(writer.id);
  again.appendSync("four");
  await again.close();
  const tail = await store.tail(writer.id, 2);
  assert.deepEqual(texts(await tail.messages()).slice(-2), ["three", "four"]);
});

test("appends that are not awaited keep their order", async (t) => {
  const { store } = open(t);
  const writer = await store.begin("/home/me/app", { durability: "os" });
  const written = Array.from({ length: 50 }, (_, at) => writer.user(`prompt ${at}`));
  await Promise.all(written);
  await writer.close();
  const session = await store.session(writer.id);
  const expected = written.map((_, at) => `prompt ${at}`);
  assert.deepEqual(texts(await session.messages()), expected);
});

test("annotations, todos, compaction and sub-agents", async (t) => {
  const { store } = open(t);
  const writer = await store.begin("/home/me/app", { title: "First title" });
  await writer.user("Find the readers");
  const [call] = await writer.assistant([{ type: "tool_use", id: "toolu_2", name: "Task", input: {} }]);
  const helper = await writer.delegate("toolu_2", "Explore", "Find the readers");
  assert.ok(helper.agent);
  await helper.user("Which modules read files?");
  await helper.close();
  const todos = [{ content: "Measure", status: "in_progress", activeForm: "Measuring" }];
  await writer.setTodos(todos);
  await writer.retitle("Second title");
  await writer.tag("important");
  const note = await writer.note("Ask again tomorrow.");
  assert.equal(note.kind, "note");
  await writer.compact("We looked for readers.", 1200);
  await writer.close();
  await writer.close();
  await assert.rejects(writer.user("too late"), fails("refused"));

  const session = await store.session(writer.id);
  assert.equal(session.info.title, "Second title");
  assert.equal(session.info.tag, "important");
  assert.deepEqual(Object.values(await session.todos())[0], todos);
  assert.equal(session.agents.length, 1);
  assert.equal(session.agents[0].kind, "Explore");
  assert.equal(session.agents[0].call, call.id);
  const agent = await session.messages({ agent: session.agents[0].id });
  assert.deepEqual(texts(agent), ["Which modules read files?"]);
  assert.deepEqual(await session.files(), []);
});

test("lists, search, cost and check", async (t) => {
  const { store } = open(t);
  for (const [cwd, text] of [["/home/me/app", "connection reset by peer"], ["/home/me/infra", "move the host"]]) {
    const writer = await store.begin(cwd);
    await writer.user(text);
    await writer.assistant("Done.", { model: "claude-sonnet-4-5", usage: { input_tokens: 1000, output_tokens: 100 } });
    await writer.close();
  }
  const rows = await store.sessions();
  assert.equal(rows.length, 2);
  assert.deepEqual(store.sessionsSync(), rows);
  const [row] = await store.sessions({ project: "/home/me/app", since: new Date(Date.now() - 60_000) });
  assert.equal(row.project, "/home/me/app");
  assert.deepEqual(await store.sessions({ until: "2020-01-01" }), []);
  assert.deepEqual((await store.projects()).map((it) => it.path).sort(), ["/home/me/app", "/home/me/infra"]);
  assert.equal((await store.conversations(row.id))[0].messages, 2);

  const found = await store.search('"reset by peer"', { context: 1 });
  assert.equal(found.total, 1);
  assert.equal(found.hits[0].session, row.id);
  assert.equal(found.hits[0].after.length, 1);
  assert.match(found.hits[0].snippet, /reset by peer/);
  await store.updateIndex();
  assert.equal((await store.search("res.t", { regex: true, order: "newest" })).total, 1);
  await assert.rejects(store.search('"open'), fails("bad_input"));

  const cost = await store.cost(["project", "model"]);
  assert.deepEqual(cost.by, ["project", "model"]);
  assert.equal(cost.rows.length, 2);
  assert.equal(cost.total.cost_usd, "0.009");
  assert.equal((await store.cost("day", { project: "/home/me/app" })).total.cost_usd, "0.0045");
  await assert.rejects(store.cost("colour"), fails("bad_input"));

  const check = await store.check();
  assert.deepEqual(check.map((file) => file.flaws), check.map(() => []));
  assert.deepEqual((await store.check(row.id)).map((file) => file.path), [row.file]);
  assert.deepEqual(store.takeFailures(), []);
});

test("fork, trash, reset and conversion", async (t) => {
  const { store, dir } = open(t);
  const writer = await store.begin("/home/me/app");
  const first = await writer.user("one");
  await writer.assistant("two");
  await writer.close();
  const fork = await store.fork(writer.id, first.id, { title: "A fork" });
  assert.deepEqual(texts(await (await store.session(fork)).messages()), ["one"]);

  const named = await store.fork(writer.id, first.id, { to: "22222222-0000-4000-8000-000000000001" });
  assert.equal(named, "22222222-0000-4000-8000-000000000001");
  await store.delete(named);

  const trashed = await store.delete(fork);
  assert.equal(trashed.session, fork);
  assert.ok(trashed.files > 0 && trashed.bytes > 0);
  await assert.rejects(store.session(fork), fails("not_found"));
  assert.equal((await store.sessions({ state: "deleted" })).length, 2);
  await store.undelete(fork);
  assert.equal((await store.sessions()).length, 2);

  const into = { layout: "orchestrator", path: path.join(dir, "converted") };
  const converted = await store.convert(into, { sessions: [writer.id] });
  assert.equal(converted.sessions, 1);
  const target = new Store([into], { zone: "UTC" });
  const [row] = await target.sessions();
  assert.deepEqual(texts(await (await target.session(row.id)).messages()), ["one", "two"]);

  assert.equal((await store.reset("/home/me/app", { plan: true })).length, 2);
  assert.equal((await store.sessions()).length, 2);
  assert.equal((await store.reset("/home/me/app")).length, 2);
  assert.deepEqual(await store.sessions(), []);
});

test("errors have a kind, a path and candidates", async (t) => {
  const { store, dir } = open(t);
  const ids = ["11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"];
  for (const id of ids) {
    const writer = await store.begin("/home/me/app", { id });
    await writer.user("Hello");
    await writer.close();
  }
  await assert.rejects(store.session("nothing"), fails("not_found"));
  assert.throws(() => store.sessionSync("nothing"), fails("not_found"));
  const isAmbiguous = fails("ambiguous", ({ candidates }) => assert.equal(candidates.length, 2));
  await assert.rejects(store.session("1111"), isAmbiguous);
  await assert.rejects(store.begin("/home/me/app", { id: ids[0] }), fails("refused"));
  await assert.rejects(store.begin("/home/me/app", { durability: "paper" }), fails("bad_input"));
  await assert.rejects(store.sessions({ porject: "x" }), fails("bad_input"));
  await assert.rejects(store.sessions({ since: "someday" }), fails("bad_input"));
  const writer = await store.resume(ids[0]);
  await assert.rejects(writer.append({ role: "robot", content: "x" }), fails("bad_input"));
  await assert.rejects(writer.append("fine", { role: "user" }), fails("bad_input"));
  await writer.close();
  assert.equal((await store.session(ids[0])).info.messages, 1);
  assert.throws(() => new Store([{ layout: "cuneiform", path: dir }]), fails("not_found"));
  assert.throws(() => new Store([], { prices: path.join(dir, "none.csv") }), fails("io", (error) => {
    assert.equal(error.path, path.join(dir, "none.csv"));
  }));
});

test("arguments without a meaning are bad input, in a promise that is rejected", async (t) => {
  const { store } = open(t);
  const writer = await store.begin("/home/me/app");
  const never = new Date("never");
  for (const call of [
    () => store.sessions({ since: never }),
    () => store.sessions({ state: "broken" }),
    () => store.search("x", { until: never }),
    () => writer.append(undefined),
    () => writer.append({ role: "user", content: "x", timestamp: never }),
    () => writer.append({ role: "user", content: [{ type: "text", text: "x", number: 1n }] }),
    () => writer.append("\ud83d"),
    () => store.mirror("-home-me-app", writer.id).append([{ number: 1n }]),
  ]) {
    await assert.rejects(call, fails("bad_input"), String(call));
  }
  assert.throws(() => writer.appendSync({ role: "user", content: 1n }), fails("bad_input"));
  await assert.rejects(store.sessions({ limit: -1 }), fails("bad_input", ({ message }) => assert.match(message, /^the number `-1` where .* is expected$/)));
  assert.equal(writer.leaf, null);
  await writer.close();
});

test("a day without a log has no messages, and a day is no path", async (t) => {
  const { root, store } = open(t, "orchestrator");
  const session = orchestrator("/home/me/app", { root, index: false });
  assert.deepEqual(await session.load(), []);
  await session.append({ type: "user", content: "Is it safe?" });
  assert.equal((await session.load()).length, 1);
  const [{ file }] = await store.sessions();
  for (const day of ["yesterday", "", `../../../..${file}`, "2026-11-18/x"]) {
    await assert.rejects(session.load(day), fails("bad_input"), day);
  }
  await session.close();
});

test("roots are found from an environment that the caller passes", async (t) => {
  const { dir } = open(t);
  const env = { HOME: dir, ANNALS_STATE_DIR: path.join(dir, "own") };
  const store = Store.discover(env, dir);
  assert.deepEqual(store.roots, [{ layout: "claude-code", path: path.join(dir, ".claude") }]);
  const writer = await store.begin("/home/me/app");
  await writer.user("Hello");
  await writer.close();
  assert.ok(writer.path.startsWith(path.join(dir, ".claude")));
  assert.equal((await Store.discover(env, dir).sessions()).length, 1);
});

test("ESM and CJS are one module", () => {
  const required = createRequire(import.meta.url)("annals");
  for (const name of Object.keys(required)) assert.equal(annals[name], required[name], name);
});

test("the context is what an agent sends to its model", async (t) => {
  const { store } = open(t);
  const writer = await store.begin("/home/me/app");
  await writer.user("Count");
  const call = { type: "tool_use", id: "toolu_1", name: "Bash", input: { n: 1 } };
  await writer.assistant([{ type: "text", text: "Yes." }, call], { message_id: "msg_1" });
  const result = await writer.toolResult("toolu_1", "100");
  await writer.user("And?");
  await writer.close();
  const session = await store.session(writer.id);
  const types = (messages) => messages.map(({ role, content }) => [role, ...content.map((block) => block.type)]);
  assert.deepEqual(types(await session.context()), [
    ["user", "text"],
    ["assistant", "text", "tool_use"],
    ["user", "tool_result", "text"],
    ["assistant", "text"],
  ]);
  assert.deepEqual(types(await session.context(result.id))[2], ["user", "tool_result"]);
});

test("a mirror keeps lines as they are", async (t) => {
  const { store } = open(t);
  const mirror = store.mirror("-home-me-app", "aaaaaaaa-0000-4000-8000-000000000001");
  assert.equal(await mirror.load(), null);
  const line = Buffer.from('{"type":"user", "uuid":"u1","n":1e5}');
  assert.equal(await mirror.append([line, { type: "assistant", uuid: "u2" }]), 2);
  assert.equal(await mirror.append([line]), 0);
  const lines = await mirror.load();
  assert.deepEqual(lines.map((it) => Buffer.from(it).toString()), [line.toString(), '{"type":"assistant","uuid":"u2"}']);
  await assert.rejects(mirror.append([Buffer.from("{")]), fails("refused"));
  const sub = store.mirror("-home-me-app", "aaaaaaaa-0000-4000-8000-000000000001", "subagents/agent-1");
  await sub.append([{ type: "user", uuid: "s1" }]);
  assert.deepEqual(await mirror.subs(), ["subagents/agent-1"]);
  await mirror.delete();
  assert.equal(await mirror.load(), null);
});
