import msgspec
import pytest

from lab.reports import figures
from tests.unit.reports import synthetic_runs as a


def two_pods(**rest):
    """Return a run of one workflow with two pods that use half of what they ask for."""
    pods = [
        a.a_pod("wf-0-a", memory_byte_s=60 * 2 * a.GIB, cpu_s=320.0),
        a.a_pod("wf-0-b", memory_byte_s=60 * 2 * a.GIB, cpu_s=320.0, **rest),
    ]
    calls = [a.a_call(0.0, "create", "workflows", "wf-0")]
    calls += [call for pod in pods for call in a.calls_of(pod)]
    return figures.measure(a.a_run(calls=calls, pods=pods))


def test_the_headline_figures_follow_from_the_records():
    """Two pods of 57 s on 32 cores, bound for 60 s with 4 GiB each."""
    found = two_pods().figures
    assert (1, 1, 2, 2) == (
        found.workflows,
        found.succeeded,
        found.pods_created,
        found.pods_ended,
    )
    assert 70.0 == pytest.approx(found.mean_completion_s, abs=1e-3)
    assert 4.0 == pytest.approx(found.mean_wait_s, abs=1e-3)
    assert 640 / (32 * 57) == pytest.approx(found.utilisation, rel=1e-4)
    assert 2.0 == pytest.approx(found.requested_over_used_memory, rel=1e-4)
    assert 70 / 60 == pytest.approx(found.wall_s, abs=1e-3)
    assert (0, 0) == (found.oom_kills, found.deadlines_missed)


def test_figures_are_simulated_where_their_name_does_not_say_wall():
    """One run at two speeds: the lab took a sixth of the time, and all else is as it was."""
    slow, fast = (
        msgspec.structs.asdict(figures.measure(a.a_busy_run(workflows=4, speed=speed)).figures)
        for speed in (10.0, 60.0)
    )
    assert slow.pop("wall_s") / 6 == pytest.approx(fast.pop("wall_s"), rel=1e-4)
    assert not any("wall" in name for name in slow)
    assert slow == pytest.approx(fast, rel=1e-4)


def test_pods_that_tiphys_decided_about_are_counted():
    """A pod whose admission failed, or that nobody asked about, came in without a decision."""
    outcomes = ("gated", "placed", "passed", "shadow", "failed", "reinvoked", "other", "")
    pods = [a.a_pod(f"wf-0-{index}") for index in range(len(outcomes))]
    calls = [a.a_call(0.0, "create", "workflows", "wf-0")]
    for pod, outcome in zip(pods, outcomes, strict=True):
        created, bound = a.calls_of(pod)
        calls += [msgspec.structs.replace(created, outcome=outcome), bound]
    found = figures.measure(a.a_run(calls=calls, pods=pods)).figures
    assert (4, 8) == (found.pods_decided, found.pods_created)


def test_oom_kills_are_counted_per_run_and_workflow():
    """The reason of the kubelet's record decides, not the exit code."""
    found = two_pods(reason="OOMKilled", exit_code=137)
    assert (1, 1) == (found.figures.oom_kills, found.workflows[0].oom_kills)


def test_a_run_in_which_nothing_ended_has_no_means():
    """None, not zero: zero would be the best completion time there is."""
    calls = [a.a_call(0, "create", "workflows", "wf-0")]
    run = a.a_run(calls=calls, pods=[], workflows=[a.a_workflow(ended_s=None, phase="")])
    found = figures.measure(run)
    assert (None, None, None, None) == (
        found.figures.mean_completion_s,
        found.figures.utilisation,
        found.figures.requested_over_used_memory,
        found.figures.wall_s,
    )
    assert 1 == found.figures.deadlines_missed
    assert not found.validity.valid


@pytest.mark.parametrize(
    ("mix", "sample", "expected"),
    [("genomics", False, "pack"), ("genomics", True, "sample"), ("uniform", False, None)],
)
def test_a_run_says_what_its_workflows_were_made_from(mix, sample, expected):
    """A mix of our own reads no traces, with a pack or without."""
    assert expected == figures.data(figures.measure(a.a_run(mix=mix, sample=sample)))


def test_results_carry_each_arm_under_its_name():
    """What later issues compare is found by key, without knowing the measurement's structure."""
    keys = figures.of_arms([two_pods()])
    asked = (
        "workflows succeeded pods_created pods_ended pods_decided mean_completion_s"
        " p95_completion_s mean_wait_s utilisation requested_over_used_memory oom_kills wall_s"
        " valid invalid_because"
    )
    assert set() == {f"default.{name}" for name in asked.split()} - keys.keys()
