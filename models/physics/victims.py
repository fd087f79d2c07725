"""Whom a shortage of memory hits: the choices of kernel and kubelet as a function of the state."""

import numpy as np

from . import states
from .clusters import Floats
from .states import State


def over_limit(state: State) -> list[int]:
    """Return the tasks whose working set has crossed their limit: OOMKilled, exit code 137."""
    return [int(i) for i in np.flatnonzero(state.curves.crossing <= state.x + 1e-12)]


def largest_over_request(state: State, node: int) -> int | None:
    """Return the task of a node that goes first when memory is used up; None if nobody is there.

    Those above their request first, then by how far above it, as the kernel's score orders
    burstable pods. A kubelet ranks by the pods' priorities in between; that is left out.
    """
    here = np.flatnonzero(state.node == node)
    if not len(here):
        return None
    held = state.held.bytes[here]
    return int(here[np.argmax(held - state.work[states.MEMORY_REQUEST, here])])


def exhausted(state: State, node: int, *, reserve_bytes: float = 0.0) -> bool:
    """Return whether the working sets of a node leave no more than the reserve."""
    held = state.held.bytes[state.node == node].sum()
    limit = state.machines.memory_bytes[node] - reserve_bytes
    return bool(held >= limit * (1 - 1e-12))


def growth_bytes_per_s(state: State, per_s: Floats, node: int) -> float:
    """Return how fast the working sets of a node grow now."""
    here = state.node == node
    return float((state.held.slope * per_s)[here].sum())
