"""What the default policy and each of its rules are worth in the small simulation.

Not the figures of the product (those come from the lab): they hold the constants of the planner
to what they were chosen for.  Skipped without a data pack.  Writes `build/results/orders.json` and
`build/results/rules.json`; the tables of docs/policies.md are made of both.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import yaml

from lab import catalogs
from lab.reports import results
from lab.workloads import packs, plans
from tests.unit.planner import simulations
from tiphys.models.domain import footprints, snapshots
from tiphys.models.estimators import books
from tiphys.models.planner import orders, overdues, ticks
from tiphys.models.policies import builtins

ROOT = Path(__file__).parents[2]
SEEDS = (11, 12, 13)
"""None of them was used to choose a constant."""
WORKFLOWS = 40
LOADS = {"overloaded": 1.5, "moderate": 0.8, "light": 0.3}

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What differs from the policy as shipped."""

    policy: str = builtins.DEFAULT
    constants: tuple[tuple[object, str, object], ...] = ()
    """Module or class, name, value."""
    knowing: bool = False
    """Estimates are the true run times at speed 1."""
    alike: bool = False
    """All workflows are of one namespace and of one priority, also by default."""


ARMS = {
    "as_shipped": Arm(),
    "no_wait": Arm(policy="builtin-srwf-v1"),
    "longest_path_first": Arm(policy="builtin-heft-v1"),
    "earliest_deadline_first": Arm(policy="builtin-edf-v1"),
    "overdue_after_one_backlog": Arm(constants=((overdues, "BACKLOG_PART", 1.0),)),
    "work_by_requested_cores": Arm(
        constants=((footprints.Footprints, "cores", lambda _, cpu_m, __: cpu_m / 1000),)
    ),
    "no_room_kept_for_the_head": Arm(constants=((ticks, "HEADS_KEPT", 0),)),
    "no_shares": Arm(constants=((orders, "FLOOR", 0.0),)),
    "run_times_known": Arm(knowing=True),
    "one_namespace_and_priority": Arm(alike=True),
}


class Knowing(simulations.Simulation):
    """A simulation whose planner knows the true run time of each task at speed 1."""

    def estimate(self, task: simulations.Task) -> snapshots.Estimate:
        """Return the truth, without a spread."""
        known = super().estimate(task)
        return dataclasses.replace(known, centre_s=task.work_s, spread_s=0.0)


def test_the_default_policy_keeps_its_worth(cluster: catalogs.Cluster) -> None:
    """Mean and P95 completion over kube-scheduler's likeness, geometric means over seeds."""
    limits = yaml.safe_load((ROOT / "tests/bench/ranges.yaml").read_text())["orders"]
    figures: dict[str, float] = {}
    for load in LOADS:
        figures |= _figures(load, _ratios(cluster, Arm(), load=load))
    results.write(
        "orders",
        seed=SEEDS[0],
        speed=None,
        data=packs.find().kind,
        figures={"seeds": list(SEEDS), **figures},
    )
    beyond = {
        name: figures[name] for name, limit in limits.items() if figures[name] > limit["most"]
    }
    assert beyond == {}


def test_no_rule_of_the_policy_costs_completion(
    cluster: catalogs.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any one rule of the order, overloaded workflows are not complete clearly sooner."""
    figures: dict[str, float] = {}
    for name, arm in ARMS.items():
        with monkeypatch.context() as patch:
            for where, constant, value in arm.constants:
                patch.setattr(where, constant, value)
            figures |= _figures(name, _ratios(cluster, arm, load="overloaded"))
    results.write(
        "rules",
        seed=SEEDS[0],
        speed=None,
        data=packs.find().kind,
        figures={"seeds": list(SEEDS), **figures},
    )
    most = yaml.safe_load((ROOT / "tests/bench/ranges.yaml").read_text())["rules"]["gain"]["most"]
    shipped = figures["as_shipped.mean_completion"]
    rules = [name for name, arm in ARMS.items() if not arm.knowing and not arm.alike]
    gains = {name: 1 - figures[f"{name}.mean_completion"] / shipped for name in rules}
    assert {name: gain for name, gain in gains.items() if gain > most} == {}


@pytest.fixture(scope="module")
def cluster() -> catalogs.Cluster:
    """Return the cluster of the demo; skip without the traces."""
    if packs.find().sample:
        pytest.skip("no data pack")
    return catalogs.load("mixed")


def _ratios(cluster: catalogs.Cluster, arm: Arm, *, load: str) -> list[tuple[float, float, float]]:
    """Return mean and P95 completion over the likeness, and what a clock opened; a row a seed."""
    nodes = simulations.cluster_nodes(cluster)
    kind = Knowing if arm.knowing else simulations.Simulation
    found = []
    for seed in SEEDS:
        known = _workload(cluster, seed + 1000, overload=LOADS["moderate"])
        warm = simulations.Simulation(simulations.runs_of(known), nodes)
        warm.run()
        made = _workload(cluster, seed, overload=LOADS[load])
        default = simulations.Simulation(_runs(made, alike=arm.alike), nodes).run()
        steered = kind(
            _runs(made, alike=arm.alike),
            nodes,
            book=books.learn(warm.rows),
            policy=builtins.named(arm.policy),
        ).run()
        found.append(
            (steered.mean_s / default.mean_s, steered.p95_s / default.p95_s, steered.forced)
        )
    return found


def _workload(cluster: catalogs.Cluster, seed: int, *, overload: float) -> plans.Workload:
    return simulations.workload(
        "genomics", seed, workflows=WORKFLOWS, overload=overload, cluster=cluster
    )


def _runs(made: plans.Workload, *, alike: bool) -> Sequence[simulations.Run]:
    runs = simulations.runs_of(made)
    if alike:
        for run in runs:
            run.tenant, run.priority = "one", 0
    return runs


def _figures(name: str, ratios: Sequence[tuple[float, float, float]]) -> dict[str, float]:
    means, tails, forced = zip(*ratios, strict=True)
    return {
        f"{name}.mean_completion": round(_geometric(means), 3),
        f"{name}.p95_completion": round(_geometric(tails), 3),
        f"{name}.opened_by_timeout": round(max(forced), 3),
    }


def _geometric(ratios: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
