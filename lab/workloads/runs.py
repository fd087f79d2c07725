"""The record of one run, `HOME/runs/RUN.json`: what was submitted when, how each workflow ended.

Written by `lab run`, beside and renamed: once before the first submission, after each change of a
workflow at most once a second, and once at the end. Reports join it with the audit log and the
kubelet's journal by namespace and workflow name; names are unique in one lab. Fields named `*_at`
are wall time (unix seconds), `*_s` are seconds of simulated time.
"""

from pathlib import Path

import msgspec

from lab import homes, invocations, records


class WorkflowRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workflow of the run: what was planned for it, and what became of it."""

    namespace: str
    name: str
    uid: str = ""
    """Empty until it was submitted."""
    family: str
    """Application family of its trace (`bwa`, `methylseq`, …); the unit of the data's splits."""
    source: str
    """The trace that it was made of (`makeflow/bwa/…`)."""
    tasks: int
    """Pods that it needs when nothing is retried."""
    depth: int
    """Tasks on its longest path."""
    work_core_s: float
    """CPU seconds of all its tasks at node speed 1."""
    critical_path_s: float
    """Length of its longest path at speed 1, with nothing in the way."""
    deadline_s: float
    """Promised completion after arrival; `tiphys.dev/deadline` says the same in wall time."""
    arrival_s: float
    """When it was to arrive, after the start of the run."""
    submitted_at: float | None = None
    """When the API server had accepted it."""
    ended_at: float | None = None
    """When the watch saw it completed."""
    phase: str = ""
    """Argo's last word: `Succeeded`, `Failed`, `Error`; `Deleted` where the run was stopped."""
    message: str = ""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `lab run`, whole."""

    run: str
    """Its name: also `HOME/truths/RUN.jsonl`, and the label `tiphys.dev/run` of its workflows."""
    command: str
    """The command line that repeats it."""
    lab: str
    mix: str
    seed: int
    arrivals: str
    """`poisson`, `burst`, `diurnal`, `replay` or `at-once`."""
    window_s: float
    """Length of the arrival window."""
    overload: float
    """Offered work over what the cluster can do within the window (at node speeds); the larger of
    CPU and GPU."""
    requested_load: float
    """The same with requests in place of use; the larger of CPU and memory."""
    held_out: bool
    """Whether families that are kept for testing were used."""
    sample: bool
    """Whether the repository's own small sample stood in for the data pack."""
    cluster: str
    """Name of the cluster description."""
    cores: int
    """Cores of the whole cluster."""
    speed: float
    """Simulated seconds per wall second."""
    plans_sha256: str
    """Digest of DAGs, requests and task work, without names: one seed, one digest."""
    truths_sha256: str
    """Digest of the truth file, byte for byte."""
    started_at: float
    """Simulated second 0 of the arrivals."""
    ended_at: float | None = None
    outcome: str = "running"
    """`running`, `complete` (every workflow ended), `timeout`, `interrupted`."""
    pods_created: int | None = None
    """Pods that the API server created for the run (audit log)."""
    pods_ended: int | None = None
    """Pods of the run that the kubelet wrote to its journal, each counted once."""
    pods_unaccounted: tuple[str, ...] = ()
    """`NAMESPACE/NAME: why` of each pod that did not end exactly once; empty in a sound run."""
    workflows: tuple[WorkflowRun, ...] = ()
    """In the order of arrival."""


def folder(home: homes.Home) -> Path:
    """Return the folder of run records of a lab."""
    return home.root / "runs"


def path(home: homes.Home, run: str) -> Path:
    """Return where the record of `run` lies."""
    return folder(home) / f"{run}.json"


def write(home: homes.Home, record: RunRecord) -> None:
    """Write or replace a record; the file is whole at every moment."""
    content = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
    records.write_whole(path(home, record.run), content)


def read(target: Path) -> RunRecord:
    """Read one record; raises `UsageError` where the file is missing or not a record."""
    remedy = f"start one with `{invocations.lab()} run MIX`"
    return records.read(target, RunRecord, name="run record", remedy=remedy)


def names(home: homes.Home) -> list[str]:
    """Return the names of the runs of a lab, oldest first."""
    found = sorted(folder(home).glob("*.json"), key=lambda record: record.stat().st_mtime)
    return [record.stem for record in found]
