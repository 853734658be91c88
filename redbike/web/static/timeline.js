"use strict";
// The timeline moves by the arrow keys, and by dragging it. Without this script, its links move it.
(() => {
  const keys = { ArrowLeft: "prev", ArrowRight: "next" };
  document.addEventListener("keydown", (event) => {
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
    if (!(event.key in keys) || hasModifier || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input, select, textarea, .scroll")) return;
    document.querySelector(`main a[rel=${keys[event.key]}]`)?.click();
  });
  let from = null;
  const move = (pixels) => {
    for (const strip of document.querySelectorAll(".lanes svg")) {
      strip.style.transform = pixels ? `translateX(${pixels}px)` : "";
    }
  };
  document.addEventListener("pointermove", (event) => from && move(event.clientX - from.x));
  document.addEventListener("pointercancel", () => {
    from = null;
    move(0);
  });
  document.addEventListener("pointerdown", (event) => {
    const strip = event.target.closest?.(".lanes svg");
    from = strip && event.button === 0 ? { x: event.clientX, width: strip.getBoundingClientRect().width } : null;
  });
  document.addEventListener("pointerup", (event) => {
    const table = document.querySelector(".lanes");
    if (!from || !table) return;
    const [since, until] = [Number(table.dataset.since), Number(table.dataset.until)];
    const step = (until - since) / Number(table.dataset.parts);
    const shift = Math.round((((event.clientX - from.x) / from.width) * (until - since)) / step) * step;
    from = null;
    if (!shift) return move(0);
    const middle = (since + until) / 2 - shift;
    const place = new URL(location.href);
    place.searchParams.set("at", `${new Date(middle * 1000).toISOString().slice(0, 19)}Z`);
    location.assign(place);
  });
})();
