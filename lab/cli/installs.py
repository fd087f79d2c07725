"""`lab install`, `lab uninstall`: Tiphys in a running lab, by its chart, as in any cluster."""

import asyncio
from pathlib import Path

import click
import yaml

from lab import apis, errors, homes
from lab.cli import displays, options
from lab.controlplane import states
from lab.installs import charts, helms, rollouts


@click.command()
@options.lab_name
@click.option(
    "--values",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML with values of the chart; several win from left to right.",
)
@click.option("--no-wait", is_flag=True, help="Return when the objects are there.")
def install(name: str, files: tuple[Path, ...], no_wait: bool) -> None:
    """Install Tiphys, or bring what is installed up to this checkout and these values.

    Its processes run on the process node with the ServiceAccounts and rights of charts/tiphys,
    from this checkout and with this interpreter.
    """
    home = homes.home(name)
    states.load(home)
    more: apis.Object = {}
    for file in files:
        more = charts.merged(more, _read(file))
    install_into(home, more=more, wait=not no_wait)
    click.echo(
        f"Tiphys is in lab {name!r}; nothing is steered before somebody opts in:\n"
        "  kubectl annotate namespace YOURS tiphys.dev/enabled=true"
    )


@click.command()
@options.lab_name
def uninstall(name: str) -> None:
    """Take Tiphys out of a lab: gates open first, then everything of the chart goes."""
    home = homes.home(name)
    states.load(home)
    with displays.Builds() as shown:
        program = helms.find(report=shown.report)
    if not charts.uninstall(program, home):
        raise errors.UsageError(f"Tiphys is not installed in lab {name!r}")
    asyncio.run(_wiped(home))
    click.echo(f"Tiphys is gone from lab {name!r}")


def install_into(home: homes.Home, *, more: apis.Object, wait: bool = True) -> None:
    """Install with a person's values, and wait until all of it is ready."""
    with displays.Builds() as shown:
        program = helms.find(report=shown.report)
    asyncio.run(_definitions(home))
    charts.install(program, home, charts.values(home, more=more))
    if wait:
        asyncio.run(_ready(home))


async def _definitions(home: homes.Home) -> None:
    async with apis.Api(home.kubeconfig) as api:
        await charts.apply_definitions(api)


async def _ready(home: homes.Home) -> None:
    async with apis.Api(home.kubeconfig) as api:
        await rollouts.wait(api, home, show=lambda line: click.echo(f"  {line}", err=True))


async def _wiped(home: homes.Home) -> None:
    async with apis.Api(home.kubeconfig) as api:
        await charts.wipe(api)


def _read(file: Path) -> apis.Object:
    try:
        found = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.UsageError(
            f"{file} is no YAML: {error}; charts/tiphys/values.yaml shows what may stand in it"
        ) from error
    if not isinstance(found, dict | None):
        raise errors.UsageError(f"{file} holds no values: write `key: value` lines")
    return found or {}
