"""Time goes on: the state after some seconds at constant rates, with exact integrals of use."""

import numpy as np

from . import caches, curves, groups, rates, states
from .clusters import Floats
from .states import State

DONE = 1 - 1e-9
"""Progress at which a task has ended (rounding)."""


def advance(state: State, flow: rates.Rates, dt_s: float) -> State:
    """Return the state `dt_s` seconds later; the caller does not go beyond the next event."""
    if dt_s <= 0:
        return state
    work, nodes = state.work, state.machines
    x = np.minimum(state.x + flow.per_s * dt_s, 1.0)
    x[x > DONE] = 1.0
    moved = x - state.x
    before, after = state.held, curves.further(state.curves, state.held, x)
    held = groups.sums(state.node, after.bytes, nodes.count)
    cache = caches.move(
        state.cache,
        moved,
        free_bytes=np.maximum(nodes.memory_bytes - held, 0.0),
        room_bytes=np.maximum(work[states.MEMORY_LIMIT] - after.bytes, 0.0),
        at_s=state.at_s + dt_s,
    )
    used = state.used.copy()
    used[states.USED_CPU] += work[states.CPU_S] * flow.slowdown * moved
    used[states.USED_DISK] += work[states.DISK_BYTES] * moved
    used[states.USED_OPS] += work[states.DISK_OPS] * moved
    used[states.USED_READ] += (work[states.DISK_BYTES] - work[states.WRITTEN_BYTES]) * moved
    used[states.USED_NET] += (
        work[states.STORE_BYTES] + work[states.OFF_NODE] * work[states.PEER_BYTES]
    ) * moved
    # Byte-seconds: the curve's area over progress, in time. What stands still holds what it has.
    seconds_per_x = np.where(moved > 0, dt_s / np.where(moved > 0, moved, 1.0), 0.0)
    used[states.USED_MEMORY] += np.where(
        moved > 0, (after.area - before.area) * seconds_per_x, before.bytes * dt_s
    )
    used[states.USED_GPU] += work[states.GPU_S] * moved
    ends = np.maximum(before.bytes, after.bytes)
    peak = ends
    if after.point is not before.point:
        peak = curves.peak_between(state.curves, state.x, x, ends=ends)
    used[states.USED_PEAK] = np.maximum(used[states.USED_PEAK], peak)
    current = after.bytes
    if cache.readers:
        current = current + caches.charged(cache, state.count)
    used[states.USED_CURRENT_PEAK] = np.maximum(
        used[states.USED_CURRENT_PEAK], np.maximum(current, peak)
    )
    drawn = groups.sums(state.node, flow.disk_bytes_per_s, nodes.count)
    full = nodes.disk_burst_bytes
    tokens = state.tokens + (nodes.disk_bytes_per_s - drawn) * dt_s
    tokens = np.minimum(np.maximum(tokens, 0.0), full)
    tokens[tokens <= TOKENS_GONE * full] = 0.0
    return State(
        machines=nodes,
        node=state.node,
        work=_with_hits(state, cache),
        curves=state.curves,
        x=x,
        held=after,
        used=used,
        tokens=tokens,
        cache=cache,
        at_s=state.at_s + dt_s,
    )


TOKENS_GONE = 1e-9
"""Part of a full bucket that counts as empty (rounding)."""


def _with_hits(state: State, cache: caches.Cache) -> Floats:
    """Return `work` with the disk's rows as the page cache now leaves them."""
    if cache.hit is state.cache.hit:
        return state.work
    work = state.work.copy()
    states.with_cache(work, cache)
    return work
