// The curves of a method's page; everything else of it is plain HTML.
const curves = JSON.parse(byId("data").textContent).curves;
const holders = [...document.querySelectorAll(".curve-plot")];
const drawAll = () => holders.forEach((holder) => {
  const { title, rows } = curves[Number(holder.dataset.curve)];
  drawCurves(holder, rows, title);
});
drawAll();
let drawnWidth = 0;
new ResizeObserver(() => requestAnimationFrame(() => {
  const width = byId("main").clientWidth;
  if (width !== drawnWidth) { drawnWidth = width; drawAll(); }
})).observe(byId("main"));
