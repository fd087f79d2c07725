"""Times of decisions over 5,000 nodes and 20,000 waiting pods; writes build/results/scale.json.

Snapshots are generated. `cluster`: 20 kinds of nodes in 40 racks, nearly full; pods of 20 shapes
of three tenants and two priorities, of 800 workflows. `crowd`: no room at all, or a core on some
nodes; pods of 40 shapes of 30 tenants; ends known or, as under overload with services, not. Times
are CPU time of this process, so that they can be compared on a machine that others use as well.
"""

import dataclasses
import gc
import math
import random
import resource
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from lab.reports import results
from tests.unit.planner import scenes
from tiphys.models.domain import snapshots
from tiphys.models.planner import planners, plans
from tiphys.models.policies import builtins
from tiphys.operator import settings as operator_settings

ROOT = Path(__file__).parents[2]
NODES = 5_000
WAITING = 20_000
MOST_RELEASES = operator_settings.Dispatch().most_per_tick
"""Gates that a tick of the dispatcher opens at most."""
TENANTS = 30
SHAPES = 40
CLUSTER_SEED, CROWD_SEED = 1, 2


def cluster(seed: int = CLUSTER_SEED) -> snapshots.Snapshot:
    """Return the snapshot of the bench."""
    rng = random.Random(seed)
    nodes, running = [], {}
    for number in range(NODES):
        kind = number % 20
        node = scenes.a_node(
            f"n{number:04d}",
            cores=16 + 16 * (kind % 3),
            kind=f"k{kind:02d}",
            rack=f"r{number % 40}",
        )
        nodes.append(node)
        full = 1.0 if rng.random() < 0.95 else 0.7
        left = node.allocatable.cpu_m / 1000 * full
        held = []
        while left >= 1:
            cores = min(left, rng.choice((1, 2, 4)))
            held.append((f"x/{number}-{len(held)}", rng.uniform(1, 600), scenes.amount(cores, 2)))
            left -= cores
        running[node.name] = held
    waiting = [
        scenes.a_waiting(
            f"p{number:05d}",
            cores=rng.choice((1, 2, 4, 8)),
            gib=rng.choice((1, 2, 4, 8, 16)),
            lasts_s=rng.choice((30, 60, 120)),
            work=1000.0 + number % 800,
            workflow=f"w{number % 800}",
            tenant=("alpha", "beta", "gamma")[number % 3],
            priority=1000 if number % 50 == 0 else 0,
            waited_s=rng.uniform(0, 900),
        )
        for number in range(WAITING)
    ]
    factors = [(f"k{kind:02d}", 0.5 + kind / 15) for kind in range(20)]
    tenants = (("alpha", 1.0, 0.3), ("beta", 2.0, 0.3), ("gamma", 1.0, 0.3))
    return scenes.a_snapshot(nodes, waiting, running=running, factors=factors, tenants=tenants)


def crowd(*, known: bool, gaps: float = 0.0, seed: int = CROWD_SEED) -> snapshots.Snapshot:
    """Return a cluster without room: all ends `known` or none; `gaps` of the nodes have a core."""
    rng = random.Random(seed)
    nodes, running = [], {}
    for number in range(NODES):
        kind = number % 20
        node = scenes.a_node(
            f"n{number:04d}",
            cores=16 + 16 * (kind % 3),
            kind=f"k{kind:02d}",
            rack=f"r{number % 40}",
        )
        nodes.append(node)
        left = node.allocatable.cpu_m / 1000 - (rng.random() < gaps)
        held = []
        while left >= 1:
            cores = min(left, rng.choice((1, 2, 4)))
            until_s = rng.uniform(1, 600) if known else math.inf
            held.append((f"x/{number}-{len(held)}", until_s, scenes.amount(cores, 2)))
            left -= cores
        running[node.name] = held
    waiting = [
        scenes.a_waiting(
            f"p{number:05d}",
            cores=2 ** (number % 4),
            gib=1 + number % SHAPES // 4,
            lasts_s=30 + number % 90,
            work=1000.0 + number % 800,
            workflow=f"w{number % 800}",
            tenant=f"t{number % TENANTS:02d}",
            priority=1000 if number % 50 == 0 else 0,
            waited_s=rng.uniform(0, 900),
        )
        for number in range(WAITING)
    ]
    factors = [(f"k{kind:02d}", 0.5 + kind / 15) for kind in range(20)]
    tenants = [(f"t{number:02d}", 1.0, rng.uniform(0, 2 / TENANTS)) for number in range(TENANTS)]
    return scenes.a_snapshot(nodes, waiting, running=running, factors=factors, tenants=tenants)


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_a_tick_and_decisions_keep_their_times_at_scale() -> None:
    """A tick that opens a second's worth of gates, decisions at admission, and memory."""
    snapshot = cluster()
    policy = builtins.named(builtins.DEFAULT)
    planner = planners.Planner()
    planner.plan(snapshot, policy, scenes.CHOICES, most_releases=MOST_RELEASES)
    gc.collect()
    gc.freeze()  # what a serving process does after its caches are filled
    ticks = _ticks(planner, snapshot)
    begun = time.process_time()
    plan = planner.plan(snapshot, policy, scenes.CHOICES)
    per_s = len(plan.releases) / (time.process_time() - begun)
    admitted = _admissions(planner, snapshot)
    figures = {
        "tick_ms": ticks,
        "decisions_per_s": round(per_s),
        "admit_p99_ms": round(admitted[int(0.99 * len(admitted))], 2),
        "operator_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    _judge("scale", figures, seed=CLUSTER_SEED)


@pytest.mark.bench
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "known", "gaps"),
    [("full_unknown", False, 0.0), ("full_known", True, 0.0), ("gaps_known", True, 0.02)],
)
def test_a_tick_without_room_is_no_longer(name: str, known: bool, gaps: float) -> None:
    """Overload: a tick in which nearly nothing can go, and admissions into it."""
    snapshot = crowd(known=known, gaps=gaps)
    planner = planners.Planner()
    plan = planner.plan(
        snapshot, builtins.named(builtins.DEFAULT), scenes.CHOICES, most_releases=MOST_RELEASES
    )
    assert bool(plan.releases) == bool(gaps)
    gc.collect()
    gc.freeze()
    figures = {"tick_ms": _ticks(planner, snapshot)}
    admitted = _admissions(planner, snapshot)
    figures["admit_p99_ms"] = round(admitted[int(0.99 * len(admitted))], 2)
    _judge(f"scale_{name}", figures, seed=CROWD_SEED)


def _ticks(planner: planners.Planner, snapshot: snapshots.Snapshot) -> float:
    """Return the median time of seven ticks in milliseconds."""
    ticks = []
    for number in range(7):
        changed = _moved(snapshot, number)
        begun = time.process_time()
        plan = planner.plan(
            changed, builtins.named(builtins.DEFAULT), scenes.CHOICES, most_releases=MOST_RELEASES
        )
        ticks.append(1000 * (time.process_time() - begun))
        assert len(plan.releases) + len(plan.holds) == WAITING
    return round(statistics.median(ticks), 1)


def _judge(name: str, figures: Mapping[str, float], *, seed: int) -> None:
    limits = yaml.safe_load((ROOT / "tests/bench/ranges.yaml").read_text())[name]
    results.write(name, seed=seed, speed=None, figures=figures)
    for figure, limit in limits.items():
        assert limit.get("least", figures[figure]) <= figures[figure], figure
        assert figures[figure] <= limit.get("most", figures[figure]), figure


def _moved(snapshot: snapshots.Snapshot, number: int) -> snapshots.Snapshot:
    """Return the next picture: some rooms are other objects, as after pods ended."""
    rooms = list(snapshot.rooms)
    for place in range(number, NODES, 50):
        rooms[place] = dataclasses.replace(rooms[place])
    return dataclasses.replace(snapshot, rooms=tuple(rooms), version=number)


def _admissions(planner: planners.Planner, snapshot: snapshots.Snapshot) -> list[float]:
    """Return milliseconds of single admissions, sorted: half with a crowd, half with a few."""
    policy = builtins.named(builtins.DEFAULT)
    few = dataclasses.replace(snapshot, waiting=snapshot.waiting[:100])
    times = []
    for number in range(400):
        new = scenes.a_waiting(f"new{number}", cores=1 + number % 4, lasts_s=60, work=500.0)
        begun = time.process_time()
        answer = planner.admit(few if number % 2 else snapshot, new, policy, scenes.CHOICES)
        times.append(1000 * (time.process_time() - begun))
        assert isinstance(answer, plans.Release | plans.Hold)
    return sorted(times[2:])
