"use strict";
// Counts the rows that are selected, and selects all of a page. Without this script, they are selected one by one.
(() => {
  const every = document.getElementById("tick-all"), ticked = document.getElementById("ticked");
  const table = document.querySelector("table:has(.tick)");
  if (!every || !table) return;
  const list = () => [...table.querySelectorAll(".tick input")];
  const count = () => {
    const boxes = list(), number = boxes.filter((box) => box.checked).length;
    const text = number ? `${number} selected` : "";
    if (ticked.textContent !== text) ticked.textContent = text;
    every.textContent = number && number === boxes.length ? "Select none" : "Select all of this page";
  };
  every.hidden = false;
  every.addEventListener("click", () => {
    const boxes = list(), isNone = boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = !isNone;
    count();
  });
  table.addEventListener("change", count);
  // Rows come and go, and a browser ticks again what was ticked when one comes back.
  new MutationObserver(count).observe(table, { childList: true, subtree: true });
  addEventListener("pageshow", count);
  count();
})();
