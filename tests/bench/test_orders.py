"""What the default policy is worth in the small simulation; writes build/results/orders.json.

Not the figures of the product (those come from the lab): they hold the constants of the planner
to what they were chosen for.  Skipped without a data pack.
"""

import math
import statistics
from pathlib import Path

import pytest
import yaml

from lab import catalogs
from lab.reports import results
from lab.workloads import packs
from tests.unit.planner import simulations
from tiphys.models.estimators import books
from tiphys.models.policies import builtins

ROOT = Path(__file__).parents[2]
SEEDS = (11, 12, 13)
"""None of them was used to choose a constant."""
WORKFLOWS = 40
LOADS = {"overloaded": 1.5, "moderate": 0.8, "light": 0.3}


@pytest.mark.bench
@pytest.mark.timeout(3600)
def test_the_default_policy_keeps_its_worth() -> None:
    """Mean and P95 completion over kube-scheduler's likeness, geometric means over seeds."""
    if packs.find().sample:
        pytest.skip("no data pack")
    limits = yaml.safe_load((ROOT / "tests/bench/ranges.yaml").read_text())["orders"]
    cluster = catalogs.load("mixed")
    nodes = simulations.cluster_nodes(cluster)
    figures = {}
    for load, overload in LOADS.items():
        means, tails, forced = [], [], []
        for seed in SEEDS:
            asked = {"workflows": WORKFLOWS, "cluster": cluster}
            known = simulations.workload("genomics", seed + 1000, overload=0.8, **asked)
            warm = simulations.Simulation(simulations.runs_of(known), nodes)
            warm.run()
            made = simulations.workload("genomics", seed, overload=overload, **asked)
            default = simulations.Simulation(simulations.runs_of(made), nodes).run()
            steered = simulations.Simulation(
                simulations.runs_of(made),
                nodes,
                book=books.learn(warm.rows),
                policy=builtins.named(builtins.DEFAULT),
            ).run()
            means.append(steered.mean_s / default.mean_s)
            tails.append(steered.p95_s / default.p95_s)
            forced.append(steered.forced)
        figures[f"{load}.mean_completion"] = round(_geometric(means), 3)
        figures[f"{load}.p95_completion"] = round(_geometric(tails), 3)
        figures[f"{load}.opened_by_timeout"] = round(max(forced), 3)
    results.write("orders", seed=SEEDS[0], speed=None, figures={"seeds": list(SEEDS), **figures})
    beyond = {
        name: figures[name] for name, limit in limits.items() if figures[name] > limit["most"]
    }
    assert beyond == {}


def _geometric(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
