"""`build`: fill the cache, print where the programs are; or take out what is not needed."""

import click

from lab import errors, homes
from lab.cli import displays, options
from lab.controlplane import builds as makers
from lab.controlplane import caches, tools

OPTIONAL = ("kubectl", "argo", "helm")


@click.command()
@click.argument("what", nargs=-1, type=click.Choice([*OPTIONAL, "all"]))
@options.kubernetes
@click.option(
    "--prune",
    is_flag=True,
    help="Build nothing: delete what no version that this checkout knows would use.",
)
@click.option("--dry-run", is_flag=True, help="With --prune: say what, and delete nothing.")
def build(what: tuple[str, ...], kubernetes: str, prune: bool, dry_run: bool) -> None:
    """Build the programs of a lab into the cache and print their paths.

    Without an argument: what `up` needs. `kubectl`, `argo` and `helm` are the command lines of
    Kubernetes, Argo Workflows and Helm; `all` is everything. What is there already is not built
    again.
    """
    if prune:
        _prune(what, dry_run=dry_run)
        return
    if dry_run:
        raise errors.UsageError("--dry-run goes with --prune: what is there is never built again")
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


def _prune(what: tuple[str, ...], *, dry_run: bool) -> None:
    """Say what of the cache is not needed and how much that is, then delete it."""
    if what:
        raise errors.UsageError(f"--prune and {what[0]!r} do not go together: say one of the two")
    leftovers = caches.leftovers()
    for leftover in leftovers:
        click.echo(f"not used by this checkout: {leftover.path} ({_mib(leftover.size_bytes)})")
    whole_bytes = sum(leftover.size_bytes for leftover in leftovers)
    click.echo(
        f"{_mib(whole_bytes)} in {homes.cache_root()} that no version which this checkout knows "
        "would use; another checkout that does would build it again"
    )
    if dry_run:
        return
    freed_bytes = 0
    for leftover in leftovers:
        if caches.remove(leftover):
            freed_bytes += leftover.size_bytes
            click.echo(f"deleted {leftover.path} ({_mib(leftover.size_bytes)})")
        else:
            click.echo(f"kept {leftover.path}: a build is at work there")
    click.echo(f"{_mib(freed_bytes)} freed in {homes.cache_root()}")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"
