"""`lab measure`: judge a run, write its JSON and its page, print the table."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab import errors, homes
from lab.cli import conclusions, options, remedies
from lab.reports import figures, measurements, pages, results, sources, tables
from lab.workloads import packs

into = click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the JSON and the page.  [default: build/reports of the repository]",
)


@click.command()
@options.lab_name
@click.option("--run", "run", help="Which run.  [default: the latest of the lab]")
@click.option("--arm", default="default", show_default=True, help="What the scheduling is called.")
@into
def measure(name: str, run: str | None, arm: str, into: Path | None) -> None:
    """Judge a run and write its report; works after `lab down` too, until the next `up`."""
    if not results.NAME_PATTERN.fullmatch(arm):
        raise errors.UsageError(
            f"{arm!r} cannot name an arm, since files and figures carry it: use a-z, 0-9, '_', '-'"
        )
    known = sources.load(homes.home(name), run)
    if known.record.outcome == "running":
        ended = sum(item.ended_at is not None for item in known.record.workflows)
        raise errors.UsageError(
            f"run {known.record.run} is still under way ({ended} of {len(known.record.workflows)} "
            "workflows ended), or was killed: wait for it, or name another with --run"
        )
    measured = figures.measure(known, arm=arm)
    json_path, page_path = written(measured, into=into)
    record = known.record
    results_path = results.write(
        stem(measured),
        command=record.command,
        seed=record.seed,
        speed=record.speed,
        data=figures.data(measured),
        figures={
            **conclusions.as_figures(conclusions.doubts(measured)),
            **figures.of_arms([measured]),
        },
    )
    show([measured])
    click.echo(f"measurement  {json_path}\nresults      {results_path}\npage         {page_path}")
    if remedy := remedies.of_run(measured):
        click.echo(remedy)
    check(measured)


def written(measured: measurements.Measurement, *, into: Path | None) -> tuple[Path, Path]:
    """Write the JSON and the page of one run; returns their paths."""
    folder = into or results.REPOSITORY / "build" / "reports"
    json_path = folder / f"{stem(measured)}.json"
    page_path = folder / f"{stem(measured)}.html"
    measurements.write(json_path, measured)
    pages.write(page_path, [measured])
    return json_path, page_path


def stem(measured: measurements.Measurement) -> str:
    """Return what the files of a run are called; names of runs are unique in one lab only.

    The arm is in it, since a lab may be called like the other arm (`default` is both).
    """
    return f"{measured.lab}-{measured.run}-{measured.arm}"


def show(arms: Sequence[measurements.Measurement]) -> None:
    """Print the headline of each arm, then what is wrong with it."""
    console = Console()
    if figures.data(arms[0]) == "sample":
        console.print(Text(packs.SAMPLE_TITLE, style="bold yellow"), soft_wrap=True)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("figure", no_wrap=True)
    for arm in arms:
        grid.add_column(arm.arm, justify="right", no_wrap=True)
    rows = [tables.figure_rows(arm) for arm in arms]
    for index, (label, _) in enumerate(rows[0]):
        grid.add_row(label, *(row[index][1] for row in rows))
    console.print(grid)
    for arm in arms:
        prefix = f"{arm.arm}: " if len(arms) > 1 else ""
        console.print(_verdict(arm, prefix=prefix), soft_wrap=True)
        for problem in arm.problems[: tables.MOST_PROBLEMS]:
            console.print(Text(f"  {problem}", style="red"), soft_wrap=True)


def show_conclusion(concluded: conclusions.Conclusion, lines: Sequence[str]) -> None:
    """Print what two arms come to; what does not count does not look like a success."""
    for index, line in enumerate(lines):
        first = index == 0
        click.secho(line, bold=first, fg="red" if first and concluded.doubts else None)


def check(measured: measurements.Measurement) -> None:
    """Raise `RunError` where a workflow did not end or a record is missing or contradicts."""
    found = measured.figures
    open_still = [item.name for item in measured.workflows if item.ended_s is None]
    if open_still:
        raise errors.RunError(
            f"{len(open_still)} of {found.workflows} workflows did not end, first {open_still[0]}"
        )
    if measured.problems:
        raise errors.RunError(
            f"the records of run {measured.run} do not add up in {len(measured.problems)} places, "
            f"first: {measured.problems[0]}"
        )


def _verdict(arm: measurements.Measurement, *, prefix: str) -> Text:
    validity = arm.validity
    if validity.valid:
        return Text(
            f"{prefix}valid at speed {arm.speed:g}: the control plane's own p99 is "
            f"{validity.control_plane_p99_s:.1f} simulated s, {validity.share:.1%} of the median "
            f"task (10% is allowed)",
            style="green",
        )
    return Text(
        f"{prefix}INVALID run, its figures do not count: {'; '.join(validity.reasons)}",
        style="bold red",
    )
