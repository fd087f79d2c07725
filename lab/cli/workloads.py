"""`lab workload`: list the mixes, look at one, write its Workflows and truths for reading."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from rich.console import Console
from rich.table import Table

from lab import catalogs, errors, truths
from lab.workloads import arrivals, manifests, mixes, packs, plans, ratios, summaries
from lab.workloads.readers import cws

Command = TypeVar("Command", bound=Callable[..., Any])

EXPLAINED = "\b\nMixes:\n" + "\n".join(
    f"  {mix.name:<10} {mix.about}" for mix in mixes.MIXES.values()
)
"""The mixes, for the end of the help of commands that take one."""
WIDTH = 160
"""Columns of a table of workflows; a narrower terminal folds its lines, not its cells."""


data = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder of the data pack; also TIPHYS_DATA.  [default: ../shared/data, else the "
    "repository's own sample]",
)


def options(command: Command) -> Command:
    """Add the options that describe a workload; they come as keyword arguments."""
    for option in reversed(
        [
            click.option("--workflows", type=click.IntRange(1), default=16, show_default=True),
            click.option("--seed", type=int, default=1, show_default=True),
            click.option(
                "--arrivals",
                "kind",
                type=click.Choice(arrivals.KINDS),
                help="How workflows arrive; each mix has its own default.",
            ),
            click.option(
                "--overload",
                type=click.FloatRange(0, min_open=True),
                default=1.0,
                show_default=True,
                help="Offered work (CPU or GPU) over what the cluster can do in the window.",
            ),
            click.option(
                "--window",
                "window_s",
                type=click.FloatRange(0, min_open=True),
                metavar="SIM_S",
                help="Length of the arrival window in simulated seconds; overrides --overload.",
            ),
            click.option(
                "--most-tasks",
                type=click.IntRange(1),
                help="Most pods of one workflow; larger traces lose parallel branches.",
            ),
            click.option(
                "--held-out",
                is_flag=True,
                help="Use only the families that are kept for validation and tests.",
            ),
            data,
        ]
    ):
        command = option(command)
    return command


def generated(
    mix: str,
    *,
    cluster: catalogs.Cluster,
    tag: str,
    workflows: int,
    seed: int,
    kind: str | None,
    overload: float,
    window_s: float | None,
    most_tasks: int | None,
    held_out: bool,
    data: Path | None,
) -> plans.Workload:
    """Return the workload that the options describe."""
    wish = mixes.Wish(
        workflows=workflows,
        seed=seed,
        pack=packs.find(data),
        held_out=held_out,
        most_tasks=most_tasks,
    )
    return mixes.generate(
        mixes.find(mix),
        wish,
        tag=tag,
        cluster=cluster,
        kind=kind,
        overload=overload,
        window_s=window_s,
    )


@click.group()
def workload() -> None:
    """Make and look at workloads without running them."""


@workload.command("list")
def list_mixes() -> None:
    """List the mixes."""
    for mix in mixes.MIXES.values():
        click.echo(f"{mix.name:<12} {mix.about} (arrivals {mix.arrivals}, cluster {mix.cluster})")


@workload.command(epilog=EXPLAINED)
@click.argument("mix")
@click.option("--cluster", help="Name or path of a cluster.  [default: the mix's own]")
@options
def show(mix: str, cluster: str | None, **chosen: Any) -> None:
    """Print what a workload consists of."""
    described = catalogs.load(cluster or mixes.find(mix).cluster)
    made = generated(mix, cluster=described, tag=f"s{chosen['seed']}", **chosen)
    if made.sample:
        click.secho(packs.SAMPLE_NOTE, fg="yellow")
    Console(width=WIDTH, soft_wrap=True).print(_table(made))
    whole = sum((part for _, part in summaries.by_workflow(made)), start=summaries.Summary())
    click.echo(
        f"{len(made.workflows)} workflows, {whole.pods} pods, {whole.used_core_s:,.0f} core-s of "
        f"work over a window of {made.window_s:,.0f} s; on {described.name}: load "
        f"{summaries.offered_load(made, described):.2f} by use, "
        f"{summaries.requested_load(made, described):.2f} by requests; requested over used: "
        f"CPU {whole.requested_over_used_cpu:.1f}, memory {whole.requested_over_used_memory:.1f}; "
        f"{whole.too_small} pods exceed their memory limit at first\n"
        f"plans sha256 {mixes.plans_sha256(made)}"
    )


@workload.command(epilog=EXPLAINED)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("mix")
@click.option("--cluster", help="Name or path of a cluster.  [default: the mix's own]")
@options
def write(folder: Path, mix: str, cluster: str | None, **chosen: Any) -> None:
    """Write the Workflows of a MIX as YAML, and the truths beside them, into a new FOLDER."""
    if folder.exists():
        raise errors.UsageError(f"{folder} exists already: name a folder that does not")
    made = generated(
        mix,
        cluster=catalogs.load(cluster or mixes.find(mix).cluster),
        tag=f"s{chosen['seed']}",
        **chosen,
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for plan in made.workflows:
            text = yaml.safe_dump(manifests.workflow(plan), sort_keys=False)
            (beside / f"{plan.name}.yaml").write_text(text)
        truths.write(beside / "truths.jsonl", made.truths)
        beside.chmod(0o755)
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    if made.sample:
        click.echo(packs.SAMPLE_NOTE)
    click.echo(f"{len(made.workflows)} workflows and {len(made.truths)} truths in {folder}")


@workload.command("ratios")
@click.option("--write", is_flag=True, help="Replace lab/workloads/ratios.json.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of the data pack.")
def fit_ratios(write: bool, data: Path | None) -> None:
    """Measure requested over used on the CWS runs again, and compare with what is pinned."""
    fitted = ratios.fit(cws.usages(packs.find(data)))
    content = ratios.encoded(fitted)
    sha256 = hashlib.sha256(content).hexdigest()
    click.echo(
        f"requested over used: CPU {fitted.pooled_cpu:.2f}, memory {fitted.pooled_memory:.1f}"
    )
    click.echo(f"sha256 {sha256}{'' if sha256 == ratios.SHA256 else ', not the pinned one'}")
    if write:
        beside = ratios.FILE.with_suffix(".partial")
        beside.write_bytes(content)
        beside.replace(ratios.FILE)
        click.echo(f"wrote {ratios.FILE}; pin the hash in lab/workloads/ratios.py")


def _table(made: plans.Workload) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("workflow", "namespace"):
        table.add_column(name, no_wrap=True)
    for name in ("arrives\ns", "pods", "depth", "path\ns", "work\ncore-s", "CPU\nreq/used"):
        table.add_column(name, justify="right")
    table.add_column("memory\nreq/used", justify="right")
    table.add_column("too\nsmall", justify="right")
    table.add_column("source", no_wrap=True)
    for plan, part in summaries.by_workflow(made):
        table.add_row(
            plan.name,
            plan.namespace,
            f"{plan.arrival_s:.0f}",
            str(part.pods),
            str(plan.depth),
            f"{plan.critical_path_s:.0f}",
            f"{part.used_core_s:.0f}",
            f"{part.requested_over_used_cpu:.1f}",
            f"{part.requested_over_used_memory:.1f}",
            str(part.too_small or ""),
            plan.source,
        )
    return table
