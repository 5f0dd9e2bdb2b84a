
"use strict";
(() => {
  const bar = document.getElementById("folds");
  const button = bar.firstElementChild;
  let open = false;
  button.addEventListener("click", () => {
    open = !open;
    for (const fold of document.querySelectorAll("main details")) fold.open = open;
    button.textContent = open ? "Fold all" : "Unfold all";
  });

  const articles = [...document.querySelectorAll("main article")];
  const kind = (article, part) => {
    const has = (name) => part.classList.contains(name);
    if (has("thinking")) return "Thinking";
    if (has("tool") || has("result")) return "Tools";
    if (has("text")) return article.classList.contains("user") ? "Prompts" : "Replies";
    return "";
  };
  // Read when first needed: a long page has many megabytes of text.
  let texts = null;

  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "Filter messages";
  search.setAttribute("aria-label", "Filter messages");
  const boxes = ["Prompts", "Replies", "Thinking", "Tools"].map((name) => {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.name = name;
    const label = document.createElement("label");
    label.append(box, name);
    bar.insertBefore(label, button);
    return box;
  });
  const count = document.createElement("output");
  bar.prepend(search);
  bar.insertBefore(count, button);

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.name));
    if (words.length > 0 && texts === null) texts = articles.map((article) => article.textContent.toLowerCase());
    let shown = 0;
    articles.forEach((article, at) => {
      let parts = 0;
      let left = 0;
      for (const part of article.querySelectorAll(":scope > div > *")) {
        const name = kind(article, part);
        if (name === "") continue;
        parts += 1;
        part.hidden = hidden.has(name);
        if (!part.hidden) left += 1;
      }
      const matches = words.every((word) => texts[at].includes(word));
      article.hidden = !matches || (parts > 0 && left === 0);
      if (!article.hidden) shown += 1;
    });
    const filtered = words.length > 0 || hidden.size > 0;
    count.textContent = filtered ? shown + " of " + articles.length : "";
  };
  search.addEventListener("input", apply);
  for (const box of boxes) box.addEventListener("change", apply);

  // A link to a message that is filtered out shows all messages again.
  window.addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target === null || target.closest("article[hidden]") === null) return;
    search.value = "";
    for (const box of boxes) box.checked = true;
    apply();
    target.scrollIntoView();
  });
  bar.hidden = false;
})();
