"""Events: what is told of pods and nodes where something is not as usual, and what is not."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from lab import apis, events
from lab.kubelet import announcements, controls, endings, pods
from tests.unit.kubelet.builders import (
    FakeApi,
    a_container,
    a_kubelet,
    a_pod,
    a_truth,
    a_world,
    an_argo_pod,
    deleted,
    refused,
    until,
)
from tests.unit.kubelet.conducts import Failing, Steady

KILLING = ("Normal", "Killing", "Stopping container main")


async def test_a_pod_that_ends_as_usual_costs_no_event(tmp_path: Path) -> None:
    """Nor does one whose own limit kills it: its status says that."""
    truth = a_truth("a", memory_curve=((0.0, 0.0), (1.0, 4e9)))
    limited = a_container(resources={"limits": {"memory": "1G"}})
    async with a_world(tmp_path, known=(truth,)) as world:
        await world.begin(a_pod()).task
        await world.begin(an_argo_pod("a", containers=[limited])).task
        await asyncio.sleep(1.0)
    assert ["Completed", "OOMKilled"] == [record.reason for record in world.records()]
    assert [] == world.api.told


async def test_the_containers_of_a_deleted_pod_are_told_to_be_stopped(tmp_path: Path) -> None:
    """One event for each that runs, about the container."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = world.begin(item := a_pod())
        await until(lambda: world.api.phases)
        life.update(deleted(item))
        await life.task
        await until(lambda: world.api.told)
    assert [KILLING] == world.api.told
    (body,) = [body for verb, _, body in world.api.written if verb == "POST"]
    assert ("Pod", life.pod.uid, "spec.containers{main}") == (
        body["involvedObject"]["kind"],
        body["involvedObject"]["uid"],
        body["involvedObject"]["fieldPath"],
    )


def test_an_init_container_is_named_as_one() -> None:
    """Also a sidecar, which is listed with them."""
    sidecar = a_container(name="proxy", restartPolicy="Always")
    pod = pods.read(a_pod(initContainers=[sidecar]))
    event = announcements.of_pod(pod, "Killing", "m", container="proxy")
    assert "spec.initContainers{proxy}" == event.about["fieldPath"]


async def test_a_deadline_is_told(tmp_path: Path) -> None:
    """In a kubelet's words; a signal from elsewhere is none of the kubelet's."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        await world.begin(a_pod(activeDeadlineSeconds=60)).task
        life = world.begin(a_pod())
        await until(lambda: "Running" == world.api.phases[-1])
        life.stop(endings.Stop.SIGNALLED)
        await life.task
        await until(lambda: len(world.api.told) >= 2)
    assert [("Normal", "DeadlineExceeded", endings.DEADLINE_MESSAGE), KILLING] == world.api.told


async def test_a_refusal_is_told(tmp_path: Path) -> None:
    """The status has the same words and says first that the pod was rejected."""
    async with a_world(tmp_path) as world:
        huge = a_container(resources={"requests": {"cpu": "9"}})
        await world.begin(a_pod(containers=[huge])).task
        await until(lambda: world.api.told)
    ((kind, reason, message),) = world.api.told
    assert ("Warning", "OutOfcpu") == (kind, reason)
    assert f"Pod was rejected: {message}" == world.api.statuses[-1]["message"]


async def test_an_eviction_is_told_of_the_node_and_of_the_pod(tmp_path: Path) -> None:
    """And the status has the condition that owners of pods look at."""
    truth = a_truth("a", cpu_s=20_000.0, memory_curve=((0.0, 2e9), (1.0, 20e9)))
    async with a_world(tmp_path, known=(truth,), speed=50_000.0) as world:
        await world.begin(an_argo_pod("a")).task
        await until(lambda: len(world.api.told) >= 3)
    assert ["EvictionThresholdMet", "Evicted", "Killing"] == [told[1] for told in world.api.told]
    status = world.api.statuses[-1]
    assert status["message"] == world.api.told[1][2]
    (disrupted,) = [one for one in status["conditions"] if one["type"] == "DisruptionTarget"]
    assert ("True", "TerminationByKubelet") == (disrupted["status"], disrupted["reason"])


async def test_a_node_that_runs_out_at_once_tells_of_the_victim(tmp_path: Path) -> None:
    """SystemOOM is about the node: no limit of the container did it."""
    truth = a_truth("a", cpu_s=20.0, memory_curve=((0.0, 2e9), (1.0, 20e9)))
    async with a_world(tmp_path, known=(truth,)) as world:
        await world.begin(an_argo_pod("a")).task
        await until(lambda: world.api.told)
    assert ["OOMKilled"] == [record.reason for record in world.records()]
    assert [("Warning", "SystemOOM", "System OOM encountered, victim process: main")] == (
        world.api.told
    )


async def test_back_offs_of_one_container_are_counted(tmp_path: Path) -> None:
    """One event with a rising count."""
    async with a_world(tmp_path, behaviour=Failing, speed=20_000.0) as world:
        life = world.begin(a_pod(restartPolicy="OnFailure"))
        await until(lambda: life.memory.restarts >= 4)
        life.stop(endings.Stop.GONE)
        await life.task
        await asyncio.sleep(1.0)
    assert ["BackOff"] == [reason for _, reason, _ in world.api.told]
    counts = [body["count"] for _, path, body in world.api.written if "/events/" in path]
    assert [2, 3] == counts[:2]


async def test_a_lost_node_tells_nothing(tmp_path: Path) -> None:
    """It is off."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = world.begin(item := a_pod())
        await until(lambda: world.api.phases)
        world.machines["g-0"].reachable.clear()
        life.stop(endings.Stop.LOST)
        life.update(deleted(item))
        await asyncio.sleep(1.0)
        world.machines["g-0"].reachable.set()
        await life.task
    assert [] == world.api.told


async def test_a_node_tells_of_its_conditions_when_they_change(tmp_path: Path) -> None:
    """Not at its registration."""
    async with a_kubelet(tmp_path) as kubelet:
        await until(lambda: len(kubelet.api.written) >= 6)
        for fault in ("not-ready", "node-ready"):
            await kubelet.kubelet.obey(controls.Command(fault=fault, node="g-0"))
        await until(lambda: len(kubelet.api.told) >= 2)
    assert [
        ("Normal", "NodeNotReady", "Node g-0 status is now: NodeNotReady"),
        ("Normal", "NodeReady", "Node g-0 status is now: NodeReady"),
    ] == kubelet.api.told


@pytest.mark.parametrize("status", [404, 403])
async def test_an_event_that_cannot_be_written_is_let_go(status: int) -> None:
    """One that the API server has removed begins anew; one that it refuses is dropped."""
    api = FakeApi()
    written = events.Events(cast(apis.Api, api), component="kubelet")
    running = asyncio.create_task(written.run())
    event = announcements.of_pod(pods.read(a_pod()), "FailedMount", "m")
    written.tell(event)
    await until(lambda: api.told)
    api.refusals.append(refused(status))
    written.tell(event)
    await until(lambda: not api.refusals)
    await asyncio.sleep(0.01)
    running.cancel()
    assert (2 if status == 404 else 1) == len(api.told)


async def test_too_many_events_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for events."""
    monkeypatch.setattr("lab.events.QUEUED", 2)
    api = FakeApi()
    written = events.Events(cast(apis.Api, api), component="kubelet")
    for number in range(5):
        written.tell(announcements.of_node("g-0", "R", str(number)))
    running = asyncio.create_task(written.run())
    await until(lambda: len(api.told) >= 2)
    await asyncio.sleep(0.01)
    running.cancel()
    assert ["0", "1"] == [message for _, _, message in api.told]
