"""`lab compare`: two measured runs of one workload, as the demo shows its own two."""

from pathlib import Path

import click

from lab import invocations
from lab.cli import conclusions, measures
from lab.reports import comparisons, figures, measurements, pages, results


@click.command()
@click.argument("base")
@click.argument("arm")
@measures.into
def compare(base: str, arm: str, into: Path | None) -> None:
    """Compare ARM with BASE, two runs that `lab measure` has written down.

    Each is the path of a measurement, or its name in the folder of reports, such as
    `default-genomics-s1-default`. Below 1 (minus, in percent) ARM is quicker. Runs of different
    workloads, clusters or speeds are refused.
    """
    folder = measures.folder(into)
    before, after = (measurements.read(_path(name, folder=folder)) for name in (base, arm))
    comparisons.refuse_different(before, after)
    both = [before, after]
    concluded = conclusions.concluded(before, after)
    sample = figures.data(before) == "sample"
    said = concluded.lines(
        remedy=f"`{invocations.lab()} run` takes --data, the folder of a data pack"
        if sample
        else ""
    )
    stem = f"compare-{measures.stem(before)}-{measures.stem(after)}"
    page_path = folder / f"{stem}.html"
    pages.write(page_path, both, notes=said, alarm=bool(concluded.doubts))
    results_path = results.write(
        stem,
        seed=before.seed,
        speed=before.speed,
        data=figures.data(before),
        figures={
            **conclusions.as_figures(concluded.doubts),
            **figures.of_arms(both),
            **(comparisons.figures(concluded.found) if concluded.found else {}),
        },
    )
    measures.show(both)
    measures.show_conclusion(concluded, said)
    click.echo(f"results  {results_path}\npage     {page_path}")


def _path(name: str, *, folder: Path) -> Path:
    """Return where a measurement lies that was named or whose path was given."""
    named = folder / f"{name}.json"
    return named if results.NAME_PATTERN.fullmatch(name) and named.is_file() else Path(name)
