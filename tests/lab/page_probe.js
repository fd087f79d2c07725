// Uses the page as a person would and writes what it saw into attributes of the body.
// A browser without a screen draws three frames and stops; timers go on.
window.requestAnimationFrame = (draw) => setTimeout(draw, 16);
const seen = {};
const ink = (canvas) => new Set(
  new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)
).size;
const settled = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const mouse = (canvas, type, x, y) => {
  const box = canvas.getBoundingClientRect();
  const event = type.startsWith("pointer") ? PointerEvent : MouseEvent;
  canvas.dispatchEvent(new event(type, {
    clientX: box.left + x, clientY: box.top + y, bubbles: true, button: 0, pointerId: 1,
  }));
};
(async () => {
  const canvas = document.querySelector(".gantt canvas");
  canvas.setPointerCapture = () => {};
  await settled();
  seen.colours = ink(canvas);
  seen.curves = Math.min(...[...document.querySelectorAll(".curves canvas")].map(ink));
  const all = (selector) => [...document.querySelectorAll(selector)];
  seen.folded = all(".curves.cluster canvas").filter((chart) => !chart.offsetParent).length;
  seen.cut = all(".scroll").filter((box) => box.scrollWidth > box.clientWidth).length;
  const first = canvas.toDataURL();
  seen.tooltip = "";
  for (let x = 120; x < canvas.clientWidth && !seen.tooltip; x += 6) {
    for (let y = 8; y < 60 && !seen.tooltip; y += 3) {
      mouse(canvas, "mousemove", x, y);
      const tip = document.getElementById("tooltip");
      if (!tip.hidden) seen.tooltip = tip.textContent;
    }
  }
  mouse(canvas, "pointerdown", 300, 40);
  mouse(canvas, "pointermove", 600, 40);
  mouse(canvas, "pointerup", 600, 40);
  await settled();
  seen.zoomed = canvas.toDataURL() !== first;
  await wait(10);
  mouse(canvas, "dblclick", 300, 40);
  await settled();
  seen.restored = canvas.toDataURL() === first;
  document.querySelector('[data-colour="template"]').click();
  await settled();
  seen.recoloured = canvas.toDataURL() !== first;
  seen.legend = document.querySelectorAll(".legend button").length;
  document.getElementById("theme").click();
  await settled();
  seen.theme = document.documentElement.dataset.theme;
  const table = document.querySelector("table.sortable");
  const numbers = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[4].dataset.sort));
  const button = table.querySelectorAll("thead button")[4];
  button.click();
  seen.descending = numbers().every((value, index, all) => !index || all[index - 1] >= value);
  button.click();
  seen.ascending = numbers().every((value, index, all) => !index || all[index - 1] <= value);
  for (const [name, value] of Object.entries(seen)) document.body.setAttribute("data-" + name, value);
})().catch((error) => { document.documentElement.dataset.scriptError = error; });
