"use strict";
// Elements are built only with textContent and setAttribute, so that no name or reason is read as HTML.
const byId = (id) => document.getElementById(id);

function build(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
const make = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// The theme is the system's until the button is pressed; the choice is not stored.
const dark = matchMedia("(prefers-color-scheme: dark)");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light theme" : "Dark theme";
}
setTheme(dark.matches ? "dark" : "light");
let themeChosen = false;
dark.addEventListener("change", () => { if (!themeChosen) setTheme(dark.matches ? "dark" : "light"); });
byId("theme").addEventListener("click", () => {
  themeChosen = true;
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});

// Numbers as text.
const score = (value) => {
  // Halves are rounded up, as in the other files; toFixed alone depends on the last bits of the binary fraction.
  const hundredths = Math.round(Number((Math.abs(value) * 100).toFixed(4)));
  return (value < 0 && hundredths ? "-" : "") + (hundredths / 100).toFixed(2);
};
const count = (value) => value.toLocaleString("en-GB", { maximumFractionDigits: value < 10 ? 1 : 0 });
const short = (value) => value.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 2 });
function duration(seconds) {
  if (seconds < 60) return `${seconds < 1 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  if (seconds < 3600) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
function cellText(cell) {
  if (cell.mean === null) return "n/a";
  return cell.sd === null ? score(cell.mean) : `${score(cell.mean)} ± ${score(cell.sd)}`;
}

// One tooltip for all: shown on hover and on focus, kept while the pointer is on it, closed by Escape.
const tip = make("div", { id: "tip", role: "tooltip", hidden: true });
document.body.append(tip);
let tipAnchor = null;
let tipTimer = 0;
let tipOwner = ""; // "mouse" or "focus": only the one that opened the tooltip closes it
let pointer = "";
function pointerMoved(event) {
  // Browsers also report a resting mouse when the page moves under it; that must not replace the focus's tooltip.
  const before = pointer;
  pointer = `${event.clientX} ${event.clientY}`;
  return before !== "" && pointer !== before;
}
function showTip(anchor, lines, owner) {
  clearTimeout(tipTimer);
  tipOwner = owner;
  if (tipAnchor) tipAnchor.removeAttribute("aria-describedby");
  tip.replaceChildren(...lines.map((line) => make("p", {}, line)));
  tip.hidden = false;
  tipAnchor = anchor;
  anchor.setAttribute("aria-describedby", "tip");
  placeTip();
}
function placeTip() {
  if (!tipAnchor) return;
  const at = tipAnchor.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const below = at.bottom + 5 + height < innerHeight;
  tip.style.top = `${below ? at.bottom + 5 : Math.max(4, at.top - height - 5)}px`;
  tip.style.left = `${Math.max(4, Math.min(at.left + at.width / 2 - width / 2, innerWidth - width - 8))}px`;
}
function hideTip() {
  clearTimeout(tipTimer);
  tip.hidden = true;
  if (tipAnchor) tipAnchor.removeAttribute("aria-describedby");
  tipAnchor = null;
}
function hideTipSoon(owner) {
  if (tipOwner !== owner) return;
  clearTimeout(tipTimer);
  tipTimer = setTimeout(hideTip, 150);
}
tip.addEventListener("mouseenter", () => clearTimeout(tipTimer));
tip.addEventListener("mouseleave", () => hideTipSoon("mouse"));
document.addEventListener("mousemove", pointerMoved, { passive: true });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
// Moving the focus may scroll the page; the tooltip then moves with its cell.
document.addEventListener("scroll", () => (tipOwner === "focus" ? placeTip() : hideTip()), { capture: true, passive: true });
addEventListener("resize", placeTip);

// Adds tooltips to the elements inside `root` that `find` accepts; `lines` returns the text of a tooltip.
function tips(root, find, lines) {
  const open = (event, owner) => {
    const anchor = find(event.target);
    if (anchor) showTip(anchor, lines(anchor), owner); else hideTipSoon(owner);
  };
  root.addEventListener("mouseover", (event) => {
    if (pointerMoved(event) || tip.hidden || tipOwner === "mouse") open(event, "mouse");
  });
  root.addEventListener("focusin", (event) => open(event, "focus"));
  root.addEventListener("mouseleave", () => hideTipSoon("mouse"));
  root.addEventListener("focusout", () => hideTipSoon("focus"));
}
