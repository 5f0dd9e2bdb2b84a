// The storage part of an orchestrator: a log for each project and day, tokens and cost, recovery.
import fs from "node:fs/promises";
import { open } from "annals/orchestrator";

const [root = "claude", state = "state"] = process.argv.slice(2);
const session = open("/Users/nick/projects/my-app", { root, state });

await session.append({ type: "user", content: "Is the authentication safe?", metadata: { source: "cli" } });
await session.append({
  type: "assistant",
  content: "Let me look.",
  model: "claude-sonnet-4-5-20250929",
  usage: { input_tokens: 15000, output_tokens: 2150, cache_creation_tokens: 8000, cache_read_tokens: 0 },
});
console.log((await session.load()).map((entry) => entry.role));

const { total } = await session.usage("model");
console.log(total.input, "input tokens,", total.cost_usd, "USD");

const [row] = await session.sessions();
console.log(await session.state(row.id));
await session.close();

await fs.appendFile(row.file, '{"type":"user","content":"half a li\n'); // What a crash of another writer leaves.
const later = new Date(Date.now() - 60_000);
await fs.utimes(row.file, later, later);
console.log((await session.recover()).length, "file repaired");
console.log((await session.load()).length, "messages");
console.log((await session.cleanup({ olderThanDays: 30 })).length, "to clean up");
