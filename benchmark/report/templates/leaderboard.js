// The page: a tab per suite, each with filters, the table, plots and the commands that made it.
function readData() {
  const read = JSON.parse(byId("data").textContent);
  for (const table of read.tables) table.commands = table.commands.map((i) => read.commands[i]);
  return read;
}
const data = readData();
const page = byId("main");
// What is empty is left out of the page's data.
const EMPTY = { not_available: [], papers: [], curves: [], control: "", overlap: "", adapt_seconds: null, train_seconds: null,
  texts_per_second: null, parameters: null };
for (const table of data.tables) table.rows = table.rows.map((row) => ({ ...EMPTY, ...row }));

function startingChoice(rows) {
  // The best three rows, and the best untrained row, which shows how much training gains.
  const ranked = rows.filter((row) => row.rank !== null);
  const untrained = ranked.find((row) => conditionOf(row) === "untrained");
  return new Set([...(ranked.length ? ranked : rows).slice(0, 3), ...(untrained ? [untrained] : [])]);
}

// The address states what is shown: #suite=sts&method=simcse,ptbert&sort=Avg.:descending. #sts alone opens that suite.
const address = () => {
  const text = decodeURIComponent(location.hash.slice(1));
  return text.includes("=") ? new URLSearchParams(location.hash.slice(1)) : new URLSearchParams(text ? { suite: text } : {});
};

// What an encoder may cost at most, or has to reach.
const LIMITS = [
  { key: "parameters", name: "at most", unit: "M weights", most: true, factor: 1e6 },
  { key: "dimensions", name: "at most", unit: "dimensions", most: true, factor: 1 },
  { key: "texts_per_second", name: "at least", unit: "texts/s", most: false, factor: 1 },
];

function controls(section, apply, given) {
  const search = make("input", { type: "search", placeholder: "names, by commas", autocomplete: "off", spellcheck: "false",
    value: given.get("method") });
  const bar = make("div", { class: "controls" }, make("label", {}, "Method", search));
  const backbones = [...new Set(section.rows.map((row) => row.backbone))].sort();
  const backbone = make("select", {}, make("option", { value: "" }, "all"),
    ...backbones.map((name, i) => make("option", { value: i }, name || "none")));
  if (backbones.length > 1) bar.append(make("label", {}, "Backbone", backbone));
  const present = conditionsIn(section.rows);
  const boxes = present.map((name) => make("input", { type: "checkbox", value: name, checked: true }));
  const conditions = make("fieldset", {}, make("legend", { class: "unseen" }, "Condition"),
    ...boxes.map((box) => make("label", { title: CONDITIONS[box.value] }, box, conditionMark(box.value))));
  if (present.length > 1) bar.append(conditions);
  const complete = make("input", { type: "checkbox" });
  if (section.rows.some((row) => row.average.mean === null)) bar.append(make("label", {}, complete, "hide incomplete"));
  const spread = make("input", { type: "checkbox", checked: true });
  if (section.rows.some((row) => row.average.sd !== null)) bar.append(make("label", {}, spread, "± over seeds"));
  const grouped = make("input", { type: "checkbox" });
  if (present.length > 1) bar.append(make("label", {}, grouped, "in groups"));
  const heat = make("input", { type: "checkbox" });
  bar.append(make("label", { title: "darker: more of the rows shown are below it" }, heat, "heat map"));
  const limits = LIMITS.filter(({ key }) => section.rows.some((row) => row[key] !== null && row[key] !== undefined));
  const typed = limits.map(({ name, unit, key }) => make("input", { type: "number", min: 0, step: "any", "aria-label": `${name} ${unit}`, value: given.get(key) }));
  limits.forEach(({ name, unit }, i) => bar.append(make("label", {}, name, typed[i], unit)));
  const shown = make("span", { class: "count", role: "status" });
  bar.append(make("a", { class: "to-plots", href: "#" }, "plots"), shown);
  bar.querySelector(".to-plots").addEventListener("click", (event) => {
    event.preventDefault();
    bar.closest("section").querySelector("figure").scrollIntoView();
  });
  const named = Math.max(-1, backbones.indexOf(given.get("backbone")));
  if (named >= 0) backbone.value = String(named);
  const left = given.get("condition")?.split(",");
  if (left) boxes.forEach((box) => { box.checked = left.includes(box.value); });
  complete.checked = given.has("complete");
  heat.checked = given.has("heat");
  spread.checked = !given.has("plain");
  grouped.checked = given.has("groups");
  // Returns what differs from the initial state, as parameters for the address.
  const state = () => ({
    ...(search.value.trim() ? { method: search.value.trim() } : {}),
    ...(backbone.value === "" ? {} : { backbone: backbones[backbone.value] }),
    ...(boxes.every((box) => box.checked) ? {} : { condition: boxes.filter((box) => box.checked).map((box) => box.value).join(",") }),
    ...(heat.checked ? { heat: "" } : {}), ...Object.fromEntries(limits.map(({ key }, i) => [key, typed[i].value]).filter(([, value]) => value)),
    ...(complete.checked ? { complete: "" } : {}), ...(spread.checked ? {} : { plain: "" }), ...(grouped.checked ? { groups: "" } : {}),
  });
  const accepts = () => {
    const texts = search.value.toLowerCase().split(",").map((text) => text.trim()).filter((text) => text);
    const allowed = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const matches = (name) => !texts.length || texts.some((text) => name.includes(text));
    return (row) => matches(row.method.toLowerCase()) && allowed.has(conditionOf(row))
      && (backbone.value === "" || row.backbone === backbones[backbone.value])
      && !(complete.checked && row.average.mean === null)
      && limits.every(({ key, most, factor }, i) => !typed[i].value || (row[key] !== null && row[key] !== undefined
        && (most ? row[key] <= typed[i].value * factor : row[key] >= typed[i].value * factor)));
  };
  const start = () => apply(accepts(), spread.checked, grouped.checked, heat.checked, shown);
  return { bar, start, state };
}

// On a phone the filters are folded.
const phone = matchMedia("(max-width: 40rem)");
function folded(bar) {
  const filters = make("details", { class: "filters", open: !phone.matches }, make("summary", {}, "Filter the rows"), bar);
  phone.addEventListener("change", () => { filters.open = !phone.matches; });
  return filters;
}
// Shows while columns lie beside the edge.
function scrolling(box, ...below) {
  const around = make("div", { class: "scrolls" }, box, ...below);
  const look = () => around.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  return around;
}

function buildSection(section, panel, given) {
  const redraw = () => {
    // A row has the same colour in the table, the points, the bars and the curves.
    section.rows.forEach((row) => { row.colour = undefined; row.box.style.accentColor = ""; });
    section.rows.filter((row) => row.chosen && row.shown).forEach((row, i) => {
      row.colour = i;
      row.box.style.accentColor = seriesColour(i);
    });
    plots.forEach((plot) => plot.draw());
  };
  const remember = () => history.replaceState(null, "", `#${addressOf(section)}`);
  const { table, rows, choose, show, group, sortBy, sortedBy } = buildTable(section, redraw, remember);
  const start = sortedBy();
  const ticked = given.get("ticked")?.split("|");
  const chosen = ticked ? new Set(rows.filter((row) => ticked.includes(row.method))) : startingChoice(rows);
  const before = startingChoice(rows);
  rows.forEach((row) => { if (chosen.has(row)) choose(row, true); });
  const nothing = make("p", { class: "note", hidden: true }, "No row is left by this filter.");
  const { costs, others } = sectionPlots(section);
  const plots = [...costs, ...others];
  const filter = controls(section, (accepts, spread, grouped, heat, shown) => {
    show(accepts);
    group(grouped);
    table.classList.toggle("heat", heat);
    table.classList.toggle("no-sd", !spread || rows.every((row) => row.average.sd === null && section.tasks.every((task) => row.scores[task].sd === null)));
    nothing.hidden = rows.some((row) => row.shown);
    shown.textContent = `${rows.filter((row) => row.shown).length} of ${rows.length} rows`;
    if (plots.ready) redraw();
  }, given);
  for (const kind of ["input", "change"]) filter.bar.addEventListener(kind, () => { filter.start(); remember(); });
  section.state = () => {
    const now = rows.filter((row) => row.chosen);
    const same = now.length === before.size && now.every((row) => before.has(row));
    const zoomed = plots.filter((plot) => plot.zoom?.text()).map((plot) => [`zoom-${plot.name}`, plot.zoom.text()]);
    return { ...filter.state(), ...(sortedBy() === start ? {} : { sort: sortedBy() }), ...Object.fromEntries(zoomed),
      ...(same ? {} : { ticked: now.map((row) => row.method).join("|") }) };
  };
  if (given.has("sort")) sortBy(given.get("sort"));
  plots.forEach((plot) => plot.zoom?.read(given.get(`zoom-${plot.name}`)));
  for (const plot of plots) {
    plot.figure.addEventListener("zoomed", remember);
    plot.figure.append(saveButtons(plot.figure, `${section.id}-${plot.name}`));
  }
  const marks = Object.keys(MARKS).filter((mark) => rows.some((row) => row.mark === mark)).map((mark) => MARKS[mark]);
  const box = make("div", { class: "box", role: "region", "aria-label": section.title, tabindex: 0 }, table);
  panel.append(
    make("h2", {}, section.title),
    ...(section.trial ? [make("p", { class: "trial" }, "TRIAL on cut data (--limit): not comparable with anything")] : []),
    ...(marks.length ? [make("p", { class: "note marks" }, marks.join(". "), ".")] : []),
    ...(section.learned ? [make("p", { class: "learned" }, section.learned)] : []),
    ...section.ancestry.map((line) => make("p", { class: "note" }, line)),
    make("details", { class: "reading" }, make("summary", {}, "How to read the table"),
      make("p", { class: "note" }, ...section.note.split("`").map((part, i) => i % 2 ? make("code", {}, part) : part)),
      make("p", { class: "note", id: `${section.id}-help` }, "Mean ± sample standard deviation over seeds; Avg. is the mean of the tasks, per seed. "
        + "Bold: the best of the rows shown. Every cell says more on hover and focus (arrow keys move, Enter follows a link); ticked rows are in the plots."),
      ...(section.legend ? [make("p", { class: "note" }, section.legend)] : [])),
    folded(filter.bar),
    make("div", { class: "beside" }, scrolling(box, nothing),
      costs.length ? costGroup(section, costs) : null),
    make("div", { class: "plots" }, ...others.map((plot) => plot.figure)),
  );
  const gaps = rows.flatMap((row) => row.not_available.map((note) => `${row.method}: ${note}`));
  if (gaps.length) panel.append(detail(`Not available (${gaps.length})`, list(gaps)));
  if (section.cited.length) panel.append(detail(`Cited, not measured (${section.cited.length})`, citedTable(section)));
  panel.append(make("p", { class: "note files" }, "This table as a file: ",
    ...data.files[section.name].flatMap((name) => [make("a", { href: name }, name), ", "]), jsonButton(section), "."));
  panel.append(detail("Made by", make("pre", {}, section.commands.join("\n"))), detail("Environment", list(section.environments)));
  filter.start();
  panel.redraw = redraw;
  plots.ready = true;
  redraw();
  let width = 0;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (panel.clientWidth !== width && panel.clientWidth) { width = panel.clientWidth; redraw(); }
  })).observe(panel);
}
// Returns a table's data without the properties that drawing adds to its rows.
function jsonButton(section) {
  const button = make("button", { type: "button", class: "link" }, "JSON");
  button.addEventListener("click", () => {
    const text = JSON.stringify(readData().tables.find(({ name }) => name === section.name), null, 1);
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: `${section.id}.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  return button;
}
// Systems without a recipe: their printed values, without a rank.
function citedTable(section) {
  const columns = [...section.tasks.map((task, i) => [task, section.labels[i]]), ["Avg", "Avg."]];
  const head = ["System", "Source", ...columns.map(([, label]) => label), "Why cited", "Not comparable"];
  const lines = section.cited.map((one) => make("tr", {}, make("th", { scope: "row", class: "text" }, one.method),
    ...[one.source, ...columns.map(([task]) => one.printed[task] || ""), one.cited, one.reasons.join("; ")].map((text) => make("td", {}, text))));
  return make("div", { class: "box fit words cited", tabindex: 0, role: "region", "aria-label": "Cited, not measured" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...lines)));
}
const list = (lines) => make("ul", { class: "plain" }, ...lines.map((line) => make("li", {}, line)));
const detail = (title, content) => make("details", {}, make("summary", {}, title), content);

const tabs = make("div", { class: "tabs", role: "tablist", "aria-label": "Suites" });
const sections = [...data.tables, ...(data.claims ? [{ name: "claims", ledger: data.claims }] : [])];
const panels = sections.map(panelOf);
function panelOf(section, i) {
  section.id = section.name.replace(/[^\w-]+/g, "-");
  const tab = make("button", { type: "button", role: "tab", id: `tab-${section.id}`, "aria-controls": `suite-${section.id}` }, section.name);
  const panel = make("section", { role: "tabpanel", id: `suite-${section.id}`, "aria-labelledby": tab.id, hidden: true });
  tab.addEventListener("click", () => open(i));
  tabs.append(tab);
  return { tab, panel, section, built: false };
}
const addressOf = (section) => new URLSearchParams({ suite: section.id, ...(section.state ? section.state() : {}) }).toString();
function open(index, given = new URLSearchParams()) {
  hideTip();
  panels.forEach(({ tab, panel }, i) => {
    tab.setAttribute("aria-selected", String(i === index));
    tab.tabIndex = i === index ? 0 : -1;
    panel.hidden = i !== index;
  });
  const one = panels[index];
  if (!one.built) {
    one.built = true;
    (one.section.ledger ? buildClaims : buildSection)(one.section, one.panel, given);
  }
  tabs.scrollLeft = one.tab.offsetLeft - tabs.offsetLeft - 40; // on narrow screens the tabs are one scrolling line
  history.replaceState(null, "", `#${addressOf(one.section)}`);
}
tabs.addEventListener("keydown", (event) => {
  const now = panels.findIndex(({ tab }) => tab === event.target);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = (now + step + panels.length) % panels.length;
  open(next);
  panels[next].tab.focus();
});
tabs.hidden = panels.length < 2;
page.append(tabs, ...panels.map(({ panel }) => panel));
const wanted = (given) => Math.max(0, panels.findIndex(({ section }) => section.id === given.get("suite")));
// If the address changes in the same window, the suite is built again from the new address.
addEventListener("hashchange", () => {
  const given = address();
  const one = panels[wanted(given)];
  one.panel.replaceChildren();
  one.built = false;
  one.section.state = null;
  open(wanted(given), given);
});
if (panels.length) open(wanted(address()), address());
