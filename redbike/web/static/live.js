"use strict";
// "/" leads to the search, wherever one is.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("search")?.focus();
  }
});
