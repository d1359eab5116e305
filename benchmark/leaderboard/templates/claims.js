// The papers' claims: theirs, ours with its interval, and the verdict, filtered by verdict, paper and condition.
const SIGNS = { holds: "\u2713", "the opposite": "\u2717", "not told apart": "\u2248", "not measured": "\u2013" };

function claimItem(claim) {
  const part = (name, text) => text ? make("div", { class: name.toLowerCase() }, make("dt", {}, name), make("dd", {}, text)) : null;
  const level = claim.p ? `${claim.p}, by Holm ${claim.holm}`.replaceAll("0.0000", "< 0.0001") : "";
  return make("li", { class: "claim" },
    make("p", { class: "says" }, make("strong", { class: claim.verdict.replaceAll(" ", "-") }, `${SIGNS[claim.verdict]} ${claim.verdict}`), ` ${claim.says} `,
      make("span", { class: "quiet" }, `${claim.paper}, ${claim.where}`)),
    make("dl", {}, part("Theirs", claim.theirs), part("Ours", claim.ours), part("Controls", claim.controls), part("p", level),
      part("Verdict", claim.text === claim.verdict ? "" : claim.text), part("Why", claim.reason)));
}

function buildClaims(section, panel, given) {
  const every = section.ledger.flatMap(({ condition, claims }) => claims.map((claim) => ({ ...claim, condition })));
  const filter = (name, label, values, start) => {
    const choice = make("select", {}, make("option", { value: "" }, "all"), ...values.map((value) => make("option", { value }, value)));
    choice.value = values.includes(given.get(name)) ? given.get(name) : given.has(name) ? "" : start;
    return { name, start, choice, label: values.length > 1 ? make("label", {}, label, choice) : null };
  };
  const present = (key) => [...new Set(every.map((claim) => claim[key]))];
  const filters = [
    filter("verdict", "Verdict", Object.keys(SIGNS).filter((verdict) => every.some((claim) => claim.verdict === verdict)), ""),
    filter("paper", "Paper", present("paper").sort(), ""), filter("condition", "Measured on", present("condition"), "")];
  const shown = make("span", { class: "count", role: "status" });
  const list = make("ol", { class: "claims" });
  const apply = () => {
    const kept = every.filter((claim) => filters.every(({ name, choice }) => !choice.value || claim[name] === choice.value));
    list.replaceChildren(...kept.map(claimItem));
    shown.textContent = `${kept.length} of ${every.length} claims`;
  };
  section.state = () => Object.fromEntries(filters.filter(({ choice, start }) => choice.value !== start).map(({ name, choice }) => [name, choice.value]));
  const bar = make("div", { class: "controls" }, ...filters.map(({ label }) => label), shown);
  bar.addEventListener("change", () => { apply(); history.replaceState(null, "", `#${addressOf(section)}`); });
  panel.redraw = () => {};
  panel.append(make("h2", {}, "The papers' claims"),
    make("p", { class: "note" }, "Theirs: what the paper prints. Ours: the difference in points with its 95% interval, from the noise of pairs and seeds. "
      + "The verdict is that of Holm's procedure over the measured claims of a paper: it is about these rows, not about the paper's larger model."),
    bar, list);
  apply();
}
