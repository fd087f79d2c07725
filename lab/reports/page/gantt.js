// The Gantt chart: one lane per node, pods packed into as few rows as they need.
const LEFT = 118, RIGHT = 14, BOTTOM = 38, GAP = 10;

function lanes(arm) {
  const found = arm.nodes.map((node) => ({ node, rows: [] }));
  for (const task of arm.tasks) {
    if (task.node < 0 || task.bound === null) continue;
    const rows = found[task.node].rows;
    let row = rows.find((tasks) => tasks[tasks.length - 1].until <= task.bound);
    if (!row) rows.push((row = []));
    row.push(task);
  }
  return found;
}

function gantt(section, arm) {
  const canvas = $(".gantt canvas", section);
  const all = lanes(arm);
  const rowCount = all.reduce((sum, lane) => sum + Math.max(1, lane.rows.length), 0);
  const rowHeight = clamp(Math.floor(620 / rowCount), 3, 16);
  const TOP = arm.faults.length ? 24 : 8;
  let colourBy = "workflow";
  let chosen = null;
  const overlay = { drag: null, dragged: false };
  let boxes = [];

  const identity = (task) => (colourBy === "workflow" ? task.workflow : task.template);
  const colour = (id) => (colourBy === "workflow" ? workflowColour(id) : templateColour(arm.templates[id].rank));
  const scale = () => {
    const width = canvas.clientWidth - LEFT - RIGHT;
    return { x: (at) => LEFT + ((at - view.from) / (view.to - view.from)) * width, width };
  };
  const timeAt = (x) => view.from + ((x - LEFT) / scale().width) * (view.to - view.from);

  function draw() {
    const height = all.reduce((sum, lane) => sum + laneHeight(lane) + GAP, TOP + BOTTOM);
    const { pen, width } = prepare(canvas, height);
    const plot = { left: LEFT, right: width - RIGHT, bottom: height - BOTTOM };
    const span = plot.right - plot.left;
    const x = (at) => LEFT + ((at - view.from) / (view.to - view.from)) * span;
    boxes = [];
    let top = TOP;
    for (const lane of all) {
      const tall = laneHeight(lane);
      pen.fillStyle = colours.lane;
      pen.fillRect(plot.left, top, span, tall);
      top += tall + GAP;
    }
    timeAxis(pen, { x, top: TOP, bottom: plot.bottom, span });
    top = TOP;
    for (const lane of all) {
      const tall = laneHeight(lane);
      laneLabel(pen, lane.node, top, tall);
      pen.save();
      pen.beginPath();
      pen.rect(plot.left, top - 1, span, tall + 2);
      pen.clip();
      lane.rows.forEach((tasks, index) => {
        const y = top + index * rowHeight;
        for (const task of tasks) {
          if (task.until < view.from || task.bound > view.to) continue;
          bar(pen, task, x, y);
        }
        boxes.push({ y, tasks });
      });
      pen.restore();
      top += tall + GAP;
    }
    for (const fault of arm.faults) {
      if (fault.at < view.from || fault.at > view.to) continue;
      const at = x(fault.at);
      pen.strokeStyle = colours.bad;
      pen.setLineDash([4, 3]);
      pen.beginPath(); pen.moveTo(at, TOP - 6); pen.lineTo(at, plot.bottom); pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = colours.bad;
      pen.textAlign = at > width / 2 ? "right" : "left";
      pen.fillText(`${fault.fault} ${fault.node}`, at, TOP - 13);
    }
    if (overlay.drag) {
      pen.fillStyle = colours.accent + "33";
      pen.fillRect(overlay.drag[0], TOP, overlay.drag[1] - overlay.drag[0], plot.bottom - TOP);
    }
    if (!arm.tasks.length) {
      pen.fillStyle = colours.soft;
      pen.textAlign = "center";
      pen.fillText("No pod ran.", LEFT + span / 2, (TOP + plot.bottom) / 2);
    }
  }

  function laneHeight(lane) { return Math.max(30, lane.rows.length * rowHeight); }

  function laneLabel(pen, node, top, tall) {
    const middle = top + tall / 2;
    pen.textAlign = "right";
    pen.fillStyle = colours.ink;
    pen.fillText(fitted(pen, node.name, LEFT - 16), LEFT - 10, middle - 7);
    pen.fillStyle = colours.soft;
    pen.fillText(`${short(node.cores)} cores · ${node.speed.toFixed(1)}×`, LEFT - 10, middle + 8);
  }

  function bar(pen, task, x, y) {
    const id = identity(task);
    const faded = chosen !== null && id !== chosen;
    const from = x(task.bound), to = Math.max(x(task.until), from + 1.2);
    const work = task.started === null ? to : clamp(x(task.started), from, to);
    const tall = rowHeight > 4 ? rowHeight - 1 : rowHeight - 0.5;
    pen.globalAlpha = faded ? 0.1 : 0.38;
    pen.fillStyle = colour(id);
    pen.fillRect(from, y, to - from, tall);
    pen.globalAlpha = faded ? 0.13 : 1;
    pen.fillRect(work, y, to - work, tall);
    if (task.ending !== "Completed") {
      pen.globalAlpha = faded ? 0.25 : 1;
      ending(pen, task, from, y, to - from, tall);
    }
    pen.globalAlpha = 1;
  }

  // Marked by shape as well as by colour: hatched for OOM, dashed for other failures.
  function ending(pen, task, left, top, wide, tall) {
    const oom = task.ending === "OOMKilled";
    pen.fillStyle = colours.card + "b0";
    pen.fillRect(left, top, wide, tall);
    pen.strokeStyle = oom ? colours.bad : colours.ink;
    pen.lineWidth = 1.4;
    pen.setLineDash(oom ? [] : [3, 2]);
    pen.strokeRect(left + 0.7, top + 0.7, Math.max(1, wide - 1.4), Math.max(1, tall - 1.4));
    pen.setLineDash([]);
    if (oom) {
      pen.save();
      pen.beginPath(); pen.rect(left, top, wide, tall); pen.clip();
      pen.beginPath();
      for (let at = left - tall; at < left + wide; at += 5) { pen.moveTo(at, top + tall); pen.lineTo(at + tall, top); }
      pen.stroke();
      pen.restore();
    }
    pen.lineWidth = 1;
  }

  function taskAt(event) {
    const row = boxes.find(({ y }) => event.offsetY >= y && event.offsetY < y + rowHeight);
    if (!row) return null;
    const at = timeAt(event.offsetX);
    const slack = ((view.to - view.from) / scale().width) * 1.5;
    return row.tasks.find((task) => at >= task.bound - slack && at <= task.until + slack) || null;
  }

  function legend() {
    const ids = colourBy === "workflow"
      ? arm.workflows.map((_, index) => index)
      : arm.templates.map((_, index) => index).sort((a, b) => arm.templates[a].rank - arm.templates[b].rank);
    const names = colourBy === "workflow" ? arm.workflows : arm.templates.map((item) => item.name);
    $(".legend", section).replaceChildren(...ids.map((id) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(chosen === id));
      const swatch = document.createElement("i");
      swatch.style.background = colour(id);
      button.append(swatch, names[id] || "(no name)");
      button.onclick = () => choose(chosen === id ? null : id);
      return button;
    }));
  }
  function choose(id) { chosen = id; legend(); redraw(); }

  canvas.addEventListener("mousemove", (event) => {
    const task = overlay.drag ? null : taskAt(event);
    canvas.style.cursor = task ? "pointer" : "crosshair";
    if (!task) return hideTooltip();
    showTooltip(event, task.name || task.pod, facts(arm, task));
  });
  canvas.addEventListener("mouseleave", hideTooltip);
  canvas.addEventListener("click", (event) => {
    if (overlay.dragged) return;
    const task = taskAt(event);
    choose(task && identity(task) !== chosen ? identity(task) : null);
  });
  draggable(canvas, timeAt, overlay);
  $$("[data-colour]", section).forEach((button) => {
    button.onclick = () => {
      colourBy = button.dataset.colour;
      $$("[data-colour]", section).forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      choose(null);
    };
  });
  $$("[data-zoom]", section).forEach((button) => { button.onclick = () => zoom(button.dataset.zoom); });
  view.listeners.push(draw);
  view.listeners.push(() => { if (section.dataset.dark !== String(colours.dark)) { section.dataset.dark = colours.dark; legend(); } });
}

function facts(arm, task) {
  const rows = [
    ["workflow", arm.workflows[task.workflow]],
    ["template", arm.templates[task.template].name || "–"],
    ["node", arm.nodes[task.node].name],
    ["created, bound", `${minutes(task.created)}, ${minutes(task.bound)}`],
    ["started, ended", `${minutes(task.started)}, ${minutes(task.ended)}`],
    ["waited, ran", `${lasting(task.started === null ? null : task.started - task.created)}, ${lasting(task.started === null || task.ended === null ? null : task.ended - task.started)}`],
    ["CPU requested, used", `${short(task.cpu)}, ${short(task.cpuUsed)} cores`],
    ["memory requested, peak", `${short(task.memory / GIB)}, ${short(task.peak / GIB)} GiB`],
    ["ended with", task.exit ? `${task.ending} (${task.exit})` : task.ending],
  ];
  if (task.attempt) rows.splice(2, 0, ["attempt", String(task.attempt + 1)]);
  return rows;
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let shown = text;
  while (shown.length > 1 && pen.measureText(shown + "…").width > width) shown = shown.slice(0, -1);
  return shown + "…";
}

function timeAxis(pen, { x, top, bottom, span, quiet = false }) {
  const { ticks, label } = timeTicks(span);
  pen.textAlign = "center";
  pen.lineWidth = 1;
  for (const at of ticks) {
    const place = Math.round(x(at)) + 0.5;
    pen.strokeStyle = colours.grid;
    pen.beginPath(); pen.moveTo(place, top); pen.lineTo(place, bottom); pen.stroke();
    pen.fillStyle = colours.soft;
    pen.fillText(label(at), place, bottom + 11);
  }
  if (!quiet) {
    pen.fillStyle = colours.soft;
    const whole = "simulated minutes since the start of the run";
    const shown = pen.measureText(whole).width <= span ? whole : "simulated minutes";
    pen.fillText(shown, x(view.from) + span / 2, bottom + 28);
  }
}
