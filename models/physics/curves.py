"""Working sets over progress: piecewise linear curves of many tasks as arrays [T, M].

Rows are padded with their last point at x = inf, so M is the longest curve's number of points.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from .clusters import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """T curves with M points each."""

    x: Floats
    """[T, M] ascending; inf where padded."""
    bytes: Floats
    """[T, M]; the last value where padded."""
    area: Floats
    """[T, M] integral of bytes over x from 0 to the point."""
    peak: Floats
    """[T]"""
    crossing: Floats
    """[T] progress at which the curve first exceeds the task's limit; inf if it never does."""

    def with_limit(
        self,
        task: int,
        points: tuple[tuple[float, float], ...],
        limit_bytes: float | None,
        *,
        x: float,
    ) -> "Curves":
        """Return the curves when one task, of these points and progress `x`, has another limit."""
        crossing = self.crossing.copy()
        crossing[task] = _crossing(points, limit_bytes, since=x)
        return replace(self, crossing=crossing)

    def take(self, kept: "Ints | slice") -> "Curves":
        """Return the curves at some indexes."""
        return Curves(
            x=self.x[kept],
            bytes=self.bytes[kept],
            area=self.area[kept],
            peak=self.peak[kept],
            crossing=self.crossing[kept],
        )


def curve(points: tuple[tuple[float, float], ...], *, limit_bytes: float | None) -> Curves:
    """Return one curve, [1, M]."""
    x = np.array([[x for x, _ in points]], dtype=np.float64)
    amounts = np.array([[amount for _, amount in points]], dtype=np.float64)
    area = np.zeros_like(x)
    area[0, 1:] = np.cumsum((x[0, 1:] - x[0, :-1]) * (amounts[0, 1:] + amounts[0, :-1]) / 2)
    return Curves(
        x=x,
        bytes=amounts,
        area=area,
        peak=amounts.max(axis=1),
        crossing=np.array([_crossing(points, limit_bytes)]),
    )


def _crossing(
    points: tuple[tuple[float, float], ...], limit_bytes: float | None, *, since: float = 0.0
) -> float:
    """Return the first progress, not before `since`, at which the curve is above the limit."""
    if limit_bytes is None:
        return float("inf")
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x1 < since:
            continue
        if x0 < since:
            x0, y0 = since, y0 + (y1 - y0) * (since - x0) / (x1 - x0)
        if y0 > limit_bytes:
            return x0
        if y1 > limit_bytes:
            return x0 + (x1 - x0) * (limit_bytes - y0) / (y1 - y0)
    return float("inf")


def join(parts: list[Curves]) -> Curves:
    """Return all curves below one another, padded to the longest."""
    points = max(part.x.shape[1] for part in parts)
    padded = [_padded(part, points) for part in parts]
    return Curves(
        x=np.concatenate([part.x for part in padded]),
        bytes=np.concatenate([part.bytes for part in padded]),
        area=np.concatenate([part.area for part in padded]),
        peak=np.concatenate([part.peak for part in padded]),
        crossing=np.concatenate([part.crossing for part in padded]),
    )


def _padded(part: Curves, points: int) -> Curves:
    missing = points - part.x.shape[1]
    if not missing:
        return part
    count = len(part.x)
    return Curves(
        x=np.concatenate((part.x, np.full((count, missing), np.inf)), axis=1),
        bytes=np.concatenate((part.bytes, np.repeat(part.bytes[:, -1:], missing, axis=1)), axis=1),
        area=np.concatenate((part.area, np.repeat(part.area[:, -1:], missing, axis=1)), axis=1),
        peak=part.peak,
        crossing=part.crossing,
    )


def none() -> Curves:
    """Return zero curves."""
    empty = np.zeros((0, 2))
    return Curves(x=empty, bytes=empty, area=empty, peak=np.zeros(0), crossing=np.zeros(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What curves say at one progress each; all [T]."""

    bytes: Floats
    slope: Floats
    """Bytes per unit of progress."""
    area: Floats
    """Integral of bytes over progress from 0."""
    next_x: Floats
    """Progress of the next point; inf after the last."""
    point: Floats
    """[3, T] x, bytes and area of the last point that was passed."""

    def take(self, kept: Ints) -> "Values":
        """Return the values at some indexes."""
        return Values(
            bytes=self.bytes[kept],
            slope=self.slope[kept],
            area=self.area[kept],
            next_x=self.next_x[kept],
            point=self.point[:, kept],
        )


def at(curves: Curves, x: Floats) -> Values:
    """Return the values at progress `x` [T]; at a jump, the value after it."""
    tasks = np.arange(len(x))
    before = np.maximum((curves.x <= x[:, None]).sum(axis=1) - 1, 0)
    after = np.minimum(before + 1, curves.x.shape[1] - 1)
    x0, y0 = curves.x[tasks, before], curves.bytes[tasks, before]
    next_x, y1 = curves.x[tasks, after], curves.bytes[tasks, after]
    next_x = np.where(after > before, next_x, np.inf)
    run = next_x - x0
    slope = np.where(np.isfinite(run), (y1 - y0) / np.where(run > 0, run, 1.0), 0.0)
    return _on(np.array((x0, y0, curves.area[tasks, before])), x, slope=slope, next_x=next_x)


def further(curves: Curves, values: Values, x: Floats) -> Values:
    """Return what `at` returns, for progress that is not less than that of `values`."""
    if (x >= values.next_x).any():
        return at(curves, x)
    return _on(values.point, x, slope=values.slope, next_x=values.next_x)


def _on(point: Floats, x: Floats, *, slope: Floats, next_x: Floats) -> Values:
    """Return the values at progress between the last points and the next."""
    x0, y0, area = point
    moved = x - x0
    rise = slope * moved
    return Values(
        bytes=y0 + rise,
        slope=slope,
        area=area + moved * (y0 + rise / 2),
        next_x=next_x,
        point=point,
    )


def peak_between(curves: Curves, before: Floats, after: Floats, *, ends: Floats) -> Floats:
    """Return the largest value [T] of each curve from progress `before` to `after`; `ends` [T] is
    the larger one of both ends."""
    inside = (curves.x > before[:, None]) & (curves.x <= after[:, None])
    highest: Floats = np.where(inside, curves.bytes, 0.0).max(axis=1, initial=0.0)
    return np.asarray(np.maximum(highest, ends), dtype=np.float64)
