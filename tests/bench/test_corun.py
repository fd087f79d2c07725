"""The physics against this machine: loads alone and in pairs, measured and predicted.

What a load is to the model (core-seconds, bytes, memory traffic a unit) is taken from runs of the
load alone and from one probe; the pairs are predicted from that and from nothing else.
"""

import itertools
import math
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console
from rich.table import Table

from lab.reports import results
from tests.bench import coruns
from tests.bench.coruns import Part, Sample
from tiphys.models.physics import clusters, constants, rates, slowdowns, states, tasks

RANGES = yaml.safe_load(Path(__file__).with_name("ranges.yaml").read_text())["corun"]
REPEATS = 5
SEED = 1
CORES = 2.0
BLOCK_BYTES = 256 * 1024
STREAM_BYTES = 4 * 128 * 1024
"""Of a unit: two arrays read, one read for ownership and written."""
CACHED_BYTES = 2 * 256 * 1024
"""Of a unit: read from the page cache, written to the buffer."""

SPIN, STREAM, CACHED = (Part(kind=kind, threads=2) for kind in ("spin", "stream", "cached"))
WRITE = Part(kind="write", threads=1)
NAP = Part(kind="nap", threads=2)
FOUR = (SPIN, STREAM, CACHED, WRITE)
ALONE = (*FOUR, NAP, replace(STREAM, threads=1), replace(CACHED, threads=1))
BUS_PROBE = (Part(kind="cached", threads=1), Part(kind="stream", threads=1))
PAIRS = tuple(itertools.combinations_with_replacement(FOUR, 2))
WEIGHTED = tuple(
    (replace(one, shares=3 * 1024), other)
    for one, other in ((SPIN, SPIN), (SPIN, STREAM), (STREAM, CACHED), (CACHED, SPIN))
)
NAPPING = ((NAP, SPIN), (NAP, NAP), (NAP, replace(SPIN, shares=3 * 1024)))
"""Half of the time on CPU: how good is it to share by average use?"""

Measured = Mapping[tuple[Part, ...], list[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What the model is told about the machine and about a unit of each load."""

    node: clusters.Node
    units: Mapping[str, tasks.Task]
    """By kind, with one thread."""


def measure(folder: Path) -> Measured:
    """Run everything REPEATS times in turn, each time in another order; return medians."""
    runs = [*((part,) for part in ALONE), BUS_PROBE, *PAIRS, *WEIGHTED, *NAPPING]
    found: dict[tuple[Part, ...], list[list[Sample]]] = {run: [] for run in runs}
    shuffled = random.Random(SEED)
    kinds = tuple(dict.fromkeys(part.kind for part in ALONE))
    with coruns.machine(kinds, threads=2, folder=folder) as machine:
        for _ in range(REPEATS):
            shuffled.shuffle(runs)
            for run in runs:
                found[run].append(machine.run(run))
    return {run: coruns.medians(samples) for run, samples in found.items()}


def fitted(measured: Measured) -> Fitted:
    """Take the loads' constants from what they did alone and in the probe."""

    def alone(kind: str, threads: int) -> Sample:
        return measured[(Part(kind=kind, threads=threads),)][0]

    def cpu_s(sample: Sample) -> float:
        return sample.cores / sample.units_per_s

    stream, cached, write = (alone(kind, 1) for kind in ("stream", "cached", "write"))
    # Sustained bandwidth: where the model slows two threads as much as they were slowed.
    slowed = max(1.0, 2 * stream.units_per_s / alone("stream", 2).units_per_s)
    grid = np.linspace(constants.MEMORY_KNEE, 4.0, 20_000)
    pressure = float(grid[np.searchsorted(slowdowns.latency(grid), slowed).clip(0, 19_999)])
    traffic = {"stream": STREAM_BYTES / cpu_s(stream), "cached": CACHED_BYTES / cpu_s(cached)}
    bandwidth = 2 * traffic["stream"] / pressure
    probed = measured[BUS_PROBE][0]
    risen = float(slowdowns.latency(np.array([sum(traffic.values()) / bandwidth]))[0]) - 1
    slow = cached.units_per_s / probed.units_per_s - 1
    sensitivity = min(1.0, max(0.0, slow / risen)) if risen > 0.01 else 0.5
    nap = alone("nap", 2)
    return Fitted(
        node=clusters.Node(
            name="here",
            hardware="here",
            rack="here",
            cores=CORES,
            memory_bytes=8e9,
            memory_bandwidth_bytes_per_s=bandwidth,
            disk_bytes_per_s=coruns.DISK_BYTES_PER_S,
            disk_iops=1e9,
            nic_bytes_per_s=1e9,
        ),
        units={
            "spin": _unit("spin", cpu_s=cpu_s(alone("spin", 2))),
            "stream": _unit(
                "stream",
                cpu_s=cpu_s(stream),
                memory_traffic_bytes_per_s=traffic["stream"],
                memory_sensitivity=1.0,
            ),
            "cached": _unit(
                "cached",
                cpu_s=cpu_s(cached),
                memory_traffic_bytes_per_s=traffic["cached"],
                memory_sensitivity=sensitivity,
            ),
            "write": _unit("write", cpu_s=cpu_s(write), written_bytes=BLOCK_BYTES),
            # With two threads, a unit of both takes half of the pause of one.
            "nap": _unit("nap", cpu_s=cpu_s(nap), gpu_s=1 / nap.units_per_s - cpu_s(nap) / 2),
        },
    )


def _unit(kind: str, **facts: float) -> tasks.Task:
    """A million units as one task, so that its shortest time never matters."""
    return tasks.Task(
        key=kind, template=kind, **{k: v if "memory" in k else v * 1e6 for k, v in facts.items()}
    )


def predicted(model: Fitted, run: tuple[Part, ...]) -> list[float]:
    """Return each part's slow-down against the same part alone."""

    def speeds(parts: tuple[Part, ...]) -> list[float]:
        cluster = clusters.Cluster(
            nodes=(model.node,),
            network=clusters.Network(rack_uplink_bytes_per_s=1e9, store_bytes_per_s=1e9),
        )
        arrivals = []
        for slot, part in enumerate(parts):
            task = replace(
                model.units[part.kind],
                key=f"{part.kind}-{slot}",
                parallelism=float(part.threads),
                cpu_request_cores=part.shares / 1024,
            )
            column = states.column(task, cores=model.node.cores, speed=1.0)
            arrivals.append(states.Arrival(task=task, node=0, column=column))
        state = states.add(states.of_cluster(cluster), arrivals)
        return [float(speed) for speed in rates.rates(state).per_s]

    return [speeds((part,))[0] / speed for part, speed in zip(run, speeds(run), strict=True)]


def rows(measured: Measured) -> list[dict[str, str | float]]:
    """Return a row for each part of each pair: slow-downs measured and predicted."""
    model, found = fitted(measured), []
    for group, runs in (("pair", PAIRS), ("weights", WEIGHTED), ("average", NAPPING)):
        for run in runs:
            expected = predicted(model, run)
            for i, part in enumerate(run):
                other = run[1 - i]
                speed = measured[run][i].units_per_s
                slow = measured[(replace(part, shares=1024),)][0].units_per_s / speed
                found.append(
                    {
                        "group": group,
                        "load": part.name,
                        "beside": other.name,
                        "weights": f"{part.shares // 1024}:{other.shares // 1024}",
                        "measured_slowdown": round(slow, 3),
                        "model_slowdown": round(expected[i], 3),
                        "error": round(expected[i] / slow - 1, 3),
                    }
                )
                if part == other:
                    break
    return found


def figures(table: list[dict[str, str | float]]) -> dict[str, float]:
    """Return the errors of each group of rows."""
    found: dict[str, float] = {}
    for group in ("pair", "weights", "average"):
        errors = [abs(float(row["error"])) for row in table if row["group"] == group]
        found[f"{group}.rows"] = len(errors)
        found[f"{group}.worst_error"] = max(errors)
        found[f"{group}.median_error"] = statistics.median(errors)
        found[f"{group}.within_15_percent"] = sum(e <= 0.15 for e in errors) / len(errors)
    return found


def show(table: list[dict[str, str | float]]) -> None:
    """Print the table."""
    shown = Table(title="Slow-down beside another load, measured and predicted")
    for index, column in enumerate(table[0]):
        shown.add_column(column.replace("_", " "), justify="left" if index < 4 else "right")
    for row in table:
        shown.add_row(*(f"{v:+.3f}" if k == "error" else str(v) for k, v in row.items()))
    Console(width=110).print(shown)


@pytest.mark.bench
@pytest.mark.timeout(300)
def test_pairs_slow_one_another_down_as_the_model_says(tmp_path, capsys) -> None:
    """Every pair of spin, stream, cached read and direct write, with equal and unequal weights."""
    try:
        measured = measure(tmp_path)
    except coruns.UnfitError as error:
        pytest.skip(str(error))
    table = rows(measured)
    summary = figures(table)
    model = fitted(measured)
    path = results.write(
        "corun",
        seed=SEED,
        speed=None,
        command="python -m pytest tests/bench/test_corun.py -m bench",
        figures={
            **summary,
            "memory_bandwidth_gb_per_s": round(model.node.memory_bandwidth_bytes_per_s / 1e9, 2),
            "repeats": REPEATS,
            "rows": table,
        },
    )
    with capsys.disabled():
        show(table)
        Console().print(f"written to {path}")
    missed = {
        name: (summary[name], limit)
        for name, limit in RANGES.items()
        if not limit.get("least", -math.inf) <= summary[name] <= limit.get("most", math.inf)
    }
    assert not missed, "figure: (measured, limit); see tests/bench/ranges.yaml"
