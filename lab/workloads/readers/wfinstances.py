"""WfInstances (wfcommons): real executions under Makeflow, Nextflow and Pegasus.

Traps of the data: many Nextflow runtimes are zero (the task's trace was not recorded), so they are
floored; the nf-core runs used test profiles, whose inputs are tiny; Pegasus records no memory
except for srasearch and montage; bytes read and written exist for Makeflow and Nextflow only.
"""

from collections.abc import Iterator

import msgspec

from lab.workloads import families, packs, traces

FILE = "wfinstances/wfinstances_norm.jsonl.xz"
TASK_NAME_FIRST_PART = frozenset({"epigenomics"})
"""Families whose task names carry the sample behind the program: `map_map_HEP2_…`."""


class Task(msgspec.Struct, frozen=True):
    """A task of the file; other keys are skipped."""

    name: str
    p: list[int]
    rt: packs.Amount | None
    cpu: packs.Amount | None = None
    mem: packs.Amount | None = None
    rd: packs.Amount | None = None
    wr: packs.Amount | None = None
    inb: packs.Amount = 0.0
    outb: packs.Amount = 0.0


class Workflow(msgspec.Struct, frozen=True):
    """A line of the file; other keys are skipped."""

    id: str
    wms: str
    app: str
    tasks: list[Task]


def read(pack: packs.Pack) -> Iterator[traces.Trace]:
    """Yield every workflow but the toys; raises `UsageError` naming the line of a broken one."""
    for where, row in packs.rows(pack.file(FILE), Workflow):
        if row.app not in families.TOYS:
            yield traces.made(_trace(row), where=where)


def _trace(row: Workflow) -> traces.Trace:
    return traces.Trace(
        name=row.id,
        family=row.app,
        tasks=tuple(_task(task, row) for task in row.tasks),
        small_inputs=row.wms == "nextflow",
    )


def _task(task: Task, row: Workflow) -> traces.TraceTask:
    part, program = "", task.name
    if row.wms == "nextflow":
        *parts, program = task.name.split(".")
        part = parts[-1] if len(parts) > 2 else ""
    elif row.app in TASK_NAME_FIRST_PART:
        program = task.name.split("_")[0]
    return traces.TraceTask(
        program=program,
        part=part,
        parents=tuple(task.p),
        runtime_s=max(task.rt or 0.0, traces.SHORTEST_S),
        cores_used=None if task.cpu is None or task.cpu <= 0 else task.cpu / 100,
        memory_bytes=task.mem or None,
        read_bytes=task.rd,
        written_bytes=task.wr,
        input_bytes=task.inb,
        output_bytes=task.outb,
    )
