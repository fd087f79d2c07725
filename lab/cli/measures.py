"""`lab measure`: judge a run, write its JSON and its page, print the table."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import structs
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab import errors, homes
from lab.cli import arms, conclusions, options, remedies
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
@click.option(
    "--arm",
    help="What the scheduling is called.  [default: `tiphys` where pods were steered by it, else "
    "`default`]",
)
@into
def measure(name: str, run: str | None, arm: str | None, into: Path | None) -> None:
    """Judge a run and write its report; works after `lab down` too, until the next `up`."""
    if arm is not None and not results.NAME_PATTERN.fullmatch(arm):
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
    measured = _named(figures.measure(known), known, arm=arm)
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


def _named(
    measured: measurements.Measurement, known: sources.Sources, *, arm: str | None
) -> measurements.Measurement:
    """Return a measurement under the name of its arm; raises `UsageError` for a false one."""
    pods = {(task.namespace, task.pod) for task in measured.tasks}
    steered = sum(call.steered and (call.namespace, call.name) in pods for call in known.calls)
    of_run = f"of the {measured.figures.pods_created} pods of run {measured.run}"
    if arm == arms.DEFAULT.name and steered:
        raise errors.UsageError(
            f"{steered} {of_run} were steered by Tiphys, so its arm is not {arm!r}: leave --arm "
            "away, or choose another name"
        )
    if arm == arms.TIPHYS.name and not steered:
        raise errors.UsageError(
            f"none {of_run} was steered by Tiphys, so its arm is not {arm!r}: leave --arm away, or "
            "choose another name (`tiphys status` warns of what is not steered)"
        )
    name = arms.TIPHYS.name if steered else arms.DEFAULT.name
    return structs.replace(measured, arm=arm or name)


def folder(into: Path | None) -> Path:
    """Return where measurements and pages go."""
    return into or results.REPOSITORY / "build" / "reports"


def written(measured: measurements.Measurement, *, into: Path | None) -> tuple[Path, Path]:
    """Write the JSON and the page of one run; returns their paths."""
    json_path = folder(into) / f"{stem(measured)}.json"
    page_path = folder(into) / f"{stem(measured)}.html"
    measurements.write(json_path, measured)
    pages.write(page_path, [measured])
    return json_path, page_path


def stem(measured: measurements.Measurement) -> str:
    """Return what the files of a run are called; names of runs are unique in one lab only.

    The arm is in it, since a lab may be called like the other arm (`default` is both).
    """
    return f"{measured.lab}-{measured.run}-{measured.arm}"


def show(measured: Sequence[measurements.Measurement]) -> None:
    """Print the headline of each arm, then what is wrong with it."""
    console = Console()
    if figures.data(measured[0]) == "sample":
        console.print(Text(packs.SAMPLE_TITLE, style="bold yellow"), soft_wrap=True)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("figure", no_wrap=True)
    for arm in measured:
        grid.add_column(arm.arm, justify="right", no_wrap=True)
    rows = [tables.figure_rows(arm) for arm in measured]
    for index, (label, _) in enumerate(rows[0]):
        grid.add_row(label, *(row[index][1] for row in rows))
    console.print(grid)
    for arm in measured:
        prefix = f"{arm.arm}: " if len(measured) > 1 else ""
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
