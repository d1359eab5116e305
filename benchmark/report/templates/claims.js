// The papers' claims as a forest plot: theirs a point, ours an interval, a line per claim, filtered by verdict, paper and condition.
const SIGNS = { "holds here": "\u2713", "reversed here": "\u2717", mixed: "\u00b1", "not told apart": "\u2248", "untestable here": "\u2205", "not measured": "\u2013" };
const WIDE = 12; // points on either side of 0; what lies outside stands at the edge

const isTold = (claim) => Boolean(claim.points && claim.points.length);

function forestLine(claim) {
  if (!isTold(claim)) return null;
  const x = (value) => 120 + 115 * Math.max(-1, Math.min(1, value / WIDE));
  const bars = claim.points.slice(0, 4).map(([value, low, high], i) => draw("g", {},
    draw("line", { x1: x(low), x2: x(high), y1: 7 + 7 * i, y2: 7 + 7 * i, class: "ours" }),
    draw("line", { x1: x(value), x2: x(value), y1: 4 + 7 * i, y2: 10 + 7 * i, class: "ours" })));
  const high = 7 + 7 * bars.length;
  const theirs = claim.printed === null ? null : draw("circle", { cx: x(claim.printed), cy: 7, r: 3.5, class: "theirs" });
  const label = `Theirs: ${claim.theirs}. Ours: ${claim.ours}`;
  return draw("svg", { viewBox: `0 0 240 ${high}`, width: 240, height: high, role: "img", "aria-label": label, class: "forest" },
    draw("title", {}, label), draw("line", { x1: 120, x2: 120, y1: 0, y2: high, class: "zero" }), ...bars, theirs);
}

function claimItem(claim) {
  const part = (name, text) => text ? make("div", { class: name.toLowerCase() }, make("dt", {}, name), make("dd", {}, text)) : null;
  const level = claim.p ? `${claim.p}, by Holm ${claim.holm}`.replaceAll("0.0000", "< 0.0001") : "";
  const told = claim.text && claim.verdict !== "untestable here" ? claim.text.split(";")[0] : claim.verdict;
  const place = [claim.paper, claim.where, claim.procedure && `rows of ${claim.procedure}`].filter(Boolean).join(", ");
  return make("li", { class: "claim" }, forestLine(claim),
    make("p", { class: "says" }, make("strong", { class: claim.verdict.replaceAll(" ", "-") }, `${SIGNS[claim.verdict]} ${told}`), ` ${claim.says} `,
      make("span", { class: "quiet" }, place)),
    claim.reason ? make("p", { class: "quiet" }, claim.reason) : make("details", {}, make("summary", {}, "Numbers"),
      make("dl", {}, part("Theirs", claim.theirs), part("Ours", claim.ours), part("Controls", claim.controls), part("p", level), part("Verdict", claim.text))));
}

function buildClaims(section, panel, given) {
  const order = Object.keys(SIGNS);
  const every = section.ledger.flatMap(({ condition, claims }) => claims.map((claim) => ({ ...claim, condition })))
    .sort((a, b) => isTold(b) - isTold(a) || a.paper.localeCompare(b.paper) || order.indexOf(a.verdict) - order.indexOf(b.verdict));
  const filter = (name, label, values, start) => {
    const choice = make("select", {}, make("option", { value: "" }, "all"), ...values.map((value) => make("option", { value }, value)));
    choice.value = values.includes(given.get(name)) ? given.get(name) : given.has(name) ? "" : start;
    return { name, start, choice, label: values.length > 1 ? make("label", {}, label, choice) : null };
  };
  const present = (key) => [...new Set(every.map((claim) => claim[key]))];
  const filters = [
    filter("verdict", "Verdict", order.filter((verdict) => every.some((claim) => claim.verdict === verdict)), ""),
    filter("paper", "Paper", present("paper"), ""), filter("condition", "Measured on", present("condition"), "")];
  const shown = make("span", { class: "count", role: "status" });
  const list = make("ol", { class: "claims" });
  const apply = () => {
    const kept = every.filter((claim) => filters.every(({ name, choice }) => !choice.value || claim[name] === choice.value));
    list.replaceChildren(...kept.map(claimItem));
    shown.textContent = `${kept.length} of ${every.length} verdicts`;
  };
  section.state = () => Object.fromEntries(filters.filter(({ choice, start }) => choice.value !== start).map(({ name, choice }) => [name, choice.value]));
  const bar = make("div", { class: "controls" }, ...filters.map(({ label }) => label), shown);
  bar.addEventListener("change", () => { apply(); history.replaceState(null, "", `#${addressOf(section)}`); });
  panel.redraw = () => {};
  panel.append(make("h2", {}, "The papers' claims"),
    make("p", { class: "note" }, `Circle: the paper's difference. Bars: ours in points with the 95% interval, from the noise of pairs and seeds, from -${WIDE} to ${WIDE}. `
      + "The verdict is that of Holm's procedure over the measured claims of a paper. It is about these rows under these conditions, not about the paper's larger model."),
    bar, list);
  apply();
}
