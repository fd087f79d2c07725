"""`lab demo`: 16 genomics workflows by kube-scheduler alone, then with Tiphys; a table and a page.

It does what a person would type (`up`, `install`, one annotation, `run`, `measure`, `down`)
through the same commands, and says so. Each arm has a lab of its own, with the same workflows in
it. The labs are bound to this process: whatever ends it ends them.
"""

import contextlib
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click import core

from lab import errors
from lab.cli import arms, conclusions, measures, options, remedies, workloads
from lab.reports import comparisons, figures, measurements, pages, results
from lab.workloads import packs

LAB = "demo"
MIX = "genomics"
CLUSTER = "mixed"
STEPS = 3
WORKFLOWS = 16
OVERLOAD = 1.5
SPEED = 15.0
"""At 20 it takes 100 s less, and a create of a steered pod is too slow for that on every other day
of two shared cores."""
LIMIT_WALL_S = 600.0
"""After this a run of this size is given up; it takes a third of it on two cores."""


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say what an interruption leaves; an arm has taken its lab down, or the lab ends with us."""
    try:
        yield
    except (KeyboardInterrupt, click.exceptions.Abort):
        raise click.exceptions.Abort(
            "nothing stays running, and the same command starts anew"
        ) from None


@click.command()
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--workflows", type=click.IntRange(1), default=WORKFLOWS, show_default=True)
@click.option(
    "--overload", type=click.FloatRange(0, min_open=True), default=OVERLOAD, show_default=True
)
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=SPEED,
    show_default=True,
    help="Simulated seconds per second.",
)
@options.kubernetes
@workloads.data
@measures.into
@click.pass_context
@_explained()
def demo(
    ctx: click.Context,
    seed: int,
    workflows: int,
    overload: float,
    speed: float,
    kubernetes: str,
    data: Path | None,
    into: Path | None,
) -> None:
    """Run the demonstration from start to end; it leaves figures and a page, and no process."""
    started = time.monotonic()
    folder = measures.folder(into)
    arms.prepare(LAB, into=folder, data=data)
    load = arms.Load(
        mix=MIX,
        cluster=CLUSTER,
        workflows=workflows,
        seed=seed,
        overload=overload,
        speed=speed,
        limit_wall_s=limit_wall_s(workflows, overload=overload, speed=speed),
        data=data,
    )
    _say(1, f"{workflows} {MIX} workflows, {overload:g} times what the cluster can do: default")
    base = arms.run(ctx, arms.DEFAULT, load, name=LAB, kubernetes=kubernetes)
    _say(2, "the same workflows in an equal cluster: Tiphys, by one annotation on each namespace")
    steered = arms.run(ctx, arms.TIPHYS, load, name=LAB, kubernetes=kubernetes)
    _say(3, "what the API server and the kubelet wrote down about both")
    ended = (base, steered)
    measured = [item.measured for item in ended]
    for item in measured:
        measurements.write(folder / f"{LAB}-{item.run}-{item.arm}.json", item)
    concluded = conclusions.concluded(
        *measured, failures=[failure for each in ended if (failure := _failure(each))]
    )
    helps = [
        packs.POINT_TO_A_PACK if figures.data(base.measured) == "sample" else "",
        _slower(ctx, measured, elapsed_s=time.monotonic() - started),
    ]
    said = concluded.lines(remedy="; ".join(filter(None, helps)))
    page_path = folder / f"{LAB}-{measured[0].run}.html"
    pages.write(page_path, measured, notes=said, alarm=bool(concluded.doubts))
    total_wall_s = time.monotonic() - started
    results_path = results.write(
        "demo",
        seed=seed,
        speed=speed,
        data=figures.data(base.measured),
        figures={
            **conclusions.as_figures(concluded.doubts),
            **figures.of_arms(measured),
            **(comparisons.figures(concluded.found) if concluded.found else {}),
            "tiphys.gates_opened": sum(steered.opened.values()),
            "tiphys.opened_by_timeout": steered.opened_by_timeout,
            "total_wall_s": total_wall_s,
        },
    )
    measures.show(measured)
    measures.show_conclusion(concluded, said)
    click.echo(f"results  {results_path}\npage     {page_path}")
    click.echo(f"done in {total_wall_s:.0f} s; open the page in a browser")
    for each in ended:
        measures.check(each.measured)
        _check_failures(each)


def limit_wall_s(workflows: int, *, overload: float, speed: float) -> float:
    """Return the wall seconds after which a run is given up: more work or slower time, later."""
    size = max(1.0, workflows / WORKFLOWS) * max(1.0, OVERLOAD / overload)
    return LIMIT_WALL_S * size * max(1.0, SPEED / speed)


def _slower(
    ctx: click.Context, measured: Sequence[measurements.Measurement], *, elapsed_s: float
) -> str:
    """Return what to do where time ran too fast for an arm; empty where it did not."""
    speeds = [speed for item in measured if (speed := remedies.slower(item))]
    if not speeds:
        return ""
    wall_s = remedies.expected_wall_s(measured, speed=min(speeds))
    if wall_s is not None:
        # Labs start and end as quickly at any speed.
        wall_s += max(0.0, elapsed_s - sum(item.figures.wall_s or 0.0 for item in measured))
    if wall_s is None or wall_s > remedies.LONGEST_WALL_S:
        return remedies.freed(wall_s)
    arguments = ["--speed", f"{min(speeds):g}"]
    for option in ctx.command.params:
        name = option.name or ""
        # KUBERNETES=… of make comes by the environment.
        given = ctx.get_parameter_source(name) is not core.ParameterSource.DEFAULT
        if given and name != "speed":
            arguments += [option.opts[0], str(ctx.params[name])]
    return (
        "this machine is too slow or too busy: free it of other work, or repeat with "
        f'`make demo ARGS="{shlex.join(arguments)}"`, {remedies.in_words(wall_s)}'
    )


def _check_failures(ended: arms.Ended) -> None:
    """Raise the run's error, unless all that failed was killed for memory too small.

    People ask for too little memory now and then (the mix draws it so); a workflow that ran out of
    retries by it is a finding about requests. Any other failure is one of the lab.
    """
    if failure := _failure(ended):
        raise errors.RunError(failure)
    for item in _failed(ended):
        click.echo(
            f"{ended.measured.arm}: {item.namespace}/{item.name} failed: its requests were too "
            "small for it"
        )


def _failure(ended: arms.Ended) -> str:
    """Return the run's error where it is one of the lab; empty where requests were too small."""
    failed = _failed(ended)
    if ended.failure and not (failed and all(item.oom_kills for item in failed)):
        return f"{ended.measured.arm}: {ended.failure}"
    return ""


def _failed(ended: arms.Ended) -> list[measurements.Workflow]:
    return [item for item in ended.measured.workflows if item.phase != "Succeeded"]


def _say(step: int, what: str) -> None:
    click.secho(f"[{step}/{STEPS}] {what}", bold=True)
