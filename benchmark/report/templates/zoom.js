// Zooms a plot: drag a rectangle, wheel or pinch, the buttons, or the keys + - 0 and Shift with the arrow keys.
// `x` and `y` are [low, high] on the plot's own scales (logarithms for a logarithmic axis).
function makeZoom(redraw) {
  let seen = null; // the visible part; null: all of the data
  let area = null; // how the last drawing maps its pixels, and its limits
  const button = (text, name, act) => {
    const made = make("button", { type: "button", "aria-label": name, title: name }, text);
    made.addEventListener("click", act);
    return made;
  };
  const out = button("−", "Zoom out", () => scale(1.6));
  const reset = button("Reset", "Reset the zoom", () => set(null));
  const bar = make("span", { class: "zoom", role: "group", "aria-label": "Zoom" }, button("+", "Zoom in", () => scale(1 / 1.6)), out, reset);
  const clamp = ([low, high], [least, most]) => {
    const width = Math.max(Math.min(high - low, most - least), (most - least) * 1e-3);
    const start = Math.min(Math.max(low, least), most - width);
    return [start, start + width];
  };
  const current = () => seen || area.home;
  const alike = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]) < 1e-9 * (1 + Math.abs(b[1]));
  function set(view) {
    seen = view && { x: clamp(view.x, area.limits.x), y: clamp(view.y, area.limits.y) };
    if (seen && alike(seen.x, area.home.x) && alike(seen.y, area.home.y)) seen = null;
    redraw();
  }
  function scale(factor, at = [.5, .5]) {
    const one = ([low, high], part) => {
      const middle = low + (high - low) * part;
      return [middle + (low - middle) * factor, middle + (high - middle) * factor];
    };
    set({ x: one(current().x, at[0]), y: one(current().y, at[1]) });
  }
  function pan(dx, dy) {
    const { x, y } = current();
    const one = ([low, high], part) => [low + (high - low) * part, high + (high - low) * part];
    set({ x: one(x, dx), y: one(y, dy) });
  }
  // The view to draw, and whether the user has chosen it.
  function view(home, limits) {
    area = { home, limits };
    if (seen) seen = { x: clamp(seen.x, limits.x), y: clamp(seen.y, limits.y) };
    const shown = current();
    out.disabled = alike(shown.x, limits.x) && alike(shown.y, limits.y);
    reset.disabled = !seen;
    return { ...shown, chosen: seen !== null };
  }
  // box: [left, top, right, bottom] of the plot's inner area in pixels of the svg.
  function listen(svg, [left, top, right, bottom]) {
    const place = (event) => {
      const at = svg.getBoundingClientRect();
      return [event.clientX - at.left, event.clientY - at.top];
    };
    const part = ([px, py]) => [(px - left) / (right - left), (bottom - py) / (bottom - top)];
    const inside = ([px, py]) => px >= left && px <= right && py >= top && py <= bottom;
    svg.setAttribute("tabindex", -1);
    svg.addEventListener("wheel", (event) => {
      // Without Ctrl the wheel scrolls the page, unless the plot has the focus.
      if (!inside(place(event)) || !(event.ctrlKey || svg.contains(document.activeElement))) return;
      event.preventDefault();
      scale(event.deltaY > 0 ? 1.25 : .8, part(place(event)));
    }, { passive: false });
    svg.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: [-.2, 0], ArrowRight: [.2, 0], ArrowUp: [0, .2], ArrowDown: [0, -.2] };
      if (event.key === "+" || event.key === "=") scale(1 / 1.6);
      else if (event.key === "-") scale(1.6);
      else if (event.key === "0") set(null);
      else if (event.shiftKey && steps[event.key]) pan(...steps[event.key]);
      else return;
      event.preventDefault();
    });
    svg.addEventListener("dblclick", () => set(null));
    svg.addEventListener("pointerdown", (event) => {
      const start = place(event);
      if (event.button || event.pointerType === "touch" || !inside(start)) return;
      const frame = draw("rect", { class: "drag" });
      const limit = ([px, py]) => [Math.min(Math.max(px, left), right), Math.min(Math.max(py, top), bottom)];
      let end = start;
      const move = (moved) => {
        end = limit(place(moved));
        for (const [key, value] of Object.entries({ x: Math.min(start[0], end[0]), y: Math.min(start[1], end[1]),
          width: Math.abs(end[0] - start[0]), height: Math.abs(end[1] - start[1]) })) frame.setAttribute(key, value);
        if (!frame.isConnected) svg.append(frame);
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", () => {
        removeEventListener("pointermove", move);
        frame.remove();
        if (Math.abs(end[0] - start[0]) < 8 || Math.abs(end[1] - start[1]) < 8) return;
        const [[x0, y0], [x1, y1]] = [part(start), part(end)];
        const between = ([low, high], a, b) => [Math.min(a, b), Math.max(a, b)].map((one) => low + (high - low) * one);
        set({ x: between(current().x, x0, x1), y: between(current().y, y0, y1) });
      }, { once: true });
    });
  }
  // The part as text for the address: four numbers, or nothing.
  const text = () => seen ? [...seen.x, ...seen.y].map((one) => Number(one.toPrecision(5))).join("|") : "";
  function read(given) {
    const numbers = (given || "").split("|").map(Number);
    if (numbers.length === 4 && numbers.every(Number.isFinite) && numbers[0] < numbers[1] && numbers[2] < numbers[3]) {
      seen = { x: numbers.slice(0, 2), y: numbers.slice(2) };
    }
  }
  return { bar, view, listen, text, read };
}

// The lower end of the values shown at first: a few values far below the others would squeeze those into a line.
function lowEnd(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const quarter = (part) => sorted[Math.round((sorted.length - 1) * part)];
  const fence = quarter(.25) - 3 * Math.max(quarter(.75) - quarter(.25), 1);
  return sorted.find((value) => value >= fence);
}
