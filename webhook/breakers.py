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
        self._tried = False
        """While it is open: whether a trial is on its way."""

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
        self._tried = True
        return True

    def succeeded(self) -> None:
        """Close it."""
        self._failures = 0
        self._pause_s = self._chosen.open_s
        self._open_until = None
        self._tried = False

    def failed(self) -> None:
        """Count a failure; open it, or keep it open for longer after a trial that failed.

        What was asked before it opened and fails with the others says nothing new.
        """
        if self._open_until is None:
            self._failures += 1
            if self._failures < self._chosen.failures:
                return
        elif not self._tried:
            return
        else:
            self._pause_s = min(2 * self._pause_s, self._chosen.longest_open_s)
        self._tried = False
        self._open_until = self._clock() + self._pause_s
