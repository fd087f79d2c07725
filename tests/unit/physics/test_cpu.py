"""Cores: weighted water filling of what tasks use on average."""

import pytest

from tests.unit.physics.builders import (
    GB,
    MB,
    Start,
    a_cluster,
    a_node,
    a_task,
    an_engine,
    end_s,
    rates_of,
    run,
)


def test_a_task_alone_takes_its_work_over_its_cores() -> None:
    """C / (s min(parallelism, limit)): 120 core-seconds on 2 cores of speed 1.5 take 40 s."""
    task = a_task(cpu_s=120, parallelism=4, cpu_limit_cores=2)
    assert [40.0] == pytest.approx(end_s(an_engine(a_node(speed=1.5)), task))


def test_parallelism_cannot_exceed_the_node() -> None:
    """A task of 64 threads on 8 cores gets 8."""
    assert [10.0] == pytest.approx(end_s(an_engine(), a_task(cpu_s=80, parallelism=64)))


def test_equal_requests_share_equally() -> None:
    """Four tasks of four threads on 8 cores get 2 each."""
    found = rates_of(a_cluster(), *(a_task(f"t{i}", cpu_s=10, parallelism=4) for i in range(4)))
    assert [2.0] * 4 == pytest.approx(found.cores.tolist())


def test_weights_divide_what_caps_leave() -> None:
    """Weights 1, 1, 2 and caps 1, 8, 8 on 8 cores: the first is capped, 7 divide as 1 to 2."""
    found = rates_of(
        a_cluster(),
        a_task("capped", cpu_s=10, parallelism=1, cpu_request_cores=1),
        a_task("one", cpu_s=10, parallelism=8, cpu_request_cores=1),
        a_task("two", cpu_s=10, parallelism=8, cpu_request_cores=2),
    )
    assert [1.0, 7 / 3, 14 / 3] == pytest.approx(found.cores.tolist())
    assert 8.0 == pytest.approx(found.cpu_cores.sum())


def test_a_task_without_request_gets_the_least_weight() -> None:
    """1 core of request weighs 512 times what none does (1024 shares to 2)."""
    found = rates_of(
        a_cluster(a_node(cores=1)),
        a_task("asks", cpu_s=10, cpu_request_cores=1),
        a_task("asks not", cpu_s=10),
    )
    assert 512.0 == pytest.approx(found.cores[0] / found.cores[1])


def test_a_task_that_waits_for_its_disk_leaves_its_core_to_others() -> None:
    """Half of the time on CPU is half a core: two such tasks fit on one core, three do not.

    C = 10 s, disk 10 s (1 GB at 100 MB/s of a disk that two thirds of a time is enough for).
    """
    node = a_node(cores=1, disk_bytes_per_s=1000 * MB)
    half = {"cpu_s": 10.0, "written_bytes": 10 * GB}
    alone = rates_of(a_cluster(node), a_task(**half))
    assert 1 / 20 == pytest.approx(alone.per_s[0])
    assert 0.5 == pytest.approx(alone.cpu_cores[0])
    two = rates_of(a_cluster(node), *(a_task(f"t{i}", **half) for i in range(2)))
    assert [1 / 20] * 2 == pytest.approx(two.per_s.tolist())
    three = rates_of(a_cluster(node), *(a_task(f"t{i}", **half) for i in range(3)))
    assert [1 / 30] * 3 == pytest.approx(three.per_s.tolist())


def test_a_waiting_task_beside_a_busy_one() -> None:
    """One core: a busy task and one with C = 10 s and 10 s of disk, equal requests.

    The level c solves c + 10 / (10 / c + 10) = 1, so c = (sqrt 5 - 1) / 2 = 0.618: while it is on
    CPU the waiting task has the same share as the busy one.
    """
    node = a_node(cores=1, disk_bytes_per_s=1000 * MB)
    found = rates_of(
        a_cluster(node),
        a_task("busy", cpu_s=1000, cpu_request_cores=1),
        a_task("waits", cpu_s=10, written_bytes=10 * GB, cpu_request_cores=1),
    )
    golden = (5**0.5 - 1) / 2
    assert [golden, golden] == pytest.approx(found.cores.tolist())
    assert 1 / (10 / golden + 10) == pytest.approx(found.per_s[1])


def test_cpu_used_is_the_work_however_long_it_took() -> None:
    """Core-seconds at the end are C / speed, with neighbours or without."""
    engine = an_engine(a_node(speed=2.0))
    ended = run(
        engine,
        [Start(float(i), "n0", a_task(f"t{i}", cpu_s=100, parallelism=4)) for i in range(6)],
    )
    assert [50.0] * 6 == pytest.approx([one.usage.cpu_core_s for one in ended.values()])


def test_who_leaves_makes_room() -> None:
    """Two tasks of 10 and 20 core-seconds on one core: ends at 20 and 30 s."""
    work = (a_task("short", cpu_s=10), a_task("long", cpu_s=20))
    assert [20.0, 30.0] == pytest.approx(end_s(an_engine(a_node(cores=1)), *work))
