"""Seeded random numbers: each named purpose has its own stream, so that adding one moves no other.

Numbers are rounded to six significant digits, so that digests agree between machines whose
mathematical libraries differ in the last bit.
"""

import math
import random
from collections.abc import Sequence


def stream(*names: object) -> random.Random:
    """Return the generator of a purpose, for instance `stream(seed, "arrivals")`."""
    return random.Random("/".join(str(name) for name in names))


def rounded(number: float) -> float:
    """Return the number with six significant digits."""
    return float(f"{number:.6g}")


def log_normal(
    rng: random.Random, median: float, *, sigma: float, least: float = 0.0, most: float = math.inf
) -> float:
    """Return a log-normal draw, held within [least, most]."""
    return min(most, max(least, median * math.exp(sigma * rng.gauss(0.0, 1.0))))


def quantile(points: Sequence[float], share: float) -> float:
    """Return the value at `share` (0 to 1) of equally spaced quantiles, linear between them."""
    place = share * (len(points) - 1)
    below = min(int(place), len(points) - 2)
    return points[below] + (place - below) * (points[below + 1] - points[below])
