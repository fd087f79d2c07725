"""CommonWorkflowScheduler: 990 real runs of nine nf-core workflows on Kubernetes, and their DAGs.

The DAGs are inferred and have more edges than the workflows had (a task that never overlapped
another in 110 runs counts as its child); sarek's lacks 18 of its 114 tasks. All nine families are
kept for tests; the requests and use of their rows, which name no scheduler, are open to everyone.
"""

import csv
from collections.abc import Iterator

import msgspec

from lab import errors
from lab.workloads import packs, traces

DAGS = "cws_k8s/cws_dags_inferred.jsonl.xz"
ROWS = "cws_k8s/cws_990runs_tasks.csv.xz"


class Task(msgspec.Struct, frozen=True):
    """A task of an inferred DAG; other keys are skipped."""

    process: str
    p: list[int]
    rt: packs.Amount
    cpu_pct: packs.Amount | None = None
    peak_rss: packs.Amount | None = None
    rd: packs.Amount | None = None
    wr: packs.Amount | None = None
    rchar: packs.Amount | None = None
    wchar: packs.Amount | None = None


class Workflow(msgspec.Struct, frozen=True):
    """A line of the DAG file; other keys are skipped."""

    id: str
    app: str
    tasks: list[Task]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt of a task asked for, and what it used."""

    workflow: str
    task: int
    runtime_s: float
    cores_requested: float
    cores_used: float
    memory_requested_bytes: float
    memory_used_bytes: float


def read(pack: packs.Pack) -> Iterator[traces.Trace]:
    """Yield the nine DAGs; raises `UsageError` naming the line of a broken one."""
    for where, row in packs.rows(pack.file(DAGS), Workflow):
        yield traces.made(_trace(row), where=where)


def _trace(row: Workflow) -> traces.Trace:
    return traces.Trace(name=row.id, family=row.app, tasks=tuple(_task(task) for task in row.tasks))


def _task(task: Task) -> traces.TraceTask:
    *parts, program = task.process.split(":")
    return traces.TraceTask(
        program=program,
        part=parts[-1] if len(parts) > 2 else "",
        parents=tuple(task.p),
        runtime_s=max(task.rt, traces.SHORTEST_S),
        cores_used=task.cpu_pct / 100 if task.cpu_pct else None,
        memory_bytes=task.peak_rss or None,
        read_bytes=task.rd,
        written_bytes=task.wr,
        input_bytes=task.rchar or 0.0,
        output_bytes=task.wchar or 0.0,
    )


def usages(pack: packs.Pack) -> Iterator[Usage]:
    """Yield the rows of completed attempts whose use was measured, in the order of the file."""
    path = pack.file(ROWS)
    numbered = packs.lines(path)
    # A byte that is no text is found where its cell is read, with the number of its line.
    header = next(numbered, (1, b""))[1].decode(errors="replace").rstrip().split(",")
    table = (line.decode(errors="replace") for _, line in numbered)
    for number, row in enumerate(csv.DictReader(table, fieldnames=header), start=2):
        try:
            if row["status"] == "COMPLETED" and row["%cpu"] and row["peak_rss"]:
                yield Usage(
                    workflow=row["wf"],
                    task=int(row["task"]),
                    runtime_s=float(row["realtime"] or 0) / 1000,
                    cores_requested=float(row["cpus"]),
                    cores_used=float(row["%cpu"]) / 100,
                    memory_requested_bytes=float(row["memory"]),
                    memory_used_bytes=float(row["peak_rss"]),
                )
        except (KeyError, ValueError, TypeError) as error:
            raise errors.UsageError(
                f"{path}, line {number}: not a task row ({error}); copy the file again"
            ) from error
