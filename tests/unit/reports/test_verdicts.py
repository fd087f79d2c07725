import msgspec
import pytest

from lab.reports import accounts, verdicts
from tests.unit.reports import synthetic_runs as a


def verdict_of(run):
    """Return the verdict on a run."""
    return verdicts.judge(run, accounts.account(run).tasks)


def a_run_with_latency(latency_s, **rest):
    """Return a run whose one binding took `latency_s` wall seconds; the task lasts 57 s."""
    pod = a.a_pod(reason="Completed")
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        a.a_call(1, "create", "pods", pod.name),
        a.a_call(1.1, "create", "pods/binding", pod.name, uid=pod.uid, latency_s=latency_s),
    ]
    return a.a_run(calls=calls, pods=[pod], **rest)


def test_a_quick_control_plane_makes_a_valid_run():
    """50 ms at speed 60 are 3 s, a twentieth of the task."""
    verdict = verdict_of(a_run_with_latency(0.05))
    assert verdict.valid
    assert [] == verdict.reasons
    assert 3.0 == pytest.approx(verdict.control_plane_p99_s)
    assert 3 / 57 == pytest.approx(verdict.share, rel=1e-3)


def test_a_slow_control_plane_makes_an_invalid_run_and_says_why():
    """100 ms at speed 60 are 6 s, more than a tenth of 57 s."""
    verdict = verdict_of(a_run_with_latency(0.1))
    assert not verdict.valid
    assert "bind a pod took 100 ms at p99, which is 6.0 simulated s or 11%" in verdict.reasons[0]
    assert "lower the speed" in verdict.reasons[0]


@pytest.mark.parametrize("outcome", ["interrupted", "timeout"])
def test_a_run_that_was_cut_short_is_invalid(outcome):
    """However quick the control plane was: what it left out would have counted."""
    verdict = verdict_of(a_run_with_latency(0.05, outcome=outcome))
    assert not verdict.valid
    assert verdict.reasons[0].startswith("the run was cut short")


def test_scheduling_is_judged_only_where_a_pod_fitted_at_once():
    """A pod that waits for room does not wait for the scheduler."""
    first = a.a_pod("wf-0-a", requested_cpu_m=16000)
    second = a.a_pod("wf-0-b", requested_cpu_m=16000, bound_s=62.0)
    third = a.a_pod("wf-0-c", requested_cpu_m=16000, bound_s=200.0)
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        *a.calls_of(first, created_s=1.0, bound_s=1.5),
        *a.calls_of(second, created_s=2.0, bound_s=62.0),
        *a.calls_of(third, created_s=199.0, bound_s=200.0),
    ]
    run = a.a_run(calls=calls, pods=[first, second, third], cluster=a.a_cluster(nodes=1))
    waits = verdicts.scheduling_waits(run, accounts.account(run).tasks)
    assert [0.5, 1.0] == pytest.approx(waits, abs=1e-3)


def test_a_pod_that_tiphys_holds_does_not_wait_for_the_scheduler():
    """Room was there when it came, but the order in which gates open is what is measured."""
    first = a.a_pod("wf-0-a")
    second = a.a_pod("wf-0-b", bound_s=200.0)
    creation, *rest = a.calls_of(second, created_s=100.0, bound_s=200.0)
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        *a.calls_of(first),
        msgspec.structs.replace(creation, outcome="gated"),
        *rest,
    ]
    run = a.a_run(calls=calls, pods=[first, second])
    waits = verdicts.scheduling_waits(run, accounts.account(run).tasks)
    assert [1.0] == pytest.approx(waits, abs=1e-3)
    as_placed = [msgspec.structs.replace(each, outcome="placed") for each in calls]
    run = a.a_run(calls=as_placed, pods=[first, second])
    waits = verdicts.scheduling_waits(run, accounts.account(run).tasks)
    assert [1.0, 100.0] == pytest.approx(waits, abs=1e-3)


def test_room_counts_as_taken_until_the_scheduler_can_know_of_it():
    """A pod that comes just after another ended may wait for that status to arrive."""
    first = a.a_pod("wf-0-a", requested_cpu_m=16000)
    second = a.a_pod("wf-0-b", requested_cpu_m=16000, bound_s=65.0)
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        *a.calls_of(first),
        *a.calls_of(second, created_s=62.1, bound_s=65.0),
    ]
    run = a.a_run(calls=calls, pods=[first, second], cluster=a.a_cluster(nodes=1))
    assert [1.0] == pytest.approx(
        verdicts.scheduling_waits(run, accounts.account(run).tasks), abs=1e-3
    )


def test_argos_reaction_is_shown_but_not_judged():
    """Only a lower bound of it is known."""
    verdict = verdict_of(a.a_busy_run())
    judged = {latency.what: latency.judged for latency in verdict.latencies}
    assert judged[verdicts.REACTION] is False
    assert judged[verdicts.SCHEDULING] is True


def test_argos_reaction_counts_from_the_status_that_told_of_the_end_and_beyond_its_pause():
    """What the kubelet took to say so is not Argo's, and the 10 s of its pause are meant."""
    first, second = a.a_pod("wf-0-a"), a.a_pod("wf-0-b", bound_s=90.0)
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        *a.calls_of(first),
        a.a_call(64.0, "patch", "pods/status", first.name, latency_s=1 / 60, code=200),
        *a.calls_of(second, created_s=80.0, bound_s=89.0),
    ]
    run = a.a_run(calls=calls, pods=[first, second])
    found = verdicts.reactions(run, accounts.account(run).tasks)
    assert [80.0 - 65.0 - 10.0] == pytest.approx(found, abs=1e-3)


def test_a_retry_is_no_reaction():
    """It waits for its back-off."""
    first, second = a.a_pod("wf-0-a"), a.a_pod("wf-0-b", bound_s=90.0, attempt=1)
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        *a.calls_of(first),
        *a.calls_of(second, created_s=80.0, bound_s=89.0),
    ]
    run = a.a_run(calls=calls, pods=[first, second])
    assert [] == verdicts.reactions(run, accounts.account(run).tasks)
