"""Pods that are resized in place, and other changes of a spec while the pod runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lab import apis
from lab.kubelet import lifecycles, memories
from lab.kubelet.behaviours import contracts
from tests.unit.kubelet.builders import (
    World,
    a_container,
    a_kubelet,
    a_pod,
    a_truth,
    a_world,
    an_argo_pod,
    deleted,
    until,
)
from tests.unit.kubelet.conducts import Sleeper, Steady
from tiphys.models.physics import engines


def resources(cpu: str, memory: str = "1Gi") -> dict[str, Any]:
    """Requests that are limits too."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": amounts, "limits": amounts}


def sized(item: apis.Object, cpu: str, memory: str = "1Gi") -> apis.Object:
    """The object after a resize of its main container."""
    container = {**item["spec"]["containers"][0], "resources": resources(cpu, memory)}
    metadata = {**item["metadata"], "generation": item["metadata"].get("generation", 1) + 1}
    return {**item, "metadata": metadata, "spec": {**item["spec"], "containers": [container]}}


def graced(item: apis.Object, grace_s: int) -> apis.Object:
    """The object as it is deleted with a grace."""
    return {**item, "metadata": {**item["metadata"], "deletionGracePeriodSeconds": grace_s}}


async def started(world: World, item: apis.Object) -> lifecycles.Lifecycle:
    """Let a pod run."""
    life = world.begin(item)
    await until(lambda: life.memory.started_at is not None)
    await asyncio.sleep(0.01)
    return life


def reading(world: World) -> engines.Reading:
    """The one task that runs."""
    clock = world.services.clock
    (found,) = world.services.computing.engine.readings(clock.now_s())
    return found


def conditions(world: World) -> dict[str, tuple[str, str]]:
    """Resize conditions as last written: (reason, message) by type."""
    return {
        item["type"]: (item["reason"], item["message"])
        for item in world.api.statuses[-1]["conditions"]
        if "Resize" in item["type"]
    }


async def test_a_resize_changes_what_runs_what_the_node_holds_and_the_status(
    tmp_path: Path,
) -> None:
    """4 cores in place of 1: the task goes on four times faster, and the record says 4."""
    truth = a_truth("a", cpu_s=1e6, parallelism=8.0)
    item = an_argo_pod("a", containers=[a_container(resources=resources("1"))])
    async with a_world(tmp_path, known=(truth,)) as world:
        life = await started(world, item)
        assert 1.0 == pytest.approx(reading(world).cpu_cores)
        life.update(sized(item, "4"))
        assert 4.0 == pytest.approx(reading(world).cpu_cores)
        assert 4000 == world.machines["g-0"].bound[life.pod.uid].requests.cpu_m
        await asyncio.sleep(0.01)
        status = world.api.statuses[-1]
        life.update(deleted(life.item))
        await life.task
    run = status["containerStatuses"][0]
    assert (resources("4"), {"cpu": "4", "memory": "1Gi"}) == (
        run["resources"],
        run["allocatedResources"],
    )
    assert 2 == status["observedGeneration"]
    assert [4000] == [record.requested_cpu_m for record in world.records()]


async def test_what_the_node_can_never_give_is_infeasible(tmp_path: Path) -> None:
    """The pod runs on as it was, until it asks for less."""
    item = a_pod(containers=[a_container(resources=resources("1"))])
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = await started(world, item)
        life.update(sized(item, "9"))
        await asyncio.sleep(0.01)
        message = "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000"
        assert {"PodResizePending": ("Infeasible", message)} == conditions(world)
        assert resources("1") == world.api.statuses[-1]["containerStatuses"][0]["resources"]
        life.update(sized(item, "2"))
        await asyncio.sleep(0.01)
        assert {} == conditions(world)
        assert 2000 == life.pod.requests.cpu_m
        life.update(deleted(item))
        await life.task


async def test_what_others_hold_is_deferred_and_given_when_they_are_gone(tmp_path: Path) -> None:
    """The kubelet looks again each second."""
    first, other = (a_pod(containers=[a_container(resources=resources("4"))]) for _ in range(2))
    async with a_kubelet(tmp_path, behaviour=Steady) as kubelet:
        kubelet.api.listed(first, other)
        known = kubelet.kubelet.known
        await until(lambda: len(known) == 2 and len(kubelet.api.phases_of_pods()) == 2)
        kubelet.api.hear("MODIFIED", sized(first, "6"))
        life = known[first["metadata"]["uid"]].life
        assert life is not None
        await until(lambda: life.view.resize is not None)
        assert life.view.resize is not None
        assert "Deferred" == life.view.resize.reason
        kubelet.api.hear("MODIFIED", deleted(other))
        await until(lambda: life.view.resize is None)
        assert 6000 == known[first["metadata"]["uid"]].pod.requests.cpu_m


async def test_a_memory_limit_below_what_is_in_use_is_not_set(tmp_path: Path) -> None:
    """The task is not killed by it; the condition says why."""
    truth = a_truth("a", cpu_s=1e6, memory_curve=((0.0, 6e8), (1.0, 6e8)))
    item = an_argo_pod("a", containers=[a_container(resources=resources("1"))])
    async with a_world(tmp_path, known=(truth,)) as world:
        life = await started(world, item)
        life.update(sized(item, "1", "500M"))
        await asyncio.sleep(0.01)
        message = "attempting to set pod memory limit (500000000) below current usage (600000000)"
        assert {"PodResizeInProgress": ("Error", message)} == conditions(world)
        assert 2**30 == life.pod.main.limit_memory_bytes
        assert 1 == len(world.services.computing.engine.running)
        life.update(deleted(item))
        await life.task


async def test_a_resize_while_there_was_no_kubelet_is_done_at_its_return(tmp_path: Path) -> None:
    """The checkpoint has the old requests, the object the new ones."""
    item = a_pod(containers=[a_container(resources=resources("1"))])
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = await started(world, item)
        memory: memories.Memory = life.memory
        life.task.cancel()
        again = world.begin(sized(item, "3"), memory=memory)
        await asyncio.sleep(0.01)
        assert 3000 == again.pod.requests.cpu_m
        again.update(deleted(again.item))
        await again.task


async def test_a_deadline_that_is_set_later_ends_the_pod(tmp_path: Path) -> None:
    """activeDeadlineSeconds may be added to a pod that runs; it counts from the pod's start."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = await started(world, item := a_pod())
        life.update({**item, "spec": {**item["spec"], "activeDeadlineSeconds": 600}})
        life.update({**item, "spec": {**item["spec"], "activeDeadlineSeconds": 300}})
        await life.task
    assert ["DeadlineExceeded"] == [record.reason for record in world.records()]
    assert 300 == pytest.approx(life.ended_s, abs=1.0)


@pytest.mark.parametrize(("first_s", "then_s", "lasts_s"), [(2, None, 2.0), (30, 5, 5.0)])
async def test_who_deletes_a_pod_may_give_it_another_grace(
    tmp_path: Path, first_s: int, then_s: int | None, lasts_s: float
) -> None:
    """In place of the spec's 30 seconds; who deletes it again may shorten it further."""

    class Stubborn(Sleeper):
        """Does not let itself be cancelled."""

        async def run(self) -> contracts.Outcome:
            """Hold on for a minute."""
            for _ in range(600):
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    continue
            return contracts.Outcome(phase="Succeeded")

    async with a_world(tmp_path, behaviour=Stubborn) as world:
        life = await started(world, item := a_pod())
        before = asyncio.get_running_loop().time()
        gone = deleted(item)
        life.update(graced(gone, first_s))
        await asyncio.sleep(1.5)
        if then_s is not None:
            life.update(graced(gone, then_s))
        await life.task
        assert lasts_s == pytest.approx(asyncio.get_running_loop().time() - before, abs=0.1)
    assert [("Deleted", 137)] == [(r.reason, r.exit_code) for r in world.records()]
