"""A clock that stands until a test moves it."""

import asyncio
import heapq
import itertools


class Clock:
    """`sleep` returns when `advance` has passed its end; wall and monotonic time go together."""

    def __init__(self, at: float = 1_796_000_000.0) -> None:
        self._at = at
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._count = itertools.count()

    def now(self) -> float:
        """Return unix seconds."""
        return self._at

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._at

    async def sleep(self, length_s: float) -> None:
        """Wait until the clock has been moved so far."""
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self._at + length_s, next(self._count), woken))
        await woken.wait()

    async def advance(self, length_s: float) -> None:
        """Move the clock, waking whoever slept until then, in order."""
        end = self._at + length_s
        await settled()
        while self._sleepers and self._sleepers[0][0] <= end:
            due_at, _, woken = heapq.heappop(self._sleepers)
            self._at = max(self._at, due_at)  # after a jump it was due before
            woken.set()
            await settled()
        self._at = end

    def jump(self, length_s: float) -> None:
        """Move the clock without waking anybody: the process was paused."""
        self._at += length_s


async def settled(turns: int = 40) -> None:
    """Let everything run that can; client and server share this loop, so turns count, not time."""
    for _ in range(turns):
        await asyncio.sleep(0.0005)
