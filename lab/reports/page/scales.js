// Scales, canvases, words and colours that all charts share. Times are simulated seconds.
window.addEventListener("error", (event) => { document.documentElement.dataset.scriptError = event.message; });
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const GIB = 2 ** 30;

const view = { from: 0, to: 1, end: 1, listeners: [] };
function setView(from, to) {
  const least = Math.min(view.end, Math.max(1, view.end / 5000));
  const length = clamp(to - from, least, view.end);
  view.from = clamp(from, 0, view.end - length);
  view.to = view.from + length;
  redraw();
}
let pending = 0;
function redraw() {
  if (!pending) pending = requestAnimationFrame(() => { pending = 0; view.listeners.forEach((draw) => draw()); });
}

const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["card", "ink", "soft", "line", "grid", "used", "used-fill", "requested", "capacity", "waiting", "bad", "lane", "accent"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
  colours.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const chosen = document.documentElement.dataset.theme;
  if (chosen) colours.dark = chosen === "dark";
}
// Ten hues that keep apart for the common kinds of colour blindness; the rest shares one grey.
const HUES = ["#3f7fd0", "#e08a1e", "#2a9d78", "#c45a9c", "#8466c9", "#b3a01f", "#28a6bd", "#a5694a", "#6f8f3a", "#5b6fa8"];
const OTHER = "#8a94a0";
function templateColour(rank) { return rank < HUES.length ? HUES[rank] : OTHER; }
// Golden angle over all hues but the reds, which are for what went wrong.
function workflowColour(index) {
  const lightness = (colours.dark ? 56 : 46) + 9 * (index % 3);
  return `hsl(${25 + ((index * 0.38197 + 0.58) % 1) * 305} 52% ${lightness}%)`;
}

function prepare(canvas, height) {
  const width = Math.max(220, canvas.parentElement.clientWidth - 16);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
  pen.textBaseline = "middle";
  return { pen, width, height };
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000];
function timeTicks(width) {
  const wanted = (view.to - view.from) / Math.max(2, width / 90);
  const step = TIME_STEPS.find((size) => size >= wanted) || TIME_STEPS[TIME_STEPS.length - 1];
  const ticks = [];
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) ticks.push(at);
  return { ticks, label: (at) => (step % 60 ? clock(at) : String(Math.round(at / 60))) };
}
function clock(at) {
  const whole = Math.round(at);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
function valueTicks(most, wanted) {
  const raw = most / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999);
  const ticks = [];
  for (let value = 0; value <= most * 1.0001; value += step) ticks.push(value);
  return ticks;
}
const short = (value) => {
  if (value === null || value === undefined) return "–";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return Number(value.toFixed(digits)).toLocaleString("en");
};
const minutes = (seconds) => (seconds === null ? "never" : `${short(seconds / 60)} min`);
const lasting = (seconds) => (seconds === null ? "–" : seconds < 120 ? `${short(seconds)} s` : minutes(seconds));

const tooltip = $("#tooltip");
function showTooltip(event, title, rows) {
  const head = document.createElement("b");
  head.textContent = title;
  const table = document.createElement("table");
  for (const [name, value] of rows) {
    const row = table.insertRow();
    row.insertCell().textContent = name;
    row.insertCell().textContent = value;
  }
  tooltip.replaceChildren(head, table);
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - 16 - box.width : event.clientX + 16;
  tooltip.style.left = Math.max(4, left) + "px";
  tooltip.style.top = clamp(event.clientY + 14, 4, Math.max(4, innerHeight - box.height - 4)) + "px";
}
function hideTooltip() { tooltip.hidden = true; }

// Dragging over a chart chooses a stretch of time; all charts of the page follow.
function draggable(canvas, timeAt, overlay) {
  let from = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) { from = event.offsetX; canvas.setPointerCapture(event.pointerId); }
  });
  canvas.addEventListener("pointermove", (event) => {
    if (from !== null && Math.abs(event.offsetX - from) > 4) { overlay.drag = [from, event.offsetX]; redraw(); }
  });
  const finish = (event) => {
    if (overlay.drag && event.type === "pointerup") {
      const [a, b] = overlay.drag.map(timeAt).sort((x, y) => x - y);
      overlay.dragged = true;
      setView(a, b);
      setTimeout(() => { overlay.dragged = false; });
    }
    from = null;
    overlay.drag = null;
    redraw();
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  canvas.addEventListener("dblclick", () => setView(0, view.end));
  canvas.addEventListener("keydown", (event) => {
    const action = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Escape: "all" }[event.key];
    if (action) { event.preventDefault(); zoom(action); }
  });
}
function zoom(action) {
  const length = view.to - view.from;
  const middle = (view.from + view.to) / 2;
  if (action === "in") setView(middle - length / 4, middle + length / 4);
  if (action === "out") setView(middle - length, middle + length);
  if (action === "left") setView(view.from - length / 4, view.to - length / 4);
  if (action === "right") setView(view.from + length / 4, view.to + length / 4);
  if (action === "all") setView(0, view.end);
}
