"""Values by key in a kept order, so that a tuple of thousands costs one copy."""

import bisect
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Line(Generic[Value]):
    """Values by key in a kept order, so that a tuple of thousands costs one copy."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[float | str, ...]] = {}
        self._order: list[tuple[float | str, ...]] = []
        self._line: list[Value] = []
        self._values: tuple[Value, ...] | None = ()

    def put(self, key: str, place: tuple[float | str, ...], value: Value) -> None:
        """Keep `value`; `place` is unique and of one shape."""
        self._values = None
        known = self._places.get(key)
        if known == place:
            self._line[bisect.bisect_left(self._order, place)] = value
            return
        if known is not None:
            self.drop(key)
        at = bisect.bisect_left(self._order, place)
        self._order.insert(at, place)
        self._line.insert(at, value)
        self._places[key] = place

    def drop(self, key: str) -> None:
        """Forget a key, known or not."""
        known = self._places.pop(key, None)
        if known is not None:
            self._values = None
            at = bisect.bisect_left(self._order, known)
            del self._order[at], self._line[at]

    def values(self) -> tuple[Value, ...]:
        """Return all values in their order; the same object while nothing changed."""
        if self._values is None:
            self._values = tuple(self._line)
        return self._values
