
"use strict";
(() => {
  const bar = document.getElementById("folds");
  const button = bar.firstElementChild;
  let open = false;
  bar.hidden = false;
  button.addEventListener("click", () => {
    open = !open;
    for (const fold of document.querySelectorAll("main details")) fold.open = open;
    button.textContent = open ? "Fold all" : "Unfold all";
  });
})();
