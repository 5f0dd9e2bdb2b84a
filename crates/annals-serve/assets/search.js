// Search while typing: the results are a part of the page that the server makes.
const field = document.getElementById("q");
const results = document.getElementById("results");
const policy = globalThis.trustedTypes?.createPolicy("annals", { createHTML: (html) => html });
const parse = (html) => new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html").body;
let running = null;
let waiting = 0;

async function search(remember) {
  // The server stops a search whose client is gone.
  running?.abort();
  running = new AbortController();
  const query = field.value.trim();
  const address = `/search?q=${encodeURIComponent(query)}`;
  try {
    const answer = await fetch(`${address}&part=1`, { signal: running.signal });
    results.replaceChildren(...parse(await answer.text()).childNodes);
    document.title = query ? `${query} – search · annals` : "Search · annals";
    if (remember) history.replaceState(null, "", address);
  } catch (error) {
    if (error.name !== "AbortError") results.textContent = "The server does not answer. Start `annals serve` again.";
  }
}

field.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => search(true), 90);
});
addEventListener("popstate", () => {
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  search(false);
});
if (!matchMedia("(pointer: coarse)").matches) {
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}
