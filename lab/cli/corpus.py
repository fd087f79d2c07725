"""`lab corpus`: run Argo's own examples on a lab that is up, and say what became of each."""

import asyncio
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from lab import errors, homes, invocations, records
from lab.cli import options, turns
from lab.controlplane import components, states
from lab.corpus import drivers, examples, expectations, pages, runs
from lab.reports import results


@click.command()
@click.argument("names", nargs=-1, metavar="[EXAMPLE]...")
@options.lab_name
@click.option("--list", "only_list", is_flag=True, help="Show what each must come to; run nothing.")
@click.option(
    "--examples",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder `examples` of Argo's module.  [default: the lab's own copy]",
)
@click.option("--write", type=click.Path(path_type=Path), help="Write the page docs/corpus.md.")
def corpus(
    names: tuple[str, ...],
    name: str,
    only_list: bool,
    folder: Path | None,
    write: Path | None,
) -> None:
    """Run Argo's own examples (all, or the named ones) on a lab that is up."""
    known = expectations.load()
    if only_list:
        _list(known, names)
        return
    home = homes.home(name)
    state = states.load(home)
    if not state.binaries.argo_manifests:
        state.component(components.ARGO)  # says that it was left out
    found = examples.load(folder or Path(state.binaries.argo_examples))
    expectations.check(found, known)
    if unknown := sorted(set(names) - set(found)):
        raise errors.UsageError(
            f"no example {', '.join(unknown)}: `{invocations.lab()} corpus --list` names them all"
        )
    picked, _ = runs.chosen(found, known, names)
    ended: set[str] = set()

    def show(result: drivers.Result) -> None:
        ended.add(result.name)
        mark = "ok  " if result.reached else "MISS"
        click.echo(
            f"{mark} {len(ended):3}/{len(picked)} {result.wall_s:6.1f} s  {result.name}: "
            + result.end
            + ("" if result.reached else f", not {' or '.join(result.expected)}: {result.message}")
        )

    with turns.taken(home, "a run of the corpus"):
        report = asyncio.run(runs.run(home, found, known, names=names, show=show))
    _summary(report)
    if not names:
        click.echo(f"figures in {_write(report)}")
    if write is not None:
        page = pages.render(known, simulated=known.simulated(found))
        records.write_whole(write, page.encode())
    if report.missed:
        missed = ", ".join(result.name for result in report.missed)
        raise errors.RunError(f"{len(report.missed)} examples missed their end: {missed}")


def _list(known: expectations.Expectations, names: tuple[str, ...]) -> None:
    table = Table("example", "end", "where that is said, or why it cannot run", box=None)
    rows = [
        *((name, " or ".join(item.ends), item.source) for name, item in known.workflows.items()),
        *((name, "cannot run", why) for name, why in known.not_runnable.items()),
        *((name, item.as_, item.why) for name, item in known.stored.items()),
    ]
    if unknown := sorted(set(names) - {row[0] for row in rows}):
        raise errors.UsageError(
            f"no example {', '.join(unknown)}: `{invocations.lab()} corpus --list` names them all"
        )
    for row in sorted(rows):
        if not names or row[0] in names:
            table.add_row(*row)
    Console().print(table)


def _summary(report: runs.Report) -> None:
    click.echo(
        f"{report.reached} of {len(report.workflows)} Workflows and "
        f"{len(report.results) - len(report.missed)} of {len(report.results)} objects came to "
        f"their documented end in {report.wall_s:.0f} s; {len(report.skipped)} cannot run here; "
        f"the kubelet and the commands took {report.kubelet_cpu_s:.0f} s of CPU for "
        f"{report.pods} pods"
    )
    if report.refusal:
        click.echo(f"commands were not run on this machine: {report.refusal}")
    for name, why in sorted(report.skipped.items()):
        click.echo(f"  cannot run: {name}: {why}")


def _write(report: runs.Report) -> Path:
    """Write build/results/corpus.json."""
    return results.write(
        "corpus",
        seed=None,
        speed=report.speed,
        figures={
            "workflows": len(report.workflows) + len(report.skipped),
            "submitted": len(report.workflows),
            "reached": report.reached,
            "listed": len(report.skipped),
            "objects": len(report.results),
            "missed": [result.name for result in report.missed],
            "not_run": [{"example": name, "why": why} for name, why in report.skipped.items()],
            "commands_run": not report.refusal,
            "wall_s": round(report.wall_s, 1),
            "pods_ended": report.pods,
            "kubelet_cpu_s": round(report.kubelet_cpu_s, 1),
        },
    )
