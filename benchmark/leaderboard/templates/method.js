// The curves of a method's page; everything else of it is plain HTML.
const rows = JSON.parse(byId("data").textContent).rows;
const holders = [...document.querySelectorAll(".curve-plot")];
const drawAll = () => holders.forEach((holder) => drawCurves(holder, rows[Number(holder.dataset.row)]));
drawAll();
let drawnWidth = 0;
new ResizeObserver(() => requestAnimationFrame(() => {
  const width = byId("main").clientWidth;
  if (width !== drawnWidth) { drawnWidth = width; drawAll(); }
})).observe(byId("main"));
