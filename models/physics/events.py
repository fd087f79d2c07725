"""When rates change next, seen from now: what ends, crosses, fills or runs dry first."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from . import caches, groups, rates
from .clusters import Floats
from .states import MEMORY_LIMIT, State


class Kind(Enum):
    """What happens."""

    END = "end"
    """A task reaches x = 1."""
    LIMIT = "limit"
    """A working set crosses its limit."""
    MEMORY = "memory"
    """The working sets of a node use up its memory."""
    BUCKET = "bucket"
    """A disk's tokens are used up."""
    CACHE = "cache"
    """A page cache fills what working sets leave."""
    POINT = "point"
    """A working set on a node that may run out of memory reaches the next point of its curve."""
    NEVER = "never"
    """Nothing changes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The nearest event."""

    in_s: float
    """Seconds from the state's time; inf for NEVER."""
    kind: Kind
    index: int
    """Of the task (END, LIMIT, POINT) or the node (MEMORY, BUCKET, CACHE); -1 for NEVER."""


NEVER = Next(in_s=float("inf"), kind=Kind.NEVER, index=-1)


def next_event(state: State, flow: rates.Rates, *, reserve_bytes: float = 0.0) -> Next:
    """Return the nearest event; of several at one time the first in the order of `Kind`.

    MEMORY comes when working sets reach the node's memory less `reserve_bytes` (the kubelet evicts
    before memory is gone).
    """
    nodes, node, x, per_s = state.machines, state.node, state.x, flow.per_s
    best = NEVER
    if state.count:
        best = _earlier(best, (1 - x) / per_s, Kind.END)
        if np.isfinite(state.curves.crossing).any():
            best = _earlier(best, (state.curves.crossing - x) / per_s, Kind.LIMIT)
        limit = nodes.memory_bytes - reserve_bytes
        tight = groups.sums(node, state.curves.peak, nodes.count) > limit
        files = state.cache.files > 0
        if files or tight.any():
            now = state.held
            held = groups.sums(node, now.bytes, nodes.count)
            growth = groups.sums(node, now.slope * per_s, nodes.count)
            if tight.any():
                left = limit - held
                rising = tight & (growth > 0)
                until = np.where(rising, left / np.where(rising, growth, 1.0), np.inf)
                until = np.where(tight & (left <= _slack(limit)), 0.0, until)
                best = _earlier(best, until, Kind.MEMORY)
                point = np.where(tight[node], (now.next_x - x) / per_s, np.inf)
                best = _earlier(best, point, Kind.POINT)
            if files and state.cache.readers:
                room = np.maximum(state.work[MEMORY_LIMIT] - now.bytes, 0.0)
                brought = caches.rising(state.cache, per_s, room_bytes=room)
                of_node = state.cache.node[state.cache.file]
                rise = groups.sums(of_node, brought, nodes.count) + growth
                cached = caches.total(state.cache, nodes.count)
                space = nodes.memory_bytes - held - cached
                fills = (space > _slack(nodes.memory_bytes)) & (rise > 0)
                until = np.where(fills, space / np.where(fills, rise, 1.0), np.inf)
                best = _earlier(best, until, Kind.CACHE)
    if state.tokens.any():
        drain = groups.sums(node, flow.disk_bytes_per_s, nodes.count) - nodes.disk_bytes_per_s
        dries = (state.tokens > 0) & (drain > 0)
        until = np.where(dries, state.tokens / np.where(dries, drain, 1.0), np.inf)
        best = _earlier(best, until, Kind.BUCKET)
    return best


def _slack(amount: Floats) -> Floats:
    """Return what counts as nothing beside an amount of bytes (rounding)."""
    return amount * 1e-12


def _earlier(best: Next, until: Floats, kind: Kind) -> Next:
    index = int(until.argmin())
    in_s = max(float(until[index]), 0.0)
    return Next(in_s=in_s, kind=kind, index=index) if in_s < best.in_s else best
