"""The rows that page and terminal show: cells with their text, and what to sort them by."""

import collections
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.reports import figures, measurements

MOST_PROBLEMS = 20
"""Problems that a page or a terminal lists; the JSON has all."""

WORKFLOW_HEADS = (
    ("Workflow", "t"),
    ("Family", "t"),
    ("Ended as", "t"),
    ("Submitted", "n"),
    ("Completion", "n"),
    ("Stretch", "n"),
    ("Deadline", "n"),
    ("Late by", "n"),
    ("Pods", "n"),
    ("OOM kills", "n"),
    ("CPU used, core min", "n"),
    ("Memory requested, GiB min", "n"),
    ("Memory used, GiB min", "n"),
    ("requested ÷ used", "n"),
)
TEMPLATE_HEADS = (
    ("Template", "t"),
    ("Pods", "n"),
    ("OOM kills", "n"),
    ("Other failures", "n"),
    ("Cores requested", "n"),
    ("Cores used", "n"),
    ("Memory requested, GiB", "n"),
    ("Peak, median, GiB", "n"),
    ("Peak, largest, GiB", "n"),
    ("requested ÷ peak", "n"),
    ("Duration, min", "n"),
    ("Wait, min", "n"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a table."""

    text: str
    sort: str
    numeric: bool = False
    bar: int | None = None
    """Length of a bar beside the text, in percent of the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; `alarm` where something went wrong that the row names."""

    cells: tuple[Cell, ...]
    alarm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One headline number."""

    label: str
    number: str
    unit: str = ""
    note: str = ""
    alarm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """One line about the control plane's own time."""

    what: str
    count: int
    p50: str
    p99: str
    scaled: str
    judged: str
    alarm: bool


def tiles(arm: measurements.Measurement) -> list[Tile]:
    """Return the headline of one run."""
    found = arm.figures
    requested, used = found.requested_memory_gib_s, found.used_memory_gib_s
    return [
        Tile(
            label="Mean completion",
            number=_minutes(found.mean_completion_s),
            unit="sim min",
            note="submitted to completed",
        ),
        Tile(
            label="P95 completion",
            number=_minutes(found.p95_completion_s),
            unit="sim min",
            note="one in twenty took longer",
        ),
        Tile(
            label="Mean wait of a pod",
            number=_minutes(found.mean_wait_s),
            unit="sim min",
            note=f"created to started; P95 {duration(found.p95_wait_s)}",
        ),
        Tile(
            label="Makespan",
            number=_minutes(found.makespan_s),
            unit="sim min",
            note=f"first submission to last end; {_wall(found.wall_s)} on the wall",
        ),
        Tile(
            label="Deadlines missed",
            number=f"{found.deadlines_missed} / {found.workflows}",
            note="late, or did not end",
        ),
        Tile(
            label="CPU utilisation",
            number=_percent(found.utilisation),
            unit="%" if found.utilisation is not None else "",
            note=f"requested {_percent(found.requested_cpu_share)} % of all cores",
        ),
        Tile(
            label="Memory requested ÷ used",
            number=_number(found.requested_over_used_memory),
            unit="times" if found.requested_over_used_memory is not None else "",
            note=f"{requested / 3600:,.4g} and {used / 3600:,.4g} GiB h",
        ),
        Tile(
            label="OOM kills",
            number=str(found.oom_kills),
            note=f"in {_pods(found.pods_ended)} that ended",
            alarm=found.oom_kills > 0,
        ),
        Tile(
            label="Workflows succeeded",
            number=f"{found.succeeded} / {found.workflows}",
            note=f"{found.failed} failed",
            alarm=found.succeeded < found.workflows,
        ),
        Tile(
            label="Pods ended / created",
            number=f"{found.pods_ended} / {found.pods_created}",
            note="by kubelet and API server",
            alarm=found.pods_ended != found.pods_created,
        ),
    ]


def figure_rows(arm: measurements.Measurement) -> list[tuple[str, str]]:
    """Return the headline of one run as the terminal shows it: label with unit, and text."""
    found = arm.figures
    requested, used = found.requested_memory_gib_s, found.used_memory_gib_s
    return [
        ("workflows succeeded", f"{found.succeeded} of {found.workflows}"),
        ("pods ended, of created", f"{found.pods_ended} of {found.pods_created}"),
        ("pods decided by Tiphys", f"{found.pods_decided} of {found.pods_created}"),
        ("mean completion, simulated min", _minutes(found.mean_completion_s)),
        ("P95 completion, simulated min", _minutes(found.p95_completion_s)),
        ("mean wait of a pod, simulated min", _minutes(found.mean_wait_s)),
        ("makespan, simulated min", _minutes(found.makespan_s)),
        ("deadlines missed", f"{found.deadlines_missed} of {found.workflows}"),
        ("CPU used, % of all cores", _percent(found.utilisation)),
        ("CPU requested, % of all cores", _percent(found.requested_cpu_share)),
        ("memory requested, GiB h", f"{requested / 3600:,.4g}"),
        ("memory used, GiB h", f"{used / 3600:,.4g}"),
        ("memory requested over used", _number(found.requested_over_used_memory)),
        ("OOM kills", f"{found.oom_kills}"),
        ("wall time of the run", _wall(found.wall_s)),
    ]


def workflow_rows(arm: measurements.Measurement) -> list[Row]:
    """Return one row per workflow, in the order of arrival."""
    completions = [item.completion_s for item in arm.workflows if item.completion_s is not None]
    longest_s = max(completions, default=1.0) or 1.0
    return [_workflow_row(item, longest_s=longest_s) for item in arm.workflows]


def template_rows(arm: measurements.Measurement) -> list[Row]:
    """Return one row per template, the most frequent first."""
    groups: dict[str, list[measurements.Task]] = collections.defaultdict(list)
    for task in arm.tasks:
        if task.bound_s is not None and task.ended_s is not None:
            groups[task.template].append(task)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    most = max((len(tasks) for tasks in groups.values()), default=1)
    return [_template_row(name, tasks, most=most) for name, tasks in ordered]


def latency_rows(arm: measurements.Measurement) -> list[LatencyRow]:
    """Return the latencies of the control plane; an alarm where one broke the limit."""
    worst = max(
        (item.p99_ms for item in arm.validity.latencies if item.judged), default=float("inf")
    )
    return [
        LatencyRow(
            what=item.what,
            count=item.count,
            p50=f"{item.p50_ms:.1f}",
            p99=f"{item.p99_ms:.1f}",
            scaled=f"{item.p99_ms / 1e3 * arm.speed:.1f}",
            judged="yes" if item.judged else "shown only",
            alarm=item.judged and not arm.validity.valid and item.p99_ms == worst,
        )
        for item in arm.validity.latencies
    ]


def duration(seconds: float | None) -> str:
    """Return simulated seconds as a person reads them."""
    if seconds is None:
        return "-"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _workflow_row(item: measurements.Workflow, *, longest_s: float) -> Row:
    late_s = None if item.completion_s is None else max(0.0, item.completion_s - item.deadline_s)
    stretch = (
        item.completion_s / item.critical_path_s
        if item.completion_s is not None and item.critical_path_s
        else None
    )
    requested = item.requested_memory_byte_s / figures.GIB / 60
    used = item.used_memory_byte_s / figures.GIB / 60
    share = None if item.completion_s is None else round(100 * item.completion_s / longest_s)
    return Row(
        cells=(
            _text(item.name),
            _text(item.family),
            _text(item.phase or "did not end"),
            _value(item.submitted_s, _minutes(item.submitted_s)),
            _value(item.completion_s, _minutes(item.completion_s), bar=share),
            _value(stretch, _number(stretch)),
            _value(item.deadline_s, _minutes(item.deadline_s)),
            _value(late_s, _minutes(late_s) if late_s else "-"),
            _value(item.pods, f"{item.pods}"),
            _value(item.oom_kills, f"{item.oom_kills}"),
            _value(item.cpu_core_s, f"{item.cpu_core_s / 60:,.0f}"),
            _value(requested, f"{requested:,.0f}"),
            _value(used, f"{used:,.0f}"),
            _value(requested / used if used else None, _number(requested / used if used else None)),
        ),
        alarm=item.phase != "Succeeded",
    )


def _template_row(name: str, tasks: Sequence[measurements.Task], *, most: int) -> Row:
    ran = [task for task in tasks if task.started_s is not None and task.ended_s is not None]
    lengths_s = [(task, (task.ended_s or 0.0) - (task.started_s or 0.0)) for task in ran]
    cores = [task.cpu_core_s / length for task, length in lengths_s if length > 0]
    peaks = [task.peak_memory_bytes / figures.GIB for task in ran]
    requested = statistics.median(task.requested_memory_bytes for task in tasks) / figures.GIB
    requested_cores = statistics.median(task.requested_cpu_m for task in tasks) / 1000
    peak = _median(peaks)
    ratio = requested / peak if peak else None
    wait_s = _median([task.wait_s for task in ran if task.wait_s is not None])
    length_s = _median([length for _, length in lengths_s])
    ooms = sum(task.reason == "OOMKilled" for task in tasks)
    other = sum(task.reason not in ("Completed", "OOMKilled") for task in tasks)
    return Row(
        cells=(
            _text(name or "(no template)"),
            _value(len(tasks), f"{len(tasks)}", bar=round(100 * len(tasks) / most)),
            _value(ooms, f"{ooms}"),
            _value(other, f"{other}"),
            _value(requested_cores, _number(requested_cores)),
            _value(_median(cores), _number(_median(cores))),
            _value(requested, _number(requested)),
            _value(peak, _number(peak)),
            _value(max(peaks, default=None), _number(max(peaks, default=None))),
            _value(ratio, _number(ratio)),
            _value(length_s, _minutes(length_s)),
            _value(wait_s, _minutes(wait_s)),
        ),
        alarm=ooms > 0,
    )


def _text(text: str) -> Cell:
    return Cell(text=text, sort=text)


def _value(value: float | None, text: str, *, bar: int | None = None) -> Cell:
    return Cell(text=text, sort="" if value is None else f"{value:.6g}", numeric=True, bar=bar)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 60:,.1f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _wall(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f} s"


def _pods(number: int) -> str:
    return f"{number} pod" + ("" if number == 1 else "s")
