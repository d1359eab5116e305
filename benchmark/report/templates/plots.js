// Plots as SVG, drawn at the available width and coloured by the theme's variables.
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

// On the screen a plot has the height given; on paper all plots fit one page.
const heightOf = (onScreen) => document.body.classList.contains("on-paper") ? 185 : onScreen;

function frame(width, height, label) {
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
}
function yAxis(svg, ticks, y, left, right) {
  for (const tick of ticks) {
    svg.append(draw("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
      draw("text", { class: "tick", x: left - 7, y: y(tick) + 4, "text-anchor": "end" }, String(tick)));
  }
}
function marker(condition, x, y) {
  const r = 5;
  const path = (d) => draw("path", { class: "mark", d });
  if (condition === "supervised") return draw("rect", { class: "mark", x: x - r + .5, y: y - r + .5, width: 2 * r - 1, height: 2 * r - 1 });
  if (condition === "transductive") return path(`M${x} ${y - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}z`);
  if (condition === "released") return path(`M${x} ${y - r - 1}l${r + 1} ${2 * r}h${-2 * r - 2}z`);
  if (condition === "control") return path(`M${x - 2} ${y - 6}h4v4h4v4h-4v4h-4v-4h-4v-4h4z`);
  return draw("circle", { class: `mark ${condition}`, cx: x, cy: y, r: condition === "untrained" ? r - .5 : r });
}

// Writes names beside their points; a name that would cover another one or the axis is left out (hovering shows it).
const measure = document.createElement("canvas").getContext("2d");
function label(svg, taken, text, x, y, [left0, right]) {
  measure.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const shown = text.length > 34 ? `${text.slice(0, 32)}…` : text;
  const width = measure.measureText(shown).width;
  const places = [[x + 9, y + 4], [x - 9 - width, y + 4], [x - width / 2, y - 11], [x - width / 2, y + 19], [x + 7, y - 8], [x - 7 - width, y - 8],
    [x + 7, y + 15], [x - 7 - width, y + 15]];
  for (const [left, base] of places) {
    const box = [left - 2, base - 11, left + width + 2, base + 3];
    if (box[0] < left0 || box[2] > right || box[1] < 0) continue;
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    svg.append(draw("text", { class: "label", x: left, y: base, "aria-hidden": "true" }, shown));
    return;
  }
}

let clips = 0;
function clip(svg, [left, top, right, bottom]) {
  const id = `clip-${clips += 1}`;
  svg.append(draw("clipPath", { id }, draw("rect", { x: left, y: top, width: right - left, height: bottom - top })));
  return `url(#${id})`;
}
// Replaces a drawing; if a row's point had the focus, its new point gets it.
function renew(holder, children, same) {
  const focused = holder.contains(document.activeElement) ? document.activeElement : null;
  holder.replaceChildren(...children);
  if (!focused) return;
  const again = [...holder.querySelectorAll("[tabindex]")].find((one) => same(one, focused)) || holder.querySelector("svg");
  again?.focus({ preventScroll: true });
}
const how = (more = "") => make("span", { class: "how" }, ` Drag a rectangle to zoom, or + and −; 0 or a double click goes back.${more}`);
// All plots of costs, with what they share: how to read them, and the shapes of their points.
const costGroup = (section, costs) => make("div", { class: "cost-group" },
  make("h3", {}, "Score against cost"),
  make("p", { class: "note" }, "Each point is a row; its shape is the row's condition. Dashed: the best average at each cost. "
    + "Bars: ± one standard deviation over seeds.", how(" Left and right arrow keys move over the points.")),
  make("ul", { class: "legend" }, ...conditionsIn(section.rows).map((name) => make("li", {}, conditionMark(name)))),
  make("div", { class: "plots costs" }, ...costs.map((plot) => plot.figure)));

// Rows whose cost is null are left out, with a note; a cost of 0 stands before the axis, above the word `none`.
function costPlot(section, { name, title, axis = title.toLowerCase(), cost, text, tickText, ticks, cheaper, none, unknown, same = () => null, least = 2 }) {
  const holder = make("div");
  const zoom = makeZoom(() => { redraw(); figure.dispatchEvent(new Event("zoomed", { bubbles: true })); });
  const below = make("p", { class: "note" });
  const figure = make("figure", {}, zoom.bar, make("h4", {}, title), holder, below);
  const complete = section.rows.filter((row) => row.average.mean !== null);
  const known = (row) => row.average.mean !== null && cost(row) !== null;
  const drawable = complete.filter(known);
  // Rows of one architecture differ in a measured cost by noise alone: one cost is no plot.
  if (new Set(drawable.filter((row) => cost(row) > 0).map((row) => same(row) ?? cost(row))).size < least || drawable.length < 2) return null;
  const left = complete.length - drawable.length;
  if (left) figure.append(make("p", { class: "note" }, `${left} row${left > 1 ? "s" : ""} without ${unknown} ${left > 1 ? "are" : "is"} left out.`));

  function redraw() {
    const rows = section.rows.filter((row) => row.shown && known(row));
    zoom.bar.hidden = rows.length < 2;
    below.textContent = "";
    const width = Math.max(260, holder.clientWidth);
    const height = heightOf(Math.max(270, Math.min(400, width * .7)));
    if (!rows.length) return holder.replaceChildren(make("p", { class: "note" }, "No complete row to draw."));
    const svg = frame(width, height, `Score against ${axis}`);
    const costs = rows.map(cost).filter((value) => value > 0);
    const free = rows.some((row) => !cost(row));
    const span = costs.length ? [Math.log10(Math.min(...costs) / 1.3), Math.log10(Math.max(...costs) * 1.3)] : [0, 1];
    const lows = rows.map((row) => row.average.mean - (row.average.sd || 0));
    const high = Math.max(...rows.map((row) => row.average.mean + (row.average.sd || 0)));
    const padded = (low) => [low - ((high - low) * .06 || 1), high + ((high - low) * .06 || 1)];
    const view = zoom.view({ x: span, y: padded(lowEnd(lows)) }, { x: span, y: padded(Math.min(...lows)) });
    const [left, bottom] = [40, height - 44];
    const start = free ? left + 62 : left + 8;
    const x = (value) => value > 0 ? start + ((Math.log10(value) - view.x[0]) / (view.x[1] - view.x[0])) * (width - start - 8) : left + 26;
    const y = (value) => bottom - ((value - view.y[0]) / (view.y[1] - view.y[0])) * (bottom - 12);
    yAxis(svg, niceTicks(...view.y, 6), y, left, width);
    let last = free ? left + 46 : -99;
    const ends = view.x.map((end) => 10 ** end);
    const wide = ticks(...ends);
    for (const tick of wide.length > 2 ? wide : niceTicks(...ends, 5).filter((one) => one > 0)) {
      if (x(tick) - last < 46 || x(tick) > width - 4 * tickText(tick).length || x(tick) < start) continue;
      last = x(tick);
      svg.append(draw("text", { class: "tick", x: last, y: height - 24, "text-anchor": "middle" }, tickText(tick)));
    }
    if (free) {
      svg.append(draw("line", { class: "grid", x1: left + 52, x2: left + 52, y1: 8, y2: height - 40 }),
        draw("text", { class: "tick", x: left + 26, y: height - 24, "text-anchor": "middle" }, none));
    }
    svg.append(draw("text", { class: "tick", x: (start + width) / 2, y: height - 4, "text-anchor": "middle" }, axis));

    const order = [...rows].sort((a, b) => cost(a) - cost(b) || a.order - b.order);
    // Rows of one architecture differ in a measured cost by noise alone: the best of them has the cost of the cheapest.
    const cheap = (a, b) => (cheaper ? 1 : -1) * (a - b);
    const [best, prices] = [new Map(), new Map()];
    for (const row of order.filter(same)) {
      const key = same(row);
      if (!(best.get(key)?.average.mean >= row.average.mean)) best.set(key, row);
      if (!(cheap(prices.get(key), cost(row)) <= 0)) prices.set(key, cost(row));
    }
    const price = (row) => prices.get(same(row)) ?? cost(row);
    const able = order.filter((row) => !same(row) || best.get(same(row)) === row);
    able.sort((a, b) => cheap(price(a), price(b)) || a.order - b.order);
    const front = [];
    for (const row of able) {
      if (!front.length || row.average.mean > front[front.length - 1].average.mean) front.push(row);
    }
    const inner = clip(svg, [left, 4, width, bottom + 6]);
    // Steps: between two rows there is no encoder, and the cheaper one is the best.
    const steps = front.map((row, i) => `${i ? `H${x(price(row))}V` : `M${x(price(row))} `}${y(row.average.mean)}`);
    svg.append(draw("path", { class: "front", "clip-path": inner, d: `${steps.join("")}H${cheaper ? width : left}` }));
    const sees = (row) => row.average.mean >= view.y[0] && row.average.mean <= view.y[1]
      && (!(cost(row) > 0) || (x(cost(row)) >= start - 4 && x(cost(row)) <= width));
    const seen = order.filter(sees);
    const under = view.chosen ? 0 : rows.filter((row) => row.average.mean < view.y[0]).length;
    if (under) below.replaceChildren(`${under} row${under > 1 ? "s are" : " is"} far below what is drawn`,
      make("span", { class: "how" }, `; zoom out to see ${under > 1 ? "them" : "it"}`), ".");
    const taken = seen.map((row) => [x(cost(row)) - 5, y(row.average.mean) - 5, x(cost(row)) + 5, y(row.average.mean) + 5]);
    seen.forEach((row, i) => {
      const [px, py] = [x(cost(row)), y(row.average.mean)];
      const sd = row.average.sd || 0;
      const point = draw("g", { class: `point ${conditionOf(row)} ${row.chosen ? "chosen" : ""}`, tabindex: i ? -1 : 0, role: "img",
        "aria-label": `${row.method}: ${cellText(row.average)}` },
      draw("line", { class: "whisker", "clip-path": inner, x1: px, x2: px, y1: y(row.average.mean - sd), y2: y(row.average.mean + sd) }), marker(conditionOf(row), px, py));
      point.row = row;
      if (row.colour !== undefined) point.style.color = seriesColour(row.colour);
      svg.append(point);
    });
    // In a part that the user has chosen there may be room for every name.
    const named = new Set([...rows.filter((row) => row.chosen), ...front, ...(view.chosen ? seen : [])].filter(sees));
    const first = (a, b) => b.chosen - a.chosen || b.average.mean - a.average.mean;
    [...named].sort(first).forEach((row) => label(svg, taken, row.method, x(cost(row)), y(row.average.mean), [left, width]));
    svg.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 0 : { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const points = [...svg.querySelectorAll(".point")];
      const next = points[points.indexOf(event.target) + step];
      if (!step || !next) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    });
    tips(svg, (element) => element.closest(".point"), ({ row }) => [row.method, `Avg. ${cellText(row.average)}`,
      `${axis}: ${cost(row) ? text(cost(row)) : none}`, conditionOf(row)]);
    zoom.listen(svg, [start, 12, width - 8, bottom]);
    renew(holder, [svg], (one, before) => one.row && one.row === before.row);
  }
  return { figure, draw: redraw, name, zoom };
}

// What a plot looks like is in the style sheet: a saved one states it in each element.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "opacity", "color", "font-size", "font-family", "paint-order"];
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const [drawn, copied] = [[svg, ...svg.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  drawn.forEach((element, i) => STYLES.forEach((name) => copied[i].style.setProperty(name, getComputedStyle(element).getPropertyValue(name))));
  const { width, height } = svg.getBoundingClientRect();
  build(copy, { xmlns: "http://www.w3.org/2000/svg", width, height }, []);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

function download(address, name) {
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function saveButtons(figure, name) {
  const buttons = ["SVG", "PNG"].map((kind) => make("button", { type: "button", class: "link", "aria-label": `Save as ${kind}` }, kind));
  buttons[0].addEventListener("click", () => download(URL.createObjectURL(new Blob([standalone(figure.querySelector("svg")).text], { type: "image/svg+xml" })), `${name}.svg`));
  buttons[1].addEventListener("click", () => {
    const { text, width, height } = standalone(figure.querySelector("svg"));
    const canvas = make("canvas", { width: 2 * width, height: 2 * height });
    const image = new Image();
    image.onload = () => {
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(URL.createObjectURL(blob), `${name}.png`));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  });
  return make("p", { class: "note save" }, "Save: ", buttons[0], " ", buttons[1]);
}

function legend(rows) {
  return make("ul", { class: "legend" }, ...rows.map((row) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = seriesColour(row.colour);
    return make("li", {}, swatch, row.method);
  }));
}

function barPlot(section) {
  const holder = make("div");
  const figure = make("figure", { class: "wide" }, make("h3", {}, "Per task"),
    make("figcaption", {}, "The rows ticked in the table. Lines: ± one standard deviation over seeds; no bar: n/a."), holder);

  function redraw() {
    const rows = section.rows.filter((row) => row.chosen && row.shown);
    if (!rows.length) return holder.replaceChildren(make("p", { class: "note" }, "Tick rows of the table to draw them."));
    const { tasks, labels } = section;
    const cells = rows.flatMap((row) => tasks.map((task) => row.scores[task]).filter((cell) => cell.mean !== null));
    const room = Math.max(280, holder.clientWidth);
    const [left, height] = [40, heightOf(280)];
    const longest = Math.max(...labels.map((name) => name.length)) * 7 + 10;
    const group = Math.max((room - left) / tasks.length, rows.length * 9 + 12, longest);
    const width = left + group * tasks.length;
    const low = Math.min(0, ...cells.map((cell) => cell.mean - (cell.sd || 0)));
    const highest = Math.max(1, ...cells.map((cell) => cell.mean + (cell.sd || 0)));
    const ticks = niceTicks(low, highest, 5);
    const high = Math.max(highest, ...ticks);
    const y = (value) => height - 28 - ((value - low) / (high - low)) * (height - 42);
    const svg = frame(width, height, "Scores per task of the ticked rows");
    yAxis(svg, ticks, y, left, width);
    const bar = Math.min(26, (group * .78) / rows.length);
    tasks.forEach((task, place) => {
      const middle = left + group * (place + .5);
      svg.append(draw("text", { x: middle, y: height - 8, "text-anchor": "middle" }, labels[place]));
      rows.forEach((row, i) => {
        const cell = row.scores[task];
        if (cell.mean === null) return;
        const at = middle + (i - rows.length / 2) * bar;
        const rect = draw("rect", { class: "bar", x: at + .5, width: Math.max(1, bar - 1), y: Math.min(y(cell.mean), y(0)),
          height: Math.abs(y(cell.mean) - y(0)), fill: seriesColour(row.colour) });
        rect.tip = [`${row.method} · ${task}`, cellText(cell)];
        svg.append(rect);
        if (cell.sd !== null) {
          svg.append(draw("line", { class: "bar-whisker", x1: at + bar / 2, x2: at + bar / 2, y1: y(cell.mean - cell.sd), y2: y(cell.mean + cell.sd) }));
        }
      });
    });
    tips(svg, (element) => element.closest(".bar"), (rect) => rect.tip);
    holder.replaceChildren(legend(rows), make("div", { class: "scroll", tabindex: width > room ? 0 : null }, svg));
  }
  return { figure, draw: redraw, name: "tasks" };
}

const MOST_GAINS = 24;
const KINDS = ["above", "undecided", "below"];
const kindOf = ([, , low, high]) => low > 0 ? "above" : high < 0 ? "below" : "undecided";
const signed = (value) => `${value > 0 ? "+" : ""}${score(value)}`.replace("-", "\u2212");

// Each row against the vectors that it starts from: the interval as a bar, the difference as a line in it.
function gainPlot(section) {
  if (!section.rows.some((row) => row.gain)) return null;
  const holder = make("div");
  const starts = [...new Set(section.rows.filter((row) => row.gain).map((row) => row.gain[0]))];
  const figure = make("figure", { class: "wide" }, make("h3", {}, "Gain over the untrained start"), make("figcaption", {},
    `Points on the mean of all tasks above ${starts.length === 1 ? starts[0] : "the untrained row that each starts from"}. Bars: 95% intervals, with the noise of items and of seeds.`), holder);

  function redraw() {
    const known = section.rows.filter((row) => row.shown && row.gain);
    const rows = known.slice(0, MOST_GAINS);
    if (!rows.length) return holder.replaceChildren(make("p", { class: "note" }, "No row shown has an interval."));
    measure.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const width = Math.max(280, holder.clientWidth);
    const letters = Math.floor(width * .4 / measure.measureText("n").width);
    const names = rows.map(({ method }) => method.length > letters ? `${method.slice(0, letters - 4)}\u2026${method.slice(-3)}` : method);
    const left = Math.max(...names.map((name) => measure.measureText(name).width)) + 14;
    const [step, top] = [22, 6];
    const bottom = top + step * rows.length;
    const ends = [Math.min(0, ...rows.map((row) => row.gain[2])), Math.max(0, ...rows.map((row) => row.gain[3]))];
    const pad = (ends[1] - ends[0]) * .04 || 1;
    const x = (value) => left + ((value - ends[0] + pad) / (ends[1] - ends[0] + 2 * pad)) * (width - left - 8);
    const svg = frame(width, bottom + 40, "Gain over the untrained start");
    for (const tick of niceTicks(ends[0] - pad, ends[1] + pad, Math.max(2, (width - left) / 80))) {
      svg.append(draw("line", { class: tick ? "grid" : "zero", x1: x(tick), x2: x(tick), y1: top, y2: bottom }),
        draw("text", { class: "tick", x: x(tick), y: bottom + 16, "text-anchor": "middle" }, String(tick).replace("-", "\u2212")));
    }
    svg.append(draw("text", { class: "tick", x: (left + width) / 2, y: bottom + 34, "text-anchor": "middle" }, "points"));
    rows.forEach((row, i) => {
      const [start, value, low, high] = row.gain;
      const y = top + step * (i + .5);
      const bar = draw("g", { class: `gain ${kindOf(row.gain)}` },
        draw("rect", { x: x(low), width: Math.max(1, x(high) - x(low)), y: y - 5, height: 10 }),
        draw("line", { x1: x(value), x2: x(value), y1: y - 8, y2: y + 8 }));
      bar.tip = [row.method, `${signed(value)} (${signed(low)} to ${signed(high)}) against ${start}`];
      svg.append(draw("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, names[i]), bar);
    });
    tips(svg, (element) => element.closest(".gain"), (bar) => bar.tip);
    const kinds = KINDS.filter((kind) => rows.some((row) => kindOf(row.gain) === kind));
    const more = known.length - rows.length;
    holder.replaceChildren(make("ul", { class: "legend" }, ...kinds.map((kind) => make("li", {}, make("span", { class: `swatch gain ${kind}` }), kind))), svg,
      ...(more ? [make("p", { class: "note" }, `The best ${rows.length} rows; ${more} more are in the table.`)] : []));
  }
  return { figure, draw: redraw, name: "gains" };
}

// rows: {method, colour, curves: [{seed, points: [[step, score], ...]}]}
function drawCurves(holder, rows, title = "Dev score during training", zoom = null) {
  const points = rows.flatMap((row) => row.curves.flatMap((curve) => curve.points));
  const [width, height, left] = [Math.max(280, holder.clientWidth), heightOf(280), 44];
  const bottom = height - 40;
  const values = points.map(([, value]) => value);
  const pad = (Math.max(...values) - Math.min(...values)) * .08 || 1;
  const whole = { x: [0, Math.max(...points.map(([step]) => step))], y: [Math.min(...values) - pad, Math.max(...values) + pad] };
  const view = zoom ? zoom.view(whole, whole) : whole;
  const x = (step) => left + ((step - view.x[0]) / (view.x[1] - view.x[0])) * (width - left - 16);
  const y = (value) => bottom - ((value - view.y[0]) / (view.y[1] - view.y[0])) * (bottom - 12);
  const svg = frame(width, height, title);
  const inner = clip(svg, [left - 4, 4, width, bottom + 4]);
  yAxis(svg, niceTicks(...view.y, 5), y, left, width);
  for (const tick of niceTicks(...view.x, Math.min(8, width / 80))) {
    svg.append(draw("text", { class: "tick", x: x(tick), y: height - 22, "text-anchor": "middle" }, String(tick)));
  }
  svg.append(draw("text", { class: "tick", x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, "training step"));
  rows.forEach((row) => row.curves.forEach((curve) => {
    const line = draw("g", { class: "line", "clip-path": inner },
      draw("path", { class: `curve d${Math.floor(row.colour / SERIES) % 4}`, d: curve.points.map(([step, value], j) => `${j ? "L" : "M"}${x(step)} ${y(value)}`).join("") }),
      ...curve.points.map(([step, value]) => {
        const dot = draw("circle", { class: "dot", cx: x(step), cy: y(value), r: 3, fill: "currentColor" });
        dot.tip = [row.method, `${curve.seed === null ? "" : `seed ${curve.seed}, `}step ${step}: ${score(value)}`];
        return dot;
      }));
    line.style.color = seriesColour(row.colour);
    svg.append(line);
  }));
  tips(svg, (element) => element.closest(".dot"), (dot) => dot.tip);
  if (zoom) zoom.listen(svg, [left, 12, width - 16, bottom]);
  renew(holder, [...(rows.length > 1 ? [legend(rows)] : []), svg], () => false);
}

function curvePlot(section) {
  const drawable = (row) => row.curves.some((curve) => curve.points.length > 1);
  if (!section.rows.some(drawable)) return null;
  const holder = make("div");
  const zoom = makeZoom(() => { redraw(); figure.dispatchEvent(new Event("zoomed", { bubbles: true })); });
  const figure = make("figure", { class: "wide" }, zoom.bar, make("h3", {}, "Dev score during training"), make("figcaption", {},
    "The score that picks the checkpoint, x100; one line per seed, of the ticked rows that were scored more than once.", how()), holder);
  const redraw = () => {
    const rows = section.rows.filter((row) => row.chosen && row.shown && drawable(row));
    zoom.bar.hidden = !rows.length;
    figure.classList.toggle("idle", !rows.length);
    if (rows.length) drawCurves(holder, rows, undefined, zoom);
    else holder.replaceChildren(make("p", { class: "note" }, `Tick one of: ${section.rows.filter(drawable).map((row) => row.method).join(", ")}.`));
  };
  return { figure, draw: redraw, name: "curves", zoom };
}

function sectionPlots(section) {
  const costs = [
    costPlot(section, { name: "training", title: "Training time", cost: (row) => row.train_seconds ?? 0,
      text: duration, tickText: (seconds) => duration(seconds).replace(".0", ""), ticks: clockTicks, cheaper: true, none: "none or 0 s", least: 1 }),
    costPlot(section, { name: "speed", title: "Encoding speed", axis: "texts per second", cost: (row) => row.texts_per_second,
      text: count, tickText: count, ticks: logTicks, cheaper: false, unknown: "a measured speed",
      same: (row) => row.parameters ? `${row.backbone} ${row.parameters}` : null }),
    costPlot(section, { name: "weights", title: "Number of weights", cost: (row) => row.parameters,
      text: count, tickText: short, ticks: logTicks, cheaper: true, none: "none", unknown: "a known number of weights" }),
  ].filter((plot) => plot !== null);
  return { costs, others: [gainPlot(section) ?? barPlot(section), curvePlot(section)].filter((plot) => plot !== null) };
}
