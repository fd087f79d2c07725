"""`build`: fill the cache, print where the programs are."""

import click

from lab.cli import displays, options
from lab.controlplane import builds as makers
from lab.controlplane import tools

OPTIONAL = ("kubectl", "argo", "helm")


@click.command()
@click.argument("what", nargs=-1, type=click.Choice([*OPTIONAL, "all"]))
@options.kubernetes
def build(what: tuple[str, ...], kubernetes: str) -> None:
    """Build the programs of a lab into the cache and print their paths.

    Without an argument: what `up` needs. `kubectl`, `argo` and `helm` are the command lines of
    Kubernetes, Argo Workflows and Helm; `all` is everything. What is there already is not built
    again.
    """
    wanted = set(OPTIONAL) if "all" in what else set(what)
    servers = not what or "all" in what
    targets = [
        makers.target(tool, program)
        for tool in (*tools.needed(kubernetes), tools.helm())
        for program in (*tool.programs, *tool.optional)
        if program.name in wanted or (servers and program in tool.programs)
    ]
    with displays.Builds() as shown:
        makers.build(targets, report=shown.report)
    for target in targets:
        click.echo(target.path)
