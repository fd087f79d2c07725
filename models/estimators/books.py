"""All that history says, ready to be asked: durations, group factors, widths.

A run time is taken as (time of the identity) x (factor of the group) x noise, in logarithms a
two-way table that is fitted by medians (Tukey's median polish, 1977), so that single runs on slow
nodes or with retries do not move it.  Factors are ratios to where runs took place on average: a
group that was never seen counts 1.  Everything is O(rows log rows) to learn and O(1) to ask.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tiphys.models.domain import outlooks, snapshots, workflows
from tiphys.models.estimators import histories

DEFAULT_S = 60.0
"""What a task is taken for of which nothing at all is known."""
DEFAULT_WIDTH = 2.0
"""What a fan-out is taken for where no template was ever seen to fan out."""
KEPT_ROWS = 40
"""Newest rows of an identity and group that count: older ones tell of older inputs and nodes."""
SWEEPS = 5
"""Rounds of the polish; the factors move by less than 1 % after the third (tests)."""
GROUP_PRIOR = 4.0
"""Rows that weigh as much as the belief that a group's factor is 1."""
OWN_PRIOR = 4.0
"""Rows in a group that weigh as much as the belief that an identity has the group's factor."""
ATTEMPT_ROWS = 3
"""Rows of later attempts from which on they have an estimate of their own."""
SLOPE_ROWS = 6
"""Rows with visible input sizes from which on run time is scaled by them."""
STEEPEST = 1.2
"""Largest exponent of input size: beyond it chance speaks."""
FARTHEST = 8.0
"""Most that an input may be off the known ones, as a ratio, before the scale stops to follow."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of one identity."""

    estimate: snapshots.Estimate
    retries: snapshots.Estimate | None = None
    """Of attempts after the first, where there are enough."""
    factors: tuple[tuple[str, float], ...] = ()
    """By group, sorted; only groups that it was seen in."""
    width: float | None = None
    """Median number of such tasks in one run."""
    exponent: float = 0.0
    """Run time goes with input size to this power."""
    input_bytes: float = 0.0
    """Median of the input sizes seen."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Everything learned; an empty one answers with defaults."""

    entries: Mapping[workflows.Identity, Entry] = dataclasses.field(default_factory=dict)
    group_factors: tuple[tuple[str, float], ...] = ()
    """By group, sorted, over all identities."""
    by_source: Mapping[str, snapshots.Estimate] = dataclasses.field(default_factory=dict)
    by_image: Mapping[str, snapshots.Estimate] = dataclasses.field(default_factory=dict)
    by_template: Mapping[str, snapshots.Estimate] = dataclasses.field(default_factory=dict)
    default_s: float = DEFAULT_S
    """Median over identities, or DEFAULT_S."""
    default_width: float = DEFAULT_WIDTH

    def estimate(
        self,
        identity: workflows.Identity | None,
        *,
        attempt: int = 0,
        input_bytes: int | None = None,
    ) -> snapshots.Estimate:
        """Return the run time at speed 1: of its own, of siblings, or the default, marked so.

        Siblings: the same image, then the same template name elsewhere, then other templates of the
        same source.
        """
        if identity is None:
            return snapshots.Estimate(centre_s=self.default_s)
        entry = self.entries.get(identity)
        if entry is not None:
            found = entry.retries if attempt and entry.retries else entry.estimate
            return _scaled(found, entry, input_bytes)
        for known, key in (
            (self.by_image, identity.image),
            (self.by_template, identity.template),
            (self.by_source, identity.source),
        ):
            if key and key in known:
                return known[key]
        return snapshots.Estimate(centre_s=self.default_s)

    def factors(self, identity: workflows.Identity | None) -> tuple[tuple[str, float], ...]:
        """Return the factors of the groups in which an identity was seen, for `Waiting`."""
        entry = self.entries.get(identity) if identity is not None else None
        return () if entry is None else entry.factors

    def width(self, identity: workflows.Identity | None) -> float:
        """Return how many such tasks a run has, for fan-outs that are not known yet."""
        entry = self.entries.get(identity) if identity is not None else None
        known = entry.width if entry is not None else None
        return self.default_width if known is None else known


def residual_s(estimate: snapshots.Estimate, factor: float, elapsed_s: float) -> float:
    """Return the expected rest of a run that has lasted `elapsed_s`, in seconds."""
    return outlooks.rest_s(estimate.centre_s * factor, elapsed_s)


def learn(rows: Iterable[histories.Row]) -> Book:
    """Return the book of some history; the order of the rows does not matter."""
    ordered = sorted(rows, key=lambda row: (row.ended_at, str(row.identity), row.duration_s))
    widths = histories.widths(ordered)
    cells: defaultdict[workflows.Identity, defaultdict[str, list[histories.Row]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in ordered:
        if row.duration_s > 0 and not row.failed:
            cells[row.identity][row.group].append(row)
    exponents = {identity: _exponent(by_group) for identity, by_group in cells.items()}
    logs = {
        identity: {
            group: [_log(row, *exponents[identity]) for row in kept[-KEPT_ROWS:]]
            for group, kept in by_group.items()
        }
        for identity, by_group in cells.items()
    }
    groups = _polish(logs)
    entries = {
        identity: _entry(
            identity,
            cells[identity],
            by_group,
            groups=groups,
            exponent=exponents[identity],
            width=widths.get(identity),
        )
        for identity, by_group in logs.items()
    }
    centres = [entry.estimate.centre_s for entry in entries.values()]
    fanned = [width for width in widths.values() if width > 1]
    return Book(
        entries=entries,
        group_factors=tuple(
            (group, math.exp(value)) for group, value in sorted(groups.items()) if group
        ),
        by_source=_siblings(entries, "source"),
        by_image=_siblings(entries, "image"),
        by_template=_siblings(entries, "template"),
        default_s=histories.spread(centres).centre if centres else DEFAULT_S,
        default_width=histories.spread(fanned).centre if fanned else DEFAULT_WIDTH,
    )


Logs = dict[workflows.Identity, dict[str, list[float]]]


def _exponent(by_group: Mapping[str, list[histories.Row]]) -> tuple[float, float]:
    """Return (power of input size, median input size); 0 where sizes are not seen or too few."""
    points: list[tuple[float, float]] = []
    sizes: list[float] = []
    for rows in by_group.values():
        seen = [(row.input_bytes, row.duration_s) for row in rows if row.input_bytes]
        if seen:
            middle = histories.spread([math.log(duration_s) for _, duration_s in seen]).centre
            points += [(math.log(size), math.log(time_s) - middle) for size, time_s in seen]
            sizes += [float(size) for size, _ in seen]
    if len(points) < SLOPE_ROWS:
        return 0.0, 0.0
    return min(max(histories.slope(points), 0.0), STEEPEST), histories.spread(sizes).centre


def _log(row: histories.Row, exponent: float, input_bytes: float) -> float:
    """Return the logarithm of a run time, as if its input had the usual size."""
    value = math.log(row.duration_s)
    if exponent and row.input_bytes:
        value -= exponent * math.log(row.input_bytes / input_bytes)
    return value


def _polish(logs: Logs) -> dict[str, float]:
    """Return the factor of each group as a logarithm."""
    cells = {
        identity: {
            group: (histories.spread(values).centre, float(len(values)))
            for group, values in by_group.items()
        }
        for identity, by_group in logs.items()
    }
    names = sorted({group for by_group in cells.values() for group in by_group})
    groups = dict.fromkeys(names, 0.0)
    levels: dict[workflows.Identity, float] = {}
    for _ in range(SWEEPS):
        for identity, by_group in cells.items():
            levels[identity] = histories.weighted_median(
                (value - groups[group], count) for group, (value, count) in by_group.items()
            )
        found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for identity, by_group in cells.items():
            if len(by_group) > 1:
                for group, (value, count) in by_group.items():
                    found[group].append((value - levels[identity], count))
        for group in names:
            weight = sum(count for _, count in found[group])
            if group and weight:
                raw = histories.weighted_median(found[group])
                groups[group] = raw * weight / (weight + GROUP_PRIOR)
        total = sum(count for by in cells.values() for _, count in by.values())
        mean = (
            sum(groups[group] * count for by in cells.values() for group, (_, count) in by.items())
            / total
            if total
            else 0.0
        )
        groups = {group: value - mean if group else 0.0 for group, value in groups.items()}
    return groups


def _entry(
    identity: workflows.Identity,
    rows: Mapping[str, list[histories.Row]],
    by_group: Mapping[str, list[float]],
    *,
    groups: Mapping[str, float],
    exponent: tuple[float, float],
    width: float | None,
) -> Entry:
    level = [value - groups[group] for group, values in by_group.items() for value in values]
    centre = histories.spread(level).centre
    factors = []
    for group, values in sorted(by_group.items()):
        if group:
            count = len(values)
            own = histories.spread(values).centre - centre
            mixed = (own * count + groups[group] * OWN_PRIOR) / (count + OWN_PRIOR)
            factors.append((group, math.exp(mixed)))
    later = [
        _log(row, *exponent) - groups[group]
        for group, kept in rows.items()
        for row in kept[-KEPT_ROWS:]
        if row.attempt
    ]
    return Entry(
        estimate=_estimate(level),
        retries=_estimate(later) if len(later) >= ATTEMPT_ROWS else None,
        factors=tuple(factors),
        width=width,
        exponent=exponent[0],
        input_bytes=exponent[1],
    )


def _estimate(level: list[float], basis: str = "history") -> snapshots.Estimate:
    found = histories.spread([math.exp(value) for value in level])
    return snapshots.Estimate(
        centre_s=found.centre, spread_s=found.half_quartiles, count=found.count, basis=basis
    )


def _siblings(
    entries: Mapping[workflows.Identity, Entry], by: str
) -> dict[str, snapshots.Estimate]:
    """Return the median over identities that share a part of their identity."""
    centres: defaultdict[str, list[float]] = defaultdict(list)
    for identity, entry in entries.items():
        centres[getattr(identity, by)].append(math.log(entry.estimate.centre_s))
    return {key: _estimate(values, basis="siblings") for key, values in centres.items() if key}


def _scaled(
    estimate: snapshots.Estimate, entry: Entry, input_bytes: int | None
) -> snapshots.Estimate:
    if not entry.exponent or not input_bytes or not entry.input_bytes:
        return estimate
    ratio = min(max(input_bytes / entry.input_bytes, 1 / FARTHEST), FARTHEST)
    factor = ratio**entry.exponent
    return dataclasses.replace(
        estimate, centre_s=estimate.centre_s * factor, spread_s=estimate.spread_s * factor
    )
