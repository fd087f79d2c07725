"""GPUs: compute, all-reduce over PCIe, and links that go down."""

import pytest

from tests.unit.physics.builders import GB, Placed, a_cluster, a_node, a_task, an_engine, rates_of
from tiphys.models.physics import errors


def gpu_node(name: str = "g0", **changes: object):
    """Four GPUs on two root complexes with links of 10 GB/s."""
    return a_node(name, gpu_roots=(2, 2), gpu_link_bytes_per_s=10 * GB, **changes)


def worker(key: str, gpu: int | tuple[int, ...], peer: str = "", **changes: object):
    """10 s of GPU work and 100 GB of all-reduce."""
    gpus = gpu if isinstance(gpu, tuple) else (gpu,)
    return a_task(
        key,
        gpu_s=10,
        sibling_bytes=100 * GB,
        siblings=(peer,) if peer else (),
        gpus=gpus,
        **changes,
    )


def test_gpu_work_takes_its_time_over_the_speed() -> None:
    """10 GPU seconds at speed 2.5 take 4 s."""
    cluster = a_cluster(gpu_node(gpu_speed=2.5))
    assert 4.0 == pytest.approx(1 / rates_of(cluster, a_task(gpu_s=10, gpus=(0,))).per_s[0])


@pytest.mark.parametrize(("other", "expected_s"), [(1, 10 + 10), (2, 10 + 50), (3, 10 + 50)])
def test_across_root_complexes_a_fifth_of_the_bandwidth_is_left(other, expected_s) -> None:
    """100 GB at 10 GB/s on one root complex, at 2 GB/s across."""
    found = rates_of(a_cluster(gpu_node()), worker("a", 0, "b"), worker("b", other, "a"))
    assert [expected_s] * 2 == pytest.approx((1 / found.per_s).tolist())


def test_a_task_with_several_gpus_reduces_among_them() -> None:
    """Without siblings, its own GPUs are the ring."""
    assert 20.0 == pytest.approx(
        1 / rates_of(a_cluster(gpu_node()), worker("inside", (0, 1))).per_s[0]
    )
    assert 60.0 == pytest.approx(
        1 / rates_of(a_cluster(gpu_node()), worker("across", (1, 2))).per_s[0]
    )


def test_between_nodes_the_nic_is_the_bottleneck() -> None:
    """100 GB at 1 GB/s of the NIC."""
    cluster = a_cluster(gpu_node("g0"), gpu_node("g1"))
    found = rates_of(cluster, Placed(worker("a", 0, "b"), 0), Placed(worker("b", 0, "a"), 1))
    assert [110.0] * 2 == pytest.approx((1 / found.per_s).tolist())


def test_a_link_that_is_down_hangs_its_tasks_until_it_is_back() -> None:
    """20 s of work; 5 s in, the link is down for 100 s; the end comes at 120 s."""
    engine = an_engine(gpu_node())
    engine.start(worker("a", 0, "b"), node="g0", at_s=0.0)
    engine.start(worker("b", 1, "a"), node="g0", at_s=0.0)
    engine.start(worker("other root", (2, 3)), node="g0", at_s=0.0)
    engine.set_link("g0", 0, health=0.0, at_s=5.0)
    (done,) = engine.advance(100.0)
    assert ("other root", 20.0) == (done.key, pytest.approx(done.at_s))
    engine.set_link("g0", 0, health=1.0, at_s=105.0)
    assert [120.0] * 2 == pytest.approx([one.at_s for one in engine.advance(200.0)], rel=1e-4)


def test_a_degraded_link_slows() -> None:
    """Half of the lanes: 100 GB at 5 GB/s."""
    engine = an_engine(gpu_node())
    engine.set_link("g0", 0, health=0.5, at_s=0.0)
    engine.start(worker("inside", (0, 1)), node="g0", at_s=0.0)
    assert 30.0 == pytest.approx(engine.next_s())


def test_gpus_and_links_that_are_not_there_are_refused() -> None:
    """The error says what the node has."""
    engine = an_engine(gpu_node())
    with pytest.raises(errors.PhysicsError, match="node 'g0' has no GPU 4; it has 4"):
        engine.start(worker("a", 4), node="g0", at_s=0.0)
    assert [] == engine.running
    with pytest.raises(
        errors.PhysicsError, match="no PCIe root complex 2 with GPUs: choose one of 0 to 1"
    ):
        engine.set_link("g0", 2, health=0.0, at_s=0.0)
    with pytest.raises(errors.PhysicsError, match="between 0 and 1"):
        engine.set_link("g0", 0, health=2.0, at_s=0.0)
