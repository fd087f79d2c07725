"""`lab run`: submit a mix to a running lab as its users would, and wait for the end."""

import asyncio
import contextlib
import shlex
import signal
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from lab import catalogs, errors, homes
from lab.cli import options, turns, workloads
from lab.controlplane import processes, states
from lab.workloads import manifests, mixes, packs, plans, runs, submissions, summaries

LIMIT = "--limit"
LIMIT_WALL_S = 1800.0
LINE_EVERY_WALL_S = 5.0
"""Without a terminal a line is printed this often."""
CLEARS = "interrupted: deleting the run's workflows (again: leave them)"
LEAVES = "interrupted: the lab ends with this command, and what was submitted with it"


@click.command(epilog=workloads.EXPLAINED)
@click.argument("mix")
@options.lab("--name", "--lab", "-n", "lab")
@workloads.options
@click.option("--tag", help="Beginning of the workflows' names.  [default: sSEED, then sSEEDb, …]")
@click.option(
    LIMIT,
    "limit_wall_s",
    type=click.FloatRange(1),
    metavar="WALL_S",
    default=LIMIT_WALL_S,
    show_default=True,
    help="Wall seconds (not simulated ones) after which the run is given up.",
)
def run(mix: str, lab: str, tag: str | None, limit_wall_s: float, **chosen: Any) -> None:
    """Submit the workflows of a MIX at their times and wait until all have ended."""
    home = homes.home(lab)
    asked = states.load(home).asked
    with turns.taken(home, f"a run of {mix}"):
        ended = _run(mix, home=home, asked=asked, tag=tag, limit_wall_s=limit_wall_s, chosen=chosen)
    phases = [item.phase for item in ended.workflows]
    wall_s = (ended.ended_at or 0.0) - ended.started_at
    click.echo(
        f"{phases.count('Succeeded')} of {len(phases)} workflows succeeded; {ended.pods_created} "
        f"pods created, {ended.pods_ended} ended; {wall_s:,.0f} s; "
        f"record {runs.path(home, ended.run)}"
    )
    failed = [item for item in ended.workflows if item.phase != "Succeeded"]
    if failed and not mixes.find(mix).may_fail:
        first = failed[0]
        raise errors.RunError(
            f"{len(failed)} of {len(phases)} workflows did not succeed, first "
            f"{first.namespace}/{first.name}: {first.phase} {first.message}".rstrip()
        )


def _run(
    mix: str,
    *,
    home: homes.Home,
    asked: states.Asked,
    tag: str | None,
    limit_wall_s: float,
    chosen: dict[str, Any],
) -> runs.RunRecord:
    """Make the workload, submit it, show how it goes, and return the record of its end."""
    speed = asked.speed
    lab_stays = asked.owner != processes.current()  # ours ends with us
    for name in killed(home):
        click.echo(
            f"note: run {name} was killed, so what it submitted may still be in the lab and in the "
            f"way: `kubectl delete workflows -A -l {manifests.RUN_LABEL}={name}` removes it",
            err=True,
        )
    cluster = catalogs.load(str(home.cluster))
    tag = tag or free_tag(home, chosen["seed"])
    made = workloads.generated(mix, cluster=cluster, tag=tag, **chosen)
    console = Console()
    if made.sample:
        click.echo(packs.SAMPLE_NOTE)
    record = described(
        made,
        home=home,
        cluster=cluster,
        speed=speed,
        command=shlex.join(_command(mix, lab=home.name, limit_wall_s=limit_wall_s, chosen=chosen)),
        arrivals=chosen["kind"] or mixes.find(mix).arrivals,
        tag=tag,
    )
    record = submissions.prepared(home, made, record)
    click.echo(
        f"run {record.run}: {len(made.workflows)} workflows, {len(made.truths)} pods, arriving "
        f"over {made.window_s:,.0f} simulated seconds ({made.window_s / speed:,.0f} s)"
    )
    with _shown(console) as show:
        whole = submissions.Run(
            home,
            made,
            record,
            show=show,
            check_lab=lambda: _check_runs(home),
            lab_stays=lab_stays,
        )
        work = whole.complete(limit_wall_s=limit_wall_s)
        return asyncio.run(_interruptible(work, said=CLEARS if lab_stays else LEAVES))


def described(
    made: plans.Workload,
    *,
    home: homes.Home,
    cluster: catalogs.Cluster,
    speed: float,
    command: str,
    arrivals: str,
    tag: str,
) -> runs.RunRecord:
    """Return the record of a run before it starts."""
    return runs.RunRecord(
        run=f"{made.mix}-{tag}",
        command=command,
        lab=home.name,
        mix=made.mix,
        seed=made.seed,
        arrivals=arrivals,
        window_s=made.window_s,
        overload=summaries.offered_load(made, cluster),
        requested_load=summaries.requested_load(made, cluster),
        held_out=made.held_out,
        sample=made.sample,
        cluster=cluster.name,
        cores=sum(group.cores for _, group in cluster.nodes),
        speed=speed,
        plans_sha256=mixes.plans_sha256(made),
        truths_sha256="",
        started_at=time.time(),
        workflows=tuple(
            runs.WorkflowRun(
                namespace=plan.namespace,
                name=plan.name,
                family=plan.family,
                source=plan.source,
                tasks=len(plan.pods),
                depth=plan.depth,
                work_core_s=part.used_core_s,
                critical_path_s=plan.critical_path_s,
                deadline_s=plan.deadline_s,
                arrival_s=plan.arrival_s,
            )
            for plan, part in summaries.by_workflow(made)
        ),
    )


def killed(home: homes.Home) -> list[str]:
    """Return the runs whose record says that they go on; whoever has the turn knows better."""
    records = [runs.read(runs.path(home, name)) for name in runs.names(home)]
    return [record.run for record in records if record.outcome == "running"]


def free_tag(home: homes.Home, seed: int) -> str:
    """Return `sSEED`, or with a letter where runs of this lab have used it already."""
    used = {name.partition("-")[2] for name in runs.names(home)}
    candidates = [f"s{seed}", *(f"s{seed}{letter}" for letter in "bcdefghijklmnopqrstuvwxyz")]
    for tag in candidates:
        if tag not in used:
            return tag
    raise errors.UsageError(
        f"lab {home.name!r} has run seed {seed} {len(candidates)} times: choose a --tag of your own"
    )


async def _interruptible(
    run: Coroutine[None, None, runs.RunRecord], *, said: str
) -> runs.RunRecord:
    """Run to the end; the first Ctrl-C or SIGTERM clears the run away, a second one is at once."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(run)

    def stop() -> None:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)
        click.echo(said, err=True)
        work.cancel()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop)
    try:
        return await work
    except asyncio.CancelledError:
        raise click.exceptions.Abort from None


def _check_runs(home: homes.Home) -> None:
    """Raise `RunError` where the lab does not run any more."""
    try:
        states.load(home)
    except errors.LabError as error:
        raise errors.RunError(f"the lab ended during the run: {error}") from error


@contextlib.contextmanager
def _shown(console: Console) -> Iterator[submissions.Show]:
    """Yield what shows progress: a live line on a terminal, else a line now and then."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda progress: live.update(_table(progress))
        return
    last = 0.0

    def lines(progress: submissions.Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY_WALL_S:
            last = time.monotonic()
            click.echo(f"  {_line(progress)}")

    yield lines


def _line(progress: submissions.Progress) -> str:
    if progress.clearing:
        return progress.clearing
    ended = ", ".join(f"{count} {phase}" for phase, count in sorted(progress.ended.items()))
    return (
        f"{progress.sim_s:8,.0f} s simulated: {progress.submitted}/{progress.workflows} submitted, "
        f"{progress.pods_done}/{progress.pods_planned} pods done, ended: {ended or 'none'}"
    )


def _table(progress: submissions.Progress) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_row("[bold]simulated[/bold]", f"{progress.sim_s:,.0f} s at speed {progress.speed:g}")
    table.add_row("submitted", _bar(progress.submitted, progress.workflows))
    table.add_row("pods done", _bar(progress.pods_done, progress.pods_planned))
    for phase, count in sorted(progress.ended.items()):
        table.add_row(phase, _bar(count, progress.workflows))
    if progress.clearing:
        table.add_row("ending", progress.clearing)
    return table


def _bar(done: int, whole: int, width: int = 30) -> str:
    filled = round(width * done / whole) if whole else 0
    return f"[green]{'━' * filled}[/green][dim]{'━' * (width - filled)}[/dim] {done}/{whole}"


def _command(mix: str, *, lab: str, limit_wall_s: float, chosen: dict[str, Any]) -> list[str]:
    """Return the command line that repeats the run."""
    names = {"kind": "arrivals", "window_s": "window"}
    command = ["python", "-m", "lab", "run", mix, "--lab", lab]
    for key, value in chosen.items():
        flag = f"--{names.get(key, key).replace('_', '-')}"
        if value is True:
            command.append(flag)
        elif value is not None and value is not False:
            command += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    if limit_wall_s != LIMIT_WALL_S:
        command += [LIMIT, f"{limit_wall_s:g}"]
    return command
