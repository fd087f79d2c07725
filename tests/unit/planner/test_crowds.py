"""Clusters without room and long queues: what the planner leaves out must change nothing."""

import dataclasses
import math
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.unit.planner import scenes
from tiphys.models.domain import settings, snapshots
from tiphys.models.planner import boards, orders, planners, plans, ticks
from tiphys.models.policies import builtins

POLICY = builtins.named(builtins.DEFAULT)
NAMES = st.sampled_from(sorted(builtins.BUILTINS))
SEEDS = st.integers(0, 10_000)
EXAMPLES = hypothesis_settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def endless(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    """Return the snapshot in which nothing is known to end."""
    rooms = tuple(
        dataclasses.replace(room, frees_at=tuple((math.inf, asked) for _, asked in room.frees_at))
        for room in snapshot.rooms
    )
    return dataclasses.replace(snapshot, rooms=rooms)


def full(waiting: list[snapshots.Waiting], *, nodes: int = 40) -> snapshots.Snapshot:
    """Return a snapshot with nodes of 4 cores, each in use for another 100 s."""
    made = [scenes.a_node(f"n{number:03d}", cores=4) for number in range(nodes)]
    running: dict[str, Sequence[scenes.Running]] = {
        node.name: [(f"x/{node.name}", 100.0, scenes.amount(4, 4))] for node in made
    }
    return scenes.a_snapshot(made, waiting, running=running)


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets a node for each question when it will have room."""
    asked: list[int] = []
    plain = boards.Board.earliest

    def earliest(
        board: boards.Board, node: int, amounts: boards.Row, lasts_s: float, *, before: float
    ) -> float:
        asked.append(node)
        return plain(board, node, amounts, lasts_s, before=before)

    monkeypatch.setattr(boards.Board, "earliest", earliest)
    return asked


def test_where_nothing_is_known_to_end_nobody_asks_when(sweeps: list[int]) -> None:
    """A thousand pods of 40 kinds without room ask no node when it will have some."""
    waiting = [scenes.a_waiting(f"w{n}", cores=1 + n % 40 / 100) for n in range(1000)]
    plan = planners.plan(endless(full(waiting)), POLICY, scenes.CHOICES)
    assert [] == sweeps
    assert {plans.HoldKind.ROOM} == {hold.kind for hold in plan.holds}


def test_searches_in_vain_are_few(sweeps: list[int]) -> None:
    """What ends is too small for any: each kind asks once, and only some kinds at all."""
    waiting = [scenes.a_waiting(f"w{n}", cores=2 + n % 100 / 100) for n in range(1000)]
    node = scenes.a_node("n1", cores=4)
    running: dict[str, Sequence[scenes.Running]] = {
        "n1": [("x/short", 5.0, scenes.amount(1, 1)), ("x/long", 1e9, scenes.amount(3, 3))]
    }
    snapshot = scenes.a_snapshot([node], waiting, running=running)
    room = snapshot.rooms[0]
    ends = (room.frees_at[0], (math.inf, room.frees_at[1][1]))
    planners.plan(
        dataclasses.replace(snapshot, rooms=(dataclasses.replace(room, frees_at=ends),)),
        POLICY,
        scenes.CHOICES,
    )
    assert 0 < len(sweeps) <= ticks.MOST_VAIN


def test_room_is_kept_for_so_many_pods_even_on_one_node(sweeps: list[int]) -> None:
    """A single node that ends is booked by the head of the order alone, not by all of it."""
    waiting = [scenes.a_waiting(f"w{n}", cores=4) for n in range(1000)]
    planners.plan(full(waiting, nodes=1), builtins.named(builtins.SRWF), scenes.CHOICES)
    assert ticks.HEADS_KEPT == len(sweeps)


@pytest.mark.parametrize("known", [True, False])
def test_a_long_queue_hears_why_and_in_what_order(known: bool) -> None:
    """Behind those that are looked at one by one each still has its rank, reason and blocker."""
    waiting = [scenes.a_waiting(f"w{n:03d}", cores=4, work=n) for n in range(600)]
    snapshot = full(waiting) if known else endless(full(waiting))
    plan = planners.plan(snapshot, POLICY, scenes.CHOICES)
    assert [(f"uid-w{n:03d}", n + 1) for n in range(600)] == [(h.uid, h.rank) for h in plan.holds]
    last = plan.holds[-1]
    assert plans.HoldKind.ROOM is last.kind
    assert last.reason.startswith("No node that it may use has room (")
    assert ("x/n000" if known else "n000") == last.blocker
    assert (last.until is not None) == known


def test_far_behind_a_clock_opens_and_a_small_pod_finds_its_room() -> None:
    """Behind 600 that have no room the clock of one and the gap for another still count."""
    waiting = [scenes.a_waiting(f"w{n:03d}", cores=4, work=n) for n in range(600)]
    waiting += [
        scenes.a_waiting("late", cores=4, work=2_000, must_open_by=scenes.AT),
        scenes.a_waiting("small", cores=1, work=3_000),
        scenes.a_waiting("never", cores=5, work=4_000),
    ]
    snapshot = full(waiting)
    spare = scenes.a_snapshot([scenes.a_node("a0", cores=1)]).rooms
    plan = planners.plan(
        dataclasses.replace(snapshot, rooms=(*spare, *snapshot.rooms)), POLICY, scenes.CHOICES
    )
    assert [("uid-late", 601), ("uid-small", 602)] == [(r.uid, r.rank) for r in plan.releases]
    assert plans.HoldKind.NEVER is plan.holds[-1].kind
    assert list(range(1, 604)) == sorted(
        [each.rank for each in plan.releases] + [each.rank for each in plan.holds]
    )


@EXAMPLES
@given(seed=SEEDS, name=NAMES, full_part=st.sampled_from((0.5, 1.0, 2.0)))
def test_whom_nobody_looks_at_would_not_have_gone(
    monkeypatch: pytest.MonkeyPatch, seed: int, name: str, full_part: float
) -> None:
    """A look at each pod releases the same ones to the same places, and holds no less truly."""
    snapshot = scenes.drawn(seed, waiting=60, full=full_part)
    answers = []
    for looked_at in (4, 1000):
        monkeypatch.setattr(ticks, "LOOKED_AT", looked_at)
        answers.append(planners.plan(snapshot, builtins.named(name), scenes.CHOICES))
    few, all_of_them = answers
    assert all_of_them.releases == few.releases
    kinds = {hold.uid: hold for hold in all_of_them.holds}
    for hold in few.holds:
        other = kinds[hold.uid]
        assert other.fits == hold.fits
        shared = (plans.HoldKind.ORDER, plans.HoldKind.SHARE)
        assert other.kind is hold.kind or {other.kind, hold.kind} <= set(shared)


@EXAMPLES
@given(
    seed=SEEDS,
    used=st.lists(st.sampled_from((0.0, 0.1, 0.3, 0.9)), min_size=3, max_size=3),
    taken=st.lists(st.booleans(), min_size=80, max_size=80),
)
def test_the_order_is_that_of_a_look_at_all_tenants(
    seed: int, used: list[float], taken: list[bool]
) -> None:
    """The walk picks what a plain comparison of all heads at each step would pick."""
    snapshot = scenes.drawn(seed, waiting=80)
    names = ("alpha", "beta", "gamma")
    snapshot = dataclasses.replace(
        snapshot,
        tenants=tuple((name, 1.0, share) for name, share in zip(names, used, strict=True)),
    )
    order = orders.of(snapshot, POLICY, scenes.CHOICES, cores=100.0)
    capacity = [50_000.0, 1e12, 1e4]
    for line in order.lines:
        shares, plain = (orders.Shares(snapshot, scenes.CHOICES, capacity) for _ in range(2))
        found = []
        for index, overdue, by_share in orders.walk(line, order, shares):
            found.append((index, overdue, by_share))
            if taken[index]:
                shares.add(snapshot.waiting[index].tenant, asked(snapshot, index))
        expected = [(index, True, False) for index in line.overdue]
        for index in line.overdue:
            if taken[index]:
                plain.add(snapshot.waiting[index].tenant, asked(snapshot, index))
        expected += plainly(snapshot, line, order, plain, taken)
        assert expected == found


def asked(snapshot: snapshots.Snapshot, index: int) -> list[float]:
    """Return CPU, memory and pods of one waiting pod."""
    requests = snapshot.waiting[index].pod.requests
    return [float(requests.cpu_m), float(requests.memory_bytes), 1.0]


def plainly(
    snapshot: snapshots.Snapshot,
    line: orders.Line,
    order: orders.Order,
    shares: orders.Shares,
    taken: list[bool],
) -> list[tuple[int, bool, bool]]:
    """Return the walk over pods that are not overdue, each step a look at all heads."""
    queues = {tenant: list(queue) for tenant, queue in line.by_tenant.items()}
    alone = len(queues) == 1
    found = []
    while any(queues.values()):
        heads = {tenant: queue[0] for tenant, queue in queues.items() if queue}
        first = min(heads, key=lambda tenant: order.place[heads[tenant]])
        poor = min(heads, key=lambda tenant: (shares.used(tenant), order.place[heads[tenant]]))
        by_share = not alone and shares.used(poor) < orders.FLOOR and poor != first
        index = queues[poor if by_share else first].pop(0)
        found.append((index, False, by_share))
        if taken[index]:
            shares.add(snapshot.waiting[index].tenant, asked(snapshot, index))
    return found


def test_an_admission_into_a_full_cluster_asks_no_node(sweeps: list[int]) -> None:
    """A new pod is gated for lack of room without a question to any node."""
    snapshot = full([scenes.a_waiting(f"w{n}", cores=4) for n in range(100)])
    answer = planners.admit(
        snapshot, scenes.a_waiting("new", cores=4), POLICY, settings.PolicySettings()
    )
    assert isinstance(answer, plans.Hold)
    assert (plans.HoldKind.ROOM, []) == (answer.kind, sweeps)
