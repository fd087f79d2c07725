"""What is remembered of one finished attempt; the store that keeps the rows is the operator's."""

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tiphys.models.domain import workflows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attempt of a task that ran to its end by itself."""

    identity: workflows.Identity
    duration_s: float
    """Run time of its main container, seconds, above zero."""
    group: str = ""
    """Node group that it ran in; empty = not known."""
    attempt: int = 0
    run: str = ""
    """Uid of its workflow: rows of one identity and run are one fan-out."""
    input_bytes: int | None = None
    """None = not visible."""
    ended_at: float = 0.0
    """Unix seconds."""
    failed: bool = False
    """It says nothing about how long a whole run takes; it counts for widths only."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Robust centre and spread of some values, in their unit."""

    centre: float
    """Median."""
    half_quartiles: float
    """Half of the distance between the quartiles; 0 for fewer than three values."""
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Return centre and spread; values must not be empty."""
    if len(values) < 3:
        return Spread(centre=statistics.median(values), half_quartiles=0.0, count=len(values))
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(centre=middle, half_quartiles=(high - low) / 2, count=len(values))


def weighted_median(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the least value at which half of the weight is reached; pairs are (value, weight)."""
    ordered = sorted(pairs)
    half = sum(weight for _, weight in ordered) / 2
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= half:
            return value
    raise ValueError("no values")


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median slope over pairs of points far enough apart (Theil 1950, Sen 1968)."""
    points = sorted(points)[:: max(1, len(points) // 24)]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for place, earlier in enumerate(points)
        for later in points[place + 1 :]
        if later[0] - earlier[0] > math.log(1.2)
    ]
    return statistics.median(slopes) if slopes else 0.0


def widths(rows: Iterable[Row]) -> dict[workflows.Identity, float]:
    """Return the median number of tasks of each identity in one run that had any."""
    counts: defaultdict[workflows.Identity, defaultdict[str, int]] = defaultdict(
        lambda: defaultdict(int)
    )
    for row in rows:
        if row.attempt == 0:
            counts[row.identity][row.run] += 1
    return {
        identity: float(statistics.median(by_run.values())) for identity, by_run in counts.items()
    }
