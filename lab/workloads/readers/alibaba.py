"""Production batch DAGs of Alibaba's cluster trace v2018, with measured CPU and memory.

Split by time, not at random: the same structures come again and again, so the first 60 % of the
trace are open (`alibaba-early`), the next 10 % are for validation, the last 30 % for tests. A task
of many instances becomes a few tasks, one for each `SPLIT` instances.
"""

import math
from collections.abc import Iterator

import msgspec

from lab.workloads import packs, traces

FILE = "alibaba2018_dags/ali2018_random_6600.jsonl.xz"
TRACE_S = 691_200.0
"""Length of the trace: eight days."""
SPLIT = 20
"""Instances that one task of the workflow handles."""
MOST_SPLITS = 6
MACHINE_BYTES = 384 * 2**30
"""Memory is published as a share of a machine; its size is not: an assumption (4 GiB a core)."""


class Task(msgspec.Struct, frozen=True):
    """A task of the file; `cpu_use` and `mem_use` are sums over instances, in percent."""

    n: str
    p: list[int]
    st: float
    rt: packs.Amount | None = None
    inst: packs.Amount | None = None
    cpu_use: packs.Amount | None = None
    mem_use: packs.Amount | None = None


class Job(msgspec.Struct, frozen=True):
    """A line of the file."""

    id: str
    tasks: list[Task]


def read(pack: packs.Pack) -> Iterator[traces.Trace]:
    """Yield every job; raises `UsageError` naming the line of a broken one."""
    for where, row in packs.rows(pack.file(FILE), Job):
        parents = [task.p for task in row.tasks]
        traces.check(parents, [task.n for task in row.tasks], name=row.id, where=where)
        yield traces.Trace(name=f"alibaba2018/{row.id}", family=_family(row), tasks=_tasks(row))


def _family(row: Job) -> str:
    share = min((task.st for task in row.tasks), default=0.0) / TRACE_S
    part = "early" if share < 0.6 else "middle" if share < 0.7 else "late"
    return f"alibaba-{part}"


def _tasks(row: Job) -> tuple[traces.TraceTask, ...]:
    """Return the tasks of a job in an order in which parents come first."""
    tasks: list[traces.TraceTask] = []
    places: dict[int, list[int]] = {}
    for index in traces.order_of([task.p for task in row.tasks]):
        task = row.tasks[index]
        instances = max(1.0, task.inst or 1.0)
        splits = min(MOST_SPLITS, math.ceil(instances / SPLIT))
        places[index] = list(range(len(tasks), len(tasks) + splits))
        tasks += [
            traces.TraceTask(
                # J5_2_4 is task 5 of kind J after tasks 2 and 4; the kind is what repeats.
                program=f"{task.n.rstrip('0123456789_')[:1].lower() or 't'}-{len(task.p)}",
                parents=tuple(sorted(place for parent in task.p for place in places[parent])),
                runtime_s=max(task.rt or 0.0, traces.SHORTEST_S),
                cores_used=(task.cpu_use or 0.0) / instances / 100 or None,
                memory_bytes=(task.mem_use or 0.0) / instances / 100 * MACHINE_BYTES or None,
            )
        ] * splits
    return tuple(tasks)
