// For printing, a table is split into parts that fit the width of a sheet; each part repeats rank and method.
const SHEET = 1040; // pixels between the margins of A4 in landscape format
const SMALLEST = .66; // of the size on the screen: about 7.5 points
const LEAST = .56;
const FIXED = [1, 2]; // rank and method; the checkboxes before them are only for the screen
// Returns the columns of each part; `widths` are those of a copy with the style for paper.
function partsOf(heads, widths) {
  const sum = (columns) => columns.reduce((total, i) => total + widths[i], 0);
  const room = SHEET / SMALLEST - sum(FIXED);
  const split = (columns) => {
    const parts = [[]];
    for (const i of columns) {
      const last = parts[parts.length - 1];
      if (last.length && sum(last) + widths[i] > room) parts.push([i]);
      else last.push(i);
    }
    // One or two columns do not make a part: they are added to the previous one, in slightly smaller type.
    const [before, end] = parts.slice(-2);
    if (end && end.length < 3 && sum([...FIXED, ...before, ...end]) < SHEET / LEAST) before.push(...parts.pop());
    return parts;
  };
  // The facts about the rows begin a new part, unless all of them fit beside the scores.
  const columns = heads.map((_, i) => i).slice(3);
  const start = columns.findIndex((i) => ["Paper", "Learns from"].includes(heads[i].textContent));
  const facts = start < 0 ? [] : columns.slice(start);
  const parts = split(columns.slice(0, columns.length - facts.length));
  const last = parts[parts.length - 1];
  if (sum(last) + sum(facts) <= room) last.push(...facts);
  else parts.push(...split(facts));
  return parts.map((part) => [...FIXED, ...part]);
}
function copyOf(table, columns) {
  const line = (row) => {
    const copy = row.cloneNode(false);
    const whole = row.classList.contains("group") ? [0] : columns;
    copy.append(...whole.map((i) => row.cells[i].cloneNode(true)));
    if (row.classList.contains("group")) copy.cells[0].colSpan = columns.length;
    return copy;
  };
  const shown = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  // The head becomes plain text, because browsers do not repeat a head with buttons on the next sheet.
  const head = line(table.tHead.rows[0]);
  for (const cell of head.cells) cell.textContent = cell.textContent;
  return make("table", { class: table.className }, make("thead", {}, head), make("tbody", {}, ...shown.map(line)));
}

const redrawPlots = () => document.querySelector("[role=tabpanel]:not([hidden])")?.redraw();
let beforePrint = null;
addEventListener("beforeprint", () => {
  if (beforePrint) return;
  const folded = [...document.querySelectorAll("details.reading:not([open])")];
  beforePrint = { theme: document.documentElement.dataset.theme, sheets: [], folded };
  for (const notes of folded) notes.open = true;
  document.documentElement.dataset.theme = "light"; // paper is white
  for (const table of document.querySelectorAll("[role=tabpanel]:not([hidden]) table[role=grid]")) {
    const heads = [...table.tHead.rows[0].cells];
    const sheet = make("div", { class: "sheet" });
    table.parentNode.before(sheet);
    const whole = copyOf(table, heads.map((_, i) => i));
    sheet.append(whole);
    const parts = partsOf(heads, [...whole.tHead.rows[0].cells].map((cell) => cell.getBoundingClientRect().width));
    sheet.replaceChildren(...parts.map((columns) => copyOf(table, columns)));
    for (const part of sheet.children) part.style.fontSize = `${Math.min(1, SHEET / part.offsetWidth)}em`;
    beforePrint.sheets.push(sheet);
  }
  document.body.classList.add("on-paper");
  document.querySelector("main").before(document.querySelector("footer")); // at the end it could be alone on a sheet
  redrawPlots();
});
addEventListener("afterprint", () => {
  if (!beforePrint) return;
  document.body.classList.remove("on-paper");
  document.querySelector("main").after(document.querySelector("footer"));
  beforePrint.sheets.forEach((sheet) => sheet.remove());
  for (const notes of beforePrint.folded) notes.open = false;
  document.documentElement.dataset.theme = beforePrint.theme;
  beforePrint = null;
  redrawPlots();
});
