"""Working sets: curves, limits, and nodes that run out."""

import pytest

from tests.unit.physics.builders import GB, MB, Start, a_node, a_task, an_engine, run
from tiphys.models.physics import constants, engines, errors, tasks


def rises(key: str, to_gb: float, **changes: object):
    """A task of 100 s (unless told otherwise) whose working set rises from 0."""
    facts = {"cpu_s": 100.0, "memory_curve": ((0.0, 0.0), (1.0, to_gb * GB)), **changes}
    return a_task(key, **facts)


def test_crossing_the_limit_kills_at_the_crossing() -> None:
    """0 to 10 GB in 100 s with a limit of 4 GB: OOMKilled at 40 s, having used 40 core-seconds."""
    ended = run(an_engine(), [Start(0.0, "n0", rises("t", 10, memory_limit_bytes=4 * GB))])["t"]
    assert engines.Reason.OOM_KILLED is ended.reason
    assert 40.0 == pytest.approx(ended.at_s)
    assert 40.0 == pytest.approx(ended.usage.cpu_core_s)
    assert 4.0 == pytest.approx(ended.usage.memory_peak_bytes / GB)
    assert 0.4 == pytest.approx(ended.usage.progress)


def test_reaching_the_limit_exactly_is_allowed() -> None:
    """The limit is the most that a task may have."""
    ended = run(an_engine(), [Start(0.0, "n0", rises("t", 4, memory_limit_bytes=4 * GB))])["t"]
    assert engines.Reason.COMPLETED is ended.reason


def test_a_slower_task_crosses_later() -> None:
    """The curve is over progress: at half the speed the crossing comes after 80 s."""
    ended = run(
        an_engine(a_node(speed=0.5)),
        [Start(0.0, "n0", rises("t", 10, memory_limit_bytes=4 * GB))],
    )["t"]
    assert 80.0 == pytest.approx(ended.at_s)


def test_starting_above_the_limit_kills_at_once() -> None:
    """A runtime that maps more than it may."""
    task = a_task(cpu_s=10, memory_curve=((0.0, 2 * GB), (1.0, GB)), memory_limit_bytes=GB)
    ended = run(an_engine(), [Start(3.0, "n0", task)])["t0"]
    assert engines.Reason.OOM_KILLED is ended.reason
    assert 3.0 == pytest.approx(ended.at_s, abs=1e-5)


def test_a_jump_over_the_limit_kills_at_the_jump() -> None:
    """Two points with one x."""
    curve = ((0.0, GB), (0.5, GB), (0.5, 9 * GB), (1.0, 9 * GB))
    task = a_task(cpu_s=10, memory_curve=curve, memory_limit_bytes=2 * GB)
    ended = run(an_engine(), [Start(0.0, "n0", task)])["t0"]
    assert 5.0 == pytest.approx(ended.at_s)


def test_byte_seconds_are_the_area_of_the_curve() -> None:
    """A triangle of 4 GB over 10 s, then a plateau of 4 GB for 30 s: 20 + 120 GB s."""
    curve = ((0.0, 0.0), (0.25, 4 * GB), (1.0, 4 * GB))
    task = a_task(cpu_s=40, memory_curve=curve)
    ended = run(an_engine(), [Start(0.0, "n0", task)], step_s=3.7)["t0"]
    assert 140.0 == pytest.approx(ended.usage.memory_byte_s / GB)
    assert 4.0 == pytest.approx(ended.usage.memory_peak_bytes / GB)


def test_a_peak_between_two_looks_is_not_missed() -> None:
    """A needle of 7 GB in the middle of the curve."""
    curve = ((0.0, 0.0), (0.5, 7 * GB), (0.51, 0.0), (1.0, 0.0))
    ended = run(an_engine(), [Start(0.0, "n0", a_task(cpu_s=40, memory_curve=curve))])["t0"]
    assert 7.0 == pytest.approx(ended.usage.memory_peak_bytes / GB)


def test_a_node_without_memory_evicts_the_largest_over_request() -> None:
    """8.1 GB: `modest` keeps to its request, `greedy` has 1 of the 5 GB it grows to.

    Together they use 8 GB, which leaves the reserve, after 8,000 s at 1 MB/s: slow enough for the
    kubelet to see it.
    """
    node = a_node(memory_bytes=8 * GB + constants.EVICTION_RESERVE_BYTES)
    modest = rises("modest", 5, memory_request_bytes=5 * GB, cpu_s=10_000)
    greedy = rises("greedy", 5, memory_request_bytes=1 * GB, cpu_s=10_000)
    ended = run(an_engine(node), [Start(0.0, "n0", modest), Start(0.0, "n0", greedy)])
    assert engines.Reason.EVICTED is ended["greedy"].reason
    assert 8000.0 == pytest.approx(ended["greedy"].at_s)
    assert engines.Reason.COMPLETED is ended["modest"].reason


def test_memory_that_goes_faster_than_a_kubelet_looks_is_the_kernels_to_take() -> None:
    """20 GB in 10 s fill the reserve of 100 MiB in far less than the 10 s between two looks."""
    task = a_task("leak", cpu_s=10, memory_curve=((0.0, 0.0), (1.0, 20 * GB)))
    ended = run(an_engine(a_node(memory_bytes=10 * GB)), [Start(0.0, "n0", task)])["leak"]
    assert engines.Reason.OOM_KILLED is ended.reason


def test_a_newcomer_that_does_not_fit_is_decided_at_once() -> None:
    """8 GB used with a request, 4 GB without: the one without goes, the other never notices."""
    flat = ((0.0, 8 * GB), (1.0, 8 * GB))
    engine = an_engine(a_node(memory_bytes=10 * GB))
    engine.start(
        a_task("old", cpu_s=50, memory_curve=flat, memory_request_bytes=8 * GB),
        node="n0",
        at_s=0.0,
    )
    new = a_task("new", cpu_s=50, memory_curve=((0.0, 4 * GB), (1.0, 4 * GB)))
    engine.start(new, node="n0", at_s=10.0)
    (gone,) = engine.advance(10.001)
    assert ("new", engines.Reason.EVICTED) == (gone.key, gone.reason)
    assert ["old"] == engine.running


def test_page_cache_never_evicts_anybody() -> None:
    """A node whose memory is full of file pages has all of it for working sets."""
    engine = an_engine(a_node(memory_bytes=4 * GB))
    reader = a_task("reader", reads=(tasks.Read(file="f", bytes=8 * GB),))
    grows = rises("grows", 3)
    ended = run(engine, [Start(0.0, "n0", reader), Start(0.0, "n0", grows)])
    assert {engines.Reason.COMPLETED} == {one.reason for one in ended.values()}


@pytest.mark.parametrize(
    "curve", [((0.0, 1.0),), ((0.1, 0.0), (1.0, 1.0)), ((0.0, 1.0), (0.6, 1.0), (0.5, 2.0), (1, 1))]
)
def test_a_curve_must_ascend_from_0_to_1(curve) -> None:
    """The error names the task and shows the points."""
    with pytest.raises(errors.PhysicsError, match=r"task 't0': `memory_curve` has x ="):
        a_task(memory_curve=curve)


def test_small_nodes_keep_a_small_reserve() -> None:
    """On a node of 100 MB the reserve is a tenth, not more than there is."""
    flat = ((0.0, 80 * MB), (1.0, 80 * MB))
    ended = run(
        an_engine(a_node(memory_bytes=100 * MB)),
        [Start(0.0, "n0", a_task(cpu_s=1, memory_curve=flat))],
    )
    assert engines.Reason.COMPLETED is ended["t0"].reason
