"""How much more people request than their tasks use: measured on the CWS runs, pinned by hash.

`ratios.json` holds 101 equally spaced quantiles of requested over used, for CPU weighted by the
core seconds used and for memory by the byte seconds used: a draw of it reproduces the pooled
ratio (CPU 2.55, memory 34.5), where an unweighted draw would repeat thousands of tiny tasks. Refit
with `python -m lab workload ratios --write`; a changed file needs a new `SHA256` here.
"""

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from lab import errors
from lab.workloads import draws
from lab.workloads.readers import cws

FILE = Path(__file__).parent / "ratios.json"
SHA256 = "5cd2b9d48610f6adc634529373bc42f1c0f8286c3aff5ac0da9389fda50f943a"
POINTS = 101


class Ratios(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Quantiles of requested over used, 0 % to 100 %."""

    source: str
    cpu: tuple[float, ...]
    memory: tuple[float, ...]
    pooled_cpu: float
    """Core seconds requested over used, all tasks together."""
    pooled_memory: float

    def draw_cpu(self, rng: random.Random) -> float:
        """Return one ratio of CPU."""
        return draws.quantile(self.cpu, rng.random())

    def draw_memory(self, rng: random.Random) -> float:
        """Return one ratio of memory."""
        return draws.quantile(self.memory, rng.random())


def load(path: Path = FILE, *, sha256: str = SHA256) -> Ratios:
    """Read the pinned ratios; raises `UsageError` where the file is not the pinned one."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise errors.UsageError(
            f"{path} has sha256 {found}, but {sha256} is pinned in lab/workloads/ratios.py: "
            "restore the file, or refit it on purpose and pin the new hash"
        )
    return msgspec.json.decode(content, type=Ratios)


def fit(usages: Iterable[cws.Usage]) -> Ratios:
    """Return the ratios of measured task rows, each task counted once by its medians."""
    tasks: defaultdict[tuple[str, int], list[cws.Usage]] = defaultdict(list)
    for usage in usages:
        if usage.cores_used > 0 and usage.memory_used_bytes > 0 and usage.runtime_s > 0:
            tasks[usage.workflow, usage.task].append(usage)
    cpu, memory = [], []
    for rows in tasks.values():
        runtime_s = _median([row.runtime_s for row in rows])
        cores = _median([row.cores_used for row in rows])
        used_bytes = _median([row.memory_used_bytes for row in rows])
        cpu.append((rows[0].cores_requested / cores, cores * runtime_s))
        memory.append((rows[0].memory_requested_bytes / used_bytes, used_bytes * runtime_s))
    return Ratios(
        source="CommonWorkflowScheduler/ExperimentsAndResults, 990 runs, medians per task",
        cpu=_quantiles(cpu),
        memory=_quantiles(memory),
        pooled_cpu=_pooled(cpu),
        pooled_memory=_pooled(memory),
    )


def encoded(ratios: Ratios) -> bytes:
    """Return the bytes of the file, the same for the same ratios."""
    return msgspec.json.format(msgspec.json.encode(ratios), indent=1) + b"\n"


def _median(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def _pooled(weighted: list[tuple[float, float]]) -> float:
    whole = sum(weight for _, weight in weighted)
    return draws.rounded(sum(ratio * weight for ratio, weight in weighted) / whole)


def _quantiles(weighted: list[tuple[float, float]]) -> tuple[float, ...]:
    """Return the weighted quantiles at 0, 1, …, 100 %."""
    ordered = sorted(weighted)
    whole = sum(weight for _, weight in ordered)
    found, below, place = [], 0.0, 0
    for step in range(POINTS):
        wanted = whole * step / (POINTS - 1)
        while place < len(ordered) - 1 and below + ordered[place][1] < wanted:
            below += ordered[place][1]
            place += 1
        found.append(draws.rounded(ordered[place][0]))
    return tuple(found)
