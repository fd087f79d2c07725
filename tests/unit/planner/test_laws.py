"""Laws that hold for every snapshot and every policy."""

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.unit.planner import scenes
from tiphys.models.domain import amounts, settings, snapshots
from tiphys.models.planner import masks, planners, plans
from tiphys.models.policies import builtins

SEEDS = st.integers(0, 10_000)
NAMES = st.sampled_from(sorted(builtins.BUILTINS))
EXAMPLES = hypothesis_settings(max_examples=40, deadline=None)


def planned(snapshot: snapshots.Snapshot, name: str) -> plans.Plan:
    """Return the plan of a built-in policy with the settings of `scenes`."""
    return planners.plan(snapshot, builtins.named(name), scenes.CHOICES)


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_every_waiting_pod_is_released_or_held_once(seed: int, name: str) -> None:
    """A plan names each waiting pod exactly once, each with a sentence and a rank of its own."""
    snapshot = scenes.drawn(seed)
    plan = planned(snapshot, name)
    uids = [each.uid for each in (*plan.releases, *plan.holds)]
    assert sorted(each.pod.uid for each in snapshot.waiting) == sorted(uids)
    ranks = [each.rank for each in (*plan.releases, *plan.holds)]
    assert list(range(1, len(uids) + 1)) == sorted(ranks)
    assert all(each.reason.endswith(".") for each in (*plan.releases, *plan.holds))


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_no_node_is_given_more_than_it_has(seed: int, name: str) -> None:
    """What is released onto a node fits into what was free there, all together."""
    snapshot = scenes.drawn(seed)
    asked = {each.pod.uid: each.pod.requests for each in snapshot.waiting}
    free = {room.node.name: room.free for room in snapshot.rooms}
    for release in planned(snapshot, name).releases:
        assert asked[release.uid].fits(free[release.node])
        free[release.node] = free[release.node] - asked[release.uid]


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_a_masked_node_is_never_chosen(seed: int, name: str) -> None:
    """Selectors, affinity, taints and cordons hold for the assumed host and the group's labels."""
    snapshot = scenes.drawn(seed)
    nodes = {room.node.name: room.node for room in snapshot.rooms}
    by_uid = {each.pod.uid: each for each in snapshot.waiting}
    for release in planned(snapshot, name).releases:
        node = nodes[release.node]
        assert node.schedulable
        assert not masks.refusal(by_uid[release.uid].pod.constraints, (), node)
        assert all(node.label(key) == value for key, value in release.placement.selector)
        assert release.placement.group not in {masked.group for masked in release.masked}


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_priority_is_never_inverted(seed: int, name: str) -> None:
    """No pod of lower priority takes room that the first held pod, or one without room, could use.

    Behind a held pod that keeps its claim, one of the same priority may find itself without room.
    """
    snapshot = scenes.drawn(seed)
    plan = planned(snapshot, name)
    by_uid = {each.pod.uid: each for each in snapshot.waiting}
    nodes = {room.node.name: room for room in snapshot.rooms}
    fitting = [hold for hold in plan.holds if hold.fits]
    for hold in [*fitting[:1], *(hold for hold in plan.holds if not hold.fits)]:
        held = by_uid[hold.uid]
        free = {room.node.name: room.free for room in snapshot.rooms}
        lower = []
        for release in plan.releases:
            other = by_uid[release.uid]
            if tier(other) < tier(held):
                lower.append(release)
            else:
                free[release.node] = free[release.node] - other.pod.requests
        before = room_for(held, free, nodes)
        for release in lower:
            free[release.node] = free[release.node] - by_uid[release.uid].pod.requests
        assert before == room_for(held, free, nodes)


def tier(waiting: snapshots.Waiting) -> tuple[int, int]:
    """Return PriorityClass value and Workflow priority."""
    return waiting.pod.priority, waiting.workflow_priority


def room_for(
    waiting: snapshots.Waiting,
    free: dict[str, amounts.Amounts],
    rooms: dict[str, snapshots.Room],
) -> bool:
    """Say whether some node that a pod may use has room."""
    return any(
        waiting.pod.requests.fits(free[name])
        and room.node.schedulable
        and not masks.refusal(waiting.pod.constraints, (), room.node)
        for name, room in rooms.items()
    )


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_the_same_snapshot_gives_the_same_plan(seed: int, name: str) -> None:
    """Planning is a function: twice the same, and the same from a planner with a past."""
    snapshot = scenes.drawn(seed)
    policy = builtins.named(name)
    used = planners.Planner()
    used.plan(scenes.drawn(seed + 1), policy, scenes.CHOICES)
    used.plan(scenes.drawn(seed, waiting=5), policy, scenes.CHOICES)
    assert planned(snapshot, name) == planned(scenes.drawn(seed), name)
    assert planned(snapshot, name) == used.plan(snapshot, policy, scenes.CHOICES)


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_the_order_in_which_things_are_listed_does_not_matter(seed: int, name: str) -> None:
    """Tenants, groups and waiting pods that come in another order change nothing."""
    snapshot = scenes.drawn(seed)
    shuffled = list(snapshot.waiting)
    random.Random(seed).shuffle(shuffled)
    again = dataclasses.replace(
        snapshot,
        waiting=tuple(sorted(shuffled, key=lambda each: (each.waiting_since, each.pod.key))),
        tenants=tuple(reversed(snapshot.tenants)),
        groups=tuple(reversed(snapshot.groups)),
    )
    assert planned(snapshot, name) == planned(again, name)


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_room_is_never_left_to_nobody(seed: int, name: str) -> None:
    """A pod is held although it fits only to wait for better, or for one that goes first."""
    snapshot = scenes.drawn(seed)
    plan = planned(snapshot, name)
    by_uid = {each.pod.uid: each for each in snapshot.waiting}
    free = {room.node.name: room.free for room in snapshot.rooms}
    rooms = {room.node.name: room for room in snapshot.rooms}
    for release in plan.releases:
        free[release.node] = free[release.node] - by_uid[release.uid].pod.requests
    for hold in plan.holds:
        if room_for(by_uid[hold.uid], free, rooms):
            assert hold.kind in (plans.HoldKind.WAIT, plans.HoldKind.ORDER)
            assert hold.blocker or hold.fits


@EXAMPLES
@given(seed=SEEDS)
def test_never_means_that_no_empty_node_would_do(seed: int) -> None:
    """NEVER is said of those pods alone that no node could hold, were it empty and uncordoned."""
    snapshot = scenes.drawn(seed)
    by_uid = {each.pod.uid: each for each in snapshot.waiting}
    for hold in planned(snapshot, builtins.DEFAULT).holds:
        waiting = by_uid[hold.uid]
        could = any(
            waiting.pod.requests.fits(room.node.allocatable)
            and not masks.refusal(waiting.pod.constraints, (), room.node)
            for room in snapshot.rooms
        )
        assert could == (hold.kind is not plans.HoldKind.NEVER)


@pytest.mark.parametrize("policy", [builtins.DEFAULT, builtins.FIFO])
def test_without_the_named_blockers_a_pod_is_the_next_one(policy: str) -> None:
    """Remove whom a hold names: of 20 random held pods at least 18 are then released next."""
    rng = random.Random(7)
    next_ones = tried = 0
    for seed in range(60):
        if tried == 20:
            break
        snapshot = scenes.drawn(seed, waiting=10, full=1.0)
        plan = planned(snapshot, policy)
        holds = [hold for hold in plan.holds if hold.kind is not plans.HoldKind.NEVER]
        if not holds:
            continue
        hold = rng.choice(holds)
        assert hold.blocker
        assert hold.blocker in hold.blockers
        tried += 1
        released = {each.uid for each in plan.releases}
        after = planned(without(snapshot, set(hold.blockers)), policy)
        fresh = [each.uid for each in after.releases if each.uid not in released]
        next_ones += fresh[:1] == [hold.uid]
    assert tried == 20
    assert next_ones >= 18


def without(snapshot: snapshots.Snapshot, gone: set[str]) -> snapshots.Snapshot:
    """Return the snapshot after those pods were removed and those nodes emptied."""
    rooms = []
    for room in snapshot.rooms:
        free, left = room.free, []
        for end, who in zip(room.frees_at, room.holders, strict=True):
            if who in gone or room.node.name in gone:
                free = free + end[1]
            else:
                left.append((end, who))
        node = (
            dataclasses.replace(room.node, schedulable=True)
            if room.node.name in gone
            else room.node
        )
        rooms.append(
            dataclasses.replace(
                room,
                node=node,
                free=free,
                frees_at=tuple(end for end, _ in left),
                holders=tuple(who for _, who in left),
            )
        )
    return dataclasses.replace(
        snapshot,
        rooms=tuple(rooms),
        waiting=tuple(each for each in snapshot.waiting if each.pod.key not in gone),
    )


@EXAMPLES
@given(seed=SEEDS, name=NAMES)
def test_admission_agrees_with_the_plan(seed: int, name: str) -> None:
    """What is let in at once would also have been released by a plan over everything."""
    snapshot = scenes.drawn(seed, full=0.3)
    new = scenes.a_waiting("new", cores=2, lasts_s=60, work=100.0, workflow="w-new")
    policy = builtins.named(name)
    answer = planners.admit(snapshot, new, policy, settings.PolicySettings())
    everything = dataclasses.replace(snapshot, waiting=(*snapshot.waiting, new))
    if isinstance(answer, plans.Release):
        released = {each.uid for each in planned(everything, name).releases}
        assert new.pod.uid in released
