"""Sums over groups: tasks on nodes, nodes in racks."""

import numpy as np

from .clusters import Floats, Ints


def sums(group: Ints, values: Floats, groups: int) -> Floats:
    """Return the sum [G] of values [T] over each group."""
    return np.asarray(np.bincount(group, values, groups), dtype=np.float64)
