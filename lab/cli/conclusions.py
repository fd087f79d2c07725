"""What two arms of one experiment come to: whether it counts, in sentences and as figures.

Headlines are read alone, so whatever stands beside a ratio says what would make it worthless, what
its interval means, and what became worse.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lab import errors
from lab.cli import arms
from lab.reports import comparisons, figures, measurements, results


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What is said of two arms; `found` is None where no workflow succeeded in both."""

    base: measurements.Measurement
    arm: measurements.Measurement
    found: comparisons.Comparison | None
    doubts: tuple[str, ...]
    """Why the ratio does not count; empty where it does."""

    def lines(self, *, remedy: str = "") -> tuple[str, ...]:
        """Return the sentences; the first says that it does not count, where that is so."""
        said = () if self.found is None else _in_words(self.base, self.arm, self.found)
        if not self.doubts:
            return said
        why = "; ".join(self.doubts)
        caution = f"DOES NOT COUNT: {why}" + (f"; {remedy}" if remedy else "")
        return (caution, *(f"not a result: {line}" for line in said[:1]), *said[1:])


def concluded(
    base: measurements.Measurement,
    arm: measurements.Measurement,
    *,
    failures: Sequence[str] = (),
) -> Conclusion:
    """Compare `arm` with `base`; `failures` are further reasons not to count it."""
    reasons = [reason for item in (base, arm) for reason in doubts(item)]
    found = None
    try:
        found = comparisons.compare(base, arm)
    except errors.RunError as error:
        reasons.append(str(error))
    # Both arms have the same data, and say so once.
    unique = tuple(dict.fromkeys((*reasons, *failures)))
    return Conclusion(base=base, arm=arm, found=found, doubts=unique)


def doubts(measured: measurements.Measurement) -> list[str]:
    """Return why the figures of one arm do not count; empty where they do."""
    reasons, arm = [], f"the arm {measured.arm}"
    if not measured.validity.valid:
        # What took how long stands with the arm's own verdict.
        why = "; ".join(reason.partition(": ")[0] for reason in measured.validity.reasons)
        reasons.append(f"{arm} is invalid ({why})")
    if measured.problems:
        reasons.append(f"the records of {arm} do not add up in {len(measured.problems)} places")
    found = measured.figures
    if measured.arm == arms.TIPHYS.name and found.pods_created and not found.pods_decided:
        reasons.append(f"Tiphys decided about none of the pods of {arm}")
    if figures.data(measured) == "sample":
        reasons.append(
            "the workflows are the repository's own sample, which shows how the lab works and "
            "nothing else"
        )
    return reasons


def as_figures(reasons: Sequence[str]) -> dict[str, results.Figure]:
    """Return whether figures count, and why not, as results carry it."""
    return {"counts": not reasons, "does_not_count_because": list(reasons)}


def _in_words(
    base: measurements.Measurement,
    arm: measurements.Measurement,
    found: comparisons.Comparison,
) -> tuple[str, ...]:
    """Return the ratio, what else became better or worse, and what the interval is."""
    low, high = map(comparisons.in_words, found.interval_95)
    ratio = (
        f"{arm.arm} against {base.arm}: mean completion "
        f"{comparisons.in_words(found.mean_completion)} (95 % interval {low} to {high}), "
        f"P95 completion {comparisons.in_words(found.p95_completion)}"
    )
    if found.left_out:
        ratio += f"; {found.left_out} workflows that failed in one or both are left out"
    waits = [_minutes(item.figures.mean_wait_s) for item in (base, arm)]
    change = "" if found.mean_wait is None else f" ({comparisons.in_words(found.mean_wait)})"
    beside = (
        f"mean wait of a pod {waits[0]} by {base.arm}, {waits[1]} by {arm.arm}{change}; "
        f"deadlines missed {base.figures.deadlines_missed} of {base.figures.workflows} by "
        f"{base.arm}, {arm.figures.deadlines_missed} of {arm.figures.workflows} by {arm.arm}"
    )
    interval = (
        "the interval is a paired bootstrap over the workflows of this one run (pairs: "
        f"{found.pairs}), not the spread between runs (several seeds: `make bench-demo`)"
    )
    if base.run == arm.run:
        return ratio, beside, interval
    return (
        ratio,
        beside,
        interval,
        (
            f"{base.run} and {arm.run} have names of their own, and with them noise of their own: "
            "some of the difference is that (docs/results.md)"
        ),
    )


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 60:.1f} simulated min"
