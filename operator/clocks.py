"""Time as an effect: injected everywhere, so that tests move it by hand."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the operator needs of time."""

    def now(self) -> float:
        """Return unix seconds."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    async def sleep(self, length_s: float) -> None:
        """Wait."""


class Wall:
    """The machine's own time."""

    def now(self) -> float:
        """Return unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    async def sleep(self, length_s: float) -> None:
        """Wait."""
        await asyncio.sleep(length_s)
