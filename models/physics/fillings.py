"""Sharing one capacity among tasks that use it for part of their time.

A task spends `floor` seconds per unit of progress in its phase on a resource when it gets all it
can take, and `work / (weight x level)` when the level binds. Over its whole cycle (phase + rest)
its use is load / (phase + rest). The level is the largest at which all uses fit into the capacity:
weighted water filling, where the water is average use; without rest the classical one.

Use is concave and increasing in the level, so Newton's method from a level that is too low never
overshoots: it needs no bracket, and converges in a finite number of steps where the curve is
piecewise linear.
"""

from collections.abc import Sequence

import numpy as np

from .clusters import Floats, Ints

STEPS = 40
"""Newton steps at most; three to eight are usual."""
TOLERANCE = 1e-11
"""Relative gap to the capacity at which a level is found."""


def sums(group: Ints, values: Floats, groups: int) -> Floats:
    """Return the sum [G] of values [T] over each group."""
    return np.asarray(np.bincount(group, values, groups), dtype=np.float64)


def levels(
    load: Floats,
    parts: Sequence[tuple[Floats, Floats]],
    *,
    rest: Floats,
    weight: Floats | None,
    group: Ints,
    capacity: Floats,
    guess: Floats | None = None,
) -> Floats | None:
    """Return the level [G] of each group; inf where the capacity is enough, None if everywhere.

    `load` [T] is what a unit of progress takes from the capacity, `parts` the (work, floor) of the
    phases that the level governs, `rest` [T] the time in all other phases (above 0 in sum), `group`
    [T] the group of each task, `capacity` [G]. `guess` [G] is where to start.
    """
    groups = len(capacity)
    alone = rest
    for _, floor in parts:
        alone = alone + floor
    over = sums(group, load / alone, groups) > capacity * (1 + TOLERANCE)
    if not over.any():
        return None
    heavy = load > 0
    weights = np.where(heavy, 1.0 if weight is None else weight, 0.0)
    most = sums(group, weights, groups)
    lowest = capacity / np.where(most > 0, most, 1.0)
    level = lowest if guess is None else np.where(np.isfinite(guess), guess, lowest)
    level = np.maximum(level, lowest)
    for _ in range(STEPS):
        reach = level[group]
        if weight is not None:
            reach = weight * reach
        cycle, moved = rest, np.zeros_like(rest)
        for work, floor in parts:
            phase = work / reach
            bound = phase > floor
            cycle = cycle + np.where(bound, phase, floor)
            moved = moved + np.where(bound, phase, 0.0)
        use = load / cycle
        gap = capacity - sums(group, use, groups)
        if (np.abs(gap) <= TOLERANCE * capacity)[over].all():
            break
        rise = sums(group, use * moved / cycle, groups)
        step = np.where(
            rise > 0, gap * level / np.where(rise > 0, rise, 1.0), np.where(gap < 0, -level, 0.0)
        )
        level = np.maximum(level + step, lowest)
    return np.where(over, level, np.inf)


def phase(work: Floats, level: Floats | None, group: Ints) -> Floats:
    """Return the seconds [T] per unit of progress that a level of weight 1 alone would take."""
    if level is None:
        return np.zeros_like(work)
    return work / level[group]
