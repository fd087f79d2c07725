"""Pods that somebody else let go, another replica or the leader before: their room is taken too.

Anybody may write our annotations onto a pod, so only a word that a key of the ring signed for this
very pod counts. The stamp on such a pod names a group, not a host, so the host that is counted is a
guess; it ends as every assumption does, when the pod is seen bound or when it expires.
"""

import bisect
import collections
import dataclasses
import random
from collections.abc import Callable, Iterable

from tiphys.models.domain import amounts, decisions, errors, pods, snapshots
from tiphys.models.wire import keys, signatures, stamps
from tiphys.operator import assumptions, caches, objects

PLACED = '"verdict":"place"'
PAIRS = (
    (decisions.RELEASE_ANNOTATION, decisions.RELEASE_SIGNATURE, decisions.Verdict.RELEASE),
    (decisions.ANNOTATION, decisions.SIGNATURE, decisions.Verdict.PLACE),
)
"""What sends a pod on its way, the later word first."""
MOST = 500
"""Pods that one call judges at most: each may cost the check of a signature, about 0.15 ms, and the
loop answers the webhook meanwhile."""
MOST_KNOWN = 5_000
"""Words whose worth is remembered."""
EARLY_S = 10.0
"""A pod may be seen before its Workflow."""


class Words:
    """Which decisions on pods are ours: signed by a key of the ring, and about the very pod."""

    def __init__(self, cached: caches.Caches, *, ring: Callable[[], keys.Ring]) -> None:
        self._caches = cached
        self._ring = ring
        self._judged_by = keys.Ring()
        self._known: collections.OrderedDict[str, tuple[object, decisions.Stamp | None]] = (
            collections.OrderedDict()
        )
        """By uid of the pod: what stands on it, and what of it is ours."""

    @property
    def ready(self) -> bool:
        """Whether there are keys to judge by."""
        return bool(self._ring().keys)

    def of(self, seen: objects.Seen) -> decisions.Stamp | None:
        """Return the decision that sent a pod on its way; None where no word of ours did.

        The pod has to be a Workflow's that the cache holds. A signature is judged by the key that
        held when it was made, so the word of an earlier leader counts as long as its key is in the
        ring.
        """
        run = self._caches.workflows.of_uid(seen.pod.workflow_uid) if _argos(seen.pod) else None
        if run is None or run.workflow.namespace != seen.pod.namespace:
            return None
        ring = self._ring()
        if ring is not self._judged_by:
            self._judged_by = ring
            self._known.clear()
        known = self._known.get(seen.pod.uid)
        if known is not None and known[0] == seen.annotations:
            return known[1]
        stamp = next(filter(None, (_signed(seen, ring, pair) for pair in PAIRS)), None)
        self._known[seen.pod.uid] = (seen.annotations, stamp)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return stamp


class Adopter:
    """Notes pods that were let go elsewhere, and counts them when asked."""

    def __init__(
        self,
        cached: caches.Caches,
        assumed: assumptions.Assumptions,
        words: Words,
        *,
        assume_s: float,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._caches = cached
        self._assumed = assumed
        self._words = words
        self._assume_s = assume_s
        self._now = now
        self._monotonic = monotonic
        self._met: dict[str, None] = {}

    def meet(self, seen: objects.Seen) -> None:
        """Take note of a pod that is on its way to a node by a word of ours."""
        if not on_its_way(seen.pod) or not _argos(seen.pod) or turned_down(seen):
            return
        if self._assumed.get(seen.pod.key) is None and let_go(seen):
            self._met[seen.pod.key] = None

    @property
    def pending(self) -> int:
        """How many pods were noted and are not judged yet."""
        return len(self._met)

    def adopt(self, rooms: Callable[[], tuple[snapshots.Room, ...]]) -> int:
        """Count what was noted as being on a node with room; return how many."""
        if not self._met or not self._words.ready:
            return 0
        now, count = self._now(), 0
        for key in list(self._met)[:MOST]:
            del self._met[key]
            seen = self._caches.pods.get(key)
            if seen is None or not on_its_way(seen.pod) or self._assumed.get(key) is not None:
                continue
            if turned_down(seen) or word(seen)[1] + self._assume_s <= now:
                continue
            stamp = self._words.of(seen)
            if stamp is None:
                if self._early(seen.pod, now):
                    self._met[key] = None
                continue
            left_s = min(stamp.issued_at, now) + self._assume_s - now
            node = _node(seen.pod, stamp.placement, rooms())
            if node and left_s > 0:
                self._assumed.assume(
                    assumptions.Assumed(
                        pod=key,
                        node=node,
                        requests=seen.pod.requests,
                        expires_at=self._monotonic() + left_s,
                        uid=seen.pod.uid,
                    )
                )
                count += 1
        return count

    def _early(self, pod: pods.Pod, now: float) -> bool:
        """Say whether a pod's Workflow may still be on its way into the cache."""
        known = self._caches.workflows.of_uid(pod.workflow_uid) is not None
        return not known and abs(now - pod.created_at) < EARLY_S

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


def on_its_way(pod: pods.Pod) -> bool:
    """Say whether kube-scheduler has a pod and did not bind it yet."""
    return not pod.node and not pod.gates and pod.active and not pod.deleting


def turned_down(seen: objects.Seen) -> bool:
    """Say whether kube-scheduler found no node for an open pod for a reason that we do not model.

    Where it only lacks room that we see already it binds the pod a moment later; a reason in a
    constraint that Tiphys does not model (`podAffinity`, a volume) may hold for ever. A condition
    that our dispatcher wrote while the pod waited is no word of kube-scheduler's.
    """
    return (
        seen.unscheduled_reason == "Unschedulable"
        and not seen.unscheduled.startswith(decisions.SPOKEN)
        and bool(seen.pod.constraints.unmodelled)
        and on_its_way(seen.pod)
    )


def let_go(seen: objects.Seen) -> bool:
    """Say whether a pod claims that a decision of ours sent it on; only `Words` prove it."""
    return bool(seen.annotation(decisions.RELEASE_ANNOTATION)) or (
        PLACED in seen.annotation(decisions.ANNOTATION)
    )


def word(seen: objects.Seen) -> tuple[decisions.Placement, float]:
    """Return what a pod claims, where it was sent and when; nothing where it cannot be read."""
    for name in (decisions.RELEASE_ANNOTATION, decisions.ANNOTATION):
        text = seen.annotation(name)
        if text:
            try:
                stamp = stamps.decode(text)
            except errors.InputError:
                continue
            return stamp.placement, stamp.issued_at
    return decisions.Placement(), 0.0


def _argos(pod: pods.Pod) -> bool:
    """Say whether a Workflow controls the pod."""
    return pod.role is not pods.PodRole.FOREIGN and bool(pod.workflow_uid)


def _signed(
    seen: objects.Seen, ring: keys.Ring, pair: tuple[str, str, decisions.Verdict]
) -> decisions.Stamp | None:
    """Return one decision on a pod if it is ours and about this pod."""
    name, signed, verdict = pair
    text, signature = seen.annotation(name), seen.annotation(signed)
    if not text or not signature:
        return None
    pod = seen.pod
    try:
        stamp = stamps.decode(text)
        if stamp.verdict is not verdict or stamp.pod != pod.key:
            return None
        if stamp.workflow_uid != pod.workflow_uid or stamp.pod_uid not in ("", pod.uid):
            return None
        signatures.verify(ring, text.encode(), signature, stamp.issued_at)
    except (errors.TiphysError, UnicodeEncodeError):
        return None
    return stamp


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
        if not room.node.schedulable or not pod.requests.fits(room.free):
            continue
        labels = dict(room.node.labels)
        if any(labels.get(key) != value for key, value in wanted.items()):
            continue
        if all(labels.get(key) == value for key, value in placement.selector):
            return room.node.name
        second = second or room.node.name
    return second


def _from(rooms: tuple[snapshots.Room, ...], start: int) -> Iterable[snapshots.Room]:
    for place in range(len(rooms)):
        yield rooms[(start + place) % len(rooms)]
