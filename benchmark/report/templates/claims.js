// The papers' claims as a forest plot: the printed difference a circle, ours an interval, filtered by verdict, paper and condition.
const SIGNS = { confirmed: "\u2713", "smaller than printed": "<", reversed: "\u2717", undecided: "?", untestable: "\u2205", "not measured": "\u2013" };
const WIDE = 12; // points on either side of 0; an arrow marks what lies outside
const TICKS = [-10, -5, 0, 5, 10];

// They are folded until one is asked for.
const FOLDED = ["undecided", "untestable", "not measured"];

const isDecided = (claim) => Boolean(claim.points && claim.points.length);

function forestLine(claim) {
  if (!isDecided(claim)) return null;
  const x = (value) => 120 + 115 * Math.max(-1, Math.min(1, value / WIDE));
  const arrow = (value, y, kind) => Math.abs(value) <= WIDE ? null
    : draw("path", { d: `M${x(value)} ${y}l${value > 0 ? -5 : 5} -3.5v7z`, class: kind });
  const bars = claim.points.map(({ difference, low, high, printed, verdict }, i) => {
    const [y, kind] = [7 + 9 * i, `ours ${verdict.replaceAll(" ", "-")}`];
    const circle = printed === null ? null : arrow(printed, y, "theirs") || draw("circle", { cx: x(printed), cy: y, r: 3.2, class: "theirs" });
    return draw("g", {}, draw("line", { x1: x(low), x2: x(high), y1: y, y2: y, class: kind }),
      draw("line", { x1: x(difference), x2: x(difference), y1: y - 3, y2: y + 3, class: kind }), arrow(low, y, kind), arrow(high, y, kind), circle);
  });
  const foot = 7 + 9 * bars.length;
  const axis = TICKS.map((tick) => draw("g", {}, draw("line", { x1: x(tick), x2: x(tick), y1: 0, y2: foot, class: tick ? "tick" : "zero" }),
    draw("text", { x: x(tick), y: foot + 10 }, tick > 0 ? `+${tick}` : `${tick}`.replace("-", "\u2212"))));
  const label = `Printed: ${claim.theirs}. Ours: ${claim.ours}`;
  return draw("svg", { viewBox: `0 0 240 ${foot + 13}`, width: 240, height: foot + 13, role: "img", "aria-label": label, class: "forest" },
    draw("title", {}, label), ...axis, ...bars);
}

function claimItem(claim) {
  const part = (name, text) => text ? make("div", {}, make("dt", {}, name), make("dd", {}, text)) : null;
  const [head, ...more] = claim.text && claim.verdict !== "untestable" ? claim.text.split("; ") : [claim.verdict];
  const place = [claim.paper, claim.where, claim.procedure && `rows of ${claim.procedure}`].filter(Boolean).join(", ");
  return make("li", { class: "claim" }, forestLine(claim),
    make("p", { class: "says" }, make("strong", { class: claim.verdict.replaceAll(" ", "-") }, `${SIGNS[claim.verdict]} ${head}`), ` ${claim.says} `,
      make("span", { class: "quiet" }, place)),
    more.length ? make("p", { class: "quiet" }, more.join("; ")) : null,
    claim.reason ? make("p", { class: "quiet" }, claim.reason) : make("details", {}, make("summary", {}, "Numbers"),
      make("dl", {}, part("Printed", claim.theirs), part("Ours", claim.ours), part("Controls", claim.controls), part("Above 0?", claim.above),
        part("As large as printed?", claim.as_large))));
}

function buildClaims(section, panel, given) {
  const order = Object.keys(SIGNS);
  const every = section.ledger.flatMap(({ condition, claims }) => claims.map((claim) => ({ ...claim, condition })))
    .sort((a, b) => isDecided(b) - isDecided(a) || a.paper.localeCompare(b.paper) || order.indexOf(a.verdict) - order.indexOf(b.verdict));
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
  const list = make("div", {});
  const listed = (claims) => make("ol", { class: "claims" }, ...claims.map(claimItem));
  const apply = () => {
    const kept = every.filter((claim) => filters.every(({ name, choice }) => !choice.value || claim[name] === choice.value));
    const folded = filters[0].choice.value ? [] : FOLDED.map((verdict) => [verdict, kept.filter((claim) => claim.verdict === verdict)]);
    const open = kept.filter((claim) => !folded.some(([verdict]) => verdict === claim.verdict));
    list.replaceChildren(...(open.length ? [listed(open)] : []), ...folded.filter(([, claims]) => claims.length).map(([verdict, claims]) =>
      make("details", {}, make("summary", {}, `${SIGNS[verdict]} ${verdict} (${claims.length})`), listed(claims))));
    shown.textContent = `${kept.length} of ${every.length} verdicts`;
  };
  section.state = () => Object.fromEntries(filters.filter(({ choice, start }) => choice.value !== start).map(({ name, choice }) => [name, choice.value]));
  const bar = make("div", { class: "controls" }, ...filters.map(({ label }) => label), shown);
  bar.addEventListener("change", () => { apply(); history.replaceState(null, "", `#${addressOf(section)}`); });
  panel.redraw = () => {};
  panel.append(make("h2", {}, "The papers' claims"),
    ...section.ledger.map(({ condition, counts }) => make("p", { class: "learned" }, section.ledger.length > 1 ? `${condition}. ${counts}` : counts)),
    make("p", { class: "note" }, `Circle: the printed difference. Bars: ours in points with the 95% interval, from the noise of pairs and seeds; arrows lie beyond ${WIDE}. `
      + "The interval decides the verdict: it is beside 0 or not, and it reaches the printed difference or not. It is about these rows under these conditions, not about the paper's larger model."),
    bar, list);
  apply();
}
