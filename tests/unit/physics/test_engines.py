"""The engine: what its caller may rely on."""

import pickle

import pytest

from tests.unit.physics.builders import GB, MB, a_cluster, a_node, a_task, an_engine
from tiphys.models.physics import engines, errors, tasks


def test_what_ended_is_told_once_and_oldest_first() -> None:
    """Ends come with their exact times, however late the caller comes."""
    engine = an_engine()
    for key, cpu_s in (("b", 20), ("a", 10)):
        engine.start(a_task(key, cpu_s=cpu_s), node="n0", at_s=0.0)
    ended = engine.advance(500.0)
    assert [("a", 10.0), ("b", 20.0)] == [(one.key, pytest.approx(one.at_s)) for one in ended]
    assert [] == engine.advance(501.0)
    assert float("inf") == engine.next_s()


def test_an_end_found_by_start_waits_for_advance() -> None:
    """A start at 15 s passes the end at 10 s; `next_s` then says: now."""
    engine = an_engine()
    engine.start(a_task("a", cpu_s=10), node="n0", at_s=0.0)
    engine.start(a_task("b", cpu_s=10), node="n0", at_s=15.0)
    assert 15.0 == engine.next_s()
    (ended,) = engine.advance(15.0)
    assert ("a", 10.0) == (ended.key, pytest.approx(ended.at_s))
    assert 25.0 == pytest.approx(engine.next_s())


def test_stop_returns_what_was_used_so_far() -> None:
    """Stopped at 4 of 10 s; it does not come again, and a second stop finds nothing."""
    engine = an_engine()
    engine.start(a_task("a", cpu_s=10, parallelism=1), node="n0", at_s=0.0)
    ended = engine.stop("a", at_s=4.0)
    assert ended is not None
    assert engines.Reason.STOPPED is ended.reason
    assert 4.0 == pytest.approx(ended.usage.cpu_core_s)
    assert 0.4 == pytest.approx(ended.usage.progress)
    assert engine.stop("a", at_s=4.0) is None
    assert [] == engine.advance(100.0)


def test_stopping_a_task_that_ended_before_leaves_its_end_to_advance() -> None:
    """The end at 10 s happened first."""
    engine = an_engine()
    engine.start(a_task("a", cpu_s=10), node="n0", at_s=0.0)
    assert engine.stop("a", at_s=12.0) is None
    assert ["a"] == [one.key for one in engine.advance(12.0)]


def test_time_does_not_go_back() -> None:
    """An earlier time counts as the present."""
    engine = an_engine()
    engine.advance(10.0)
    engine.start(a_task("a", cpu_s=10), node="n0", at_s=3.0)
    assert 20.0 == pytest.approx(engine.next_s())


def test_wrong_names_are_refused_and_change_nothing() -> None:
    """No such node; a key that runs already."""
    engine = an_engine(a_node("n0"), a_node("n1"))
    with pytest.raises(errors.PhysicsError, match="no node 'n9' in this cluster; it has n0, n1"):
        engine.start(a_task("a"), node="n9", at_s=0.0)
    engine.start(a_task("a", cpu_s=10), node="n0", at_s=0.0)
    with pytest.raises(errors.PhysicsError, match="task 'a' runs already"):
        engine.start(a_task("a", cpu_s=10), node="n1", at_s=0.0)
    assert ["a"] == engine.running


def test_readings_show_the_present() -> None:
    """Half way through: half of everything, and the rates behind it."""
    engine = an_engine()
    task = a_task(
        "a",
        cpu_s=10,
        parallelism=2,
        written_bytes=500 * MB,
        memory_curve=((0.0, 0.0), (1.0, 2 * GB)),
    )
    engine.start(task, node="n0", at_s=0.0)
    (reading,) = engine.readings(5.0)
    assert 0.5 == pytest.approx(reading.usage.progress)
    assert 5.0 == pytest.approx(reading.usage.cpu_core_s)
    assert 250 * MB == pytest.approx(reading.usage.disk_written_bytes)
    assert GB == pytest.approx(reading.memory_working_set_bytes)
    assert 1.0 == pytest.approx(reading.cpu_cores)
    (node,) = engine.node_readings(5.0)
    assert (1, 1.0) == (node.tasks, pytest.approx(node.cpu_cores))
    assert 0.5 == pytest.approx(node.disk_busy)
    assert [] == engine.readings(11.0)


def test_an_engine_that_was_put_away_earlier_becomes_the_same() -> None:
    """Looking at it is no turn of events: a copy from before the look goes on to the same end."""
    engine = an_engine()
    engine.start(a_task("a", cpu_s=10, reads=(tasks.Read(file="f", bytes=GB),)), node="n0", at_s=0)
    early, turns = pickle.dumps(engine), engine.turns
    engine.readings(4.0)
    assert [] == engine.advance(5.0)
    assert turns == engine.turns
    (ended,), (again,) = engine.advance(50.0), pickle.loads(early).advance(50.0)
    assert ended.at_s == pytest.approx(again.at_s)
    assert ended.usage.cpu_core_s == pytest.approx(again.usage.cpu_core_s)


def test_an_engine_can_be_put_away_and_continued() -> None:
    """A kubelet that restarts goes on where it was."""
    engine = an_engine()
    engine.start(a_task("a", cpu_s=10), node="n0", at_s=0.0)
    engine.advance(4.0)
    again = pickle.loads(pickle.dumps(engine))
    assert engine.advance(20.0) == again.advance(20.0)


def test_tasks_without_work_end_at_once() -> None:
    """A task of nothing takes a millisecond, and a cluster without nodes nothing."""
    engine = an_engine()
    engine.start(a_task("nothing"), node="n0", at_s=1.0)
    (ended,) = engine.advance(2.0)
    assert 1.001 == pytest.approx(ended.at_s)
    empty = engines.Engine(a_cluster().__class__(nodes=(), network=a_cluster().network))
    assert (float("inf"), []) == (empty.next_s(), empty.advance(5.0))


def test_values_that_nobody_can_have_are_refused() -> None:
    """One clear sentence with the task or node, the field and the value."""
    with pytest.raises(errors.PhysicsError, match=r"task 't0': `cpu_s` is -1; it must be"):
        a_task(cpu_s=-1)
    with pytest.raises(errors.PhysicsError, match=r"task 't0': `parallelism` is 0"):
        a_task(parallelism=0)
    with pytest.raises(errors.PhysicsError, match=r"task 't0': `cpu_limit_cores` is 0"):
        a_task(cpu_limit_cores=0)
    with pytest.raises(errors.PhysicsError, match=r"node 'n0': `cores` is 0"):
        a_node(cores=0)
    with pytest.raises(errors.PhysicsError, match="node 'n0' appears twice"):
        a_cluster(a_node(), a_node())


def test_a_reboot_empties_the_page_cache() -> None:
    """What was read before has to be read again; a node with tasks is not rebooted."""
    engine = an_engine()
    task = a_task("a", cpu_s=1, reads=(tasks.Read(file="f", bytes=GB),))
    engine.start(task, node="n0", at_s=0.0)
    with pytest.raises(errors.PhysicsError, match="runs 1 tasks"):
        engine.reboot("n0", at_s=0.5)
    engine.advance(100.0)
    assert GB == pytest.approx(engine.node_readings(100.0)[0].page_cache_bytes)
    engine.reboot("n0", at_s=100.0)
    assert 0.0 == engine.node_readings(100.0)[0].page_cache_bytes


def test_a_task_carries_the_noise_of_its_run() -> None:
    """Two runs of one plan differ, a repeated run does not; no run means the engine's own."""

    def ended_at(run: str, *, of_engine: str = "") -> float:
        engine = engines.Engine(a_cluster(a_node()), run=of_engine)
        engine.start(a_task("a", cpu_s=10, run=run), node="n0", at_s=0.0)
        (ended,) = engine.advance(100.0)
        return ended.at_s

    assert ended_at("r1") == ended_at("r1")
    assert ended_at("r1") != ended_at("r2")
    assert ended_at("r1") == ended_at("", of_engine="r1")
