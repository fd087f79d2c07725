"""Two arms of one experiment, workflow by workflow: ratios, and how sure they are.

The arms ran the same workflows with the same truths and the same noise of the run, so each
workflow is compared with itself. The interval is a percentile bootstrap over the pairs (Efron and
Tibshirani, 1993, chapter 13): it says how much the choice of these workflows matters, not how much
another run of the same ones would differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab import errors
from lab.reports import measurements, results

DRAWS = 10_000
SEED = 20_260_101
"""Of the draws: the same two measurements always give the same interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One arm over another; below 1 the arm is quicker."""

    pairs: int
    """Workflows that succeeded in both."""
    left_out: int
    """Workflows that did not, in one or both."""
    mean_completion: float
    interval_95: tuple[float, float]
    """Of `mean_completion`."""
    p95_completion: float
    mean_wait: float | None
    """Of the waits of all pods; None where nobody waited."""
    makespan: float | None


def compare(base: measurements.Measurement, arm: measurements.Measurement) -> Comparison:
    """Return `arm` over `base`; raises `RunError` where no workflow succeeded in both."""
    before, after = _completions(base), _completions(arm)
    both = sorted(before.keys() & after.keys())
    if not both:
        raise errors.RunError(f"no workflow succeeded both by {base.arm} and by {arm.arm}")
    first = np.array([before[key] for key in both])
    second = np.array([after[key] for key in both])
    names = {_key(item, of=each) for each in (base, arm) for item in each.workflows}
    return Comparison(
        pairs=len(both),
        left_out=len(names) - len(both),
        mean_completion=float(second.mean() / first.mean()),
        interval_95=_interval(first, second),
        p95_completion=float(np.percentile(second, 95) / np.percentile(first, 95)),
        mean_wait=_ratio(arm.figures.mean_wait_s, base.figures.mean_wait_s),
        makespan=_ratio(arm.figures.makespan_s, base.figures.makespan_s),
    )


def refuse_different(base: measurements.Measurement, arm: measurements.Measurement) -> None:
    """Raise `UsageError` where two runs are no two arms of one experiment."""
    facts = [
        {
            "mix": each.mix,
            "seed": each.seed,
            "workflows": len(each.workflows),
            "arrivals": each.arrivals,
            "overload": round(each.overload, 4),
            "data": "sample" if each.sample else "pack",
            "cluster": each.cluster,
            "speed": each.speed,
        }
        for each in (base, arm)
    ]
    names = " and ".join(f"{each.run} of lab {each.lab!r}" for each in (base, arm))
    differences = [
        f"{what} {value} and {facts[1][what]}"
        for what, value in facts[0].items()
        if value != facts[1][what]
    ]
    if not differences and base.plans_sha256 != arm.plans_sha256:
        differences = ["other tasks or times of arrival"]
    if differences:
        raise errors.UsageError(
            f"{names} cannot be compared, since they differ in more than the scheduling "
            f"({'; '.join(differences)}): repeat one with the options of the other"
        )
    if base.arm == arm.arm:
        raise errors.UsageError(
            f"{names} are both called {arm.arm!r}: measure one of them again with another --arm"
        )


def figures(found: Comparison, *, prefix: str = "ratio") -> dict[str, results.Figure]:
    """Return a comparison under dotted keys, as results carry it."""
    return {
        f"{prefix}.mean_completion": round(found.mean_completion, 4),
        f"{prefix}.interval_95": [round(end, 4) for end in found.interval_95],
        f"{prefix}.p95_completion": round(found.p95_completion, 4),
        f"{prefix}.mean_wait": None if found.mean_wait is None else round(found.mean_wait, 4),
        f"{prefix}.makespan": None if found.makespan is None else round(found.makespan, 4),
        f"{prefix}.pairs": found.pairs,
        f"{prefix}.left_out": found.left_out,
    }


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of ratios above 0; there must be one at least."""
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def in_words(ratio: float) -> str:
    """Return a ratio as people say it: `-35 %` for 0.65."""
    return f"{(ratio - 1) * 100:+.0f} %"


def _interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of means; both arrays are [pairs], paired."""
    drawn = np.random.default_rng(SEED).integers(len(first), size=(DRAWS, len(first)))
    ratios = second[drawn].mean(axis=1) / first[drawn].mean(axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def _completions(arm: measurements.Measurement) -> dict[tuple[str, str], float]:
    return {
        _key(item, of=arm): item.completion_s
        for item in arm.workflows
        if item.phase == "Succeeded" and item.completion_s
    }


def _key(item: measurements.Workflow, *, of: measurements.Measurement) -> tuple[str, str]:
    """Return what a workflow is called in every run: without the tag, which a lab has once."""
    tag = of.run.removeprefix(f"{of.mix}-")
    return item.namespace, item.name.removeprefix(f"{tag}-")


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None
