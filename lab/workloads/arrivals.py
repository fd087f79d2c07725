"""When workflows arrive within a window; seconds of simulated time from the start of the run."""

import itertools
import math
import random
from collections.abc import Sequence

from lab import errors
from lab.workloads import draws

KINDS = ("poisson", "burst", "diurnal", "replay", "at-once")
BURSTS = 3
"""Batches in a window of kind `burst`."""
BURST_SHARE = 0.5
"""Of all workflows, those that come in a batch."""
BURST_RATE = 17.0
"""Rate within a batch over the mean rate of the window, what comes beside the batch included."""
DAILY_SWING = 0.8
"""Amplitude of the daily rate around its mean (assumption)."""


def times(
    kind: str,
    count: int,
    *,
    window_s: float,
    seed: int,
    recorded: Sequence[float] = (),
) -> tuple[float, ...]:
    """Return `count` ascending arrival times in [0, window_s]; the first is 0.

    `poisson`: a Poisson process given its count. `burst`: half of them in three batches, 17
    times as dense as the mean, no two of them at once.
    `diurnal`: rate 1 + 0.8 sin, the window being one day. `replay`: a random stretch of `recorded`
    arrivals, stretched to the window. `at-once`: all at 0.
    """
    rng = draws.stream(seed, "arrivals", kind)
    if kind == "at-once" or count == 1:
        return (0.0,) * count
    if kind == "poisson":
        shares = [rng.random() for _ in range(count)]
    elif kind == "burst":
        width = BURST_SHARE / (BURST_RATE - (1 - BURST_SHARE)) / BURSTS
        batches = _apart(rng, width=width)
        shares = [
            rng.choice(batches) + width * rng.random()
            if rng.random() < BURST_SHARE
            else rng.random()
            for _ in range(count)
        ]
    elif kind == "diurnal":
        shares = [_by_day(rng.random()) for _ in range(count)]
    elif kind == "replay":
        if len(recorded) < count:
            raise errors.UsageError(
                f"replay has {len(recorded)} recorded arrivals, {count} workflows need as many: "
                "ask for fewer workflows or another kind of arrivals"
            )
        start = rng.randrange(len(recorded) - count + 1)
        shares = list(recorded[start : start + count])
    else:
        raise errors.UsageError(f"no arrivals {kind!r}: choose one of {', '.join(KINDS)}")
    first, last = min(shares), max(shares)
    span = last - first if last > first else 1.0
    return tuple(draws.rounded(window_s * (share - first) / span) for share in sorted(shares))


def _apart(rng: random.Random, *, width: float) -> list[float]:
    """Return where the batches start: within the window, and none before another has ended."""
    while True:
        starts = sorted(rng.uniform(0.0, 1.0 - width) for _ in range(BURSTS))
        if all(later - earlier >= width for earlier, later in itertools.pairwise(starts)):
            return starts


def _by_day(quantile: float) -> float:
    """Return the time of day at which the share `quantile` of a day's arrivals has come."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        come = middle + DAILY_SWING / (2 * math.pi) * (1 - math.cos(2 * math.pi * middle))
        low, high = (middle, high) if come < quantile else (low, middle)
    return low
