// The page: a tab a suite, each with its filters, its table, its plots and how it was made.
const data = JSON.parse(byId("data").textContent);
const page = byId("main");

function startingChoice(rows) {
  // The best three, and the best row that nothing was trained for: what there is to gain.
  const ranked = rows.filter((row) => row.rank !== null);
  const plain = ranked.find((row) => row.setting === "untrained");
  return new Set([...(ranked.length ? ranked : rows).slice(0, 3), ...(plain ? [plain] : [])]);
}

function controls(section, apply) {
  const search = make("input", { type: "search", placeholder: "part of a name", autocomplete: "off", spellcheck: "false" });
  const bar = make("div", { class: "controls" }, make("label", {}, "Method", search));
  const backbones = [...new Set(section.rows.map((row) => row.backbone))].sort();
  const backbone = make("select", {}, make("option", { value: "" }, "all"),
    ...backbones.map((name, i) => make("option", { value: i }, name || "none")));
  if (backbones.length > 1) bar.append(make("label", {}, "Backbone", backbone));
  const present = Object.keys(SETTINGS).filter((name) => section.rows.some((row) => row.setting === name));
  const boxes = present.map((name) => make("input", { type: "checkbox", value: name, checked: true }));
  const settings = make("fieldset", {}, make("legend", { class: "unseen" }, "Setting"),
    ...boxes.map((box) => make("label", { title: SETTINGS[box.value] }, box, make("span", { class: `setting ${box.value}` }, box.value))));
  if (present.length > 1) bar.append(settings);
  const complete = make("input", { type: "checkbox" });
  if (section.rows.some((row) => row.average.mean === null)) bar.append(make("label", {}, complete, "hide incomplete"));
  const spread = make("input", { type: "checkbox", checked: true });
  if (section.rows.some((row) => row.average.sd !== null)) bar.append(make("label", {}, spread, "± over seeds"));
  const shown = make("span", { class: "count", role: "status" });
  bar.append(shown);
  const accepts = () => {
    const text = search.value.trim().toLowerCase();
    const allowed = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    return (row) => row.name.toLowerCase().includes(text) && allowed.has(row.setting)
      && (backbone.value === "" || row.backbone === backbones[backbone.value])
      && !(complete.checked && row.average.mean === null);
  };
  const start = () => apply(accepts(), spread.checked, shown);
  search.addEventListener("input", start);
  bar.addEventListener("change", start);
  return { bar, start };
}

function buildSection(section, panel) {
  const redraw = () => plots.forEach((plot) => plot.draw());
  const { table, rows, choose, show } = buildTable(section, redraw);
  const chosen = startingChoice(rows);
  rows.forEach((row) => { if (chosen.has(row)) choose(row, true); });
  const plots = sectionPlots(section);
  const filter = controls(section, (accepts, spread, shown) => {
    show(accepts);
    table.classList.toggle("no-sd", !spread || rows.every((row) => row.average.sd === null && row.cells.every((cell) => cell.sd === null)));
    shown.textContent = `${rows.filter((row) => row.shown).length} of ${rows.length} rows`;
    if (plots.ready) redraw();
  });
  panel.append(
    make("h2", {}, section.title),
    ...(section.trial ? [make("p", { class: "trial" }, "TRIAL on cut data (--limit): not comparable with anything")] : []),
    make("p", { class: "note" }, ...section.note.split("`").map((part, i) => i % 2 ? make("code", {}, part) : part)),
    make("p", { class: "note", id: `${section.id}-help` }, "Mean ± sample standard deviation over seeds; Avg. is the mean of the tasks, per seed. "
      + `Bold: the best of the rows shown. Every cell says more on hover and focus (arrow keys move); ticked rows are in the plots.`),
    ...(section.legend ? [make("p", { class: "note" }, section.legend)] : []),
    filter.bar,
    make("div", { class: "box", role: "region", "aria-label": section.title, tabindex: 0 }, table),
    make("div", { class: "plots" }, ...plots.map((plot) => plot.figure)),
  );
  const gaps = rows.flatMap((row) => row.notes.map((note) => `${row.name}: ${note}`));
  if (gaps.length) panel.append(detail(`Not available (${gaps.length})`, list(gaps)));
  if (section.cited.length) panel.append(detail(`Cited, not measured (${section.cited.length})`, citedTable(section)));
  panel.append(detail("Made by", make("pre", {}, section.commands.join("\n"))), detail("Environment", list(section.environments)));
  filter.start();
  plots.ready = true;
  redraw();
  let width = 0;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (panel.clientWidth !== width && panel.clientWidth) { width = panel.clientWidth; redraw(); }
  })).observe(panel);
}
// Systems that no recipe makes: as printed, without a rank.
function citedTable(section) {
  const columns = [...section.tasks.map((task, i) => [task, section.columns[i]]), ["Avg", "Avg."]];
  const head = ["System", "Source", ...columns.map(([, label]) => label), "Why cited", "Not comparable"];
  const lines = section.cited.map((one) => make("tr", {}, make("th", { scope: "row", class: "text" }, one.system),
    ...[one.source, ...columns.map(([task]) => one.scores[task] || ""), one.why, one.reasons].map((text) => make("td", {}, text))));
  return make("div", { class: "box fit words cited", tabindex: 0, role: "region", "aria-label": "Cited, not measured" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...lines)));
}
const list = (lines) => make("ul", { class: "plain" }, ...lines.map((line) => make("li", {}, line)));
const detail = (title, content) => make("details", {}, make("summary", {}, title), content);

const tabs = make("div", { class: "tabs", role: "tablist", "aria-label": "Suites" });
const panels = data.sections.map((section, i) => {
  const tab = make("button", { type: "button", role: "tab", id: `tab-${section.id}`, "aria-controls": section.id }, section.label);
  const panel = make("section", { role: "tabpanel", id: section.id, "aria-labelledby": tab.id, hidden: true });
  tab.addEventListener("click", () => open(i));
  tabs.append(tab);
  return { tab, panel, section, built: false };
});
function open(index) {
  hideTip();
  panels.forEach(({ tab, panel }, i) => {
    tab.setAttribute("aria-selected", String(i === index));
    tab.tabIndex = i === index ? 0 : -1;
    panel.hidden = i !== index;
  });
  const one = panels[index];
  if (!one.built) {
    one.built = true;
    buildSection(one.section, one.panel);
  }
  history.replaceState(null, "", `#${one.section.id}`);
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
const wanted = () => panels.findIndex(({ section }) => `#${section.id}` === location.hash);
addEventListener("hashchange", () => open(Math.max(0, wanted())));
if (panels.length) open(Math.max(0, wanted()));
