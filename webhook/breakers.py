"""A breaker: after failures in a row, do not ask for a moment."""

from collections.abc import Callable

from tiphys.webhook import settings


class Breaker:
    """Closed it lets every question through; open none, but after a while one at a time."""

    def __init__(self, chosen: settings.Breaker, *, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._chosen = chosen
        self._clock = clock
        self._failures = 0
        self._pause_s = chosen.open_s
        self._open_until: float | None = None

    @property
    def is_open(self) -> bool:
        """Say whether questions are held back."""
        return self._open_until is not None

    def allows(self) -> bool:
        """Say whether to ask now; while open, the first after each pause is let through."""
        if self._open_until is None:
            return True
        if self._clock() < self._open_until:
            return False
        # Whoever gets this one is the trial; nobody else until it is over or forgotten.
        self._open_until = self._clock() + self._pause_s
        return True

    def succeeded(self) -> None:
        """Close it."""
        self._failures = 0
        self._pause_s = self._chosen.open_s
        self._open_until = None

    def failed(self) -> None:
        """Count a failure; open it, or keep it open for longer."""
        self._failures += 1
        if self._open_until is not None:
            self._pause_s = min(2 * self._pause_s, self._chosen.longest_open_s)
        elif self._failures < self._chosen.failures:
            return
        self._open_until = self._clock() + self._pause_s
