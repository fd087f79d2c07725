"""Waiting in tests: a question is asked until the answer is yes, and not for ever."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Answer = TypeVar("Answer")
EVERY_S = 0.1


async def until(question: Callable[[], Awaitable[Answer]], *, within_s: float) -> Answer:
    """Ask until the answer is truthy, and return it; `TimeoutError` after `within_s`."""
    async with asyncio.timeout(within_s):
        while True:
            if answer := await question():
                return answer
            await asyncio.sleep(EVERY_S)


def blocking(question: Callable[[], Answer], *, within_s: float) -> Answer:
    """Do the same without a loop."""
    end = time.monotonic() + within_s
    while not (answer := question()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within_s} s: {question}")
        time.sleep(EVERY_S)
    return answer
