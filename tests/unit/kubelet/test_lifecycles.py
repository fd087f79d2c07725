"""The life of a pod: what is written, recorded and freed, however it ends.

Over 400 lines, since each test is one more turn that the same life can take.
"""

import asyncio
import itertools
from pathlib import Path

import pytest

from lab import catalogs, truths
from lab.kubelet import endings, memories, pods, writers
from lab.kubelet.behaviours import contracts
from tests.unit.kubelet.builders import (
    World,
    a_cluster,
    a_container,
    a_group,
    a_pod,
    a_truth,
    a_world,
    an_argo_pod,
    deleted,
    refused,
    until,
)
from tests.unit.kubelet.conducts import Failing, Sleeper, Steady


class Unprepared(Sleeper):
    """An init container of it fails."""

    async def prepare(self) -> contracts.ContainerEnd:
        """Fail."""
        return contracts.ContainerEnd(exit_code=2, reason="Error")


class Broken(Sleeper):
    """Has a bug."""

    async def run(self) -> contracts.Outcome:
        """Raise."""
        raise KeyError("bug")


def phase_of(world: World) -> str:
    """The last phase written."""
    return str(world.api.phases[-1]) if world.api.phases else ""


def running(world: World) -> bool:
    """Whether the pod was reported as running."""
    return phase_of(world) == "Running"


async def test_a_pod_runs_ends_and_frees_its_room(tmp_path: Path) -> None:
    """Two writes, Running and Succeeded; one record; the node holds nothing of it."""
    async with a_world(tmp_path) as world:
        life = world.begin(a_pod())
        await life.task
    assert ["Running", "Succeeded"] == world.api.phases
    (record,) = world.records()
    assert ("Completed", 0, "g-0", "g") == (
        record.reason,
        record.exit_code,
        record.node,
        record.group,
    )
    assert record.started_at is not None
    assert record.seen_at <= record.started_at <= record.ended_at
    assert {} == world.machines["g-0"].bound


async def test_a_slow_start_is_published_and_a_fast_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `SLOW_S` below the start's time the pod is seen Pending first."""
    monkeypatch.setattr("lab.kubelet.settings.SLOW_S", 0.0)
    async with a_world(tmp_path, speed=100.0) as world:
        await world.begin(a_pod()).task
    assert ["Pending", "Running", "Succeeded"] == world.api.phases
    waiting = world.api.statuses[0]["containerStatuses"][0]["state"]["waiting"]
    assert {"reason": "ContainerCreating"} == waiting


async def test_a_known_task_computes_its_truth(tmp_path: Path) -> None:
    """The record has the task's names and what the physics says it used."""
    truth = a_truth("a", memory_curve=((0.0, 1e8), (1.0, 5e8)))
    async with a_world(tmp_path, known=(truth,)) as world:
        await world.begin(an_argo_pod("a")).task
    (record,) = world.records()
    assert ("wf", "a", "t", 0) == (record.workflow, record.task, record.template, record.attempt)
    assert 5e8 == pytest.approx(record.peak_memory_bytes)
    assert record.cpu_s > 0


async def test_the_exit_code_is_that_of_the_attempt(tmp_path: Path) -> None:
    """Attempt 0 fails with 7, attempt 1 succeeds."""
    truth = a_truth("a", exit_codes=(7,))
    async with a_world(tmp_path, known=(truth,)) as world:
        await world.begin(an_argo_pod("a(0)")).task
        await world.begin(an_argo_pod("a(1)")).task
    found = [(record.attempt, record.reason, record.exit_code) for record in world.records()]
    assert [(0, "Error", 7), (1, "Completed", 0)] == found


async def test_a_task_above_its_limit_is_oom_killed(tmp_path: Path) -> None:
    """137, OOMKilled, counted by the node."""
    truth = a_truth("a", memory_curve=((0.0, 0.0), (1.0, 4e9)))
    limited = a_container(
        resources={"requests": {"memory": "1G"}, "limits": {"memory": "1G"}},
    )
    async with a_world(tmp_path, known=(truth,)) as world:
        await world.begin(an_argo_pod("a", containers=[limited])).task
        assert 1 == world.machines["g-0"].meter.oom_kills
    (record,) = world.records()
    assert ("OOMKilled", 137) == (record.reason, record.exit_code)
    ended = world.api.statuses[-1]["containerStatuses"][0]["state"]["terminated"]
    assert ("OOMKilled", 137) == (ended["reason"], ended["exitCode"])


async def test_an_evicted_pod_says_why_and_the_node_is_under_pressure(tmp_path: Path) -> None:
    """Phase Failed, reason Evicted, the message names request and use."""
    curve = ((0.0, 2e9), (1.0, 20e9))
    truth = a_truth("a", cpu_s=20_000.0, memory_curve=curve)
    async with a_world(tmp_path, known=(truth,), speed=50_000.0) as world:
        await world.begin(an_argo_pod("a")).task
        machine = world.machines["g-0"]
        assert machine.pressed_until_s > 0
    status = world.api.statuses[-1]
    assert ("Failed", "Evicted") == (status["phase"], status["reason"])
    assert "low on resource: memory" in status["message"]
    assert ["Evicted"] == [record.reason for record in world.records()]


async def test_a_deleted_pod_gets_sigterm_and_its_deletion_is_confirmed(tmp_path: Path) -> None:
    """143, then DELETE with grace 0; one record."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        item = a_pod()
        life = world.begin(item)
        await until(lambda: running(world))
        life.update(deleted(item))
        await life.task
        assert [life.pod.path] == world.api.deletions
    assert [("Deleted", 143)] == [(r.reason, r.exit_code) for r in world.records()]
    assert "Failed" == phase_of(world)


async def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    """137 after the grace period."""

    class Stubborn(Sleeper):
        """Does not let itself be cancelled."""

        async def run(self) -> contracts.Outcome:
            """Hold on for a second."""
            for _ in range(20):
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue
            return contracts.Outcome(phase="Succeeded")

    async with a_world(tmp_path, behaviour=Stubborn) as world:
        item = a_pod(terminationGracePeriodSeconds=0.1)
        life = world.begin(item)
        await until(lambda: running(world))
        life.update(deleted(item))
        await life.task
    assert [("Deleted", 137)] == [(r.reason, r.exit_code) for r in world.records()]


async def test_a_pod_whose_object_is_gone_is_recorded_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    """Deleted by force."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = world.begin(a_pod())
        await until(lambda: running(world))
        life.stop(endings.Stop.GONE)
        await life.task
    assert ["Running"] == world.api.phases
    assert [] == world.api.deletions
    assert ["Deleted"] == [record.reason for record in world.records()]


async def test_a_signalled_pod_still_reports(tmp_path: Path) -> None:
    """Argo stops a workflow so: the pod ends with 143 after its outputs were told."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = world.begin(a_pod())
        await until(lambda: running(world))
        life.stop(endings.Stop.SIGNALLED, signal=15)
        await life.task
        (behaviour,) = world.behaviours
        assert isinstance(behaviour, Steady)
        assert ["Failed"] == [outcome.phase for outcome in behaviour.reported]
    assert [("Error", 143)] == [(r.reason, r.exit_code) for r in world.records()]


async def test_a_deadline_ends_a_pod(tmp_path: Path) -> None:
    """activeDeadlineSeconds counts simulated seconds from the pod's start time."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        await world.begin(a_pod(activeDeadlineSeconds=60)).task
    status = world.api.statuses[-1]
    assert ("Failed", "DeadlineExceeded") == (status["phase"], status["reason"])
    assert ["DeadlineExceeded"] == [record.reason for record in world.records()]


async def test_a_pod_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Failed with the resource as the reason; nothing was started."""
    async with a_world(tmp_path) as world:
        huge = a_container(resources={"requests": {"cpu": "9"}})
        await world.begin(a_pod(containers=[huge])).task
    status = world.api.statuses[-1]
    assert ("Failed", "OutOfcpu") == (status["phase"], status["reason"])
    assert "containerStatuses" not in status
    assert [("Rejected", None)] == [(r.reason, r.started_at) for r in world.records()]


async def test_a_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    """Its exit code is shown; the main container never ran."""
    async with a_world(tmp_path, behaviour=Unprepared) as world:
        item = a_pod(initContainers=[a_container("init", resources={})])
        await world.begin(item).task
    status = world.api.statuses[-1]
    assert "Failed" == status["phase"]
    assert 2 == status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"]
    assert "waiting" in status["containerStatuses"][0]["state"]
    assert ["Error"] == [record.reason for record in world.records()]


async def test_a_behaviour_with_a_bug_fails_its_pod_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the traceback, the pod is Failed, its room is free."""
    async with a_world(tmp_path, behaviour=Broken) as world:
        await world.begin(a_pod()).task
        assert {} == world.machines["g-0"].bound
    assert "Failed" == phase_of(world)
    assert ["Error"] == [record.reason for record in world.records()]
    assert "KeyError" in caplog.text


async def test_what_fails_is_restarted_where_the_policy_says_so(tmp_path: Path) -> None:
    """OnFailure: the count rises with each try, backed off; the pod is not over."""
    async with a_world(tmp_path, behaviour=Failing, speed=20_000.0) as world:
        life = world.begin(a_pod(restartPolicy="OnFailure"))
        await until(lambda: life.memory.restarts >= 3)
        life.stop(endings.Stop.GONE)
        await life.task
    last = world.api.statuses[-1]["containerStatuses"][0]
    assert last["restartCount"] >= 2
    assert 3 == last["lastState"]["terminated"]["exitCode"]
    assert 1 == len(world.records())


async def test_the_first_restart_comes_at_once_and_the_second_is_backed_off(
    tmp_path: Path,
) -> None:
    """Meanwhile the container waits, CrashLoopBackOff, and how it ended is its last state."""
    async with a_world(tmp_path, behaviour=Failing, speed=100.0) as world:
        life = world.begin(a_pod(restartPolicy="OnFailure"))
        await until(lambda: life.memory.first_started_at)
        start = life.memory.first_started_at or 0.0
        await until(lambda: life.memory.restarts == 1 and life.memory.started_at)
        assert 1.0 == pytest.approx(100 * ((life.memory.started_at or 0.0) - start), abs=0.5)
        await until(lambda: life.memory.restarts == 2)
        await asyncio.sleep(0.01)
        run = world.api.statuses[-1]["containerStatuses"][0]
        await until(lambda: life.memory.started_at)
        assert 12.0 == pytest.approx(100 * ((life.memory.started_at or 0.0) - start), abs=1.0)
        life.stop(endings.Stop.GONE)
        await life.task
    assert ({"waiting": {"reason": "CrashLoopBackOff"}}, 1) == (run["state"], run["restartCount"])
    assert 3 == run["lastState"]["terminated"]["exitCode"]


async def test_a_killed_container_is_restarted_where_the_policy_says_so(tmp_path: Path) -> None:
    """`kill` in a Deployment's pod restarts it in place."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        life = world.begin(a_pod(restartPolicy="Always"))
        await until(lambda: running(world))
        life.stop(endings.Stop.SIGNALLED, signal=9)
        await until(lambda: life.memory.restarts == 1 and life.memory.started_at)
        await until(lambda: world.api.statuses[-1]["containerStatuses"][0]["ready"])
        last = world.api.statuses[-1]["containerStatuses"][0]["lastState"]["terminated"]
        assert 137 == last["exitCode"]
        life.stop(endings.Stop.GONE)
        await life.task


async def test_a_lost_node_is_silent_and_confirms_when_it_is_back(tmp_path: Path) -> None:
    """Recorded at once as NodeLost; the status follows when the node returns."""
    async with a_world(tmp_path, behaviour=Steady) as world:
        item, machine = a_pod(), world.machines["g-0"]
        life = world.begin(item)
        await until(lambda: running(world))
        machine.reachable.clear()
        life.stop(endings.Stop.LOST)
        await until(world.records)
        assert [("NodeLost", 137)] == [(r.reason, r.exit_code) for r in world.records()]
        life.update(deleted(item))
        await asyncio.sleep(0.02)
        assert ["Running"] == world.api.phases
        machine.reachable.set()
        await life.task
    assert "Failed" == phase_of(world)
    assert [life.pod.path] == world.api.deletions
    assert 1 == len(world.records())


async def test_a_pod_that_had_not_started_starts_when_the_node_is_back(tmp_path: Path) -> None:
    """Bound to a node that nobody knew to be lost."""
    async with a_world(tmp_path) as world:
        machine = world.machines["g-0"]
        machine.reachable.clear()
        life = world.begin(a_pod())
        await asyncio.sleep(0.02)
        assert [] == world.api.written
        machine.reachable.set()
        await life.task
    assert ["Completed"] == [record.reason for record in world.records()]


async def test_a_pod_of_a_lost_node_that_is_gone_is_let_go(tmp_path: Path) -> None:
    """Deleted by force while the node is away: nobody waits for the node."""
    async with a_world(tmp_path) as world:
        world.machines["g-0"].reachable.clear()
        life = world.begin(a_pod())
        life.stop(endings.Stop.LOST)
        await asyncio.sleep(0.01)
        life.stop(endings.Stop.GONE)
        await asyncio.wait_for(life.task, 2.0)
    assert 1 == len(world.records())


async def test_an_image_is_pulled_once_for_all_pods_of_a_node(tmp_path: Path) -> None:
    """Three pods, one pull of 10 GB; the node then names the image."""
    known = tuple(a_truth(task, cpu_s=1.0, image_bytes=10e9) for task in "abc")
    async with a_world(tmp_path, known=known) as world:
        lives = [world.begin(an_argo_pod(task)) for task in "abc"]
        await asyncio.gather(*(life.task for life in lives))
        assert {"main:1": 10e9} == world.machines["g-0"].images
        total = world.services.computing.totals["g-0"]
        assert 10e9 == pytest.approx(total.disk_written_bytes)


async def test_a_node_starts_one_pod_after_the_other(tmp_path: Path) -> None:
    """The start server is serial: five pods take five services."""
    async with a_world(tmp_path) as world:
        lives = [world.begin(a_pod()) for _ in range(5)]
        await asyncio.gather(*(life.task for life in lives))
    starts = sorted(record.started_at or 0.0 for record in world.records())
    gaps = [(later - earlier) for earlier, later in itertools.pairwise(starts)]
    assert all(gap > 0 for gap in gaps)
    # Median 3 s, log-normal: five services are far above 8 s of simulated time together.
    arrived = min(record.seen_at for record in world.records())
    assert (starts[-1] - arrived) * world.services.clock.speed > 8.0


async def test_a_restarted_kubelet_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    """A sleep of 10 s of which 8 s are over ends after 2 s more, without a second start."""
    async with a_world(tmp_path, speed=100.0) as world:
        clock = world.services.clock
        item = a_pod()
        item["status"]["phase"] = "Running"
        memory = memories.Memory(
            pod=pods.read(item),
            seen_at=clock.wall() - 0.1,
            address="10.0.0.9",
            started_at=clock.wall() - 0.08,
            first_started_at=clock.wall() - 0.08,
            sleeps=[clock.now_s() + 2.0],
        )
        began = clock.now_s()
        life = world.begin(item, memory=memory)
        await life.task
        assert 2.0 == pytest.approx(life.ended_s - began, abs=1e-3)
    assert ["Succeeded"] == world.api.phases
    assert memory.first_started_at == world.records()[0].started_at
    assert "10.0.0.9" == world.api.statuses[-1]["podIP"]


async def test_a_running_pod_without_checkpoint_is_adopted_by_its_status(tmp_path: Path) -> None:
    """What a crash forgot: it runs on from now, and is not started twice."""
    async with a_world(tmp_path) as world:
        item = a_pod()
        item["status"] |= {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "startTime": "2026-11-30T08:00:02Z",
            "containerStatuses": [
                {"name": "main", "state": {"running": {"startedAt": "2026-11-30T08:00:05Z"}}}
            ],
        }
        await world.begin(item).task
    assert ["Succeeded"] == world.api.phases
    assert 3.0 == (world.records()[0].started_at or 0) - world.records()[0].seen_at


async def test_no_status_is_lost_while_the_api_server_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals of every kind between start and end."""
    monkeypatch.setattr(writers, "PAUSE_S", 0.0)
    async with a_world(tmp_path) as world:
        world.api.refusals = [refused(status) for status in (504, 0, 429, 0, 503)]
        await world.begin(a_pod()).task
    assert "Succeeded" == phase_of(world)


async def test_gpus_are_given_back(tmp_path: Path) -> None:
    """A pod holds its GPUs until it has ended."""
    gpus = catalogs.Gpus(model="T4", roots=(1, 1), gpu_memory=16 * 2**30)
    container = a_container(resources={"requests": {"nvidia.com/gpu": "2"}})
    async with a_world(tmp_path, cluster=a_cluster(a_group(gpus=gpus))) as world:
        life = world.begin(a_pod(containers=[container]))
        await until(lambda: life.memory.gpus)
        assert (0, 1) == life.memory.gpus
        await life.task
        assert {} == world.machines["g-0"].gpus


async def test_interim_statuses_of_a_behaviour_are_published(tmp_path: Path) -> None:
    """A container set's container ends before the others."""

    class Stepwise(Sleeper):
        """Ends `first`, then sleeps."""

        async def run(self) -> contracts.Outcome:
            """Tell, then sleep."""
            await self.host.containers_changed(
                ready={"main": False}, ended={"first": contracts.ContainerEnd(exit_code=0)}
            )
            await asyncio.sleep(0.05)
            return contracts.Outcome(phase="Succeeded")

    async with a_world(tmp_path, behaviour=Stepwise) as world:
        item = a_pod(containers=[a_container("first"), a_container("main")])
        await world.begin(item).task
    interim = [status for status in world.api.statuses if status["phase"] == "Running"][-1]
    states = {run["name"]: next(iter(run["state"])) for run in interim["containerStatuses"]}
    assert {"first": "terminated", "main": "running"} == states


async def test_a_truth_is_no_part_of_what_is_written(tmp_path: Path) -> None:
    """Neither duration nor memory of a task stands in any body."""
    truth = a_truth("a", cpu_s=61.234567, memory_curve=((0.0, 1.0), (1.0, 123456789.0)))
    async with a_world(tmp_path, known=(truth,)) as world:
        await world.begin(an_argo_pod("a")).task
    text = str(world.api.written)
    assert "61.234567" not in text
    assert "123456789" not in text
    assert isinstance(truth, truths.Truth)
