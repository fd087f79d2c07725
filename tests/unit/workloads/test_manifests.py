"""The Workflow objects: golden files for two of them, and what no golden shows."""

from pathlib import Path

import pytest
import yaml

from lab import catalogs
from lab.workloads import manifests, mixes, packs, plans

GOLDEN = Path(__file__).parent / "golden"
"""Written anew by `python -m tests.unit.workloads.test_manifests`, never in CI."""
CASES = {"sample-align": ("genomics", "sample-align"), "exome": ("exome", "exome")}


def the_plan(mix: str, family: str) -> plans.WorkflowPlan:
    """Return the first workflow of a family in the sample's workload of a mix."""
    workload = mixes.generate(
        mixes.find(mix),
        mixes.Wish(workflows=8, seed=1, pack=packs.Pack(root=packs.SAMPLE, sample=True)),
        tag="golden",
        cluster=catalogs.load("mixed"),
    )
    return next(plan for plan in workload.workflows if plan.family == family)


def rendered(case: str) -> str:
    """Return the YAML of a case."""
    return yaml.safe_dump(manifests.workflow(the_plan(*CASES[case])), sort_keys=False)


@pytest.mark.parametrize("case", CASES)
def test_the_object_is_the_golden_one(case: str) -> None:
    """Byte for byte."""
    assert (GOLDEN / f"{case}.yaml").read_text() == rendered(case)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(5400, "1h30m"), (45, "45s"), (3600, "1h"), (3661.4, "1h1m1s"), (0.2, "1s")],
)
def test_durations_are_written_as_go_does(seconds: float, expected: str) -> None:
    """Whole seconds, one at least."""
    assert expected == manifests.duration(seconds)


def test_the_deadline_is_wall_time() -> None:
    """An hour at speed 60 is a minute."""
    plan = the_plan("exome", "exome")
    slow, fast = manifests.workflow(plan), manifests.workflow(plan, speed=60.0)
    assert (
        manifests.duration(plan.deadline_s) == slow["metadata"]["annotations"][manifests.DEADLINE]
    )
    expected = manifests.duration(plan.deadline_s / 60)
    assert expected == fast["metadata"]["annotations"][manifests.DEADLINE]


def test_a_run_labels_its_workflows() -> None:
    """So that they can be found and removed."""
    labels = manifests.workflow(the_plan("exome", "exome"), run="exome-s1")["metadata"]["labels"]
    assert "exome-s1" == labels[manifests.RUN_LABEL]


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in CASES:
        (GOLDEN / f"{name}.yaml").write_text(rendered(name))
