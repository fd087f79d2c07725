"""Tasks that are resized in place: what they ask for and may take changes while they run."""

import pytest

from tests.unit.physics.builders import GB, Start, a_node, a_task, an_engine, run
from tiphys.models.physics import engines, tasks


def test_a_cpu_limit_that_falls_slows_from_then_on() -> None:
    """40 core-seconds on 4 cores: 20 done after 5 s, the rest on 1 core takes 20 s."""
    engine = an_engine()
    engine.start(a_task(cpu_s=40, parallelism=4), node="n0", at_s=0.0)
    assert engine.resize("t0", tasks.Asked(cpu_limit_cores=1.0), at_s=5.0)
    assert 25.0 == pytest.approx(engine.next_s())


def test_a_request_that_rises_weighs_more_from_then_on() -> None:
    """Two tasks of 8 threads on 8 cores at 1 to 1, from 2 s on at 3 to 1: 6 and 2 cores."""
    engine = an_engine()
    for key in ("a", "b"):
        engine.start(
            a_task(key, cpu_s=100, parallelism=8, cpu_request_cores=1), node="n0", at_s=0.0
        )
    engine.resize("a", tasks.Asked(cpu_request_cores=3.0), at_s=2.0)
    found = {reading.key: reading.cpu_cores for reading in engine.readings(3.0)}
    assert {"a": 6.0, "b": 2.0} == pytest.approx(found)
    assert 2 + 92 / 6 == pytest.approx(engine.next_s())


@pytest.mark.parametrize(
    ("limit_gb", "reason", "ends_s"),
    [
        (8, engines.Reason.OOM_KILLED, 80.0),
        (12, engines.Reason.COMPLETED, 100.0),
        (2, engines.Reason.OOM_KILLED, 30.0),
    ],
)
def test_a_memory_limit_that_changes_moves_the_crossing(
    limit_gb: float, reason: engines.Reason, ends_s: float
) -> None:
    """0 to 10 GB in 100 s, resized at 30 s (3 GB): killed at 8 GB, not at all, at once."""
    engine = an_engine()
    curve = ((0.0, 0.0), (1.0, 10 * GB))
    task = a_task(cpu_s=100, memory_curve=curve, memory_limit_bytes=4 * GB)
    engine.start(task, node="n0", at_s=0.0)
    engine.resize("t0", tasks.Asked(memory_limit_bytes=limit_gb * GB), at_s=30.0)
    (ended,) = engine.advance(200.0)
    assert (reason, pytest.approx(ends_s, abs=1e-5)) == (ended.reason, ended.at_s)


def test_a_peak_that_is_past_does_not_count() -> None:
    """10 GB until half, then 1 GB: a limit of 2 GB from 60 s on kills nobody."""
    engine = an_engine()
    curve = ((0.0, 10 * GB), (0.5, 10 * GB), (0.5, GB), (1.0, GB))
    engine.start(a_task(cpu_s=100, memory_curve=curve), node="n0", at_s=0.0)
    engine.resize("t0", tasks.Asked(memory_limit_bytes=2 * GB), at_s=60.0)
    (ended,) = engine.advance(200.0)
    assert engines.Reason.COMPLETED is ended.reason


def test_who_asks_for_more_memory_is_not_the_one_that_goes() -> None:
    """Of two that fill a node the first is furthest above its request until it asks for more."""
    engine = an_engine(a_node(memory_bytes=8 * GB))
    for key, to_gb in (("large", 8.0), ("small", 4.0)):
        curve = ((0.0, 0.0), (1.0, to_gb * GB))
        engine.start(a_task(key, cpu_s=1e4, memory_curve=curve), node="n0", at_s=0.0)
    engine.resize("large", tasks.Asked(memory_request_bytes=7 * GB), at_s=1.0)
    first = engine.advance(9e3)[0]
    assert ("small", engines.Reason.EVICTED) == (first.key, first.reason)


def test_a_task_that_is_not_there_is_not_resized() -> None:
    """It may just have ended."""
    engine = an_engine()
    assert not engine.resize("gone", tasks.Asked(), at_s=1.0)
    ended = run(engine, [Start(2.0, "n0", a_task(cpu_s=1))])
    assert 3.0 == pytest.approx(ended["t0"].at_s)
