"""Sharing one capacity among tasks that use it for part of their time.

A task spends `floor` seconds per unit of progress in a phase when it gets all it can take, and
`coefficient / level` when the level binds. Over its whole cycle (phase + rest) its use is load /
cycle. The level is the largest at which all uses fit: weighted water filling, where the water is
average use; without rest the classical one. Use is concave and increasing in the level, so Newton's
method from a level that is too low never overshoots and needs no bracket.
"""

from collections.abc import Sequence

import numpy as np

from . import groups
from .clusters import Floats, Ints

STEPS = 60
"""At most; three to eight are usual."""
TOLERANCE = 1e-11
"""Relative gap to a capacity at which its level is found."""


def prices(
    load: Floats,
    terms: Sequence[tuple[Floats, Floats]],
    *,
    rest: Floats,
    group: Ints,
    amount: Floats,
    guess: Floats | None = None,
) -> Floats:
    """Return the price [G] (1 / level) of a capacity; 0 where it is enough for all.

    `load` [T] is what a unit of progress takes of it, `terms` are the (coefficient, floor) [T] of
    the phases that it governs, `rest` [T] the time in all others, `group` [T] whose capacity each
    task uses, `amount` [G] per second, `guess` [G] where to start (0: nowhere in particular).
    """
    count = len(amount)
    cycle, reach = rest, np.zeros_like(rest)
    for coefficient, floor in terms:
        cycle = cycle + floor
        reach = reach + coefficient
    over = groups.sums(group, load / cycle, count) > amount * (1 + TOLERANCE)
    if not over.any():
        return np.zeros(count)
    most = groups.sums(group, load / np.where(reach > 0, reach, np.inf), count)
    lowest = amount / np.where(most > 0, most, 1.0)
    level = lowest
    if guess is not None:
        level = np.maximum(np.where(guess > 0, 1 / np.where(guess > 0, guess, 1.0), 0.0), lowest)
    for _ in range(STEPS):
        here = level[group]
        cycle, moved = rest, np.zeros_like(rest)
        for coefficient, floor in terms:
            phase = coefficient / here
            bound = phase > floor
            cycle = cycle + np.where(bound, phase, floor)
            moved = moved + np.where(bound, phase, 0.0)
        use = load / cycle
        gap = amount - groups.sums(group, use, count)
        if not (over & (np.abs(gap) > TOLERANCE * amount)).any():
            break
        rise = groups.sums(group, use * moved / cycle, count)
        flat = rise <= 0
        step = gap * level / np.where(flat, 1.0, rise)
        level = np.maximum(np.where(flat, lowest, level + step), lowest)
    return np.where(over, 1 / level, 0.0)
