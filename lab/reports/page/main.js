// Puts the page together once; afterwards only redraws.
function sortable(table) {
  const heads = $$("thead th", table);
  heads.forEach((head, column) => {
    $("button", head).onclick = () => {
      const up = head.getAttribute("aria-sort") === "descending" || !head.classList.contains("n") && head.getAttribute("aria-sort") === null;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const numeric = head.classList.contains("n");
      const value = (row) => {
        const text = row.cells[column].dataset.sort;
        return numeric ? (text === "" ? -Infinity : Number(text)) : text;
      };
      const rows = $$("tbody tr", table).sort((a, b) => {
        const x = value(a), y = value(b);
        const order = numeric ? x - y || 0 : x.localeCompare(y, "en", { numeric: true });
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    };
  });
}

// Columns to objects: the page carries each field of all tasks as one list.
function unpack(arm) {
  const columns = arm.tasks;
  arm.tasks = columns.pod.map((_, index) => {
    const task = {};
    for (const name in columns) task[name] = columns[name][index];
    task.ending = arm.reasons[task.reason];
    task.until = task.ended === null ? arm.end : task.ended;
    return task;
  }).sort((a, b) => a.bound - b.bound);
  return arm;
}

function start() {
  const arms = JSON.parse($("#data").textContent).map(unpack);
  view.end = Math.max(1, ...arms.map((arm) => arm.end));
  view.to = view.end;
  readColours();
  $$(".arm").forEach((section) => gantt(section, arms[Number(section.dataset.arm)]));
  $$(".use").forEach((section) => utilisation(section, arms[Number(section.dataset.arm)]));
  $$("table.sortable").forEach(sortable);
  view.listeners.forEach((draw) => draw());
  new ResizeObserver(redraw).observe(document.body);
  $$("details").forEach((item) => item.addEventListener("toggle", redraw));
  const recolour = () => { readColours(); redraw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  $("#theme").onclick = () => {
    document.documentElement.dataset.theme = colours.dark ? "light" : "dark";
    recolour();
  };
  document.documentElement.dataset.chartsDrawn = $$("canvas").filter((canvas) => canvas.height > 0).length;
}
start();
