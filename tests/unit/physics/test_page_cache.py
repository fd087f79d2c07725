"""The page cache: hits, one read for all who read at once, LRU, charged but never deadly."""

import pytest

from tests.unit.physics.builders import GB, Start, a_node, a_task, an_engine, end_s, run
from tiphys.models.physics import engines, tasks


def reads(file: str, gb: float) -> tuple[tasks.Read, ...]:
    """One input file."""
    return (tasks.Read(file=file, bytes=gb * GB),)


def cached(engine: engines.Engine, at_s: float) -> float:
    """GB in the page cache of the first node."""
    return engine.node_readings(at_s)[0].page_cache_bytes / GB


def test_the_second_reader_on_a_node_finds_the_file_in_memory() -> None:
    """1 GB takes 10 s from the disk, and then only the second task's own 5 s of CPU."""
    ended = run(
        an_engine(),
        [
            Start(0.0, "n0", a_task("first", reads=reads("genome", 1))),
            Start(20.0, "n0", a_task("second", reads=reads("genome", 1), cpu_s=5)),
        ],
    )
    assert 10.0 == pytest.approx(ended["first"].at_s)
    assert 25.0 == pytest.approx(ended["second"].at_s)
    assert 0.0 == ended["second"].usage.disk_read_bytes


def test_another_node_has_to_read_it_again() -> None:
    """A page cache belongs to its node."""
    ended = run(
        an_engine(a_node("n0"), a_node("n1")),
        [
            Start(0.0, "n0", a_task("first", reads=reads("genome", 1))),
            Start(20.0, "n1", a_task("second", reads=reads("genome", 1))),
        ],
    )
    assert 30.0 == pytest.approx(ended["second"].at_s)


def test_readers_at_once_read_the_file_once() -> None:
    """Four readers in lockstep bring 1 GB from the disk together: 10 s, not 40."""
    engine = an_engine()
    work = [a_task(f"t{i}", reads=reads("genome", 1)) for i in range(4)]
    ended = run(engine, [Start(0.0, "n0", task) for task in work])
    assert [10.0] * 4 == pytest.approx([one.at_s for one in ended.values()])
    assert GB == pytest.approx(sum(one.usage.disk_read_bytes for one in ended.values()))


def test_who_joins_in_the_middle_shares_what_is_left() -> None:
    """The second starts when half is cached; together they bring the other half once."""
    engine = an_engine()
    ended = run(
        engine,
        [
            Start(0.0, "n0", a_task("first", reads=reads("f", 1), cpu_s=1e-3)),
            Start(5.0, "n0", a_task("second", reads=reads("f", 1), cpu_s=1e-3)),
        ],
    )
    assert 1.0 <= sum(one.usage.disk_read_bytes for one in ended.values()) / GB <= 1.3
    assert 1.0 == pytest.approx(cached(engine, engine.now_s))


def test_operations_of_cached_bytes_never_reach_the_disk() -> None:
    """Half of the bytes cached, half of the operations saved."""
    engine = an_engine()
    ended = run(
        engine,
        [
            Start(0.0, "n0", a_task("first", reads=reads("a", 1))),
            Start(
                50.0,
                "n0",
                a_task("second", reads=reads("a", 1) + reads("b", 1), disk_ops=1000),
            ),
        ],
    )
    assert 500.0 == pytest.approx(ended["second"].usage.disk_ops)


def test_the_oldest_file_leaves_first() -> None:
    """Memory for 2.5 GB, files of 1 GB read as a, b, c: half of a is gone, b and c are whole."""
    node = a_node(memory_bytes=2.5 * GB)
    starts = [
        Start(20.0 * i, "n0", a_task(file, reads=reads(file, 1))) for i, file in enumerate("abc")
    ]
    again = [
        Start(100.0, "n0", a_task("b again", reads=reads("b", 1))),
        Start(101.0, "n0", a_task("a again", reads=reads("a", 1))),
    ]
    ended = run(an_engine(node), [*starts, *again])
    assert 0.0 == pytest.approx(ended["b again"].usage.disk_read_bytes)
    assert 0.5 == pytest.approx(ended["a again"].usage.disk_read_bytes / GB)


def test_growing_working_sets_push_the_cache_out() -> None:
    """2 GB cached of 3 GB; a working set of 2.5 GB leaves 0.5 GB."""
    engine = an_engine(a_node(memory_bytes=3 * GB))
    run(engine, [Start(0.0, "n0", a_task("reader", reads=reads("f", 2)))])
    assert 2.0 == pytest.approx(cached(engine, 30.0))
    grows = a_task("grows", cpu_s=10, memory_curve=((0.0, 0.0), (1.0, 2.5 * GB)))
    engine.start(grows, node="n0", at_s=30.0)
    assert 0.5 == pytest.approx(cached(engine, 40.0), rel=1e-6)


def test_cache_counts_into_memory_current_but_kills_nobody() -> None:
    """A limit of 1 GB, a working set of 0.4 GB and a file of 5 GB: current is 1 GB, no OOM."""
    engine = an_engine()
    task = a_task(
        reads=reads("big", 5),
        memory_curve=((0.0, 0.4 * GB), (1.0, 0.4 * GB)),
        memory_limit_bytes=1 * GB,
    )
    engine.start(task, node="n0", at_s=0.0)
    (reading,) = engine.readings(25.0)
    assert 1.0 == pytest.approx(reading.memory_current_bytes / GB)
    assert 0.4 == pytest.approx(reading.memory_working_set_bytes / GB)
    (ended,) = engine.advance(1000.0)
    assert engines.Reason.COMPLETED is ended.reason
    assert 1.0 == pytest.approx(ended.usage.memory_current_peak_bytes / GB)
    assert 0.4 == pytest.approx(ended.usage.memory_peak_bytes / GB)


def test_who_adds_nothing_to_the_cache_makes_no_events() -> None:
    """A reader at its limit recycles its pages while the node has little room left: the event that
    its memory is full never comes nearer, and so must not come at all."""
    limited = a_task(reads=reads("big", 50), memory_limit_bytes=1 * GB)
    engine = an_engine(a_node(memory_bytes=1.001 * GB))
    engine.start(limited, node="n0", at_s=0.0)
    begun = engine.turns
    (ended,) = engine.advance(1000.0)
    assert 500.0 == pytest.approx(ended.at_s)
    assert begun + 3 >= engine.turns


def test_a_limit_keeps_a_file_from_staying_whole() -> None:
    """Pages beyond the reader's limit are recycled: the next reader finds 0.6 of 5 GB."""
    limited = a_task(
        "limited",
        reads=reads("big", 5),
        memory_curve=((0.0, 0.4 * GB), (1.0, 0.4 * GB)),
        memory_limit_bytes=1 * GB,
    )
    ended = run(
        an_engine(),
        [
            Start(0.0, "n0", limited),
            Start(60.0, "n0", a_task("next", reads=reads("big", 5))),
        ],
    )
    assert 4.4 == pytest.approx(ended["next"].usage.disk_read_bytes / GB)


def test_pages_stay_when_their_reader_is_gone() -> None:
    """They are nobody's then, but still a hit for the next."""
    engine = an_engine()
    run(engine, [Start(0.0, "n0", a_task("first", reads=reads("f", 1)))])
    assert 1.0 == pytest.approx(cached(engine, 100.0))


def test_an_empty_file_is_a_hit() -> None:
    """Nothing to read, nothing to divide by."""
    assert [1.0] == pytest.approx(end_s(an_engine(), a_task(reads=reads("empty", 0), cpu_s=1)))
