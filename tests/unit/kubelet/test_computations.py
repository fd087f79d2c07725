"""Physics in real time: ends arrive when they are due, also over a restart."""

import asyncio
import pickle

import pytest

from lab.kubelet import computations
from tests.unit.kubelet.builders import a_clock, a_cluster, a_group, a_truth
from tiphys.models.physics import engines, tasks


def an_engine(**group: object) -> engines.Engine:
    """The physics of one node, without noise."""
    cluster = computations.cluster(a_cluster(a_group(**group)))
    return engines.Engine(cluster, noisy=False)


def a_task(key: str = "k", **changes: object) -> tasks.Task:
    """A task of 100 CPU seconds."""
    facts: dict[str, object] = {"key": key, "template": "t", "cpu_s": 100.0, **changes}
    return tasks.Task(**facts)  # type: ignore[arg-type]


async def test_a_task_ends_when_its_time_is_over() -> None:
    """Neither sooner nor later: the caller hears of it at that moment; the usage is exact."""
    clock = a_clock()
    engine = an_engine()
    computing = computations.Computations(engine, clock)
    took_s = engine.preview(a_task(), node="g-0", at_s=0.0).own_s
    end = await computing.run(a_task(), node="g-0")
    assert "Completed" == end.reason
    assert took_s == pytest.approx(end.at_s, abs=1e-3)
    assert end.at_s <= clock.now_s() <= end.at_s + 1e-3
    assert took_s == pytest.approx(end.usage.cpu_core_s)
    assert end.usage == computing.totals["g-0"]


def test_a_truth_becomes_a_task_that_is_held_to_its_container() -> None:
    """Nothing of it is lost on the way; names are made unique by the workflow's."""
    truth = a_truth(
        "a", parallelism=3.0, written_bytes=5.0, siblings=("b",), sibling_bytes=1.0, gpu_s=2.0
    )
    bounds = computations.Bounds(cpu_m=1500, cpu_limit_m=None, memory_bytes=7, memory_limit_bytes=8)
    task = computations.task(truth, key="k", scope="ns/wf", bounds=bounds, attempt=2, run="r")
    assert ("k", "ns/wf.a", ("ns/wf.b",)) == (task.key, task.identity, task.siblings)
    assert (1.5, None, 7, 8) == (
        task.cpu_request_cores,
        task.cpu_limit_cores,
        task.memory_request_bytes,
        task.memory_limit_bytes,
    )
    told = {"template", "cpu_s", "parallelism", "written_bytes", "sibling_bytes", "gpu_s"}
    assert {name: getattr(truth, name) for name in told} == {
        name: getattr(task, name) for name in told
    }
    assert (2, "r") == (task.attempt, task.run)


async def test_what_is_stopped_says_what_it_used() -> None:
    """Stopped in the middle; its total stays with the node."""
    computing = computations.Computations(an_engine(), a_clock(100.0))
    running = asyncio.create_task(computing.run(a_task(), node="g-0"))
    await asyncio.sleep(0.1)
    running.cancel()
    used = computing.stop("k")
    assert 10.0 == pytest.approx(used.cpu_core_s, abs=1e-3)
    assert used == computing.totals["g-0"]
    assert [] == computing.engine.running


async def test_a_task_above_its_limit_is_killed_at_its_crossing() -> None:
    """Limit 1 GB, 2 GB at the end: killed half-way."""
    computing = computations.Computations(an_engine(), a_clock())
    curve = ((0.0, 0.0), (1.0, 2e9))
    task = a_task(memory_curve=curve, memory_limit_bytes=1e9, memory_request_bytes=1e9)
    end = await computing.run(task, node="g-0")
    assert "OOMKilled" == end.reason
    assert 1e9 == pytest.approx(end.usage.memory_peak_bytes)


async def test_the_largest_over_its_request_is_evicted_when_memory_runs_out() -> None:
    """Two grow slowly beyond what the node has; the one without a request goes."""
    computing = computations.Computations(an_engine(memory=4e9), a_clock(50_000.0))
    curve = ((0.0, 1e9), (1.0, 2.5e9))
    slow = {"cpu_s": 20_000.0, "memory_curve": curve}
    modest = asyncio.create_task(
        computing.run(a_task("modest", memory_request_bytes=3e9, **slow), node="g-0")
    )
    greedy = await computing.run(a_task("greedy", **slow), node="g-0")
    assert "Evicted" == greedy.reason
    assert "Completed" == (await modest).reason


async def test_a_successor_continues_what_ran_and_what_ended_meanwhile() -> None:
    """Frozen at 20 s; one task ends while nobody runs, the other goes on from where it was."""
    clock = a_clock(500.0)
    first = computations.Computations(an_engine(), clock)
    began_s = clock.now_s()
    for key, cpu_s in (("short", 60.0), ("long", 160.0), ("nobody's", 500.0)):
        first.engine.start(a_task(key, cpu_s=cpu_s), node="g-0", at_s=began_s)
    frozen = first.frozen()
    first.close()
    await asyncio.sleep(0.25)

    second = computations.Computations(pickle.loads(frozen), clock)
    second.settle()
    assert "short" in second.ended
    for key, cpu_s in (("short", 60.0), ("long", 160.0)):
        end = await second.run(a_task(key, cpu_s=cpu_s), node="g-0")
        # Alone on its core, so it took as long as it computed: not a second more or less.
        assert end.usage.cpu_core_s == pytest.approx(end.at_s - began_s)
    second.forsake()
    assert [] == second.engine.running
    second.close()
