"""Is a run valid? The control plane must have been quick enough for the speed of time.

At `speed` 60, 50 ms in which the API server, the scheduler or Argo think are 3 s of simulated time
in which nothing runs. A run counts only if the p99 of the control plane's own latency, times speed,
stays within a tenth of the median task. Judged: the API server's own time for creating pods, for
bindings and for status patches (audit log: answered - received), and the scheduler's time for pods
that fitted at once. Shown, not judged: Argo's reaction, because only a lower bound of it is known
(see `reactions`), and the tenths of a second that it pauses are scaled along.
"""

import bisect
import collections
from collections.abc import Sequence

import numpy as np

from lab.reports import audits, clockworks, measurements, sources

LIMIT_SHARE = 0.1
"""Of the median task's duration; from the issue, not tuned."""
API_CALLS = {
    ("create", "pods"): "API server: create a pod",
    ("create", "pods/binding"): "API server: bind a pod",
    ("patch", "pods/status"): "API server: patch a pod's status",
}
CUT_SHORT = {
    "interrupted": "somebody interrupted it",
    "timeout": "it reached its limit of time",
}
SCHEDULING = "scheduler: a pod that fits at once, from created to bound"
REACTION = "Argo: from a pod's end to the next pod of its workflow, beyond its pause (at least)"


def judge(known: sources.Sources, tasks: Sequence[measurements.Task]) -> measurements.Validity:
    """Return the verdict on one run."""
    speed = known.record.speed
    milliseconds: dict[str, list[float]] = collections.defaultdict(list)
    names = {(task.namespace, task.pod) for task in tasks}
    for call in known.calls:
        what = API_CALLS.get((call.verb, call.resource))
        if what and (call.namespace, call.name) in names:
            milliseconds[what].append(call.latency_s * 1e3)
    milliseconds[SCHEDULING] = [wait * 1e3 / speed for wait in scheduling_waits(known, tasks)]
    milliseconds[REACTION] = [wait * 1e3 / speed for wait in reactions(known, tasks)]
    latencies = [
        measurements.Latency(
            what=what,
            count=len(values),
            p50_ms=float(np.percentile(values, 50)),
            p99_ms=float(np.percentile(values, 99)),
            judged=what != REACTION,
        )
        for what, values in milliseconds.items()
        if values
    ]
    judged = [latency for latency in latencies if latency.judged]
    worst = max(judged, key=lambda latency: latency.p99_ms, default=None)
    durations = [
        task.ended_s - task.started_s
        for task in tasks
        if task.started_s is not None and task.ended_s is not None
    ]
    median_s = float(np.median(durations)) if durations else None
    p99_s = worst.p99_ms / 1e3 * speed if worst else None
    share = p99_s / median_s if p99_s is not None and median_s else None
    reasons = []
    if known.record.outcome in CUT_SHORT:
        reasons.append(f"the run was cut short: {CUT_SHORT[known.record.outcome]}")
    if worst is None or share is None:
        reasons.append("no pod ran, so nothing can be judged")
    elif share > LIMIT_SHARE:
        reasons.append(
            f"the control plane was too slow for speed {speed:g}: {worst.what} took "
            f"{worst.p99_ms:.0f} ms at p99, which is {p99_s:.1f} simulated s or {share:.0%} of the "
            f"median task ({median_s:.0f} s); {LIMIT_SHARE:.0%} is allowed: lower the speed"
        )
    return measurements.Validity(
        valid=not reasons,
        reasons=reasons,
        latencies=latencies,
        control_plane_p99_s=p99_s,
        median_task_s=median_s,
        share=share,
    )


def scheduling_waits(known: sources.Sources, tasks: Sequence[measurements.Task]) -> list[float]:
    """Return created-to-bound (simulated s) of the pods that certainly fitted when they came.

    Certainly: no other pod was waiting, and some node had room for the request beside all that was
    bound to it and had not ended, or ended so lately that the scheduler may not know it yet. Pods
    that needed more than CPU and memory (GPUs, selectors) are judged as if they did not. Pods that
    came in behind Tiphys' gate are left out: how long they are held is its decision, which the run
    is there to measure, and no latency.
    """
    room = _Room(known, tasks)
    held = {
        (call.namespace, call.name)
        for call in known.calls
        if call.verb == "create" and call.outcome == audits.GATED
    }
    created = sorted(task.created_s for task in tasks)
    bound = sorted(task.bound_s for task in tasks if task.bound_s is not None)
    waits = []
    for task in tasks:
        if task.bound_s is None or not task.node or (task.namespace, task.pod) in held:
            continue
        waiting = bisect.bisect_left(created, task.created_s) - bisect.bisect_left(
            bound, task.created_s
        )
        if waiting <= 0 and room.fits(task):
            waits.append(task.bound_s - task.created_s)
    return waits


def reactions(known: sources.Sources, tasks: Sequence[measurements.Task]) -> list[float]:
    """Return, per pod, how long Argo took to create it beyond its scaled pause (simulated s).

    Counted from the last status before it that told of an end in the same workflow. The end that
    let the pod come is that one or an earlier one, so Argo took at least this long. Retries are
    left out: they wait for their back-off.
    """
    ends = _told_ends(known, tasks)
    waits = []
    for task in tasks:
        before = ends[task.namespace, task.workflow]
        index = bisect.bisect_right(before, task.created_s)
        if index and not task.attempt:
            waits.append(max(0.0, task.created_s - before[index - 1] - clockworks.ARGO_PAUSE_S))
    return waits


def _told_ends(
    known: sources.Sources, tasks: Sequence[measurements.Task]
) -> dict[tuple[str, str], list[float]]:
    """Return, per workflow, when the API server had answered the status of each ended pod."""
    statuses: dict[tuple[str, str], list[tuple[float, float]]] = collections.defaultdict(list)
    for call in known.calls:
        if call.resource == "pods/status" and call.accepted:
            received_s = known.sim_s(call.at)
            statuses[call.namespace, call.name].append(
                (received_s, received_s + call.latency_s * known.record.speed)
            )
    ends: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for task in tasks:
        if task.ended_s is not None:
            later = (
                told_s
                for received_s, told_s in statuses[task.namespace, task.pod]
                if received_s >= task.ended_s
            )
            ends[task.namespace, task.workflow].append(next(later, task.ended_s))
    for times in ends.values():
        times.sort()
    return ends


class _Room:
    """What is requested on each node at each instant, as step functions."""

    FREED_LATE_WALL_S = 1.0
    """Between the end of a container and the status that frees its requests."""

    ALLOCATABLE_SHARE = 7 / 8
    """Of a node's memory: the system takes an eighth at most (`lab.kubelet.settings`)."""

    def __init__(self, known: sources.Sources, tasks: Sequence[measurements.Task]) -> None:
        late_s = self.FREED_LATE_WALL_S * known.record.speed
        self._capacity = {
            name: (group.cores * 1000.0, group.memory * self.ALLOCATABLE_SHARE)
            for name, group in known.cluster.nodes
        }
        steps: dict[str, list[tuple[float, float, float]]] = {name: [] for name in self._capacity}
        for task in tasks:
            if task.bound_s is None or task.node not in steps:
                continue
            cpu_m, memory = float(task.requested_cpu_m), float(task.requested_memory_bytes)
            steps[task.node].append((task.bound_s, cpu_m, memory))
            if task.ended_s is not None:
                steps[task.node].append((task.ended_s + late_s, -cpu_m, -memory))
        self._times: dict[str, list[float]] = {}
        self._held: dict[str, np.ndarray] = {}
        for name, changes in steps.items():
            changes.sort()
            self._times[name] = [at for at, _, _ in changes]
            self._held[name] = np.cumsum(
                np.array([(0.0, 0.0), *((cpu, memory) for _, cpu, memory in changes)]), axis=0
            )

    def fits(self, task: measurements.Task) -> bool:
        """Whether one node had room for the task when it was created."""
        for name, (cpu_m, memory) in self._capacity.items():
            held = self._held[name][bisect.bisect_right(self._times[name], task.created_s)]
            if (
                held[0] + task.requested_cpu_m <= cpu_m
                and held[1] + task.requested_memory_bytes <= memory
            ):
                return True
        return False
