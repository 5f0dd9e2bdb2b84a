// Windows of a long conversation: older and newer ones come when they are scrolled to, those far
// away leave the page. New messages come as they are written.
const list = document.getElementById("messages");
const news = document.getElementById("news");
const policy = globalThis.trustedTypes?.createPolicy("annals", { createHTML: (html) => html });
const parse = (html) => new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html").body.firstElementChild;
const MOST = 5;
const whole = new URLSearchParams(location.search).has("whole");
const first = () => list.firstElementChild;
const last = () => list.lastElementChild;
const number = (part, name) => Number(part.dataset[name]);
let busy = false;
let waits = false;

async function load(name, position) {
  const join = list.dataset.part.includes("?") ? "&" : "?";
  const answer = await fetch(`${list.dataset.part}${join}${name}=${position}`);
  if (!answer.ok) throw new Error(answer.statusText);
  return parse(await answer.text());
}

async function guarded(act) {
  if (busy) return;
  busy = true;
  try {
    await act();
    busy = false;
    // What was asked for meanwhile.
    if (waits) grow();
    look();
  } catch {
    busy = false;
    news.textContent = "The session cannot be read any more. Load the page again.";
  }
}

const older = document.getElementById("older").closest("nav");
const newer = document.getElementById("newer").closest("nav");
// What left the page comes again from the server.
const mark = () => {
  older.hidden = number(first(), "start") === 0;
  newer.hidden = number(last(), "end") >= number(last(), "total");
};

const showOlder = () => guarded(async () => {
  if (older.hidden) return;
  const part = await load("to", number(first(), "start"));
  const below = document.documentElement.scrollHeight - scrollY;
  list.prepend(part);
  // What is read stays where it is.
  scrollTo(0, document.documentElement.scrollHeight - below);
  if (list.children.length > MOST) last().remove();
  mark();
});

const showNewer = () => guarded(async () => {
  if (newer.hidden) return;
  const part = await load("from", number(last(), "end"));
  if (number(part, "end") === number(part, "start")) {
    newer.hidden = true;
    return;
  }
  list.append(part);
  if (list.children.length > MOST) {
    const below = document.documentElement.scrollHeight - scrollY;
    first().remove();
    scrollTo(0, document.documentElement.scrollHeight - below);
  }
  mark();
});

// Loads what is scrolled to.
let look = () => {};

if (!whole) {
  const seen = new IntersectionObserver((found) => {
    for (const { isIntersecting, target } of found) {
      if (isIntersecting && target.isConnected) (target === older ? showOlder : showNewer)();
    }
  }, { rootMargin: "600px" });
  // An observer reports changes only: what came into view while something else was loaded is asked for again.
  const observe = () => {
    for (const end of [older, newer]) {
      seen.unobserve(end);
      seen.observe(end);
    }
  };
  // The place of the address first, then what is around it.
  requestAnimationFrame(() => {
    const at = new URLSearchParams(location.search).get("at");
    const target = document.getElementById(location.hash.slice(1)) ?? (at && document.getElementById(`m-${at}`));
    if (target) target.scrollIntoView({ block: "center" });
    else if (!location.hash && !older.hidden && newer.hidden) scrollTo(0, document.documentElement.scrollHeight);
    look = observe;
    look();
  });
}

const grow = () => guarded(async () => {
  if (!newer.hidden) {
    waits = false;
    news.textContent = "New messages at the end";
    return;
  }
  do {
    waits = false;
    const atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 160;
    const part = await load("from", number(last(), "end"));
    if (number(part, "end") === number(part, "start")) break;
    list.append(part);
    if (atEnd) scrollTo(0, document.documentElement.scrollHeight);
    else news.textContent = "New messages below";
  } while (waits);
});

if (list.dataset.follow) {
  const events = new EventSource(list.dataset.follow);
  events.addEventListener("entry", () => {
    waits = true;
    grow();
  });
  events.addEventListener("reset", () => {
    news.textContent = "The log was replaced. Load the page again.";
  });
  events.addEventListener("gone", () => {
    news.textContent = "The session was deleted or moved.";
  });
  addEventListener("scroll", () => {
    if (innerHeight + scrollY > document.documentElement.scrollHeight - 160) news.textContent = "";
  }, { passive: true });
  addEventListener("pagehide", () => events.close());
}
