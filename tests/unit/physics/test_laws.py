"""Laws that hold for any tasks on any cluster."""

import dataclasses
import itertools
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.physics.builders import (
    GB,
    MB,
    Placed,
    Start,
    a_cluster,
    a_node,
    a_state,
    a_task,
    run,
)
from tiphys.models.physics import advances, capacities, engines, events, rates, states, tasks

EXAMPLES = int(os.environ.get("PHYSICS_EXAMPLES", "0"))
"""How many random examples to search; 0: the same 25 in every run."""
LAWS = settings(
    max_examples=EXAMPLES or 25,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SLACK = 1e-6
"""Relative; the solver ends at 1e-7."""


def amounts(most: float) -> st.SearchStrategy[float]:
    """0 often, else anything up to `most`."""
    return st.one_of(st.just(0.0), st.floats(most * 1e-3, most))


@st.composite
def clusters_with_tasks(draw: st.DrawFn) -> tuple:
    """One to four nodes in two racks, and up to twelve tasks that use everything."""
    count = draw(st.integers(1, 4))
    nodes = [
        a_node(
            f"n{i}",
            rack=f"r{i % 2}",
            cores=draw(st.sampled_from([1.0, 4.0, 16.0])),
            speed=draw(st.sampled_from([0.5, 1.0, 2.0])),
            disk_burst_bytes=draw(st.sampled_from([0.0, GB])),
            disk_iops=draw(st.sampled_from([100.0, 1000.0])),
        )
        for i in range(count)
    ]
    cluster = a_cluster(
        *nodes,
        rack_uplink_bytes_per_s=draw(st.sampled_from([0.2, 1.0, 10.0])) * GB,
        store_bytes_per_s=draw(st.sampled_from([0.3, 20.0])) * GB,
    )
    names = [f"t{i}" for i in range(draw(st.integers(1, 12)))]
    placed = []
    for name in names:
        siblings = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        peak = draw(amounts(4 * GB))
        placed.append(
            Placed(
                a_task(
                    name,
                    cpu_s=draw(amounts(100.0)),
                    parallelism=draw(st.sampled_from([0.5, 1.0, 4.0, 32.0])),
                    cpu_request_cores=draw(st.sampled_from([0.0, 0.5, 2.0, 8.0])),
                    cpu_limit_cores=draw(st.sampled_from([None, 0.25, 2.0])),
                    memory_traffic_bytes_per_s=draw(amounts(6 * GB)),
                    memory_sensitivity=draw(st.sampled_from([0.0, 0.5, 1.0])),
                    reads=tuple(
                        tasks.Read(file=file, bytes=2 * GB)
                        for file in draw(st.sets(st.sampled_from("abc"), max_size=2))
                    ),
                    written_bytes=draw(amounts(5 * GB)),
                    disk_ops=draw(amounts(1e4)),
                    store_bytes=draw(amounts(5 * GB)),
                    sibling_bytes=draw(amounts(5 * GB)),
                    round_trips=draw(amounts(1000.0)),
                    siblings=tuple(s for s in siblings if s != name),
                    gpu_s=draw(amounts(10.0)),
                    memory_curve=((0.0, peak / 4), (0.5, peak), (1.0, peak / 2)),
                ),
                draw(st.integers(0, count - 1)),
            )
        )
    return cluster, placed


def uses(state: states.State, flow: rates.Rates) -> list[tuple[np.ndarray, np.ndarray]]:
    """(use, amount) of every capacity, the memory bus included."""
    local = capacities.local(state)
    found = [(local.use(flow.per_s, slow=flow.slowdown), local.amounts)]
    found += [(link.use(flow.per_s), link.amount) for link in capacities.links(state)]
    traffic = np.bincount(
        state.node, state.work[states.TRAFFIC_BYTES] * flow.per_s, state.machines.count
    )
    return [*found, (traffic, state.machines.memory_bandwidth)]


@LAWS
@given(clusters_with_tasks())
def test_no_capacity_is_ever_exceeded(drawn) -> None:
    """Cores, disks, NICs, uplinks, the store, memory buses."""
    state = a_state(drawn[0], *drawn[1])
    flow = rates.rates(state)
    assert (flow.per_s > 0).all() and np.isfinite(flow.per_s).all()
    for use, amount in uses(state, flow):
        assert (use <= amount * (1 + 1e-12)).all()


@LAWS
@given(clusters_with_tasks())
def test_nobody_is_slowed_without_a_cause(drawn) -> None:
    """Work conservation: a task slower than alone crosses something full or a loaded bus."""
    state = a_state(drawn[0], *drawn[1])
    flow = rates.rates(state)
    fixed = state.work[states.GPU_S] + state.work[states.ROUND_TRIP_S]
    alone = capacities.alone(state).sum(axis=0) + fixed
    slower = 1 / flow.per_s > np.maximum(alone, 1e-3) * (1 + 1e-4)
    local = capacities.local(state)
    full = local.use(flow.per_s, slow=flow.slowdown) >= local.amounts * (1 - SLACK)
    caused = ((local.loads > 0) & full[:, state.node]).any(axis=0) | (flow.slowdown > 1)
    for link in capacities.links(state):
        busy = link.use(flow.per_s) >= link.amount * (1 - SLACK)
        caused |= (link.load > 0) & busy[link.group]
    assert (caused | ~slower).all()


@LAWS
@given(clusters_with_tasks(), st.randoms(use_true_random=False))
def test_the_order_of_tasks_does_not_matter(drawn, random) -> None:
    """Any permutation gives the same rates."""
    cluster, placed = drawn
    order = list(range(len(placed)))
    random.shuffle(order)
    one = rates.rates(a_state(cluster, *placed)).per_s[order]
    other = rates.rates(a_state(cluster, *(placed[i] for i in order))).per_s
    np.testing.assert_allclose(other, one, rtol=1e-4)


def with_equal_requests(placed: list[Placed]) -> list[Placed]:
    """The same tasks, all with one core of request: then the balance is unique."""
    return [
        Placed(dataclasses.replace(one.task, cpu_request_cores=1.0), one.node) for one in placed
    ]


@LAWS
@given(clusters_with_tasks())
def test_a_start_nearby_finds_the_same_rates(drawn) -> None:
    """What the engine passes on from call to call saves time only.

    Among tasks of unequal weight that fight for several capacities of one node, two balances may
    exist (about one random case in a thousand): either holds every other law.
    """
    cluster, placed = drawn[0], with_equal_requests(drawn[1])
    state = a_state(cluster, *placed)
    earlier = rates.rates(states.remove(state, [0])).prices
    cold, warm = rates.rates(state), rates.rates(state, start=earlier)
    np.testing.assert_allclose(warm.per_s, cold.per_s, rtol=1e-4)


@LAWS
@given(clusters_with_tasks())
def test_cpu_alone_is_monotonic(drawn) -> None:
    """With CPU work only, one more task speeds nobody up, and one more core slows nobody down."""
    cluster, placed = drawn
    only_cpu = [
        Placed(
            a_task(
                one.task.key,
                cpu_s=max(one.task.cpu_s, 1.0),
                parallelism=one.task.parallelism,
                cpu_request_cores=one.task.cpu_request_cores,
            )
        )
        for one in placed
    ]
    all_of_them = rates.rates(a_state(cluster, *only_cpu)).per_s
    without_last = rates.rates(a_state(cluster, *only_cpu[:-1])).per_s
    assert (all_of_them[:-1] <= without_last * (1 + SLACK)).all()
    wider = a_cluster(a_node(cores=cluster.nodes[0].cores + 1, speed=cluster.nodes[0].speed))
    assert (rates.rates(a_state(wider, *only_cpu)).per_s >= all_of_them * (1 - SLACK)).all()


@LAWS
@given(clusters_with_tasks())
def test_time_may_be_cut_anywhere(drawn) -> None:
    """Two half steps to the next event are one whole step, in everything."""
    state = a_state(drawn[0], *drawn[1])
    flow = rates.rates(state)
    upcoming = events.next_event(state, flow).in_s
    whole = advances.advance(state, flow, upcoming)
    half = advances.advance(advances.advance(state, flow, upcoming / 2), flow, upcoming / 2)
    np.testing.assert_allclose(half.x, whole.x, atol=1e-8)
    np.testing.assert_allclose(half.tokens, whole.tokens, rtol=1e-6, atol=16)
    # Of working set and cache together the largest sum is known at the cuts only.
    exact = np.arange(states.USES) != states.USED_CURRENT_PEAK
    scale = np.abs(whole.used).max(axis=1, keepdims=True) + 1
    np.testing.assert_allclose((half.used / scale)[exact], (whole.used / scale)[exact], atol=1e-6)
    assert (half.used >= whole.used - scale * 1e-6).all()
    np.testing.assert_allclose(half.cache.resident, whole.cache.resident, rtol=1e-6, atol=16)


def an_engine_of(cluster, seed: int = 1) -> engines.Engine:
    """With noise, since laws hold with it."""
    return engines.Engine(cluster, seed=seed, run="r")


def starts_of(cluster, placed) -> list[Start]:
    """One task every two seconds."""
    return [Start(2.0 * i, cluster.nodes[one.node].name, one.task) for i, one in enumerate(placed)]


@LAWS
@given(clusters_with_tasks())
def test_every_task_ends_once_with_the_work_that_it_had(drawn) -> None:
    """Bytes written and sent are the task's own; nothing is read twice from disk without need."""
    cluster, placed = drawn
    ended = run(an_engine_of(cluster), starts_of(cluster, placed))
    assert {one.task.key for one in placed} == set(ended)
    for one in placed:
        usage, task = ended[one.task.key].usage, one.task
        assert engines.Reason.COMPLETED is ended[task.key].reason
        assert task.written_bytes == pytest.approx(usage.disk_written_bytes, rel=1e-6, abs=16)
        assert usage.disk_read_bytes <= sum(read.bytes for read in task.reads) * (1 + 1e-6)
        assert usage.net_bytes <= (task.store_bytes + task.sibling_bytes) * (1 + 1e-6)
        assert usage.net_bytes >= task.store_bytes * (1 - 1e-6)
        assert task.peak_bytes == pytest.approx(usage.memory_peak_bytes)
        assert usage.cpu_core_s >= task.cpu_s / cluster.nodes[one.node].speed * 0.7


@LAWS
@given(clusters_with_tasks())
def test_equal_seeds_give_equal_runs_and_calls_in_between_change_nothing(drawn) -> None:
    """A kubelet that looks every 0.7 s sees the same as one that comes for events only."""
    cluster, placed = drawn
    starts = starts_of(cluster, placed)
    one, same = (run(an_engine_of(cluster), starts) for _ in range(2))
    assert one == same
    looked = run(an_engine_of(cluster), starts, step_s=0.7)
    for key, ended in one.items():
        assert ended.at_s == pytest.approx(looked[key].at_s, rel=1e-4, abs=1e-4)


@LAWS
@given(clusters_with_tasks())
def test_the_engine_is_the_cluster_solved_at_once(drawn) -> None:
    """Node by node, coupled only where links bind: the same rates as one call for all nodes."""
    cluster, placed = drawn[0], with_equal_requests(drawn[1])
    engine = engines.Engine(cluster, noisy=False)
    for one in placed:
        engine.start(one.task, node=cluster.nodes[one.node].name, at_s=0.0)
    found = {reading.key: reading.rate_per_s for reading in engine.readings(0.0)}
    whole = rates.rates(a_state(cluster, *placed)).per_s
    assert [found[one.task.key] for one in placed] == pytest.approx(whole.tolist(), rel=1e-3)


def test_noise_changes_durations_but_not_bytes() -> None:
    """Seeds differ in CPU time by some per cent and in nothing else."""
    cluster = a_cluster()
    work = [a_task(f"t{i}", cpu_s=100, written_bytes=100 * MB) for i in range(4)]
    runs = [
        run(an_engine_of(cluster, seed), [Start(0.0, "n0", task) for task in work])
        for seed in (1, 2)
    ]
    for key in runs[0]:
        usages = [one[key].usage for one in runs]
        assert usages[0].disk_written_bytes == pytest.approx(usages[1].disk_written_bytes)
        assert usages[0].cpu_core_s != usages[1].cpu_core_s
        assert usages[0].cpu_core_s == pytest.approx(usages[1].cpu_core_s, rel=0.4)


def test_events_of_one_moment_all_happen() -> None:
    """Eight equal tasks end together, each once, at one time."""
    cluster = a_cluster()
    ended = run(
        engines.Engine(cluster, noisy=False),
        [Start(0.0, "n0", a_task(f"t{i}", cpu_s=10, written_bytes=MB)) for i in range(8)],
    )
    times = [one.at_s for one in ended.values()]
    assert all(abs(a - b) < 1e-5 for a, b in itertools.pairwise(times))
