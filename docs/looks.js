// The theme gives a keyboard no way into wide tables and code, and its code bars one name.
addEventListener("load", () => {
  document.querySelectorAll(".md-typeset__scrollwrap, pre > code").forEach((part) => { part.tabIndex = 0; });
  document.querySelectorAll(".md-code__nav").forEach((bar, place) => { bar.ariaLabel = `Code ${place + 1}`; });
});
