"""All that is known about one run, loaded from a lab's files; nothing is judged here.

Three witnesses that do not know one another: the API server (audit log: created, bound, deleted),
the kubelet (journal: started, ended, used), and whoever submitted (run record: what was planned,
how each workflow ended). `accounts` holds them against each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab import catalogs, errors, homes, invocations, journals
from lab.reports import audits
from lab.workloads import runs

MARGIN_WALL_S = 5.0
"""Records this long before the start or after the end may still belong to the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The records of one run; calls and samples of other runs may be among them."""

    record: runs.RunRecord
    cluster: catalogs.Cluster
    calls: tuple[audits.Call, ...]
    """In the order in which the API server received them."""
    pods: tuple[journals.PodRecord, ...]
    samples: tuple[journals.NodeSample, ...]
    faults: tuple[journals.FaultRecord, ...]

    def sim_s(self, at: float) -> float:
        """Return the simulated seconds from the start of the run to a wall time."""
        return (at - self.record.started_at) * self.record.speed


def load(home: homes.Home, run: str | None = None) -> Sources:
    """Load what a lab wrote about one run; the latest where `run` is None.

    Raises `UsageError` when there is no such run, and when a record is damaged.
    """
    record = runs.read(runs.path(home, _known(home, run)))
    first = record.started_at - MARGIN_WALL_S
    ends = [item.ended_at for item in record.workflows if item.ended_at is not None]
    last = max([record.ended_at or 0.0, *ends], default=0.0) + MARGIN_WALL_S
    if record.ended_at is None:
        last = float("inf")
    journal = list(read_journal(home.journal))
    if not home.cluster.is_file():
        raise errors.UsageError(f"no cluster description at {home.cluster}: was the lab purged?")
    calls = [call for call in audits.read(home) if first <= call.at <= last]
    return Sources(
        record=record,
        cluster=catalogs.load(str(home.cluster)),
        calls=tuple(sorted(calls, key=lambda call: call.at)),
        pods=tuple(
            item
            for item in journal
            if isinstance(item, journals.PodRecord) and first <= item.seen_at <= last
        ),
        samples=tuple(
            item
            for item in journal
            if isinstance(item, journals.NodeSample) and first <= item.at <= last
        ),
        faults=tuple(
            item
            for item in journal
            if isinstance(item, journals.FaultRecord) and first <= item.at <= last
        ),
    )


def read_journal(path: Path) -> Iterator[journals.Record]:
    """Yield the kubelet's records; a last line that is still being written is left out."""
    if not path.is_file():
        raise errors.UsageError(
            f"no journal of the kubelet at {path}: the lab ran without it, or was purged"
        )
    decoder = msgspec.json.Decoder(journals.Record)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except (msgspec.ValidationError, msgspec.DecodeError) as error:
                raise errors.UsageError(
                    f"{path}, line {number} is not a record of the kubelet ({error})"
                ) from error


def _known(home: homes.Home, run: str | None) -> str:
    """Return the name of a run that the lab has; the latest for None."""
    names = runs.names(home)
    if not names:
        raise errors.UsageError(
            f"lab {home.name!r} has no runs: make one with `{invocations.lab()} run genomics`"
        )
    if run is not None and run not in names:
        raise errors.UsageError(
            f"lab {home.name!r} has no run {run!r}: choose one of {', '.join(names)}"
        )
    return run or names[-1]
