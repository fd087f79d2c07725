"""Whether an operator lives, judged by its Leases and by nothing else.

Only one's own monotonic clock counts: a Lease lives while it is seen to change.  Time in which the
API server could not be asked is no evidence: it is not counted, since the operators could not renew
either, and one's own trouble must never open gates.
"""

import dataclasses
from collections.abc import Sequence

LEADER = "tiphys-operator"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One Lease as it was read."""

    name: str
    holder: str
    renewed: str
    """`renewTime` as written; only whether it changes matters."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the Leases say."""

    alive: bool
    why: str


@dataclasses.dataclass(slots=True)
class _Seen:
    lease: Lease
    changed_at: float
    moved: bool = False
    """Whether it was seen to change; the first sight proves nothing."""


class Judge:
    """Remembers when each Lease last changed; seconds are monotonic."""

    def __init__(self, *, look_s: float, dead_after_s: float, leaderless_s: float) -> None:
        self._most_gap_s = 2.5 * look_s
        self._dead_after_s = dead_after_s
        self._leaderless_s = leaderless_s
        self._seen: dict[str, _Seen] = {}
        self._looked_at: float | None = None
        self._led_at = 0.0
        """When a leader was last known to live, or the first look."""

    def look(self, leases: Sequence[Lease], now_s: float) -> Verdict:
        """Take what was just read and judge."""
        if self._looked_at is None:
            self._led_at = now_s
        else:
            gap_s = now_s - self._looked_at
            if gap_s > self._most_gap_s:
                self._led_at += gap_s
                for seen in self._seen.values():
                    seen.changed_at += gap_s
        self._looked_at = now_s
        current = {lease.name: lease for lease in leases if lease.holder}
        for name in self._seen.keys() - current.keys():
            del self._seen[name]
        for name, lease in current.items():
            known = self._seen.get(name)
            if known is None:
                self._seen[name] = _Seen(lease, now_s)
            elif known.lease != lease:
                self._seen[name] = _Seen(lease, now_s, moved=True)
        return self._verdict(now_s)

    @property
    def proven(self) -> bool:
        """Whether a leader was seen to renew its Lease: then no more looks are needed."""
        seen = self._seen.get(LEADER)
        return seen is not None and seen.moved

    def _verdict(self, now_s: float) -> Verdict:
        fresh = {
            name
            for name, seen in self._seen.items()
            if now_s - seen.changed_at < self._dead_after_s
        }
        if LEADER in fresh:
            self._led_at = max(self._led_at, self._seen[LEADER].changed_at)
            return Verdict(alive=True, why=f"{self._seen[LEADER].lease.holder} leads")
        silent_s = now_s - self._led_at
        if fresh and silent_s < self._leaderless_s:
            return Verdict(alive=True, why=f"{len(fresh)} live, none leads for {silent_s:.0f} s")
        if not fresh and silent_s < self._dead_after_s:
            return Verdict(alive=True, why=f"no Lease is fresh, for {silent_s:.0f} s so far")
        why = f"none leads for {silent_s:.0f} s" if fresh else "no operator's Lease is fresh"
        return Verdict(alive=False, why=why)
