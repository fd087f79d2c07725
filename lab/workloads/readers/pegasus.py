"""Synthetic Pegasus workflows of the Bharathi generator (by WorkflowSim): DAX in JSON lines.

CyberShake, Inspiral, Montage and Sipht are kept for tests; only Epigenomics is open. The files
know runtimes and bytes, and neither CPU nor memory.
"""

from collections.abc import Iterator

import msgspec

from lab.workloads import families, packs, traces

FILE = "pegasus_dax/pegasus_dax_20.jsonl.xz"


class Task(msgspec.Struct, frozen=True):
    """A task of the file; other keys are skipped."""

    name: str
    p: list[int]
    rt: float
    """Some amounts are below zero, as the generator draws them; they are floored."""
    inb: float = 0.0
    outb: float = 0.0


class Workflow(msgspec.Struct, frozen=True):
    """A line of the file; other keys are skipped."""

    id: str
    app: str
    tasks: list[Task]


def read(pack: packs.Pack) -> Iterator[traces.Trace]:
    """Yield every workflow but the toys; raises `UsageError` naming the line of a broken one."""
    for where, row in packs.rows(pack.file(FILE), Workflow):
        if row.app not in families.TOYS:
            tasks = tuple(
                traces.TraceTask(
                    program=task.name.removesuffix("_chr21"),
                    parents=tuple(task.p),
                    runtime_s=max(task.rt, traces.SHORTEST_S),
                    input_bytes=max(task.inb, 0.0),
                    output_bytes=max(task.outb, 0.0),
                )
                for task in row.tasks
            )
            trace = traces.Trace(name=row.id, family=row.app, tasks=tasks)
            yield traces.made(trace, where=where)
