"""An event loop in which nobody waits: when all is idle, its time jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

BEGIN_S = 1000.0
LEAST_S = 1e-9
"""By which each round goes on, so that a timer that is due a rounding error early comes again."""
AWAY_S = 1.0
"""Real seconds between two looks while a thread works."""


class Loop(asyncio.SelectorEventLoop):
    """Its `time` is virtual; it stands still while a thread works for the loop."""

    def __init__(self) -> None:
        self._now_s = BEGIN_S
        self._away = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the virtual seconds."""
        return self._now_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Count who is away."""
        future = super().run_in_executor(executor, func, *args)
        self._away += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self._away -= 1

    def idle(self, timeout_s: float | None) -> float | None:
        """Jump over an idle time; return how long to wait for sockets and threads really."""
        if timeout_s is None or (self._away and timeout_s > 0):
            return AWAY_S
        self._now_s += max(timeout_s, LEAST_S)
        return 0.0


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(0) or super().select(self._loop.idle(timeout))


def wall() -> Callable[[], float]:
    """Return the wall clock of the running loop; where none runs, time stands still."""
    try:
        return asyncio.get_running_loop().time
    except RuntimeError:
        return lambda: BEGIN_S
