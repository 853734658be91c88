"use strict";
// "/" leads to the search, wherever one is.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("search")?.focus();
  }
});
// What is still being counted is looked at again; without scripts the page does that itself.
const counting = document.querySelector("[data-again]");
if (counting) setTimeout(() => location.reload(), counting.dataset.again * 1000);
