"""Pods that somebody else let go, another replica or the leader before: their room is taken too.

The stamp on such a pod names a group, not a host, so the host that is counted is a guess; it ends
as every assumption does, when the pod is seen bound or when it expires.
"""

import bisect
import dataclasses
import random
from collections.abc import Callable, Iterable

from tiphys.models.domain import amounts, decisions, errors, pods, snapshots
from tiphys.models.wire import stamps
from tiphys.operator import assumptions, caches, objects

PLACED = '"verdict":"place"'
MOST = 2_000
"""Pods that one call adopts at most."""


class Adopter:
    """Notes pods that were let go elsewhere, and counts them when asked."""

    def __init__(
        self,
        cached: caches.Caches,
        assumed: assumptions.Assumptions,
        *,
        assume_s: float,
        now: Callable[[], float],
    ) -> None:
        self._caches = cached
        self._assumed = assumed
        self._assume_s = assume_s
        self._now = now
        self._met: dict[str, None] = {}

    def meet(self, seen: objects.Seen) -> None:
        """Take note of a pod that is on its way to a node by a word of ours."""
        pod = seen.pod
        if pod.node or pod.gates or not pod.active or pod.deleting:
            return
        if self._assumed.get(pod.key) is None and let_go(seen):
            self._met[pod.key] = None

    def adopt(self, rooms: Callable[[], tuple[snapshots.Room, ...]]) -> int:
        """Count what was noted as being on a node with room; return how many."""
        if not self._met:
            return 0
        now, count = self._now(), 0
        for key in list(self._met)[:MOST]:
            del self._met[key]
            seen = self._caches.pods.get(key)
            if seen is None or seen.pod.node or self._assumed.get(key) is not None:
                continue
            placement, issued_at = word(seen)
            expires_at = (issued_at or seen.pod.created_at) + self._assume_s
            node = _node(seen.pod, placement, rooms())
            if node and expires_at > now:
                self._assumed.assume(
                    assumptions.Assumed(
                        pod=key,
                        node=node,
                        requests=seen.pod.requests,
                        expires_at=expires_at,
                        uid=seen.pod.uid,
                    )
                )
                count += 1
        return count

    def rebalance(self, rooms: tuple[snapshots.Room, ...]) -> int:
        """Move assumptions from hosts that are overfull to others of their group; return how many.

        kube-scheduler may take any host of a group: then the one that was assumed seems to be
        emptier than it is for a moment, and another one would hold more than it can.
        """
        names = sorted({each.node for each in self._assumed})
        free: dict[str, amounts.Amounts] = {}
        moved = 0
        for name in names:
            room = _room(rooms, name)
            if room is None or not _overfull(room.free):
                continue
            left = room.free
            for each in self._assumed.on_node(name):
                if not _overfull(left):
                    break
                other = _beside(rooms, room, each.requests, free)
                if other is None:
                    continue
                free[other.node.name] = free.get(other.node.name, other.free) - each.requests
                left = left + each.requests
                self._assumed.assume(dataclasses.replace(each, node=other.node.name))
                moved += 1
        return moved


def let_go(seen: objects.Seen) -> bool:
    """Say whether a decision of ours sent the pod to kube-scheduler."""
    return bool(seen.annotation(decisions.RELEASE_ANNOTATION)) or (
        PLACED in seen.annotation(decisions.ANNOTATION)
    )


def word(seen: objects.Seen) -> tuple[decisions.Placement, float]:
    """Return where the last decision on a pod sent it and when; nothing where it cannot be read."""
    for name in (decisions.RELEASE_ANNOTATION, decisions.ANNOTATION):
        text = seen.annotation(name)
        if text:
            try:
                stamp = stamps.decode(text)
            except errors.InputError:
                continue
            return stamp.placement, stamp.issued_at
    return decisions.Placement(), 0.0


def _room(rooms: tuple[snapshots.Room, ...], name: str) -> snapshots.Room | None:
    place = bisect.bisect_left(rooms, name, key=lambda room: room.node.name)
    return rooms[place] if place < len(rooms) and rooms[place].node.name == name else None


def _overfull(free: amounts.Amounts) -> bool:
    return free.cpu_m < 0 or free.memory_bytes < 0 or any(left < 0 for _, left in free.others)


def _beside(
    rooms: tuple[snapshots.Room, ...],
    room: snapshots.Room,
    requests: amounts.Amounts,
    free: dict[str, amounts.Amounts],
) -> snapshots.Room | None:
    """Return another host with room, one of the same group if there is one."""
    second = None
    for other in rooms:
        if other is room or not other.node.schedulable:
            continue
        if requests.fits(free.get(other.node.name, other.free)):
            if other.group == room.group:
                return other
            second = second or other
    return second


def _node(pod: pods.Pod, placement: decisions.Placement, rooms: tuple[snapshots.Room, ...]) -> str:
    """Return a node with room where the placement and the pod's selector let it go, or nothing."""
    wanted = dict(pod.constraints.node_selector)
    if placement.bind == "require":
        wanted.update(placement.selector)
    second = ""
    start = random.randrange(len(rooms)) if rooms else 0
    for room in _from(rooms, start):
        labels = dict(room.node.labels)
        if not room.node.schedulable or not pod.requests.fits(room.free):
            continue
        if any(labels.get(key) != value for key, value in wanted.items()):
            continue
        if all(labels.get(key) == value for key, value in placement.selector):
            return room.node.name
        second = second or room.node.name
    return second


def _from(rooms: tuple[snapshots.Room, ...], start: int) -> Iterable[snapshots.Room]:
    for place in range(len(rooms)):
        yield rooms[(start + place) % len(rooms)]
