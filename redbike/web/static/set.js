// Shows what a schedule means while one types it. Without this, the button Preview does.
"use strict";
(() => {
  const form = document.getElementById("set"), shown = document.getElementById("preview");
  const names = ["id", "schedule", "tz", "spread"];
  const pause = 300; // milliseconds without a key
  let timer, asking;
  const ask = async () => {
    asking?.abort();
    asking = new AbortController();
    const typed = new URLSearchParams();
    for (const name of names) typed.set(name, form.elements[name].value);
    if (!typed.get("schedule").trim()) { shown.replaceChildren(); return; }
    try {
      const answer = await fetch(`${form.dataset.preview}?${typed}`, {signal: asking.signal});
      if (!answer.ok) return;
      const text = await answer.text();
      shown.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
    } catch {
      // It went on, or the server is away: the next key asks again.
    }
  };
  form.addEventListener("input", (event) => {
    if (!names.includes(event.target.name)) return;
    clearTimeout(timer);
    timer = setTimeout(ask, pause);
  });
  // What was typed before this script came, or what the browser has filled in again.
  if (names.some((name) => form.elements[name].value !== form.elements[name].defaultValue)) ask();
})();
