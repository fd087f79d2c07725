import dataclasses

import pytest

from lab.reports import accounts
from tests.unit.reports import synthetic_runs as a


def problems_of(**run):
    """Return the problems that the account of a run names."""
    return accounts.account(a.a_run(**run)).problems


def test_a_sound_run_has_no_problem_and_every_time():
    """Created and bound come from the API server, started and ended from the kubelet."""
    account = accounts.account(a.a_run())
    assert [] == account.problems
    assert (1, 1) == (account.pods_created, account.pods_ended)
    (task,) = account.tasks
    times = [task.created_s, task.bound_s, task.started_s, task.ended_s, task.wait_s]
    assert [1.0, 2.0, 5.0, 62.0, 4.0] == pytest.approx(times, abs=1e-4)


def test_memory_is_held_from_bound_to_ended():
    """What is reserved is lost to others from the binding on, whatever the pod does."""
    (task,) = accounts.account(a.a_run()).tasks
    assert 4 * 60.0 == pytest.approx(task.requested_memory_byte_s / a.GIB, rel=1e-4)
    assert 57.0 == pytest.approx(task.used_memory_byte_s / a.GIB)


def test_a_pod_that_was_deleted_before_it_was_bound_has_ended():
    """Nothing else will ever be recorded about it."""
    pod = a.a_pod()
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        a.a_call(1, "create", "pods", pod.name),
        a.a_call(9, "delete", "pods", pod.name, code=200),
    ]
    account = accounts.account(a.a_run(calls=calls, pods=[]))
    assert [] == account.problems
    assert ("Deleted", 1) == (account.tasks[0].reason, account.pods_ended)
    assert 9.0 == pytest.approx(account.tasks[0].ended_s, abs=1e-4)


def test_a_name_that_comes_again_is_another_pod():
    """Argo makes a deleted pod again under its old name; each life has its own records."""
    first = a.a_pod(uid="first", reason="Deleted")
    second = a.a_pod(uid="second", bound_s=102.0)
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        *a.calls_of(first),
        a.a_call(62.5, "delete", "pods", first.name, code=200),
        *a.calls_of(second, created_s=101.0, bound_s=102.0),
    ]
    account = accounts.account(a.a_run(calls=calls, pods=[second, first]))
    assert [] == account.problems
    assert ["Deleted", "Completed"] == [task.reason for task in account.tasks]
    assert 2 == account.pods_ended


def test_pods_of_other_workflows_are_not_of_this_run():
    """The longest workflow name that a pod's name begins with is its workflow."""
    pods = [
        a.a_pod("wf-0-align-1"),
        a.a_pod("wf-0-b-align-1", workflow="wf-0-b"),
        a.a_pod("wf-00-align-1", workflow="wf-00"),
    ]
    calls = [a.a_call(0, "create", "workflows", name) for name in ("wf-0", "wf-0-b")]
    calls += [call for pod in pods for call in a.calls_of(pod)]
    run = a.a_run(calls=calls, pods=pods, workflows=[a.a_workflow(), a.a_workflow("wf-0-b")])
    assert ["wf-0", "wf-0-b"] == [task.workflow for task in accounts.account(run).tasks]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("create pods", "has records, but the audit log has no creation of it"),
        ("create pods/binding", "the audit log has no binding of it"),
    ],
)
def test_a_call_that_the_audit_log_lacks_is_a_problem_that_names_the_pod(missing, said):
    """The kubelet cannot have run what nobody created or bound."""
    calls = [call for call in a.a_run().calls if f"{call.verb} {call.resource}" != missing]
    (problem,) = problems_of(calls=calls)
    assert problem.startswith("pod genomics/wf-0-align-1 ")
    assert said in problem


def test_a_bound_pod_without_an_end_is_a_problem_and_stays_in_the_tasks():
    """It is shown as unaccounted, never dropped."""
    pod = a.a_pod()
    calls = [a.a_call(0, "create", "workflows", "wf-0"), *a.calls_of(pod)]
    account = accounts.account(a.a_run(calls=calls, pods=[]))
    (problem,) = account.problems
    said = "pod genomics/wf-0-align-1 was bound to a node, but the kubelet's journal has no end"
    assert problem.startswith(said)
    assert ("Unaccounted", None) == (account.tasks[0].reason, account.tasks[0].ended_s)
    assert (1, 0) == (account.pods_created, account.pods_ended)


def test_a_pod_that_waits_for_ever_is_a_problem():
    """Created, but neither bound nor deleted."""
    calls = [
        a.a_call(0, "create", "workflows", "wf-0"),
        a.a_call(1, "create", "pods", "wf-0-align-1"),
    ]
    (problem,) = problems_of(calls=calls, pods=[])
    assert "pod genomics/wf-0-align-1 was created, but neither bound nor deleted" == problem


def test_a_pod_that_ended_twice_is_a_problem():
    """The kubelet owes exactly one record a pod."""
    pod = a.a_pod()
    calls = [a.a_call(0, "create", "workflows", "wf-0"), *a.calls_of(pod)]
    run = a.a_run(calls=calls, pods=[pod, pod])
    account = accounts.account(run)
    assert "has 2 ends in the kubelet's journal; it must have one" in account.problems[0]
    assert 0 == account.pods_ended


def test_times_that_run_backwards_are_a_problem():
    """A pod cannot start before it was bound."""
    (problem,) = problems_of(
        calls=[
            a.a_call(0, "create", "workflows", "wf-0"),
            *a.calls_of(a.a_pod(), bound_s=50.0),
        ]
    )
    assert "was seen by the kubelet 0.800 wall seconds before it was bound" in problem


def test_refused_calls_create_nothing():
    """A creation that was answered with 403 left no pod."""
    calls = [*a.a_run().calls, a.a_call(3, "create", "pods", "wf-0-late-2", code=403)]
    assert [] == problems_of(calls=calls)


def test_what_the_run_record_says_is_held_against_the_audit_log():
    """Two counts of the same thing must agree."""
    assert ["the run record counts 7 pods created, the audit log has 1"] == problems_of(
        pods_created=7
    )


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        (a.a_workflow(ended_s=None, phase=""), "was submitted, but never ended"),
        (a.a_workflow(submitted_at=None, ended_s=None, phase=""), "but never submitted"),
        (a.a_workflow("wf-1"), "was submitted, but the audit log has no creation of it"),
    ],
)
def test_a_workflow_that_did_not_come_or_end_is_a_problem(workflow, said):
    """A mean over the others would flatter the run."""
    assert any(said in problem for problem in problems_of(workflows=[workflow]))


def test_a_pod_that_only_the_run_record_misses_is_named_once():
    """Both find the same pod; one line is enough."""
    pod = a.a_pod()
    calls = [a.a_call(0, "create", "workflows", "wf-0"), *a.calls_of(pod)]
    said = ("genomics/wf-0-align-1: bound, never ended", "genomics/other: lost")
    found = problems_of(calls=calls, pods=[], pods_unaccounted=said)
    assert 2 == len(found)
    assert "pod genomics/other: lost" == found[1]


def test_a_busy_run_is_accounted_for_whole():
    """Hundreds of pods on one queue, none lost."""
    account = accounts.account(a.a_busy_run())
    assert [] == account.problems
    assert (352, 352) == (account.pods_created, account.pods_ended)


def test_one_lost_record_among_hundreds_is_found():
    """The check is per pod, not on sums."""
    run = a.a_busy_run()
    lost = run.pods[100]
    account = accounts.account(
        dataclasses.replace(run, pods=tuple(pod for pod in run.pods if pod is not lost))
    )
    (problem,) = account.problems
    assert lost.name in problem
