"""Decima's profiles of TPC-H on Spark: 22 queries at 7 sizes, stages with durations per wave.

A stage becomes a few tasks that share its work equally, one for each `SPLIT` partitions: what a
stage of Spark is as pods of a workflow. Durations are those measured with about 20 executors,
first wave and rest as recorded.
"""

import math
from collections.abc import Iterator

import msgspec

from lab import errors
from lab.workloads import packs, traces

FILE = "tpch_decima/tpch_154.jsonl.xz"
EXECUTORS = 20
SPLIT = 60
"""Partitions that one task of the workflow handles."""
MOST_SPLITS = 6


class Durations(msgspec.Struct, frozen=True):
    """Milliseconds of the tasks of a stage, by wave."""

    fresh: list[packs.Amount] = []
    first: list[packs.Amount] = []
    rest: list[packs.Amount] = []


class Stage(msgspec.Struct, frozen=True):
    """A stage of a query."""

    p: list[int]
    ntask: packs.Count
    dur_ms: dict[int, Durations]
    """By the number of executors."""


class Query(msgspec.Struct, frozen=True):
    """A line of the file."""

    id: str
    query: int
    size: str
    stages: list[Stage]


def read(pack: packs.Pack) -> Iterator[traces.Trace]:
    """Yield one trace for each query and size; `UsageError` names the line of a broken one."""
    for where, row in packs.rows(pack.file(FILE), Query):
        yield _trace(row, where=where)


def _trace(row: Query, *, where: str) -> traces.Trace:
    tasks: list[traces.TraceTask] = []
    places: dict[int, list[int]] = {}
    stages = [stage.p for stage in row.stages]
    names = [f"stage {number}" for number in range(len(stages))]
    traces.check(stages, names, name=row.id, where=where)
    for number in traces.order_of(stages):
        stage = row.stages[number]
        splits = min(MOST_SPLITS, math.ceil(stage.ntask / SPLIT))
        work_s = _work_s(stage, where=f"{where}: stage {number}")
        places[number] = list(range(len(tasks), len(tasks) + splits))
        parents = tuple(sorted(place for parent in stage.p for place in places[parent]))
        tasks += [
            traces.TraceTask(
                program=f"stage-{number:02d}",
                parents=parents,
                runtime_s=max(work_s / splits, traces.SHORTEST_S),
                input_bytes=_size_bytes(row, where=where) / len(row.stages) / splits,
            )
        ] * splits
    return traces.Trace(name=row.id, family=f"tpch-q{row.query}", tasks=tuple(tasks))


def _work_s(stage: Stage, *, where: str) -> float:
    """Return the seconds of all tasks of a stage together."""
    counts = sorted(stage.dur_ms, key=lambda count: abs(count - EXECUTORS))
    for count in counts:
        waves = stage.dur_ms[count]
        measured = waves.first + waves.rest or waves.fresh
        if measured:
            return sum(measured) / len(measured) * stage.ntask / 1000
    raise errors.UsageError(f"{where} has no durations; mend or remove the line")


def _size_bytes(row: Query, *, where: str) -> float:
    try:
        size_bytes = float(row.size.removesuffix("g")) * 1e9
        if not 0 < size_bytes < float("inf"):
            raise ValueError
        return size_bytes
    except ValueError:
        raise errors.UsageError(
            f"{where}: size {row.size!r} is not like `100g`; mend or remove the line"
        ) from None
