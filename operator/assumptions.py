"""Capacity that was promised and is not taken yet: what was decided counts as used until it shows.

Kept by key (`namespace/name`), since at admission a pod has no uid yet. An assumption ends when the
pod is seen bound or ended, or when it expires (a create that never came through).
"""

import dataclasses
from collections.abc import Callable, Iterator

from tiphys.models.domain import amounts


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """A pod that is expected on a node."""

    pod: str
    """`namespace/name`."""
    node: str
    requests: amounts.Amounts
    expires_at: float
    """Monotonic second: a date that is set right gives no room away, nor keeps any."""
    ends_at: float | None = None
    """Estimated end of its run, unix seconds."""
    uid: str = ""
    """Empty for one that is only just admitted."""


class Assumptions:
    """What this process decided that the cluster does not show yet."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kept: dict[str, Assumed] = {}
        self._by_node: dict[str, set[str]] = {}
        self._touched: set[str] = set()
        self._soonest = float("inf")
        """No assumption expires before."""

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Assumed]:
        return iter(tuple(self._kept.values()))

    def get(self, pod: str) -> Assumed | None:
        """Return what is assumed of a pod."""
        return self._kept.get(pod)

    def assume(self, assumed: Assumed) -> None:
        """Count a pod as being on its node; a new word on the same pod replaces the old one."""
        self.forget(assumed.pod)
        self._kept[assumed.pod] = assumed
        self._soonest = min(self._soonest, assumed.expires_at)
        self._by_node.setdefault(assumed.node, set()).add(assumed.pod)
        self._touched.add(assumed.node)

    def forget(self, pod: str) -> None:
        """Free what was assumed of a pod, if anything was."""
        known = self._kept.pop(pod, None)
        if known is None:
            return
        held = self._by_node[known.node]
        held.discard(pod)
        if not held:
            del self._by_node[known.node]
        self._touched.add(known.node)

    def expire(self) -> tuple[Assumed, ...]:
        """Forget what is overdue and return it."""
        now = self._monotonic()
        if now < self._soonest:
            return ()
        overdue = tuple(known for known in self._kept.values() if known.expires_at <= now)
        for known in overdue:
            self.forget(known.pod)
        self._soonest = min((each.expires_at for each in self), default=float("inf"))
        return overdue

    def on_node(self, name: str) -> tuple[Assumed, ...]:
        """Return what is assumed of one node."""
        return tuple(self._kept[pod] for pod in self._by_node.get(name, ()))

    def touched(self) -> set[str]:
        """Return the nodes whose sum changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched
