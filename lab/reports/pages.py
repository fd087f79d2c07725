"""One self-contained HTML page of a run, or of several arms of one experiment.

Everything is in the file: no request leaves it (a Content-Security-Policy says so), it works from
`file://`, and all words and numbers stand in the HTML before a script runs; the script draws the
charts and sorts the tables. Names come from users: Jinja escapes them in the HTML, and `_data`
keeps them from ending the script element that carries the charts' data.
"""

import collections
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from lab import records
from lab.reports import clockworks, figures, measurements, tables
from lab.workloads import packs

FOLDER = Path(__file__).parent / "page"
TRACES = {
    "pack": "traces: data pack",
    "sample": "traces: the repository's own sample",
    None: "traces: none, the mix is of our own making",
}
SCRIPTS = ("scales.js", "gantt.js", "curves.js", "main.js")


def render(
    arms: Sequence[measurements.Measurement], *, notes: Sequence[str] = (), alarm: bool = False
) -> str:
    """Return the page; the first arm says what the experiment was, `notes` what came of it.

    With `alarm` the first note is a warning.
    """
    first = arms[0]
    sample = figures.data(first) == "sample"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    started = datetime.datetime.fromtimestamp(first.started_at, tz=datetime.UTC)
    return environment.get_template("page.html.j2").render(
        title=(
            f"{first.mix}: {_counted(len(first.workflows), 'workflow')}"
            f" on the {first.cluster} cluster{' · SAMPLE DATA' if sample else ''}"
        ),
        sample=packs.SAMPLE_TITLE if sample else "",
        facts=[
            f"scheduling: {' and '.join(arm.arm for arm in arms)}",
            f"{_counted(len(first.nodes), 'node')},"
            f" {sum(node.cores for node in first.nodes):g} cores",
            f"offered CPU work {first.overload:.2f} times what the cluster can do",
            f"arrivals {first.arrivals}",
            f"seed {first.seed}",
            f"time {first.speed:g} times faster",
            f"run {first.run}",
        ],
        notes=[_unbroken(note) for note in notes],
        alarm=alarm,
        arms=[_arm(arm) for arm in arms],
        workflow_heads=tables.WORKFLOW_HEADS,
        template_heads=tables.TEMPLATE_HEADS,
        speed=f"{first.speed:g}",
        scaled=clockworks.SCALED,
        chosen=clockworks.CHOSEN,
        wall=clockworks.WALL,
        command=first.command,
        origin=[
            f"commit {first.git}",
            _counted(first.machine_cores, "core") + " for everything",
            f"started {started:%Y-%m-%d %H:%M:%S} UTC",
            TRACES[figures.data(first)],
        ],
        css=(FOLDER / "page.css").read_text(),
        script="\n".join((FOLDER / name).read_text() for name in SCRIPTS),
        data=_data([_chart(arm) for arm in arms]),
    )


def write(
    path: Path,
    arms: Sequence[measurements.Measurement],
    *,
    notes: Sequence[str] = (),
    alarm: bool = False,
) -> None:
    """Write the page; the file appears whole or not at all."""
    records.write_whole(path, render(arms, notes=notes, alarm=alarm).encode())


def _arm(arm: measurements.Measurement) -> dict[str, Any]:
    """Return what the template shows of one arm, in words."""
    validity = arm.validity
    sound = validity.valid and not arm.problems
    ran = [task for task in arm.tasks if task.started_s is not None]
    shown = arm.problems[: tables.MOST_PROBLEMS]
    if more := len(arm.problems) - len(shown):
        shown = [*shown, f"and {more} more problems, all in the JSON"]
    share = "" if validity.share is None else f"{validity.share:.1%}"
    worst_s = validity.control_plane_p99_s
    return {
        "name": arm.arm,
        "sound": sound,
        "verdict": "Valid run" if sound else "Invalid run",
        "verdict_text": (
            f"The control plane's own p99, {worst_s or 0.0:.1f} simulated s, is {share} of the "
            "median task (10% is allowed), and every pod is accounted for."
        ),
        "reasons": [*validity.reasons, *shown],
        "tiles": tables.tiles(arm),
        "nodes": len(arm.nodes),
        "gantt_text": (
            f"{_counted(len(ran), 'pod')} on {_counted(len(arm.nodes), 'node')}, "
            f"{arm.figures.oom_kills} OOM-killed; the table of workflows below has the same in "
            "numbers"
        ),
        "workflows": tables.workflow_rows(arm),
        "templates": tables.template_rows(arm),
        "latencies": tables.latency_rows(arm),
        "speed": f"{arm.speed:g}",
        "median_task": tables.duration(validity.median_task_s),
    }


def _chart(arm: measurements.Measurement) -> dict[str, Any]:
    """Return the data of one arm's charts: tasks as columns, names as indexes."""
    workflows = [item.name for item in arm.workflows]
    nodes = [node.name for node in arm.nodes]
    shown = [task for task in arm.tasks if task.bound_s is not None and task.node in nodes]
    # Colours go to the templates that fill most of the chart.
    held_s: dict[str, float] = collections.defaultdict(float)
    for task in shown:
        held_s[task.template] += (task.ended_s or task.bound_s or 0.0) - (task.bound_s or 0.0)
    templates = sorted(held_s, key=lambda name: (-held_s[name], name))
    reasons = sorted({task.reason for task in shown})
    indexes = {name: index for index, name in enumerate(workflows)}
    columns = {
        "pod": [task.pod for task in shown],
        "name": [task.task for task in shown],
        "workflow": [indexes[task.workflow] for task in shown],
        "template": [templates.index(task.template) for task in shown],
        "attempt": [task.attempt for task in shown],
        "node": [nodes.index(task.node) for task in shown],
        "created": [_rounded(task.created_s) for task in shown],
        "bound": [_rounded(task.bound_s) for task in shown],
        "started": [_rounded(task.started_s) for task in shown],
        "ended": [_rounded(task.ended_s) for task in shown],
        "reason": [reasons.index(task.reason) for task in shown],
        "exit": [task.exit_code for task in shown],
        "cpu": [task.requested_cpu_m / 1000 for task in shown],
        "cpuUsed": [_rounded(_cores(task)) for task in shown],
        "memory": [task.requested_memory_bytes for task in shown],
        "peak": [round(task.peak_memory_bytes) for task in shown],
    }
    curves = arm.curves
    return {
        "end": max([0.0, *(_ends(arm))]),
        "interval": curves.interval_s,
        "workflows": workflows,
        "templates": [{"name": name, "rank": rank} for rank, name in enumerate(templates)],
        "reasons": reasons,
        "nodes": [
            {
                "name": node.name,
                "cores": node.cores,
                "memory": node.memory_bytes,
                "speed": node.speed,
                "gpus": node.gpus,
            }
            for node in arm.nodes
        ],
        "tasks": columns,
        "faults": [
            {"at": fault.at_s, "fault": fault.fault, "node": fault.node} for fault in arm.faults
        ],
        "waiting": curves.pods_waiting,
        "bound": curves.pods_bound,
        "curves": {
            "cluster": _curve(curves.cluster),
            "nodes": [_curve(curve) for curve in curves.nodes],
        },
    }


def _ends(arm: measurements.Measurement) -> list[float]:
    ends = [task.ended_s for task in arm.tasks] + [item.ended_s for item in arm.workflows]
    return [at for at in ends if at is not None]


def _curve(curve: measurements.Curve) -> dict[str, list[float]]:
    return {
        "cpuUsed": curve.cpu_used,
        "cpuRequested": curve.cpu_requested,
        "memoryUsed": curve.memory_used_bytes,
        "memoryRequested": curve.memory_requested_bytes,
        "gpusUsed": curve.gpus_used,
    }


def _cores(task: measurements.Task) -> float:
    """Return the mean cores that a task used while it ran."""
    if task.started_s is None or task.ended_s is None or task.ended_s <= task.started_s:
        return 0.0
    return task.cpu_core_s / (task.ended_s - task.started_s)


def _unbroken(text: str) -> str:
    """Keep a number and its percent sign on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _rounded(value: float | None) -> float | None:
    """Round to a hundredth: finer than a pixel, and a third of the digits."""
    return None if value is None else round(value, 2)


def _data(value: Sequence[Mapping[str, Any]]) -> str:
    """Encode for a script element: no name can close it, whatever it holds."""
    text = msgspec.json.encode(value).decode()
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
