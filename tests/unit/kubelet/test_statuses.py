"""Statuses as written: states, conditions, and what belongs to others."""

from typing import Any

from lab.kubelet import endings, pods, statuses
from lab.kubelet.behaviours import contracts
from tests.unit.kubelet.builders import a_container, a_pod

AT = 1_800_000_000.0


def a_view(item: dict[str, Any], *, running: bool = True) -> statuses.View:
    """A pod's view; all containers run since a second."""
    view = statuses.view(pods.read(item), seen_at=AT - 5)
    if running:
        view.phase, view.address = statuses.RUNNING, "10.0.0.5"
        for run in view.init_runs:
            run.start(AT - 2, ready=False)
            run.stop(statuses.COMPLETED, AT - 1)
        for run in view.runs:
            run.start(AT - 1, ready=True)
    return view


def written(item: dict[str, Any], view: statuses.View, *, at: float = AT) -> dict[str, Any]:
    """The status as written over the one in the item."""
    pod = pods.read(item)
    return statuses.status(pod, view, host_address="127.1.0.1", at=at, before=item["status"])


def conditions(status: dict[str, Any]) -> dict[str, str]:
    """Condition types and their status."""
    return {item["type"]: item["status"] for item in status["conditions"]}


def test_a_pod_that_is_being_made_waits() -> None:
    """Main waits for init containers, init containers are created."""
    item = a_pod(initContainers=[a_container("init")])
    status = written(item, a_view(item, running=False))
    assert "Pending" == status["phase"]
    assert {"waiting": {"reason": "PodInitializing"}} == status["containerStatuses"][0]["state"]
    init = status["initContainerStatuses"][0]
    assert {"waiting": {"reason": "ContainerCreating"}} == init["state"]
    assert "False" == conditions(status)["Initialized"]


def test_a_running_pod_is_ready_and_has_an_address() -> None:
    """Ready and ContainersReady hold while every container is ready."""
    item = a_pod(initContainers=[a_container("init")])
    status = written(item, a_view(item))
    assert ("Running", "10.0.0.5", "127.1.0.1") == (
        status["phase"],
        status["podIP"],
        status["hostIP"],
    )
    assert {"True"} == set(conditions(status).values())
    assert 0 == status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"]


def test_what_a_container_was_given_stands_in_its_status_while_it_runs() -> None:
    """Requests are what the node has allocated; the generation is that of the spec."""
    item = a_pod()
    view, given = a_view(item), item["spec"]["containers"][0]["resources"]
    pod = pods.read(item)
    status = statuses.status(
        pod, view, host_address="127.1.0.1", at=AT, before=item["status"], generation=3
    )
    run = status["containerStatuses"][0]
    assert (given, given["requests"]) == (run["resources"], run["allocatedResources"])
    assert 3 == status["observedGeneration"]
    generations = {one["type"]: one.get("observedGeneration") for one in status["conditions"]}
    assert (3, None) == (generations["Ready"], generations["PodScheduled"])
    view.runs[0].stop(statuses.COMPLETED, AT)
    assert "resources" not in written(item, view)["containerStatuses"][0]


def test_a_container_that_is_not_ready_keeps_the_pod_unready() -> None:
    """The message names it, as a kubelet's does."""
    item = a_pod()
    view = a_view(item)
    view.runs[0].ready = False
    (ready,) = [c for c in written(item, view)["conditions"] if c["type"] == "Ready"]
    assert ("False", "ContainersNotReady") == (ready["status"], ready["reason"])
    assert "[main]" in ready["message"]


def test_an_ended_pod_says_how_its_containers_ended() -> None:
    """Failed: code and reason of each; Ready no longer holds."""
    item = a_pod(containers=[a_container("main"), a_container("wait")])
    view = a_view(item)
    outcome = contracts.Outcome(
        phase="Failed",
        containers={"main": contracts.ContainerEnd(exit_code=137, reason="OOMKilled")},
    )
    endings.end_runs(view, outcome, at=AT)
    view.phase = outcome.phase
    status = written(item, view)
    states = [run["state"]["terminated"] for run in status["containerStatuses"]]
    assert [(137, "OOMKilled"), (0, "Completed")] == [(s["exitCode"], s["reason"]) for s in states]
    found = {item["type"]: item for item in status["conditions"]}
    assert ("False", "PodFailed") == (found["Ready"]["status"], found["Ready"]["reason"])


def test_conditions_of_others_stay_and_unchanged_ones_keep_their_time() -> None:
    """PodScheduled and a foreign condition survive; a condition's time moves when it turns."""
    item = a_pod()
    foreign = {"type": "example.com/Checked", "status": "True", "reason": "Mine"}
    item["status"]["conditions"].append(foreign)
    first = written(item, a_view(item))
    assert foreign in first["conditions"]
    assert "True" == conditions(first)["PodScheduled"]

    item["status"] = first
    view = a_view(item)
    view.runs[0].ready = False
    second = written(item, view, at=AT + 60)
    moved = {
        new["type"]
        for new, old in zip(second["conditions"], first["conditions"], strict=True)
        if new["lastTransitionTime" if "lastTransitionTime" in new else "type"]
        != old["lastTransitionTime" if "lastTransitionTime" in old else "type"]
    }
    assert {"Ready", "ContainersReady"} == moved


def test_a_restart_keeps_how_the_run_before_ended() -> None:
    """restartCount rises; lastState holds the earlier end."""
    item = a_pod(restartPolicy="Always")
    view = a_view(item)
    view.runs[0].stop(contracts.ContainerEnd(exit_code=3, reason="Error"), AT)
    view.runs[0].start(AT + 10, ready=True)
    (run,) = written(item, view)["containerStatuses"]
    assert 1 == run["restartCount"]
    assert 3 == run["lastState"]["terminated"]["exitCode"]
    assert "running" in run["state"]


def test_a_view_can_be_read_back_from_a_status() -> None:
    """What ended before a kubelet began is exported by its status."""
    item = a_pod()
    view = a_view(item)
    end = contracts.ContainerEnd(exit_code=2, reason="Error", message="bad")
    view.runs[0].stop(end, AT)
    view.phase = "Failed"
    item["status"] = written(item, view)
    seen = statuses.viewed(pods.read(item), item)
    assert (view.phase, view.seen_at, view.address) == (seen.phase, seen.seen_at, seen.address)
    assert (end, AT) == (seen.runs[0].end, seen.runs[0].ended_at)
