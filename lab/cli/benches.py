"""`lab bench-demo`: default, gates in the order of arrival, and Tiphys, over loads and seeds.

Three arms with equal requests, three loads, as many seeds as asked for; 40 workflows each. Before
Tiphys is measured it sees one warm-up pass with another seed and another mix of inputs, so that
durations are estimated from history, not known, and some templates occur in the measured pass
alone. One seed runs at a speed of 5 at most: the control plane is no quicker when time is.

All of it takes hours and can be done in parts: `--go-on` keeps what the same commit has measured.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import click

from lab.cli import arms, measures, options, workloads
from lab.reports import comparisons, figures, measurements, pages, results
from lab.workloads import packs

LAB = "bench"
MIX = "genomics"
CLUSTER = "mixed"
LOADS = {"overloaded": 1.5, "moderate": 0.8, "light": 0.3}
ARMS = (arms.DEFAULT, arms.FIFO_GATES, arms.TIPHYS)
WARM_UP_SEED = 1000
"""Added to a seed for its warm-up pass."""
SLOW_SPEED = 5.0
LIMIT_WALL_S = 7200.0

RATIOS = (
    "equal_requests.mean_completion",
    "equal_requests.mean_completion_upper",
    "equal_requests.p95_completion",
    "fifo_gates.mean_completion",
    "opened_by_timeout",
)
Row = dict[str, results.Scalar]


@click.command("bench-demo")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--first-seed", type=int, default=1, show_default=True)
@click.option("--workflows", type=click.IntRange(1), default=40, show_default=True)
@click.option(
    "--warm-up",
    "warm_up_workflows",
    type=click.IntRange(0),
    default=16,
    show_default=True,
    help="Workflows of the warm-up pass; 0 for none.",
)
@click.option(
    "--load",
    "loads",
    multiple=True,
    type=click.Choice(list(LOADS)),
    help="Only these loads; several times for several.  [default: all]",
)
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Simulated seconds per second, for all seeds but the last.",
)
@click.option(
    "--slow-speed",
    type=click.FloatRange(0, min_open=True, max=SLOW_SPEED),
    default=SLOW_SPEED,
    show_default=True,
    help="The same for the last seed.",
)
@click.option(
    "--go-on",
    is_flag=True,
    help="Keep what demo_seeds.json has of this commit, and measure only what it lacks.",
)
@options.kubernetes
@workloads.data
@measures.into
@click.pass_context
def bench_demo(
    ctx: click.Context,
    seeds: int,
    first_seed: int,
    workflows: int,
    warm_up_workflows: int,
    loads: Sequence[str],
    speed: float,
    slow_speed: float,
    go_on: bool,
    kubernetes: str,
    data: Path | None,
    into: Path | None,
) -> None:
    """Measure what Tiphys gains, over loads and seeds; hours on two cores."""
    started = time.monotonic()
    folder = measures.folder(into)
    arms.prepare(LAB, into=folder, data=data)
    chosen = {name: LOADS[name] for name in loads or LOADS}
    asked: dict[str, results.Scalar] = {
        "workflows": workflows,
        "warm_up": warm_up_workflows,
        "kubernetes": kubernetes,
    }
    source = packs.find(data).kind
    ratios, runs = _kept(asked, data=source) if go_on else ([], [])
    path: Path | None = None
    for seed in range(first_seed, first_seed + seeds):
        slow = seeds > 1 and seed == first_seed + seeds - 1
        for name, overload in chosen.items():
            load = arms.Load(
                mix=MIX,
                cluster=CLUSTER,
                workflows=workflows,
                seed=seed,
                overload=overload,
                speed=min(speed, slow_speed) if slow else speed,
                limit_wall_s=LIMIT_WALL_S,
                data=data,
            )
            if any(_about(row) == (name, load.seed, load.speed) for row in ratios):
                click.echo(f"{name}, seed {seed}: measured before, kept")
                continue
            ended = _measured(ctx, load, kubernetes=kubernetes, warm_up=warm_up_workflows)
            _written(folder, name, ended)
            runs += [_row(name, load, item) for item in ended.values()]
            found = _ratios(ended)
            ratios.append({"load": name, "seed": seed, "speed": load.speed, **found})
            # What is measured so far stands there, whatever ends the rest.
            path = results.write(
                "demo_seeds",
                seed=first_seed,
                speed=speed,
                data=source,
                figures={**asked, **_figures(ratios, runs)},
            )
            click.echo(f"{name}, seed {seed}: {_said(found, ended)}")
    if path is None:
        click.echo("nothing is left to measure")
    else:
        click.echo(f"results  {path}\ndone in {(time.monotonic() - started) / 60:.0f} min")


def _kept(asked: Mapping[str, results.Scalar], *, data: str) -> tuple[list[Row], list[Row]]:
    """Return ratios and runs that count, of an earlier part of the same measurement."""
    kept = results.read("demo_seeds")
    same = {**asked, "git": results.git(), "data": data}
    if any(kept.get(key) != value for key, value in same.items()):
        return [], []
    ratios, runs = (cast(list[Row], kept.get(key, [])) for key in ("ratios", "runs"))
    doubtful = {_about(row) for row in runs if _doubtful(row)}
    return (
        [row for row in ratios if _about(row) not in doubtful],
        [row for row in runs if _about(row) not in doubtful],
    )


def _about(row: Mapping[str, results.Scalar]) -> tuple[results.Scalar, ...]:
    return row["load"], row["seed"], row["speed"]


def _doubtful(row: Mapping[str, results.Scalar]) -> bool:
    return not row["valid"] or bool(row["problems"])


def _measured(
    ctx: click.Context, load: arms.Load, *, kubernetes: str, warm_up: int
) -> dict[str, arms.Ended]:
    """Run every arm once under one load with one seed."""
    ended = {}
    for arm in ARMS:
        before = None
        if arm is arms.TIPHYS and warm_up:
            before = arms.Load(
                mix=load.mix,
                cluster=load.cluster,
                workflows=warm_up,
                seed=load.seed + WARM_UP_SEED,
                overload=1.0,
                speed=load.speed,
                limit_wall_s=LIMIT_WALL_S,
                data=load.data,
            )
        click.secho(f"{arm.name}: overload {load.overload:g}, seed {load.seed}", bold=True)
        ended[arm.name] = arms.run(ctx, arm, load, name=LAB, kubernetes=kubernetes, warm_up=before)
    return ended


def _ratios(ended: Mapping[str, arms.Ended]) -> dict[str, float]:
    """Return what the figures are geometric means of, for one load and one seed."""
    base = ended["default"].measured
    steered = comparisons.compare(base, ended["tiphys"].measured)
    gates = comparisons.compare(base, ended["fifo_gates"].measured)
    ratios = {
        "equal_requests.mean_completion": steered.mean_completion,
        "equal_requests.mean_completion_upper": steered.interval_95[1],
        "equal_requests.p95_completion": steered.p95_completion,
        "fifo_gates.mean_completion": gates.mean_completion,
    }
    if (share := ended["tiphys"].opened_by_timeout) is not None:
        ratios["opened_by_timeout"] = share
    return ratios


def _figures(ratios: Sequence[Row], runs: Sequence[Row]) -> dict[str, results.Figure]:
    """Return the geometric means of ratios over seeds, and the mean of the share of time-outs."""
    figures: dict[str, results.Figure] = {}
    for load in dict.fromkeys(row["load"] for row in ratios):
        rows = [row for row in ratios if row["load"] == load]
        for key in RATIOS:
            values = [float(row[key]) for row in rows if row.get(key) is not None]  # type: ignore[arg-type]
            if values:
                share = key == "opened_by_timeout"
                mean = sum(values) / len(values) if share else comparisons.geometric_mean(values)
                figures[f"{load}.{key}"] = round(mean, 4)
        figures[f"{load}.seeds"] = len(rows)
        figures[f"{load}.doubtful_runs"] = sum(
            _doubtful(row) for row in runs if row["load"] == load
        )
    return {**figures, "ratios": [dict(row) for row in ratios], "runs": [dict(row) for row in runs]}


def _row(load: str, asked: arms.Load, ended: arms.Ended) -> dict[str, results.Scalar]:
    """Return one run in one flat object."""
    found = ended.measured.figures
    share = ended.opened_by_timeout
    return {
        "load": load,
        "seed": asked.seed,
        "speed": asked.speed,
        "arm": ended.measured.arm,
        "succeeded": found.succeeded,
        "failed": found.failed,
        "mean_completion_s": _rounded(found.mean_completion_s),
        "p95_completion_s": _rounded(found.p95_completion_s),
        "mean_wait_s": _rounded(found.mean_wait_s),
        "makespan_s": _rounded(found.makespan_s),
        "gates_opened": sum(ended.opened.values()),
        "opened_by_timeout": None if share is None else round(share, 4),
        "valid": ended.measured.validity.valid,
        "problems": len(ended.measured.problems),
    }


def _written(folder: Path, load: str, ended: Mapping[str, arms.Ended]) -> None:
    """Write each arm's measurement, and one page with all of them."""
    measured = [item.measured for item in ended.values()]
    stem = f"{LAB}-{load}-{measured[0].run}"
    for item in measured:
        measurements.write(folder / f"{stem}-{item.arm}.json", item)
    pages.write(folder / f"{stem}.html", measured)


def _said(ratios: Mapping[str, float], ended: Mapping[str, arms.Ended]) -> str:
    """Return what one load and seed came to; what does not count says so."""
    doubtful = [
        name
        for name, item in ended.items()
        if not item.measured.validity.valid or item.measured.problems
    ]
    caution = f"does not count ({', '.join(doubtful)} ran INVALID): " if doubtful else ""
    if figures.data(ended["default"].measured) == "sample":
        caution = f"{packs.SAMPLE_TITLE}; {caution}"
    mean = comparisons.in_words(ratios["equal_requests.mean_completion"])
    p95 = comparisons.in_words(ratios["equal_requests.p95_completion"])
    gates = comparisons.in_words(ratios["fifo_gates.mean_completion"])
    return f"{caution}mean completion {mean}, P95 {p95}; mere gates {gates}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
