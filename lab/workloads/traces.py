"""Recorded workflows in one shape, whatever pack they come from: tasks, parents, what each used.

Units: seconds on the machine of the trace, bytes, cores. None says that the trace has no figure;
nothing is made up here (see `programs` for the assumptions that fill the gaps).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from lab import errors

SHORTEST_S = 0.1
"""Floor of runtimes: zeros in the packs are tasks whose trace was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTask:
    """One task as it ran."""

    program: str
    """Identity: the same program has the same name in every task and workflow of the family."""
    part: str = ""
    """The sub-workflow that it belongs to, where the trace says so."""
    parents: tuple[int, ...] = ()
    """Indices into the workflow's tasks."""
    runtime_s: float
    cores_used: float | None = None
    """Mean cores in use over the runtime."""
    memory_bytes: float | None = None
    """Peak resident set."""
    read_bytes: float | None = None
    written_bytes: float | None = None
    input_bytes: float = 0.0
    """Sum of its input files."""
    output_bytes: float = 0.0
    gpus: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One workflow as it ran; tasks may stand in any order, their graph has no cycle."""

    name: str
    family: str
    tasks: tuple[TraceTask, ...]
    small_inputs: bool = False
    """It ran on a test profile, whose inputs are a small cut of a real sample."""


def made(trace: Trace, *, where: str) -> Trace:
    """Return the trace, proven to be a workflow; raises `UsageError` naming `where` and task."""
    check(
        [task.parents for task in trace.tasks],
        [task.program for task in trace.tasks],
        name=trace.name,
        where=where,
    )
    return trace


def check(
    parents: Sequence[Sequence[int]], programs: Sequence[str], *, name: str, where: str
) -> None:
    """Raise `UsageError` where the graph is no workflow: empty, strange parents, or a cycle."""
    if not parents:
        raise errors.UsageError(f"{where}: workflow {name} has no tasks; remove the line")
    for index, above in enumerate(parents):
        wrong = [parent for parent in above if not 0 <= parent < len(parents)]
        if wrong:
            raise errors.UsageError(
                f"{where}: task {index} ({programs[index]}) of {name} names parent {wrong[0]}, "
                f"but there are {len(parents)} tasks; mend or remove the line"
            )
    if cycle := cycle_of(parents):
        named = " → ".join(f"{index} ({programs[index]})" for index in cycle)
        raise errors.UsageError(
            f"{where}: {name} has a cycle: {named}; a workflow must have none, "
            "mend or remove the line"
        )


def order_of(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the indices so that parents come first, smallest index first; short if cyclic."""
    children: list[list[int]] = [[] for _ in parents]
    missing = [len(set(above)) for above in parents]
    for child, above in enumerate(parents):
        for parent in set(above):
            children[parent].append(child)
    ready = [index for index, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    ordered = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(index)
        for child in children[index]:
            missing[child] -= 1
            if missing[child] == 0:
                heapq.heappush(ready, child)
    return ordered


def cycle_of(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return one cycle (first index repeated at the end), or nothing."""
    ordered = set(order_of(parents))
    left = [index for index in range(len(parents)) if index not in ordered]
    if not left:
        return []
    path = [left[0]]
    while True:
        above = next(parent for parent in parents[path[-1]] if parent not in ordered)
        if above in path:
            return [*path[path.index(above) :], above][::-1]
        path.append(above)


def levels_of(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the depth of each task: 0 for roots, else 1 + that of the deepest parent."""
    levels = [0] * len(parents)
    for index in order_of(parents):
        levels[index] = 1 + max((levels[parent] for parent in parents[index]), default=-1)
    return levels


def longest_path(parents: Sequence[Sequence[int]], weights: Sequence[float]) -> float:
    """Return the largest sum of weights along a path."""
    ends = [0.0] * len(parents)
    for index in order_of(parents):
        ends[index] = weights[index] + max((ends[parent] for parent in parents[index]), default=0.0)
    return max(ends, default=0.0)
