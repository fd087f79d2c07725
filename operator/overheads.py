"""How long pods need beside their work, as seen of late: to start, and to let go of their room.

Three seconds each on the reference cluster, minutes where images are large, a fraction of one
where time runs fast.  Each replica sees for itself: times in a status have whole seconds only.
"""

import collections
import dataclasses
import statistics
from collections.abc import Callable

from tiphys.models.domain import pods, snapshots
from tiphys.operator import attempts, caches, objects

SEEN = 64
"""Pods that the medians are over, the latest."""
LEAST = 8
"""With fewer the defaults hold."""


@dataclasses.dataclass(slots=True)
class _Life:
    """Monotonic seconds at which one pod was first seen to do something."""

    bound: float | None = None
    ran: float | None = None
    worked: float | None = None


class Overheads:
    """The medians of late; subscribes itself to the caches."""

    def __init__(self, cached: caches.Caches, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lives: dict[str, _Life] = {}
        """Of tasks that were seen without a node and have not ended, by key."""
        self._starts = _Median(snapshots.START_S)
        self._frees = _Median(snapshots.FREES_S)
        cached.subscribe(self._changed)

    @property
    def start_s(self) -> float:
        """Seconds from the binding to the start of the work."""
        return self._starts.value

    @property
    def frees_s(self) -> float:
        """Seconds from the end of the work until the pod has ended and its requests are free."""
        return self._frees.value

    def _changed(self, change: caches.Change) -> None:
        if change.kind is not caches.Kind.PODS:
            return
        seen = change.after
        if not isinstance(seen, objects.Seen):
            self._lives.pop(change.key, None)
            return
        pod = seen.pod
        if pod.role is not pods.PodRole.TASK:
            return
        if not pod.node:
            # What was bound before this replica looked has no beginning to count from.
            self._lives.setdefault(change.key, _Life())
            return
        life = self._lives.get(change.key)
        if life is not None:
            self._lived(life, seen)
            if not pod.active:
                del self._lives[change.key]

    def _lived(self, life: _Life, seen: objects.Seen) -> None:
        now = self._monotonic()
        if life.bound is None:
            life.bound = now
        worked = attempts.worked(seen)
        runs = seen.pod.phase is pods.Phase.RUNNING and seen.pod.started_at is not None
        if life.ran is None and runs and not worked:
            life.ran = now
            self._starts.add(now - life.bound)
        if life.worked is None and worked:
            life.worked = now
        if life.worked is not None and not seen.pod.active:
            self._frees.add(now - life.worked)


class _Median:
    """The median of the latest values, or what holds without them."""

    def __init__(self, default: float) -> None:
        self.value = default
        self._seen: collections.deque[float] = collections.deque(maxlen=SEEN)

    def add(self, value: float) -> None:
        self._seen.append(value)
        if len(self._seen) >= LEAST:
            self.value = statistics.median(self._seen)
