"""NICs, uplinks, the store, and round trips to siblings."""

import pytest

from tests.unit.physics.builders import (
    GB,
    MB,
    Placed,
    Start,
    a_cluster,
    a_node,
    a_task,
    an_engine,
    end_s,
    rates_of,
    run,
)


def four_nodes():
    """Two racks of two nodes."""
    return [a_node(f"n{i}", rack=f"r{i // 2}") for i in range(4)]


@pytest.mark.parametrize(
    ("nic", "uplink", "store", "expected_s"),
    [(1.0, 10.0, 20.0, 10.0), (1.0, 0.5, 20.0, 20.0), (1.0, 10.0, 0.25, 40.0)],
)
def test_a_transfer_alone_runs_at_the_slowest_link(nic, uplink, store, expected_s) -> None:
    """10 GB over NIC, uplink and store."""
    engine = an_engine(
        a_node(nic_bytes_per_s=nic * GB),
        rack_uplink_bytes_per_s=uplink * GB,
        store_bytes_per_s=store * GB,
    )
    assert [expected_s] == pytest.approx(end_s(engine, a_task(store_bytes=10 * GB)))


def test_flows_of_one_node_share_its_nic() -> None:
    """Two flows to the store over 1 GB/s: half each."""
    found = rates_of(a_cluster(), *(a_task(f"t{i}", store_bytes=GB) for i in range(2)))
    assert [0.5, 0.5] == pytest.approx((found.store_bytes_per_s / GB).tolist())


def test_progressive_filling_over_three_kinds_of_links() -> None:
    """NICs of 1, uplinks of 1.2, store of 1.6 GB/s.

    Rack 0 has flows a, b on node 0 and c on node 1; rack 1 has d on node 2. All rise together to
    0.4: then uplink 0 (1.2 = 3 x 0.4) and the store (1.6 = 4 x 0.4) are full at once.
    """
    cluster = a_cluster(*four_nodes(), rack_uplink_bytes_per_s=1.2 * GB, store_bytes_per_s=1.6 * GB)
    flows = [
        Placed(a_task(key, store_bytes=GB), node)
        for key, node in zip("abcd", (0, 0, 1, 2), strict=True)
    ]
    found = rates_of(cluster, *flows)
    assert [0.4] * 4 == pytest.approx((found.store_bytes_per_s / GB).tolist(), rel=1e-6)


def test_a_flow_held_elsewhere_leaves_its_part() -> None:
    """Uplink of 1.2: a and b are held by their node's NIC (0.25 each), c gets the other 0.7."""
    nodes = four_nodes()
    nodes[0] = a_node("n0", rack="r0", nic_bytes_per_s=0.5 * GB)
    cluster = a_cluster(*nodes, rack_uplink_bytes_per_s=1.2 * GB)
    flows = [
        Placed(a_task(key, store_bytes=GB), node)
        for key, node in zip("abc", (0, 0, 1), strict=True)
    ]
    found = rates_of(cluster, *flows)
    assert [0.25, 0.25, 0.7] == pytest.approx((found.store_bytes_per_s / GB).tolist(), rel=1e-6)


def test_store_contention_reaches_over_nodes_and_ends_with_its_cause() -> None:
    """Two nodes, store of 1 GB/s: 5 GB and 10 GB end at 10 and 15 s, whatever the node."""
    engine = an_engine(*four_nodes(), store_bytes_per_s=GB)
    ended = run(
        engine,
        [
            Start(0.0, "n0", a_task("short", store_bytes=5 * GB)),
            Start(0.0, "n2", a_task("long", store_bytes=10 * GB)),
            Start(0.0, "n1", a_task("aside", cpu_s=12)),
        ],
    )
    assert [10.0, 15.0, 12.0] == pytest.approx(
        [ended[key].at_s for key in ("short", "long", "aside")], rel=1e-6
    )


def test_siblings_on_one_node_use_no_link() -> None:
    """Bytes between them pass through memory."""
    pair = [a_task(key, cpu_s=1, sibling_bytes=100 * GB, siblings=("a", "b")) for key in "ab"]
    found = rates_of(a_cluster(), *pair)
    assert [1.0, 1.0] == pytest.approx(found.per_s.tolist())
    assert [0.0, 0.0] == found.peer_bytes_per_s.tolist()


def test_siblings_on_other_nodes_use_both_nics() -> None:
    """10 GB at 1 GB/s; across racks the uplink of 0.5 GB/s halves it."""
    near = [
        Placed(a_task("a", sibling_bytes=10 * GB, siblings=("b",)), 0),
        Placed(a_task("b", sibling_bytes=10 * GB, siblings=("a",)), 1),
    ]
    cluster = a_cluster(*four_nodes(), rack_uplink_bytes_per_s=0.5 * GB)
    assert [0.1, 0.1] == pytest.approx(rates_of(cluster, *near).per_s.tolist())
    far = [near[0], Placed(near[1].task, 2)]
    assert [0.05, 0.05] == pytest.approx(rates_of(cluster, *far).per_s.tolist())


def test_round_trips_cost_the_rtt_of_the_racks() -> None:
    """1,000 messages: 0.03 s inside a node, 1 s inside a rack, 8 s across a far pair."""
    cluster = a_cluster(*four_nodes(), rtt_between_s=(("r0", "r1", 0.008),))
    talks = [
        Placed(a_task("a", round_trips=1000, siblings=("b",))),
        Placed(a_task("b", round_trips=1000, siblings=("a",))),
    ]
    for node, expected_s in ((0, 0.03), (1, 1.0), (3, 8.0)):
        found = rates_of(cluster, talks[0], Placed(talks[1].task, node))
        assert [expected_s] * 2 == pytest.approx((1 / found.per_s).tolist())


def test_a_mean_over_siblings_counts() -> None:
    """One sibling in the rack (1 ms), one far away (8 ms): 4.5 s for 1,000 messages."""
    cluster = a_cluster(*four_nodes(), rtt_between_s=(("r0", "r1", 0.008),))
    found = rates_of(
        cluster,
        Placed(a_task("a", round_trips=1000, siblings=("b", "c")), 0),
        Placed(a_task("b", cpu_s=100), 1),
        Placed(a_task("c", cpu_s=100), 2),
    )
    assert 4.5 == pytest.approx(1 / found.per_s[0])


def test_paths_follow_siblings_that_come_and_go() -> None:
    """Alone, messages cost nothing; while the far sibling runs they do; its end frees the other."""
    engine = an_engine(*four_nodes(), rtt_between_s=(("r0", "r1", 0.01),))
    talker = a_task("talker", cpu_s=10, round_trips=1000, siblings=("far",))
    engine.start(talker, node="n0", at_s=0.0)
    assert 10.0 == pytest.approx(engine.next_s())
    engine.start(a_task("far", cpu_s=4), node="n2", at_s=2.0)
    # 0.8 of 10 s are left; for 4 s it goes at 1 / 20: 0.2; the remaining 0.6 take 6 s.
    assert 6.0 == pytest.approx(engine.next_s())
    (far,) = engine.advance(6.0)
    assert "far" == far.key
    assert 12.0 == pytest.approx(engine.next_s())


def test_siblings_are_found_by_name_over_attempts() -> None:
    """A retried sibling has another key but the same name."""
    engine = an_engine(*four_nodes())
    engine.start(a_task("a", round_trips=1000, siblings=("worker",), cpu_s=1), node="n0", at_s=0.0)
    engine.start(a_task("uid-2", name="worker", attempt=1, cpu_s=100), node="n1", at_s=0.0)
    assert 2.0 == pytest.approx(engine.next_s())


def test_cpu_and_network_do_not_overlap() -> None:
    """5 s of CPU and 5 s of transfer take 10 s."""
    work = a_task(cpu_s=5, store_bytes=500 * MB)
    engine = an_engine(a_node(nic_bytes_per_s=100 * MB))
    assert [10.0] == pytest.approx(end_s(engine, work))
