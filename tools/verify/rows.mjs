// Prints what the Node package knows of roots, as the example `rows` of the library does.
//
//     node rows.mjs PACKAGE_DIR STATE_DIR LAYOUT:PATH...
import { createRequire } from "node:module";
import path from "node:path";

const [directory, state, ...roots] = process.argv.slice(2);
const { Store } = createRequire(path.resolve(directory, "package.json"))("annals");

async function session(store, file) {
  try {
    const open = await store.session(file);
    return {
      info: open.info,
      conversations: open.conversations,
      flaws: open.flaws,
      messages: await open.messages(),
      agents: open.agents,
      stats: await open.stats("UTC"),
      todos: await open.todos(),
      files: await open.files(),
      cost: await open.cost(),
      context: await open.context(),
    };
  } catch (error) {
    if (!error.kind) throw error;
    return { error: error.kind };
  }
}

for (const root of roots) {
  const store = new Store([root], { state, index: false, zone: "UTC" });
  const sessions = await store.sessions();
  const opened = {};
  for (const { file } of sessions) opened[file] = await session(store, file);
  const rows = {
    root,
    projects: await store.projects(),
    search: await store.search("the", { context: 1 }),
    cost: await store.cost(["model", "day"]),
    check: await store.check(),
    sessions,
    opened,
  };
  process.stdout.write(`${JSON.stringify(rows)}\n`);
}
