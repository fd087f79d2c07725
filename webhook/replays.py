"""Which decisions were taken already in this process, for as long as they are fresh."""

import collections


class Cache:
    """Ids with the moment from which each may be forgotten; bounded, the oldest go first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._until: collections.OrderedDict[str, float] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def holds(self, decision_id: str) -> bool:
        """Say whether the decision was taken."""
        return decision_id in self._until

    def remember(self, decision_id: str, *, until: float, now: float) -> None:
        """Keep an id until `until`; times are unix seconds."""
        self._until[decision_id] = until
        while self._until:
            oldest = next(iter(self._until))
            if len(self._until) <= self._most and self._until[oldest] > now:
                break
            del self._until[oldest]
