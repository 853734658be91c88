"use strict";
// The palette of "/", which finds pages, jobs, queues and actions, and the help of "?". Without this script, the search in the
// header finds jobs.
(() => {
  const up = document.body.dataset.up;
  const palette = document.getElementById("palette");
  const help = document.getElementById("help");
  const field = document.getElementById("palette-text");
  const list = document.getElementById("palette-list");
  const note = document.getElementById("palette-note");
  if (!palette || !palette.showModal) return;
  const PAUSE = 120; // milliseconds without a key after which it is looked for
  let asked = 0, timer = 0, request = null, chosen = -1, known = null;

  const choose = (number) => {
    const options = list.children;
    options[chosen]?.setAttribute("aria-selected", "false");
    chosen = options.length ? (number + options.length) % options.length : -1;
    const option = options[chosen];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
  };
  const draw = ({ found, is_more: isMore }) => {
    list.replaceChildren(...found.map(({ kind, text, href }, number) => {
      const option = document.createElement("li");
      option.id = `found-${number}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.href = href;
      const name = document.createElement("span");
      name.className = ["page", "search"].includes(kind) ? "" : "id";
      name.textContent = text;
      const what = document.createElement("span");
      what.className = "kind";
      what.textContent = kind;
      option.append(name, " ", what);
      return option;
    }));
    note.textContent = `${found.length} found${isMore ? ", and there may be more jobs" : ""}`;
    choose(0);
  };
  const search = async () => {
    const number = ++asked;
    request?.abort();
    request = new AbortController();
    try {
      const answer = await fetch(`${up}find?q=${encodeURIComponent(field.value)}`, { signal: request.signal });
      if (!answer.ok || !answer.headers.get("content-type")?.startsWith("application/json")) throw new Error("no list");
      const result = await answer.json();
      if (number === asked) {
        draw(result);
        known = field.value;
      }
    } catch (error) {
      if (number !== asked || error.name === "AbortError") return;
      draw({ found: [], is_more: false });
      note.textContent = "Nothing can be found now: the server does not answer.";
    }
  };
  // The button of an action is ready to be pressed, and in sight.
  const aim = () => {
    const aimed = /^#(do|act)-/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!aimed) return;
    const folded = aimed.closest("details");
    if (folded) folded.open = true;
    aimed.focus();
  };
  const go = (option) => {
    if (!option) return;
    palette.close();
    location.assign(`${up}${option.dataset.href}`);
  };
  addEventListener("hashchange", aim);
  aim();
  const openPalette = () => {
    if (palette.open) return;
    help.close();
    palette.showModal();
    field.value = "";
    known = null;
    field.focus();
    search();
  };
  // What is shown may still be of what was typed before.
  const enter = async () => {
    if (known !== field.value) {
      clearTimeout(timer);
      await search();
    }
    if (known === field.value && palette.open) go(list.children[chosen]);
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, PAUSE);
  });
  field.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      choose(chosen + steps[event.key]);
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      enter();
    }
  });
  list.addEventListener("click", (event) => go(event.target.closest("[role=option]")));
  for (const dialog of [palette, help]) {
    // A click beside it closes it.
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    const isTyping = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      openPalette();
    } else if (isTyping || hasModifier || document.querySelector("dialog[open]")) {
      return;
    } else if (event.key === "/") {
      event.preventDefault();
      openPalette();
    } else if (event.key === "?") {
      event.preventDefault();
      help.showModal();
    }
  });
  // On a phone, the pages are in a row that scrolls.
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  for (const each of document.querySelectorAll("[data-opens]")) {
    each.hidden = false;
    each.addEventListener("click", () => (each.dataset.opens === "palette" ? openPalette() : help.showModal()));
  }
})();
