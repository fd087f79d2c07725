"""`up`, `down`, `status`, `kubeconfig`, `logs`, `nodes`."""

import asyncio
import os
from collections.abc import Callable

import click
import msgspec
from click import core
from msgspec import structs

from lab import apis, catalogs, errors, homes, invocations
from lab.cli import displays, options, tables
from lab.controlplane import caches, children, components, labs, reviews, states

ANSWER_WITHIN_S = 10.0
LOG_BYTES = 4 * 2**20
"""How far back from the end of a log lines are looked for."""


@click.command()
@options.lab_name
@click.option(
    "--cluster",
    default="mixed",
    show_default=True,
    help=f"Shipped cluster ({', '.join(catalogs.names())}) or YAML file.",
)
@click.option("--speed", default=1.0, show_default=True, help="Simulated seconds per second.")
@options.kubernetes
@click.option("--full-crds", is_flag=True, help="Argo's CRDs with their schemas; costs CPU.")
@click.option(
    "--without",
    multiple=True,
    metavar="COMPONENT",
    help=f"Leave a component out: {', '.join(components.OPTIONAL)}. Several times for several.",
)
@click.option(
    "--api-port",
    type=click.IntRange(1, 65535),
    help="Port of the API server; default any free one.",
)
@click.option("--owner-pid", type=int, help="End the lab when this process ends.")
@click.pass_context
def up(
    ctx: click.Context,
    name: str,
    cluster: str,
    speed: float,
    kubernetes: str,
    full_crds: bool,
    without: tuple[str, ...],
    api_port: int | None,
    owner_pid: int | None,
) -> None:
    """Start a lab and wait until it is ready.

    Of a lab that runs already this says so, unless you ask for something that it is not.
    """
    home = homes.home(name)
    asked = states.Asked(
        kubernetes=kubernetes,
        cluster=cluster,
        speed=speed,
        full_crds=full_crds,
        without=without,
        api_port=api_port,
        owner=labs.owner(owner_pid) if owner_pid is not None else None,
    )
    there = states.read(home)
    if there is not None and there.running:
        # What was not said is as it is.
        unsaid = {
            option: getattr(there.asked, option)
            for option in asked.__struct_fields__
            if ctx.get_parameter_source(option) is core.ParameterSource.DEFAULT
        }
        asked = structs.replace(asked, **unsaid)
    starts = displays.Starts()
    with displays.Builds() as shown:
        outcome = labs.up(home, asked, progress=starts.report, report=shown.report, tell=_tell)
    state = states.load(home)
    if outcome is labs.Outcome.RAN_ALREADY:
        click.echo(f"lab {name!r} runs already")
    else:
        click.echo(f"lab {name!r} is ready after {state.ready_after_s:.1f} s")
    if owner_pid != os.getpid():  # a lab that ends with this command is gone before it is typed
        click.echo(f"export KUBECONFIG={home.kubeconfig}")


@click.command()
@options.lab_name
@click.option("--purge", is_flag=True, help="Delete the lab's logs and records as well.")
@click.pass_context
def down(ctx: click.Context, name: str, purge: bool) -> None:
    """End a lab and everything that it started.

    Of a lab that is down already this says so, and of one that was never there; where you named
    that one it is an error.
    """
    home = homes.home(name)
    # Asked after the wait for an `up` at work, which has no home while it builds.
    outcome = labs.down(home, tell=_tell)
    if outcome is labs.Outcome.WAS_DOWN and not home.root.is_dir():
        there = ", ".join(homes.names()) or "none"
        said = f"there is no lab {name!r} in {homes.labs_root()} (there: {there})"
        if ctx.get_parameter_source("name") is core.ParameterSource.DEFAULT:
            click.echo(f"{said}: nothing to end")
            return
        raise errors.UsageError(f"{said}: name one of these, or leave --name away")
    click.echo(f"lab {name!r} {outcome}")
    if purge:
        size_bytes = caches.size_bytes(home.root)
        labs.down(home, purge=True, tell=_tell)
        click.echo(
            f"deleted {home.root} ({size_bytes / 2**20:.1f} MiB: its logs, records, certificates "
            "and data)"
        )


@click.command()
@options.lab_name
@click.option("--print", "show", is_flag=True, help="Print the file itself, not its path.")
def kubeconfig(name: str, show: bool) -> None:
    """Print the path of the admin kubeconfig; use as `export KUBECONFIG=$(…)`."""
    home = homes.home(name)
    states.load(home)
    click.echo(home.kubeconfig.read_text() if show else str(home.kubeconfig))


@click.command()
@options.lab_name
@options.as_json
def status(name: str, as_json: bool) -> None:
    """Show components, ports, what they use, and which times run at the lab's speed."""
    home = homes.home(name)
    state = states.read(home)
    if state is None:
        raise errors.UsageError(states.absent(home))
    found = _nodes(home, attempts=1) if state.running else None
    review = reviews.review(state, nodes=found)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(review)))
    else:
        tables.show_state(home, review)
    if not review.running:
        raise errors.StaleError(
            f"lab {name!r} crashed: `{invocations.lab()} up --name {name}` clears and starts it, "
            f"`{invocations.lab()} down --name {name}` clears it"
        )


@click.command()
@options.lab_name
@options.as_json
def nodes(name: str, as_json: bool) -> None:
    """List the nodes and what pods that have not ended request of them."""
    home = homes.home(name)
    states.load(home)
    found = _nodes(home, attempts=3)
    if found is None:
        raise errors.LabError(
            f"the API server of lab {name!r} does not answer: "
            f"`{invocations.lab()} status --name {name}`"
        )
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        tables.show_nodes(found)


@click.command()
@click.argument("component")
@options.lab_name
@click.option("--follow", "-f", is_flag=True, help="Go on as the log grows.")
@click.option(
    "--lines",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="How many of the last lines.",
)
def logs(component: str, name: str, follow: bool, lines: int) -> None:
    """Show the log of one COMPONENT; `supervisor` is the process that starts the others.

    With `-f` until the lab ends.
    """
    home = homes.home(name)
    path = home.logs / f"{component}.log"
    if not path.is_file():
        known = ", ".join(sorted(item.stem for item in home.logs.glob("*.log"))) or "none yet"
        raise errors.UsageError(f"no log of {component!r} in lab {name!r}: there are {known}")
    if not follow:
        click.echo(children.tail(path, lines=lines, within_bytes=LOG_BYTES))
        return
    for text in children.follow(path, lines=lines, within_bytes=LOG_BYTES, over=_is_over(home)):
        click.echo(text, nl=False)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _is_over(home: homes.Home) -> Callable[[], bool]:
    """Return what says whether nobody writes the logs of a lab any more."""

    def over() -> bool:
        try:
            state = states.read(home)
        except errors.StaleError:
            return True
        return state is None or not state.running

    return over


def _nodes(home: homes.Home, *, attempts: int) -> list[reviews.NodeReview] | None:
    """Return the nodes, or None if the API server does not answer."""

    async def ask() -> list[reviews.NodeReview]:
        # A server that hangs (`component pause`) accepts the call and never answers it.
        async with (
            asyncio.timeout(ANSWER_WITHIN_S),
            apis.Api(home.kubeconfig, attempts=attempts) as api,
        ):
            return await reviews.nodes(api)

    try:
        return asyncio.run(ask())
    except (apis.ApiError, errors.UsageError, TimeoutError):
        return None
