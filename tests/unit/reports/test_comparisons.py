"""Ratios of two arms and how sure they are."""

import pytest

from lab import errors
from lab.reports import comparisons, figures
from tests.unit.reports import synthetic_runs as a


def an_arm(*completions_s, arm="default", failed=()):
    """Return a measurement of workflows that took so long; those in `failed` did not succeed."""
    workflows = [
        a.a_workflow(
            f"wf-{index}",
            ended_s=completion_s,
            phase="Failed" if index in failed else "Succeeded",
        )
        for index, completion_s in enumerate(completions_s)
    ]
    calls = [
        a.a_call(0.0, "create", "workflows", f"wf-{index}") for index in range(len(completions_s))
    ]
    return figures.measure(a.a_run(pods=[], calls=calls, workflows=workflows), arm=arm)


def test_each_workflow_is_compared_with_itself():
    """Halved alike, the ratio is sure."""
    found = comparisons.compare(an_arm(100, 200, 600), an_arm(50, 100, 300, arm="tiphys"))
    assert 3 == found.pairs
    assert 0.5 == pytest.approx(found.mean_completion, rel=1e-6)
    assert (0.5, 0.5) == pytest.approx(found.interval_95, rel=1e-6)
    assert 0.5 == pytest.approx(found.p95_completion, rel=1e-6)


def test_the_interval_holds_the_ratio_and_says_how_unsure_it_is():
    """Better for one and worse for another: both sides of 1 are likely."""
    found = comparisons.compare(an_arm(100, 100, 100, 100), an_arm(50, 150, 60, 140, arm="tiphys"))
    low, high = found.interval_95
    assert low < found.mean_completion < high
    assert low < 1 < high


def test_the_same_measurements_give_the_same_interval():
    """The draws have a seed."""
    arms = an_arm(100, 300, 500), an_arm(90, 310, 200, arm="tiphys")
    assert comparisons.compare(*arms) == comparisons.compare(*arms)


def test_a_workflow_that_failed_in_one_arm_is_left_out_and_counted():
    """It ended early and would look quick."""
    found = comparisons.compare(an_arm(100, 200), an_arm(100, 10, arm="tiphys", failed=(1,)))
    assert (1, 1) == (found.pairs, found.left_out)
    assert 1 == pytest.approx(found.mean_completion)


def test_arms_without_a_common_success_cannot_be_compared():
    """There is nothing to take a ratio of."""
    with pytest.raises(errors.RunError, match="no workflow succeeded both"):
        comparisons.compare(an_arm(100, failed=(0,)), an_arm(100, arm="tiphys"))


def test_figures_are_flat_and_named_as_the_documents_say():
    """`ratio.interval_95` is a list of two."""
    found = comparisons.figures(comparisons.compare(an_arm(100, 100), an_arm(65, 65, arm="b")))
    assert 0.65 == found["ratio.mean_completion"]
    assert [0.65, 0.65] == found["ratio.interval_95"]


def test_ratios_over_seeds_are_averaged_as_factors():
    """Half and double cancel out."""
    assert 1 == pytest.approx(comparisons.geometric_mean([0.5, 2.0]))


def test_a_ratio_is_said_as_people_say_it():
    """Minus is quicker."""
    assert "-35 %" == comparisons.in_words(0.65)
    assert "+3 %" == comparisons.in_words(1.03)
