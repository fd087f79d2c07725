"""A pod's status out of facts."""

import pytest

from lab.processnode import statuses
from tests.unit.processnode import builders as a

UP = statuses.Facts(name="main", image="none", running_since=10.0, started=True, ready=True)
WAITING = statuses.Facts(name="main", image="none", waiting=("ContainerCreating", "soon"))
GOOD = statuses.Facts(
    name="main", image="none", ended=statuses.Ended(exit_code=0, reason="Completed")
)
BAD = statuses.Facts(name="main", image="none", ended=statuses.Ended(exit_code=1, reason="Error"))
CRASHING = statuses.Facts(
    name="main", image="none", last=BAD.ended, waiting=("CrashLoopBackOff", "")
)


@pytest.mark.parametrize(
    ("main", "over", "expected"),
    [
        ([UP], False, "Running"),
        ([UP, WAITING], False, "Pending"),
        ([UP, CRASHING], False, "Running"),
        ([CRASHING], False, "Running"),
        ([GOOD], True, "Succeeded"),
        ([GOOD, BAD], True, "Failed"),
        ([WAITING], True, "Failed"),
    ],
)
def test_phases_follow_from_the_containers(main, over, expected):
    """As kubelets have it."""
    assert expected == statuses.phase(a.a_pod(), main=main, over=over)


def whole(**parts):
    """Return a pod that runs, but for what `parts` say."""
    usual = {
        "phase": "Running",
        "started_at": 5.0,
        "pod_ip": "127.20.128.1",
        "node_ip": "127.20.255.1",
        "initialized": True,
        "volumes_ready": True,
    }
    return statuses.Whole(**(usual | parts))


def conditions(pod, main, *, before=(), now=20.0, **parts):
    """Return the conditions by type."""
    status = statuses.pod_status(
        pod, whole(**parts), init=[], main=main, conditions=before, now=now
    )
    return {item["type"]: item for item in status["conditions"]}


def test_a_pod_is_ready_when_all_containers_are_and_all_gates_are_open():
    """And says which is not."""
    pod = a.a_pod()
    assert "True" == conditions(pod, [UP])["Ready"]["status"]
    unready = conditions(pod, [UP, WAITING])["Ready"]
    assert ("False", "containers with unready status: [main]") == (
        unready["status"],
        unready["message"],
    )
    pod["spec"]["readinessGates"] = [{"conditionType": "tiphys.dev/warm"}]
    found = conditions(pod, [UP])
    assert ("True", "False") == (found["ContainersReady"]["status"], found["Ready"]["status"])
    pod["status"]["conditions"] = [{"type": "tiphys.dev/warm", "status": "True"}]
    assert "True" == conditions(pod, [UP])["Ready"]["status"]


def test_a_condition_keeps_the_time_since_which_it_holds():
    """A new time only with a new status."""
    first = conditions(a.a_pod(), [UP], now=20.0)
    same = conditions(a.a_pod(), [UP], before=list(first.values()), now=30.0)
    other = conditions(a.a_pod(), [WAITING], before=list(first.values()), now=30.0)
    times = [found["Ready"]["lastTransitionTime"] for found in (first, same, other)]
    assert ["1970-01-01T00:00:20Z", "1970-01-01T00:00:20Z", "1970-01-01T00:00:30Z"] == times


def test_init_containers_that_ended_well_are_ready():
    """Kubelets say so, and `kubectl` counts on it."""
    status = statuses.pod_status(
        a.a_pod(), whole(), init=[GOOD, BAD], main=[UP], conditions=[], now=20.0
    )
    assert [True, False] == [item["ready"] for item in status["initContainerStatuses"]]


def test_what_ran_when_the_node_ended_is_known_to_have_died():
    """How is not; the count of restarts and the run before are kept."""
    pod = a.a_pod()
    pod["status"]["containerStatuses"] = [
        {
            "name": "main",
            "restartCount": 3,
            "containerID": "process://1",
            "state": {"running": {"startedAt": "1970-01-01T00:00:10Z"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": None}},
        }
    ]
    facts = statuses.earlier(pod, a.a_container())
    assert facts.ended is not None and facts.last is not None
    assert (137, "ContainerStatusUnknown", 10.0) == (
        facts.ended.exit_code,
        facts.ended.reason,
        facts.ended.started_at,
    )
    assert (3, 1) == (facts.restarts, facts.last.exit_code)


def test_what_had_ended_stays_as_it_ended():
    """What a status says is read back without loss."""
    ended = statuses.Ended(
        exit_code=2, reason="Error", message="m", started_at=10.0, ended_at=11.0, id="process://1"
    )
    facts = statuses.Facts(name="main", image="none", ended=ended, restarts=1, id="process://1")
    pod = a.a_pod()
    pod["status"]["containerStatuses"] = [facts.shown()]
    assert ended == statuses.earlier(pod, a.a_container()).ended


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([("Ready", "True"), ("Initialized", "True")], False),
        ([("Ready", "False"), ("Initialized", "True")], True),
        ([("Ready", "True"), ("PodScheduled", "False")], False),
        ([], False),
    ],
)
def test_what_others_say_of_our_conditions_is_seen(there, expected):
    """Conditions that are not ours are theirs; one that is absent may be on its way."""
    written = {
        "conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "Initialized")]
    }
    conditions = [{"type": kind, "status": status} for kind, status in there]
    pod = a.a_pod() | {"status": {"conditions": conditions}}
    assert expected == statuses.contradicts(pod, written)
