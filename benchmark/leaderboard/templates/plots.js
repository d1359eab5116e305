// Plots as SVG, drawn at the width there is, coloured by the theme's variables.
const SERIES = 8;
const seriesColour = (i) => `var(--s${i % SERIES})`;

function niceTicks(low, high, wanted) {
  const step0 = (high - low || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(step0));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= step0);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}
const clockTicks = (low, high) =>
  [.01, .1, 1, 3, 10, 20, 30, 60, 120, 180, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000]
    .filter((tick) => tick >= low && tick <= high);
const logTicks = (low, high) => {
  const ticks = [];
  const steps = high / low > 2000 ? [1] : high / low > 30 ? [1, 3] : [1, 1.5, 2, 3, 4, 5, 7];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const n of steps) if (n * 10 ** power >= low && n * 10 ** power <= high) ticks.push(n * 10 ** power);
  }
  return ticks;
};

function frame(width, height, label) {
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
}
function yAxis(svg, ticks, y, left, right) {
  for (const tick of ticks) {
    svg.append(draw("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
      draw("text", { class: "tick", x: left - 7, y: y(tick) + 4, "text-anchor": "end" }, String(tick)));
  }
}
function marker(setting, x, y) {
  const r = 5;
  if (setting === "supervised") return draw("rect", { class: "mark", x: x - r + .5, y: y - r + .5, width: 2 * r - 1, height: 2 * r - 1 });
  if (setting === "transductive") return draw("path", { class: "mark", d: `M${x} ${y - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}z` });
  if (setting === "released") return draw("path", { class: "mark", d: `M${x} ${y - r - 1}l${r + 1} ${2 * r}h${-2 * r - 2}z` });
  return draw("circle", { class: `mark ${setting}`, cx: x, cy: y, r: setting === "untrained" ? r - .5 : r });
}

// Names beside their points where there is room; what would cover another name is left out (hover tells it).
function label(svg, taken, text, x, y, right) {
  const width = text.length * 6.6;
  const places = [[x + 9, y + 4], [x - 9 - width, y + 4], [x - width / 2, y - 11], [x - width / 2, y + 19], [x + 7, y - 8], [x - 7 - width, y - 8]];
  for (const [left, base] of places) {
    const box = [left, base - 11, left + width, base + 2];
    if (box[0] < 0 || box[2] > right || box[1] < 0) continue;
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    svg.append(draw("text", { class: "label", x: left, y: base, "aria-hidden": "true" }, text));
    return;
  }
}

function costPlot(section, { title, axis, cost, text, tickText, ticks, cheaper, none }) {
  const holder = make("div");
  const figure = make("figure", {}, make("h3", {}, title), make("figcaption", {},
    "Dashed: the best average at each cost. Bars: ± one standard deviation over seeds. Left and right arrow keys move over the points."), holder);
  const settings = Object.keys(SETTINGS).filter((name) => section.rows.some((row) => row.setting === name));
  figure.append(make("ul", { class: "legend" }, ...settings.map((name) => make("li", {}, make("span", { class: `setting ${name}` }, name)))));
  let near = false;
  const zoom = make("button", { type: "button", class: "zoom", "aria-pressed": "false" }, "Upper half only");
  zoom.addEventListener("click", () => {
    near = !near;
    zoom.setAttribute("aria-pressed", String(near));
    zoom.textContent = near ? "All rows" : "Upper half only";
    redraw();
  });
  figure.prepend(zoom);
  const known = (row) => row.average.mean !== null && (cost(row) > 0 || none);
  if (!section.rows.some((row) => known(row) && cost(row) > 0)) return null;
  if (section.rows.some((row) => row.average.mean !== null && !known(row))) {
    figure.append(make("p", { class: "note" }, "Rows without a measured speed are left out."));
  }

  function redraw() {
    const every = section.rows.filter((row) => row.shown && known(row)).sort((a, b) => b.average.mean - a.average.mean);
    const rows = near ? every.slice(0, Math.ceil(every.length / 2)) : every;
    zoom.hidden = every.length < 4;
    const width = Math.max(260, holder.clientWidth);
    const height = Math.max(250, Math.min(380, width * .66));
    if (!rows.length) return holder.replaceChildren(make("p", { class: "note" }, "No complete row to draw."));
    const svg = frame(width, height, title);
    const costs = rows.map(cost).filter((value) => value > 0);
    const free = none && rows.some((row) => !(cost(row) > 0));
    const [low, high] = costs.length ? [Math.min(...costs) / 1.3, Math.max(...costs) * 1.3] : [1, 10];
    const lows = rows.map((row) => row.average.mean - (row.average.sd || 0));
    const highs = rows.map((row) => row.average.mean + (row.average.sd || 0));
    const pad = (Math.max(...highs) - Math.min(...lows)) * .06 || 1;
    const [bottom, top] = [Math.min(...lows) - pad, Math.max(...highs) + pad];
    const left = 40;
    const start = free ? left + 62 : left + 8;
    const x = (value) => value > 0 ? start + (Math.log(value / low) / Math.log(high / low)) * (width - start - 8) : left + 26;
    const y = (value) => height - 44 - ((value - bottom) / (top - bottom)) * (height - 56);
    yAxis(svg, niceTicks(bottom, top, 6), y, left, width);
    let last = free ? left + 46 : -99;
    for (const tick of ticks(low, high)) {
      if (x(tick) - last < 46 || x(tick) > width - 14) continue;
      last = x(tick);
      svg.append(draw("text", { class: "tick", x: last, y: height - 24, "text-anchor": "middle" }, tickText(tick)));
    }
    if (free) {
      svg.append(draw("line", { class: "grid", x1: left + 52, x2: left + 52, y1: 8, y2: height - 40 }),
        draw("text", { class: "tick", x: left + 26, y: height - 24, "text-anchor": "middle" }, none));
    }
    svg.append(draw("text", { class: "tick", x: (start + width) / 2, y: height - 4, "text-anchor": "middle" }, axis));

    const order = [...rows].sort((a, b) => (cost(a) || 0) - (cost(b) || 0) || a.order - b.order);
    const front = [];
    for (const row of cheaper ? order : [...order].reverse()) {
      if (!front.length || row.average.mean > front[front.length - 1].average.mean) front.push(row);
    }
    svg.append(draw("path", { class: "front", d: front.map((row, i) => `${i ? "L" : "M"}${x(cost(row))} ${y(row.average.mean)}`).join("") }));
    const taken = rows.map((row) => [x(cost(row)) - 5, y(row.average.mean) - 5, x(cost(row)) + 5, y(row.average.mean) + 5]);
    order.forEach((row, i) => {
      const [px, py] = [x(cost(row)), y(row.average.mean)];
      const sd = row.average.sd || 0;
      const point = draw("g", { class: `point ${row.setting} ${row.chosen ? "chosen" : ""}`, tabindex: i ? -1 : 0, role: "img",
        "aria-label": `${row.name}: ${cellText(row.average)}` },
      draw("line", { class: "whisker", x1: px, x2: px, y1: y(row.average.mean - sd), y2: y(row.average.mean + sd) }), marker(row.setting, px, py));
      point.row = row;
      if (row.colour !== undefined) point.style.color = seriesColour(row.colour);
      svg.append(point);
    });
    const named = new Set([...front, ...rows.filter((row) => row.chosen)]);
    [...named].sort((a, b) => b.average.mean - a.average.mean).forEach((row) => label(svg, taken, row.name, x(cost(row)), y(row.average.mean), width));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const points = [...svg.querySelectorAll(".point")];
      const next = points[points.indexOf(event.target) + step];
      if (!step || !next) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    });
    tips(svg, (element) => element.closest(".point"), ({ row }) => [row.name, `Avg. ${cellText(row.average)}`,
      `${axis}: ${cost(row) === null ? "none" : text(cost(row))}`, row.setting]);
    holder.replaceChildren(svg);
  }
  return { figure, draw: redraw };
}

function legend(rows) {
  return make("ul", { class: "legend" }, ...rows.map((row) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = seriesColour(row.colour);
    return make("li", {}, swatch, row.name);
  }));
}

function barPlot(section) {
  const holder = make("div");
  const figure = make("figure", { class: "wide" }, make("h3", {}, "Per task"),
    make("figcaption", {}, "The rows ticked in the table. Lines: ± one standard deviation over seeds; no bar: n/a."), holder);

  function redraw() {
    const rows = section.rows.filter((row) => row.chosen && row.shown);
    if (!rows.length) return holder.replaceChildren(make("p", { class: "note" }, "Tick rows of the table to draw them."));
    const cells = rows.flatMap((row) => row.cells.filter((cell) => cell.mean !== null));
    const room = Math.max(280, holder.clientWidth);
    const [left, height] = [40, 280];
    const longest = Math.max(...section.columns.map((name) => name.length)) * 7 + 10;
    const group = Math.max((room - left) / section.columns.length, rows.length * 9 + 12, longest);
    const width = left + group * section.columns.length;
    const low = Math.min(0, ...cells.map((cell) => cell.mean - (cell.sd || 0)));
    const highest = Math.max(1, ...cells.map((cell) => cell.mean + (cell.sd || 0)));
    const ticks = niceTicks(low, highest, 5);
    const high = Math.max(highest, ...ticks);
    const y = (value) => height - 28 - ((value - low) / (high - low)) * (height - 42);
    const svg = frame(width, height, "Scores per task of the ticked rows");
    yAxis(svg, ticks, y, left, width);
    const bar = Math.min(26, (group * .78) / rows.length);
    section.columns.forEach((name, task) => {
      const middle = left + group * (task + .5);
      svg.append(draw("text", { x: middle, y: height - 8, "text-anchor": "middle" }, name));
      rows.forEach((row, i) => {
        const cell = row.cells[task];
        if (cell.mean === null) return;
        const at = middle + (i - rows.length / 2) * bar;
        const rect = draw("rect", { class: "bar", x: at + .5, width: Math.max(1, bar - 1), y: Math.min(y(cell.mean), y(0)),
          height: Math.abs(y(cell.mean) - y(0)), fill: seriesColour(row.colour) });
        rect.tip = [`${row.name} · ${section.tasks[task]}`, cellText(cell)];
        svg.append(rect);
        if (cell.sd !== null) {
          svg.append(draw("line", { class: "bar-whisker", x1: at + bar / 2, x2: at + bar / 2, y1: y(cell.mean - cell.sd), y2: y(cell.mean + cell.sd) }));
        }
      });
    });
    tips(svg, (element) => element.closest(".bar"), (rect) => rect.tip);
    holder.replaceChildren(legend(rows), make("div", { class: "scroll", tabindex: width > room ? 0 : null }, svg));
  }
  return { figure, draw: redraw };
}

// rows: {name, colour, curves: [{seed, points: [[step, score], ...]}]}
function drawCurves(holder, rows, title = "Dev score during training") {
  const points = rows.flatMap((row) => row.curves.flatMap((curve) => curve.points));
  const [width, height, left] = [Math.max(280, holder.clientWidth), 280, 44];
  const values = points.map(([, value]) => value);
  const pad = (Math.max(...values) - Math.min(...values)) * .08 || 1;
  const [low, high, last] = [Math.min(...values) - pad, Math.max(...values) + pad, Math.max(...points.map(([step]) => step))];
  const x = (step) => left + (step / last) * (width - left - 16);
  const y = (value) => height - 40 - ((value - low) / (high - low)) * (height - 52);
  const svg = frame(width, height, title);
  yAxis(svg, niceTicks(low, high, 5), y, left, width);
  for (const tick of niceTicks(0, last, Math.min(8, width / 80))) {
    svg.append(draw("text", { class: "tick", x: x(tick), y: height - 22, "text-anchor": "middle" }, String(tick)));
  }
  svg.append(draw("text", { class: "tick", x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, "training step"));
  rows.forEach((row) => row.curves.forEach((curve) => {
    const line = draw("g", { class: "line" },
      draw("path", { class: `curve d${Math.floor(row.colour / SERIES) % 4}`, d: curve.points.map(([step, value], j) => `${j ? "L" : "M"}${x(step)} ${y(value)}`).join("") }),
      ...curve.points.map(([step, value]) => {
        const dot = draw("circle", { class: "dot", cx: x(step), cy: y(value), r: 3, fill: "currentColor" });
        dot.tip = [row.name, `${curve.seed === null ? "" : `seed ${curve.seed}, `}step ${step}: ${score(value)}`];
        return dot;
      }));
    line.style.color = seriesColour(row.colour);
    svg.append(line);
  }));
  tips(svg, (element) => element.closest(".dot"), (dot) => dot.tip);
  holder.replaceChildren(...(rows.length > 1 ? [legend(rows)] : []), svg);
}

function curvePlot(section) {
  const drawable = (row) => row.curves.some((curve) => curve.points.length > 1);
  if (!section.rows.some(drawable)) return null;
  const holder = make("div");
  const figure = make("figure", { class: "wide" }, make("h3", {}, "Dev score during training"),
    make("figcaption", {}, "The score that picks the checkpoint, x100; a line a seed, of the ticked rows that were scored more than once."), holder);
  const redraw = () => {
    const rows = section.rows.filter((row) => row.chosen && row.shown && drawable(row));
    if (rows.length) drawCurves(holder, rows);
    else holder.replaceChildren(make("p", { class: "note" }, `Tick one of: ${section.rows.filter(drawable).map((row) => row.name).join(", ")}.`));
  };
  return { figure, draw: redraw };
}

function sectionPlots(section) {
  return [
    costPlot(section, { title: "Quality against training time", axis: "training time", cost: (row) => row.train_seconds,
      text: duration, tickText: (seconds) => duration(seconds).replace(".0", ""), ticks: clockTicks, cheaper: true, none: "none or 0 s" }),
    costPlot(section, { title: "Quality against encoding speed", axis: "texts per second", cost: (row) => row.texts_per_second,
      text: count, tickText: count, ticks: logTicks, cheaper: false, none: "" }),
    barPlot(section),
    curvePlot(section),
  ].filter((plot) => plot !== null);
}
