// Utilisation over time: used filled, requested (or what `line` says) as a line, capacity dashed.
function curve(holder, arm, { title, unit, used, requested, capacity, divisor = 1, names = ["used", "requested"], line = "requested", tall = 190 }) {
  const box = document.createElement("div");
  box.className = "chart";
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.tabIndex = 0;
  canvas.setAttribute("aria-label", `${title} over simulated time`);
  box.append(canvas);
  holder.append(box);
  const left = 46, right = 12, top = 26, bottom = 34;
  const overlay = { drag: null, dragged: false, at: null };
  const peak = Math.max(capacity || 0, ...used.map((v) => v / divisor), ...(requested || []).map((v) => v / divisor));
  const most = (peak || 1) * 1.04;
  const span = () => canvas.clientWidth - left - right;
  const timeAt = (place) => view.from + ((place - left) / span()) * (view.to - view.from);

  function draw() {
    const { pen, width, height } = prepare(canvas, tall);
    const wide = width - left - right, base = height - bottom;
    const x = (at) => left + ((at - view.from) / (view.to - view.from)) * wide;
    const y = (value) => base - (value / most) * (base - top);
    pen.textAlign = "left";
    pen.fillStyle = colours.ink;
    pen.font = '600 12.5px system-ui, "DejaVu Sans", sans-serif';
    pen.fillText(title, 6, 11);
    const after = 6 + pen.measureText(title).width;
    pen.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    pen.fillStyle = colours.soft;
    pen.fillText(unit, after + 8, 11);
    for (const value of valueTicks(most, tall > 150 ? 4 : 3)) {
      const place = Math.round(y(value)) + 0.5;
      pen.strokeStyle = colours.grid;
      pen.beginPath(); pen.moveTo(left, place); pen.lineTo(width - right, place); pen.stroke();
      pen.textAlign = "right";
      pen.fillStyle = colours.soft;
      pen.fillText(short(value), left - 6, place);
    }
    timeAxis(pen, { x, top, bottom: base, span: wide, quiet: true });
    pen.textAlign = "center";
    pen.fillText("simulated minutes", left + wide / 2, base + 26);
    pen.save();
    pen.beginPath(); pen.rect(left, top - 2, wide, base - top + 3); pen.clip();
    steps(pen, used, x, y, true);
    if (requested) steps(pen, requested, x, y, false);
    if (capacity) {
      pen.strokeStyle = colours.capacity;
      pen.setLineDash([5, 4]);
      pen.beginPath(); pen.moveTo(left, y(capacity)); pen.lineTo(width - right, y(capacity)); pen.stroke();
      pen.setLineDash([]);
    }
    if (overlay.at !== null) {
      pen.strokeStyle = colours.soft;
      pen.beginPath(); pen.moveTo(x(overlay.at), top); pen.lineTo(x(overlay.at), base); pen.stroke();
    }
    if (overlay.drag) {
      pen.fillStyle = colours.accent + "33";
      pen.fillRect(overlay.drag[0], top, overlay.drag[1] - overlay.drag[0], base - top);
    }
    pen.restore();
  }
  function steps(pen, values, x, y, filled) {
    const first = Math.max(0, Math.floor(view.from / arm.interval) - 1);
    const last = Math.min(values.length - 1, Math.ceil(view.to / arm.interval) + 1);
    if (last < first) return;
    const outline = new Path2D();
    for (let index = first; index <= last; index++) {
      const level = y(values[index] / divisor);
      if (index === first) outline.moveTo(x(index * arm.interval), level);
      else outline.lineTo(x(index * arm.interval), level);
      outline.lineTo(x((index + 1) * arm.interval), level);
    }
    if (filled) {
      const area = new Path2D(outline);
      area.lineTo(x((last + 1) * arm.interval), y(0));
      area.lineTo(x(first * arm.interval), y(0));
      pen.fillStyle = colours["used-fill"];
      pen.fill(area);
    }
    pen.lineWidth = 1.6;
    pen.strokeStyle = filled ? colours.used : colours[line];
    pen.stroke(outline);
    pen.lineWidth = 1;
  }
  canvas.addEventListener("mousemove", (event) => {
    const at = timeAt(event.offsetX);
    const index = Math.floor(at / arm.interval);
    if (overlay.drag || index < 0 || index >= used.length || at < view.from || at > view.to) { overlay.at = null; redraw(); return hideTooltip(); }
    overlay.at = at;
    redraw();
    const rows = [[names[0], `${short(used[index] / divisor)} ${unit}`]];
    if (requested) rows.push([names[1], `${short(requested[index] / divisor)} ${unit}`]);
    if (capacity) rows.push(["capacity", `${short(capacity)} ${unit}`]);
    showTooltip(event, `${title} at ${minutes(at)}`, rows);
  });
  canvas.addEventListener("mouseleave", () => { overlay.at = null; redraw(); hideTooltip(); });
  draggable(canvas, timeAt, overlay);
  view.listeners.push(draw);
}

function utilisation(section, arm) {
  const cluster = $(".curves.cluster", section), nodes = $(".curves.nodes", section);
  const cores = arm.nodes.reduce((sum, node) => sum + node.cores, 0);
  const memory = arm.nodes.reduce((sum, node) => sum + node.memory, 0) / GIB;
  const gpus = arm.nodes.reduce((sum, node) => sum + node.gpus, 0);
  const total = arm.curves.cluster;
  curve(cluster, arm, { title: "CPU, whole cluster", unit: "cores", used: total.cpuUsed, requested: total.cpuRequested, capacity: cores });
  curve(cluster, arm, { title: "Memory, whole cluster", unit: "GiB", used: total.memoryUsed, requested: total.memoryRequested, capacity: memory, divisor: GIB });
  curve(cluster, arm, { title: "Pods bound (filled) and waiting (line)", unit: "pods", used: arm.bound, requested: arm.waiting, names: ["bound", "waiting"], line: "waiting" });
  if (gpus) curve(cluster, arm, { title: "GPUs, whole cluster", unit: "GPUs", used: total.gpusUsed, capacity: gpus });
  arm.nodes.forEach((node, index) => {
    const own = arm.curves.nodes[index];
    curve(nodes, arm, { title: `${node.name} · CPU`, unit: "cores", used: own.cpuUsed, requested: own.cpuRequested, capacity: node.cores, tall: 140 });
    curve(nodes, arm, { title: `${node.name} · memory`, unit: "GiB", used: own.memoryUsed, requested: own.memoryRequested, capacity: node.memory / GIB, divisor: GIB, tall: 140 });
  });
}
