"""`lab demo`: a lab, 16 genomics workflows on it, a table and a page, and the lab down again.

It does what a person would type (`up`, `run`, `measure`, `down`) through the same commands, and
says so. The lab is bound to this process: whatever ends it ends the lab.
"""

import os
import time
from pathlib import Path

import click

from lab import errors, homes
from lab.cli import clusters, measures, options, runs
from lab.controlplane import labs, states
from lab.reports import figures, measurements, results, sources

LAB = "demo"
ARM = "default"
MIX = "genomics"
CLUSTER = "mixed"
STEPS = 4
LIMIT_WALL_S = 600.0
"""After this the run is given up; it takes a third of it on two cores."""


@click.command()
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--workflows", type=click.IntRange(1), default=16, show_default=True)
@click.option("--overload", type=click.FloatRange(0, min_open=True), default=1.5, show_default=True)
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Simulated seconds per second.",
)
@options.kubernetes
@measures.into
@click.pass_context
def demo(
    ctx: click.Context,
    seed: int,
    workflows: int,
    overload: float,
    speed: float,
    kubernetes: str,
    into: Path | None,
) -> None:
    """Run the demonstration from start to end; it leaves figures and a page, and no process."""
    started = time.monotonic()
    home = homes.home(LAB)
    _refuse_running(home)
    try:
        _say(1, f"a lab with the cluster {CLUSTER!r}: real control plane, simulated nodes")
        ctx.invoke(
            clusters.up,
            name=LAB,
            cluster=CLUSTER,
            speed=speed,
            kubernetes=kubernetes,
            owner_pid=os.getpid(),
        )
        _say(2, f"{workflows} {MIX} workflows, {overload:g} times what the cluster can do")
        failure = _run(ctx, workflows=workflows, seed=seed, overload=overload)
        _say(3, "what the API server and the kubelet wrote down about it")
        measured = figures.measure(sources.load(home), arm=ARM)
    finally:
        _say(4, "the lab down")
        labs.down(home)
    _, page_path = measures.written(measured, into=into)
    results_path = results.write(
        "demo", seed=seed, speed=speed, figures=figures.of_arms([measured])
    )
    measures.show([measured])
    click.echo(f"results  {results_path}\npage     {page_path}")
    click.echo(f"done in {time.monotonic() - started:.0f} s; open the page in a browser")
    if slow := measures.slower(measured):
        click.echo(
            "this machine is too slow or too busy for these figures to count: repeat with "
            f'`make demo ARGS="--speed {slow:g}"`'
        )
    measures.check(measured)
    _check_failures(measured, failure)


def _run(
    ctx: click.Context, *, workflows: int, seed: int, overload: float
) -> errors.RunError | None:
    """Run the workload; a run that ended badly is measured too, and its error comes back."""
    try:
        ctx.invoke(
            runs.run,
            mix=MIX,
            lab=LAB,
            workflows=workflows,
            seed=seed,
            overload=overload,
            limit_wall_s=LIMIT_WALL_S,
        )
    except errors.RunError as error:
        return error
    return None


def _check_failures(measured: measurements.Measurement, failure: errors.RunError | None) -> None:
    """Raise the run's error, unless all that failed was killed for memory too small.

    People ask for too little memory now and then (the mix draws it so); a workflow that ran out of
    retries by it is a finding about requests. Any other failure is one of the lab.
    """
    failed = [item for item in measured.workflows if item.phase != "Succeeded"]
    if failure and not (failed and all(item.oom_kills for item in failed)):
        raise failure
    for item in failed:
        click.echo(f"{item.namespace}/{item.name} failed: its requests were too small for it")


def _refuse_running(home: homes.Home) -> None:
    """Another demo's lab is not ours to use, and less so to take down."""
    state = states.read(home)
    if state is not None and state.running:
        raise errors.UsageError(
            f"lab {LAB!r} runs already, so another demo may be under way: wait for it, or end it "
            f"with `python -m lab down --name {LAB}`"
        )


def _say(step: int, what: str) -> None:
    click.secho(f"[{step}/{STEPS}] {what}", bold=True)
