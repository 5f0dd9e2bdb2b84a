// Keys, folding, and what is written now on the page of all agents.
const editable = (target) => target.closest?.("input, textarea, select");
const items = () => [...document.querySelectorAll(".row, .group li, .watch li, article")];
let current = -1;

function step(by) {
  const all = items();
  if (all.length === 0) return;
  all[current]?.classList.remove("focused");
  if (current < 0) {
    // Begin with what is on the screen.
    const first = all.findIndex((item) => item.getBoundingClientRect().bottom > 80);
    current = Math.max(0, first) - by;
  }
  current = Math.min(all.length - 1, Math.max(0, current + by));
  const item = all[current];
  item.classList.add("focused");
  item.scrollIntoView({ block: "nearest" });
  (item.querySelector("a[href]") ?? item).focus({ preventScroll: true });
}

function prompt(by) {
  const all = [...document.querySelectorAll("article.user")];
  const tops = all.map((item) => item.getBoundingClientRect().top - 80);
  const at = by > 0 ? tops.findIndex((top) => top > 4) : tops.findLastIndex((top) => top < -4);
  all[at]?.scrollIntoView({ block: "start" });
}

const keys = {
  "/": () => document.getElementById("q").focus(),
  j: () => step(1),
  k: () => step(-1),
  n: () => prompt(1),
  N: () => prompt(-1),
  o: () => {
    const all = [...document.querySelectorAll("article details")];
    const open = all.some((one) => !one.open);
    for (const one of all) one.open = open;
  },
  "?": () => document.getElementById("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && editable(event.target)) event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || editable(event.target)) return;
  const act = keys[event.key];
  if (act && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    act();
  }
});

// On a narrow screen, the conversation comes first.
if (matchMedia("(max-width: 64rem)").matches) {
  for (const one of document.querySelectorAll(".reader aside > details")) one.open = false;
}

const watch = document.getElementById("watch");
if (watch) {
  const roots = JSON.parse(watch.dataset.roots);
  const titles = JSON.parse(watch.dataset.titles);
  const main = ["command", "cmd", "file_path", "path", "filePath", "pattern", "query", "url", "description", "prompt", "skill"];
  const shown = (block) => {
    if (block.kind === "tool_use") {
      const input = block.input ?? {};
      const name = [...main, ...Object.keys(input)].find((name) => typeof input[name] === "string");
      return `${block.name} ${name ? input[name] : JSON.stringify(input)}`;
    }
    if (block.kind === "tool_result") return block.output.map((one) => one.text ?? "").join("\n");
    return block.text ?? "";
  };
  const add = (parent, name, text, kind) => {
    const element = document.createElement(name);
    element.textContent = text;
    if (kind) element.className = kind;
    parent.append(element);
    return element;
  };
  const events = new EventSource(watch.dataset.follow);
  events.addEventListener("entry", ({ data }) => {
    const event = JSON.parse(data);
    if (!["message", "compaction"].includes(event.entry.kind)) return;
    const parts = event.entry.blocks.map((block) => [block.kind, shown(block).trim().slice(0, 600)]);
    if (!parts.some(([, text]) => text)) return;
    const item = document.createElement("li");
    item.className = "new";
    const facts = add(item, "p", "", "row-facts");
    const role = parts[0]?.[0] === "tool_result" ? "tool" : event.entry.role ?? event.entry.kind;
    add(facts, "b", role, `speaker ${role}`);
    const root = roots.findIndex((path) => event.file.startsWith(`${path}/`));
    const name = titles[event.session] ?? event.session.slice(0, 8);
    if (root < 0) add(facts, "span", name);
    else {
      const at = event.entry.id ? `?at=${encodeURIComponent(event.entry.id)}` : "";
      add(facts, "a", name).href = `/s/${root}/${encodeURIComponent(event.session)}${at}`;
    }
    const time = new Date(event.entry.time ?? Date.now());
    add(facts, "time", time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })).title = time.toString();
    for (const [kind, text] of parts) if (text) add(item, "p", text, `said ${kind}`);
    const atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 120;
    watch.append(item);
    while (watch.children.length > 500) watch.firstChild.remove();
    if (atEnd) item.scrollIntoView({ block: "end" });
  });
  addEventListener("pagehide", () => events.close());
  watch.lastElementChild?.scrollIntoView({ block: "end" });
}
