"""Disks: fair under bytes and operations, bursts from tokens, caps that fall."""

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
from tiphys.models.physics import errors


def test_one_writer_gets_the_disk() -> None:
    """1 GB at 100 MB/s takes 10 s."""
    assert [10.0] == pytest.approx(end_s(an_engine(), a_task(written_bytes=GB)))


def test_writers_share_equally() -> None:
    """Two writers of 1 GB take 20 s."""
    work = [a_task(f"t{i}", written_bytes=GB) for i in range(2)]
    assert [20.0] * 2 == pytest.approx(end_s(an_engine(), *work))


def test_a_slow_writer_leaves_its_share_to_the_fast_one() -> None:
    """Max-min: 100 MB/s, of which a task that computes 9 of 10 s needs 10 MB/s on average.

    Level d: d + 0.1 GB / (9 + 0.1 GB / d) = 100 MB/s, so d = 91 MB/s within a per cent.
    """
    found = rates_of(
        a_cluster(),
        a_task("slow", cpu_s=9, written_bytes=0.1 * GB),
        a_task("fast", written_bytes=10 * GB),
    )
    fast, slow = found.disk_bytes_per_s[1] / MB, found.disk_bytes_per_s[0] / MB
    assert 100.0 == pytest.approx(fast + slow)
    assert 100 / (9 + 100 / fast) == pytest.approx(slow)


def test_operations_bind_before_bytes() -> None:
    """10,000 operations at 1,000 IOPS take 10 s, although 10 MB take 0.1 s."""
    assert [10.0] == pytest.approx(end_s(an_engine(), a_task(written_bytes=10 * MB, disk_ops=1e4)))


def test_operations_and_bytes_bind_different_tasks() -> None:
    """Many small operations share the IOPS; the stream beside them gets the bytes that are left."""
    found = rates_of(
        a_cluster(),
        a_task("small a", written_bytes=4 * MB, disk_ops=1000),
        a_task("small b", written_bytes=4 * MB, disk_ops=1000),
        a_task("stream", written_bytes=10 * GB),
    )
    assert [500.0, 500.0] == pytest.approx(found.disk_ops_per_s[:2].tolist())
    assert [2.0, 2.0, 96.0] == pytest.approx((found.disk_bytes_per_s / MB).tolist())


def test_tokens_buy_a_burst_and_then_the_cap_holds() -> None:
    """300 MB above the cap at twice the cap last 3 s and serve 600 MB; 400 MB more take 4 s."""
    node = a_node(disk_burst_bytes=300 * MB)
    assert [7.0] == pytest.approx(end_s(an_engine(node), a_task(written_bytes=GB)))


def test_a_rested_disk_refills() -> None:
    """After 7 s of work and 3 s of rest at 100 MB/s the bucket of 300 MB is full again."""
    engine = an_engine(a_node(disk_burst_bytes=300 * MB))
    ended = run(
        engine,
        [
            Start(0.0, "n0", a_task("first", written_bytes=GB)),
            Start(10.0, "n0", a_task("second", written_bytes=GB)),
        ],
    )
    assert 17.0 == pytest.approx(ended["second"].at_s)


def test_an_empty_bucket_holds_the_average_to_the_cap() -> None:
    """10 s of CPU and 10 GB at 100 MB/s on average are 100 s: tokens saved meanwhile are spent.

    It makes no difference how often something happens on the node (but for its least step).
    """
    engine, task = an_engine(a_node(disk_burst_bytes=1.0)), a_task(cpu_s=10, written_bytes=10 * GB)
    assert [100.0] == pytest.approx(end_s(engine, task))
    others = [Start(float(at_s), "n0", a_task(f"t{at_s}", gpu_s=0.5)) for at_s in range(1, 100)]
    engine = an_engine(a_node(disk_burst_bytes=1.0))
    ended = run(engine, [Start(0.0, "n0", task), *others])
    assert 100.0 == pytest.approx(ended["t0"].at_s, rel=1e-5)


def test_below_the_average_an_empty_bucket_costs_nothing() -> None:
    """30 s of CPU and 1 GB: never more than 29 MB/s on average, so always at the burst rate."""
    task = a_task(cpu_s=30, written_bytes=GB)
    assert [35.0] == pytest.approx(end_s(an_engine(a_node(disk_burst_bytes=1.0)), task))


def test_a_cap_may_fall_in_the_middle() -> None:
    """30,000 operations at 3,000/s, from 2 s on at 200/s: 6,000 are done, 24,000 take 120 s."""
    engine = an_engine(a_node(disk_iops=3000.0))
    engine.start(a_task(disk_ops=30_000), node="n0", at_s=0.0)
    engine.set_disk("n0", iops=200.0, at_s=2.0)
    assert 122.0 == pytest.approx(engine.next_s())


def test_a_new_cap_of_bytes_moves_the_burst_along() -> None:
    """The burst rate stays in proportion unless it is given."""
    engine = an_engine(a_node(disk_burst_bytes=GB))
    engine.set_disk("n0", bytes_per_s=50 * MB, at_s=0.0)
    engine.start(a_task(written_bytes=GB), node="n0", at_s=0.0)
    assert 10.0 == pytest.approx(engine.next_s())


def test_an_impossible_cap_is_refused() -> None:
    """A cap of 0 would never end; the error says which field of which node."""
    with pytest.raises(errors.PhysicsError, match=r"node 'n0': `disk_iops` is 0"):
        an_engine().set_disk("n0", iops=0.0, at_s=0.0)
