"""`up`, `down`, `status`, `kubeconfig`, `logs`, `nodes`."""

import click

from lab import homes
from lab.controlplane import labs, states

lab_name = click.option(
    "--name", "-n", default="default", show_default=True, envvar="TIPHYS_LAB", help="Which lab."
)


@click.command()
@lab_name
@click.option("--cluster", default="mixed", show_default=True, help="Shipped cluster or YAML file.")
@click.option("--speed", default=1.0, show_default=True, help="Simulated seconds per second.")
@click.option(
    "--kubernetes",
    type=click.Choice(["v1.36.3", "v1.34.4"]),
    default="v1.36.3",
    show_default=True,
    help="Version of the control plane.",
)
@click.option("--full-crds", is_flag=True, help="Argo's CRDs with their schemas; costs CPU.")
@click.option("--without", multiple=True, metavar="COMPONENT", help="Leave a component out.")
@click.option("--api-port", type=int, help="Port of the API server; default any free one.")
@click.option("--owner-pid", type=int, help="End the lab when this process ends.")
def up(
    name: str,
    cluster: str,
    speed: float,
    kubernetes: str,
    full_crds: bool,
    without: tuple[str, ...],
    api_port: int | None,
    owner_pid: int | None,
) -> None:
    """Start a lab and wait until it is ready."""
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
    seen: set[tuple[str, str]] = set()

    def progress(state: states.State) -> None:
        for item in state.components:
            if item.phase is states.Phase.READY and (item.name, item.phase) not in seen:
                seen.add((item.name, item.phase))
                click.echo(f"  {item.name:26} ready after {item.ready_after_s:5.1f} s")

    outcome = labs.up(home, asked, progress=progress)
    state = states.load(home)
    if outcome is labs.Outcome.RAN_ALREADY:
        click.echo(f"lab {name!r} runs already")
    else:
        click.echo(f"lab {name!r} is ready after {state.ready_after_s:.1f} s")
    click.echo(f"export KUBECONFIG={home.kubeconfig}")


@click.command()
@lab_name
@click.option("--purge", is_flag=True, help="Delete the lab's logs and records as well.")
def down(name: str, purge: bool) -> None:
    """End a lab and everything that it started."""
    outcome = labs.down(homes.home(name), purge=purge)
    click.echo(f"lab {name!r} {outcome}")


@click.command()
@lab_name
@click.option("--print", "show", is_flag=True, help="Print the file itself, not its path.")
def kubeconfig(name: str, show: bool) -> None:
    """Print the path of the admin kubeconfig; use as `export KUBECONFIG=$(…)`."""
    home = homes.home(name)
    states.load(home)
    click.echo(home.kubeconfig.read_text() if show else str(home.kubeconfig))
