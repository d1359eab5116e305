// One suite's table: sorting, filtering, choosing rows for the plots, walking over cells with the arrow keys.
const CONDITIONS = {
  untrained: "nothing is trained in this run",
  unsupervised: "trained on sentences without labels",
  supervised: "trained on labelled pairs",
  transductive: "fitted on the test texts themselves",
  released: "finished weights, trained elsewhere, perhaps on labels",
  control: "what every method is measured against",
};
const conditionOf = (row) => row.control === "control" ? "control" : row.setting;
const conditionsIn = (rows) => Object.keys(CONDITIONS).filter((name) => rows.some((row) => conditionOf(row) === name));
// A condition is a shape and a word; `text` is a longer word such as "untrained backbone".
const conditionMark = (name, text = name) => make("span", { class: `condition ${name}` }, text);

// The columns are those of the JSON; a format says how a value is drawn and sorted.
const FORMATS = {
  rank: { css: "rank" }, score: { text: score, css: "quiet" }, number: { text: count, css: "quiet" }, duration: { text: duration, css: "quiet" },
  mean: { css: "" }, text: { words: true, css: "text quiet" }, paper: { words: true, css: "text" },
  condition: { words: true, css: "text given" }, backbone: { words: true, css: "text given quiet" },
};
const OWN = { method: "name text", average: "average" };
function columnsOf(section) {
  return section.columns.map((column) => {
    const { name, format } = column;
    const read = (row) => row.scores[name] ?? row.means[name] ?? row[name] ?? null;
    const cell = format === "mean" ? read : null;
    return { ...column, ...FORMATS[format], css: OWN[name] ?? FORMATS[format].css, cell, value: cell ? (row) => read(row).mean : read,
      up: FORMATS[format].words || column.lower_is_better };
  });
}

function scoreTip(row, column) {
  const cell = column.cell(row);
  const lines = [`${row.method} · ${column.help || column.title}`];
  const seeds = cell.seeds === 1 ? "one value, no spread" : `mean and standard deviation of ${cell.seeds} seeds`;
  lines.push(cell.mean === null ? `n/a: ${cell.reason}` : `${cellText(cell)} (${seeds})`);
  if (cell.min !== undefined) lines.push(`least ${score(cell.min)}, largest ${score(cell.max)}`);
  if (cell.by_seed) lines.push(cell.by_seed.map(([seed, value]) => `seed ${seed}: ${score(value)}`).join(" · "));
  const name = column.name === "average" ? "Avg" : column.name;
  const printed = row.published.filter((one) => name in one.printed);
  lines.push(...printed.slice(0, 3).map((one) => `Published: ${one.printed[name]}, ${one.source}; ${one.verdict}`));
  if (printed.length > 3) lines.push(`and ${printed.length - 3} more published values`);
  return lines;
}

const MARKS = { "≈": "≈ tied for the best", "?": "? undecided: only its own seeds keep it among the best" };

function rowTip(row) {
  const lines = [row.method, row.conditions, `${conditionOf(row)}: ${CONDITIONS[conditionOf(row)] || ""}`];
  if (row.mark) lines.push(MARKS[row.mark]);
  lines.push(...row.papers.map((name) => data.papers[name].cited));
  return [...lines, ...row.not_available.map((note) => `n/a: ${note}`)];
}

// A link in a cell is reached through the cell: by the arrow keys, then Enter.
const link = (attributes, ...text) => make("a", { tabindex: -1, ...attributes }, ...text);

const backboneOf = (row) => [make("span", { title: row.ancestry || null }, row.backbone || "–")];

function tableCell(row, column, several) {
  if (column.name === "method") {
    const words = row.method.split(/(?<=:)/).flatMap((word) => [word, make("wbr")]);
    const name = row.page && data.handbook
      ? link({ class: "whole", href: `${data.handbook}/${row.page}${data.ending ?? ".md"}`, title: "the handbook's page" }, ...words)
      : make("span", { class: "whole" }, ...words);
    return make("th", { scope: "row", class: column.css, tabindex: -1 }, name,
      make("span", { class: "brief" }, conditionMark(conditionOf(row), row.control || row.setting), ...(several && row.backbone ? backboneOf(row) : [])),
      row.overlap ? make("span", { class: "flag", title: row.overlap }, row.overlap.match(/^⚠ (at most )?[\d,]+/)[0] + " overlap") : null);
  }
  const value = column.value(row);
  if (column.cell) {
    // A missing spread leaves its place empty, so that the numbers of a column are aligned.
    const { mean, sd } = column.cell(row);
    return make("td", { class: `${column.css} ${mean === null ? "quiet" : ""}`.trim(), tabindex: -1 },
      mean === null ? "n/a" : score(mean), make("span", { class: "sd" }, sd === null ? "" : `±${score(sd)}`));
  }
  if (column.format === "rank" && row.mark) {
    const mark = make("span", { class: "near" }, row.mark, make("span", { class: "unseen" }, `${MARKS[row.mark].slice(1)}, rank `));
    return make("td", { class: column.css, tabindex: -1 }, mark, String(value ?? ""));
  }
  if (column.format === "condition") {
    return make("td", { class: column.css, tabindex: -1 }, conditionMark(conditionOf(row), value));
  }
  if (column.format === "backbone") return make("td", { class: column.css, tabindex: -1 }, ...backboneOf(row));
  if (column.format === "paper" && value) {
    const { url, cited } = data.papers[row.papers[0]];
    return make("td", { class: column.css, tabindex: -1 }, link({ href: url, rel: "noreferrer", title: cited }, value));
  }
  const text = value === null || value === "" ? "–" : column.text ? column.text(value) : String(value);
  return make("td", { class: column.css, tabindex: -1 }, text);
}

// What people score: the last line, wherever the others are sorted to.
function ceilingLine(one, columns) {
  const text = (column) => column.name === "condition" ? one.subset : one.printed[column.name] ?? "";
  return make("tr", { class: "ceiling", title: one.observation }, make("td", { class: "pick" }), ...columns.map((column) => column.name === "method"
    ? make("th", { scope: "row", class: column.css }, `${one.method} (${one.paper})`) : make("td", { class: column.css }, text(column), column.cell ? make("span", { class: "sd" }) : null)));
}

// Compares texts with the numbers in them by value: k=64 before k=128, a=0.01 before a=0.1.
const withNumbers = (text) => text.split(/((?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w))/);
function byParts(x, y) {
  const [a, b] = [withNumbers(x), withNumbers(y)];
  const at = a.findIndex((part, i) => part !== b[i]);
  if (at < 0 || b[at] === undefined) return a.length - b.length;
  return at % 2 ? a[at] - b[at] : a[at].localeCompare(b[at]);
}

function sortedRows(rows, column, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  const missing = (value) => value === null || value === "";
  return [...rows].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    // Missing values stay last in both directions of sorting.
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a.order - b.order;
    return sign * (typeof x === "string" ? byParts(x, y) : x - y) || a.order - b.order;
  });
}

function buildTable(section, onChange, remember) {
  const columns = columnsOf(section);
  const rows = section.rows;
  const several = new Set(rows.map((row) => row.backbone).filter(Boolean)).size > 1;
  let grouped = false;
  let sorted = { column: columns[0], direction: "ascending" };
  rows.forEach((row, i) => { row.order = i; row.chosen = false; row.shown = true; });
  const head = make("tr", {}, make("th", { class: "pick", scope: "col" }, make("span", { class: "unseen" }, "Plot")));
  const body = make("tbody");
  const table = make("table", { role: "grid", "aria-describedby": `${section.id}-help` },
    make("caption", { class: "unseen" }, section.title), make("thead", {}, head), body,
    make("tfoot", {}, ...section.cited.filter((one) => one.ceiling).map((one) => ceilingLine(one, columns))));
  columns.forEach((column) => {
    const button = make("button", { type: "button" }, column.title);
    column.head = make("th", { scope: "col", class: column.css.replace("quiet", "").trim(),
      title: column.help && column.help !== column.title ? column.help : null }, button);
    button.addEventListener("click", () => {
      const now = column.head.getAttribute("aria-sort");
      const first = column.up ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      sort(column, now === first ? other : first);
      remember();
    });
    head.append(column.head);
  });
  rows.forEach((row) => {
    const box = make("input", { type: "checkbox", tabindex: -1, "aria-label": `Plot ${row.method}` });
    box.addEventListener("change", () => { choose(row, box.checked); onChange(); remember(); });
    row.box = box;
    row.line = make("tr", {}, make("td", { class: "pick" }, box), ...columns.map((column) => tableCell(row, column, several)));
    row.line.row = row;
    body.append(row.line);
  });

  function choose(row, chosen) {
    row.chosen = row.box.checked = chosen;
    row.line.classList.toggle("chosen", chosen);
  }
  function sort(column, direction) {
    columns.forEach((other) => other.head.removeAttribute("aria-sort"));
    column.head.setAttribute("aria-sort", direction);
    sorted = { column, direction };
    const lines = sortedRows(rows, column, direction);
    if (!grouped) return body.replaceChildren(...lines.map((row) => row.line));
    // Rows are grouped by condition: rows trained on labels are not compared with others.
    // The group of the first row comes first, so that the best row is at the top.
    const first = (name) => lines.findIndex((row) => row.shown && conditionOf(row) === name) >>> 0;
    body.replaceChildren(...conditionsIn(rows).sort((a, b) => first(a) - first(b)).flatMap((name) => {
      const own = lines.filter((row) => conditionOf(row) === name);
      if (!own.some((row) => row.shown)) return own.map((row) => row.line);
      const title = make("th", { scope: "rowgroup", colspan: columns.length + 1 }, make("span", {}, conditionMark(name), `: ${CONDITIONS[name]}`));
      return [make("tr", { class: "group" }, title), ...own.map((row) => row.line)];
    }));
  }
  function group(wanted) {
    grouped = wanted;
    sort(sorted.column, sorted.direction);
  }
  // Sorts by a text of the address such as "Avg.:descending"; an unknown column changes nothing.
  const sortedBy = () => `${sorted.column.title}:${sorted.direction}`;
  function sortBy(text) {
    const [, title, direction] = /^(.*):(ascending|descending)$/.exec(text) || [];
    const column = columns.find((one) => one.title === title);
    if (column) sort(column, direction);
  }
  function show(accepts) {
    rows.forEach((row) => { row.shown = accepts(row); row.line.hidden = !row.shown; });
    columns.forEach((column, i) => {
      if (!column.cell) return;
      const values = rows.filter((row) => row.shown && column.value(row) !== null).map((row) => score(column.value(row)));
      const best = values.length ? Math.max(...values.map(Number)) : null;
      // Compares the printed digits, so that of two equal numbers both are bold.
      const ascending = values.map(Number).sort((a, b) => a - b);
      rows.forEach((row) => {
        const [cell, value] = [row.line.children[i + 1], column.value(row)];
        cell.classList.toggle("best", value !== null && Number(score(value)) === best);
        // The heat of a cell is the share of the column's shown scores below it: one outlier must not flatten the rest.
        cell.style.setProperty("--heat", value === null ? 0 : ascending.findIndex((one) => one >= Number(score(value))) / Math.max(1, values.length - 1));
      });
    });
    if (!rows.some((row) => row.shown && target(row.line.children[2]).tabIndex === 0)) {
      const first = [...body.children].find((line) => line.row && !line.hidden);
      if (first) stop(first.children[2]);
    }
  }

  // One cell is in the tab order; the arrow keys move it.
  const target = (cell) => cell.firstElementChild?.matches("input") ? cell.firstElementChild : cell;
  let current = null;
  function stop(cell) {
    if (current) current.tabIndex = -1;
    current = target(cell);
    current.tabIndex = 0;
  }
  body.addEventListener("focusin", (event) => stop(event.target.closest("td, th")));
  body.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td, th");
    const lines = [...body.children].filter((line) => line.row && !line.hidden);
    const cellsOf = (line) => [...line?.children ?? []].filter((one) => one.getClientRects().length); // a phone shows fewer
    let [x, y] = [cellsOf(cell.parentNode).indexOf(cell), lines.indexOf(cell.parentNode)];
    if (event.key === "ArrowRight") x += 1;
    else if (event.key === "ArrowLeft") x -= 1;
    else if (event.key === "ArrowDown") y += 1;
    else if (event.key === "ArrowUp") y -= 1;
    else if (event.key === "Home") x = 0;
    else if (event.key === "End") x = cellsOf(cell.parentNode).length - 1;
    else if (event.key === "Enter" && event.target === cell && cell.querySelector("a")) return cell.querySelector("a").click();
    else return;
    event.preventDefault();
    const next = cellsOf(lines[y])[x];
    if (next) target(next).focus();
  });
  tips(body, (element) => element.closest?.("tbody tr:not(.group) > :not(.pick)"), (cell) => {
    const column = columns[[...cell.parentNode.children].indexOf(cell) - 1];
    const row = cell.parentNode.row;
    return column.cell ? scoreTip(row, column) : rowTip(row);
  });

  columns[0].head.setAttribute("aria-sort", "ascending");
  return { table, rows, choose, show, group, sortBy, sortedBy };
}
