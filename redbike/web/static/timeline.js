"use strict";
// The timeline moves by the arrow keys, and by dragging it. Without this script, its links move it.
(() => {
  const LEAST = 8; // pixels; what is dragged less was not meant to be
  const keys = { ArrowLeft: "prev", ArrowRight: "next" };
  document.addEventListener("keydown", (event) => {
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
    if (!(event.key in keys) || hasModifier || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input, select, textarea, .scroll")) return;
    document.querySelector(`main a[rel=${keys[event.key]}]`)?.click();
  });
  let from = null;
  document.addEventListener("pointerdown", (event) => {
    const strip = event.target.closest?.(".lanes svg");
    from = strip && event.button === 0 ? { x: event.clientX, width: strip.getBoundingClientRect().width } : null;
  });
  document.addEventListener("pointerup", (event) => {
    const table = document.querySelector(".lanes");
    if (!from || !table || Math.abs(event.clientX - from.x) < LEAST) return;
    const [since, until] = [Number(table.dataset.since), Number(table.dataset.until)];
    const middle = (since + until) / 2 - ((event.clientX - from.x) / from.width) * (until - since);
    const place = new URL(location.href);
    place.searchParams.set("at", `${new Date(middle * 1000).toISOString().slice(0, 19)}Z`);
    location.assign(place);
  });
})();
