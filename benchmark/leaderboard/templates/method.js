// Draws the curves of a method's page; everything else on it is plain HTML.
const curves = JSON.parse(byId("data").textContent).curves;
const holders = [...document.querySelectorAll(".curve-plot")];
const drawOne = (holder) => {
  const { title, rows } = curves[Number(holder.dataset.curve)];
  drawCurves(holder, rows, title, holder.zoom);
};
holders.forEach((holder) => {
  holder.zoom = makeZoom(() => drawOne(holder));
  holder.closest("figure").prepend(holder.zoom.bar);
});
const drawAll = () => holders.forEach(drawOne);
drawAll();
let drawnWidth = 0;
new ResizeObserver(() => requestAnimationFrame(() => {
  const width = byId("main").clientWidth;
  if (width !== drawnWidth) { drawnWidth = width; drawAll(); }
})).observe(byId("main"));
