"use strict";
// Live updates. The server sends the fragments of this page that have changed; they are patched into it, so that focus,
// selections, open menus, typed text and the place of scrolling stay. Without this script, the page is as it was loaded.
(() => {
  const body = document.body;
  const connection = document.getElementById("connection");
  const announcement = document.getElementById("announcement");
  const bar = document.getElementById("live");
  const state = document.getElementById("live-state");
  const button = document.getElementById("hold");
  const SILENCE = 30000; // milliseconds without a sign of life after which the stream counts as lost
  const RECOVERED_MS = 15000; // for which a page says that the trouble is over
  const REPLY_TIMEOUT = 10000; // milliseconds for which an answer of the server is waited for
  const NO_REPLY = "The server of this page does not answer.";
  const LONGEST = 60000; // milliseconds between two tries, at most
  const RECOUNT_SECONDS = 30; // after which a page looks again at what was counted
  const waiting = new Map(); // fragments that are not shown yet, by id
  let stream = null, last = "", tries = 0, retry = 0, heard = 0, received = 0, ahead = 0;
  let isHeld = false, isAway = false;

  // ---- time

  // In the two largest units, as the server writes it.
  const describe = (seconds) => {
    let rest = Math.round(Math.abs(seconds));
    const parts = [];
    for (const [name, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
      const number = Math.floor(rest / size);
      rest -= number * size;
      if (number || parts.length) parts.push(number ? `${number} ${name}` : "");
    }
    const text = parts.slice(0, 2).filter(Boolean).join(" ");
    return !text ? "now" : seconds > 0 ? `in ${text}` : `${text} ago`;
  };
  // What is shown may have been read long before it was rendered, and rendered long before it was sent.
  const setClock = (clock) => {
    if (clock) ahead = Number(clock.dataset.now) + Number(clock.dataset.age) - Date.now() / 1000;
  };
  const countOn = () => {
    if (isHeld || isAway || document.hidden) return;
    const now = Date.now() / 1000 + ahead;
    for (const each of document.querySelectorAll("time[data-at]")) {
      const text = describe(Number(each.dataset.at) - now);
      if (each.textContent !== text && !isSelected(each)) each.textContent = text;
    }
  };

  // ---- patching

  const isSelected = (node) => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && selection.containsNode(node, true);
  };
  // What a row is about: rows that come and go must not hand on their menus and boxes to others.
  const getKey = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    if (node.id || node.dataset.key) return node.id || node.dataset.key;
    if (node.matches("dl > div")) return node.querySelector("dt")?.textContent ?? "";
    return /^(TR|LI)$/.test(node.nodeName) ? node.querySelector("a[href]")?.getAttribute("href") ?? "" : "";
  };
  const KEPT = new Set(["open", "value", "checked", "aria-expanded"]); // what the user has done
  const patchAttributes = (old, wanted) => {
    for (const { name } of [...old.attributes]) {
      if (!wanted.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
    }
    for (const { name, value } of wanted.attributes) {
      if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };
  const dropBlanks = (node) => {
    for (const each of [...node.childNodes]) {
      if (each.nodeType === Node.TEXT_NODE && !each.data.trim()) each.remove();
    }
  };
  const LISTS = new Set(["TABLE", "THEAD", "TBODY", "TR", "UL", "OL", "DL"]);
  const patch = (old, wanted) => {
    if (old.isEqualNode(wanted)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.data = wanted.data;
      return;
    }
    patchAttributes(old, wanted);
    if (!old.matches("textarea, select")) patchChildren(old, wanted);
  };
  const patchChildren = (old, wanted) => {
    if (LISTS.has(old.nodeName)) [old, wanted].forEach(dropBlanks);
    const keys = new Set([...wanted.children].map(getKey));
    const known = new Map();
    for (const each of [...old.children]) {
      const key = getKey(each);
      if (key && !keys.has(key)) each.remove();
      else if (key) known.set(key, [...(known.get(key) ?? []), each]);
    }
    let place = old.firstChild;
    for (const each of [...wanted.childNodes]) {
      const key = getKey(each);
      const isLike = place && !getKey(place) && place.nodeName === each.nodeName;
      const match = key ? known.get(key)?.shift() : isLike ? place : null;
      if (!match) old.insertBefore(each, place);
      else {
        if (match === place) place = place.nextSibling;
        else old.insertBefore(match, place);
        if (match.nodeName === each.nodeName) patch(match, each);
        else match.replaceWith(each);
      }
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  };
  // A node that is moved loses the focus.
  const patchWithFocus = (old, wanted) => {
    const focused = document.activeElement;
    patch(old, wanted);
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  };
  const parse = (text) => {
    const template = document.createElement("template");
    template.innerHTML = text;
    return template.content.firstElementChild;
  };
  const show = () => {
    if (isHeld) return;
    for (const [name, text] of [...waiting]) {
      const old = document.getElementById(name);
      if (old && isSelected(old)) continue; // it is shown when nothing of it is selected any more
      waiting.delete(name);
      const wanted = parse(text);
      if (!old || !wanted || old.nodeName !== wanted.nodeName) continue;
      const before = name === "health" ? old.className : "";
      patchWithFocus(old, wanted);
      if (before && before !== old.className) {
        announcement.textContent = old.querySelector("strong")?.textContent ?? "";
      }
    }
    countOn();
  };

  // ---- listening

  const tell = (word, trouble = "") => {
    bar.dataset.state = word;
    const shown = isHeld ? "held" : word;
    if (state.textContent !== shown) state.textContent = shown;
    if (connection.textContent !== trouble) connection.textContent = trouble;
    connection.dataset.state = word;
  };
  const hear = () => {
    heard = Date.now();
    received += 1;
  };
  const recover = () => {
    tell("live", isAway ? "It answers again." : connection.textContent);
    if (isAway) setTimeout(() => isAway || tell("live"), RECOVERED_MS);
    isAway = false;
  };
  const take = (event) => {
    hear();
    tries = 0;
    const parts = JSON.parse(event.data);
    if (parts.clock) setClock(parse(parts.clock));
    for (const [name, text] of Object.entries(parts)) waiting.set(name, text);
    show();
  };
  const open = () => {
    if (stream || document.hidden) return;
    clearTimeout(retry);
    const at = `${body.dataset.up}${body.dataset.stream}${last && `&last=${encodeURIComponent(last)}`}`;
    heard = Date.now();
    stream = new EventSource(at);
    stream.addEventListener("parts", (event) => {
      last = event.lastEventId;
      recover();
      take(event);
    });
    stream.addEventListener("beat", take);
    stream.addEventListener("trouble", (event) => {
      hear();
      isAway = true;
      tell("away", JSON.parse(event.data));
    });
    stream.addEventListener("error", lose);
  };
  const close = () => {
    clearTimeout(retry);
    stream?.close();
    stream = null;
  };
  const request = (method) => fetch(location.href, { method, signal: AbortSignal.timeout(REPLY_TIMEOUT) });
  const isThere = () => request("HEAD").then(({ ok }) => ok, () => false);
  // Many pages that have lost the same server must not come back all at once.
  const lose = async () => {
    close();
    tries += 1;
    retry = setTimeout(open, wait());
    if (tries < 2) return;
    isAway = true;
    const before = received;
    // The token may be revoked, or there are too many viewers.
    const trouble = await isThere() ? "This page is not updated any more: load it again." : NO_REPLY;
    if (isAway && received === before) tell("away", trouble); // else the stream is back, and says what is wrong
  };
  const wait = () => Math.min(LONGEST, 1000 * 2 ** Math.min(tries, 6)) * (0.5 + Math.random());
  // A page that could not be shown comes back by itself.
  const reload = async () => {
    tries += 1;
    if (!document.hidden && await isThere()) location.replace(location.href);
    else setTimeout(reload, wait());
  };
  const begin = () => {
    bar.hidden = false;
    tell("live");
    open();
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    document.addEventListener("selectionchange", () => {
      if (waiting.size && document.getSelection().isCollapsed) show();
    });
    button.addEventListener("click", () => {
      isHeld = !isHeld;
      button.textContent = isHeld ? "Go on" : "Hold";
      tell(bar.dataset.state, connection.textContent);
      show();
    });
    setInterval(() => {
      if (stream && Date.now() - heard > SILENCE) lose();
      countOn();
    }, 1000);
  };
  // What is counted is looked at again, the sooner if it is being counted, and only it is patched: a page that loads
  // itself again would lose what was typed meanwhile, and a click. Without scripts, the page loads itself again.
  const counted = document.getElementById("counted");
  const lookLater = () => {
    const again = (counted.querySelector("[data-again]")?.dataset.again ?? RECOUNT_SECONDS) * 1000;
    setTimeout(lookAgain, isAway ? wait() : again);
  };
  const lookAgain = async () => {
    if (!document.hidden && !isSelected(counted)) {
      const read = async (answer) => [answer.ok, await answer.text()];
      const [isShown, text] = await request("GET").then(read).catch(() => [false, ""]);
      const found = new DOMParser().parseFromString(text, "text/html");
      const wanted = found.getElementById("counted");
      if (isShown && !wanted) location.reload(); // one has to log in
      tries = isShown ? 0 : tries + 1;
      if (isShown) recover();
      else {
        isAway = true;
        const heading = found.querySelector("h1")?.textContent;
        tell("away", heading ? `${heading}.` : NO_REPLY);
      }
      // If the server has forgotten what is shown and counts it again, that stays; only how far it is changes.
      if (wanted?.children.length === 1 && counted.children.length > 1) {
        patch(counted.firstElementChild, wanted.firstElementChild);
      } else if (wanted) {
        patchWithFocus(counted, wanted);
        patch(document.getElementById("clock"), found.getElementById("clock"));
        setClock(document.getElementById("clock"));
      }
      countOn();
    }
    lookLater();
  };
  setClock(document.getElementById("clock"));
  if (counted) lookLater();
  if (document.querySelector("main [data-away]")) setTimeout(reload, wait());
  if (bar && document.querySelector("main [data-live]:not(#missing)")) begin();
  else if (document.querySelector("time[data-at]")) setInterval(countOn, 1000);
})();
