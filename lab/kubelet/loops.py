"""The kubelet's event loop: uvloop, whose timers never come early (docs/adr/0019)."""

import asyncio
import math
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

import uvloop

Arguments = TypeVarTuple("Arguments")

TICKS_PER_S = 1000
"""Timers count whole ticks."""


class Loop(uvloop.Loop):
    """Rounds timers up, and adds the part of a tick that has passed when one is set.

    uvloop rounds to the nearest and counts from the last whole tick: most timers would find that
    their time has not come, set themselves anew and so on, until it has.
    """

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call after some wall seconds or up to two ticks later."""
        if 0 < delay < math.inf:
            delay = (math.ceil(delay * TICKS_PER_S) + 1) / TICKS_PER_S
        return super().call_later(delay, callback, *args, context=context)
