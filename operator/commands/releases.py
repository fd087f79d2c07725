"""`tiphys release POD`: a person opens one gate; kube-scheduler places the pod alone then."""

from typing import Any

import click

from tiphys.argo import patches
from tiphys.operator import apis
from tiphys.operator.commands import sessions, views

RIGHT = 'the verb "release" on "gates" in group "tiphys.dev" (ClusterRole tiphys-gate-opener)'


@click.command(epilog=sessions.EXIT_CODES)
@click.argument("name", metavar="POD|NAMESPACE/POD")
@click.option("--dry-run", is_flag=True, help="Say what would be done; the API server checks it.")
@sessions.options
def release(name: str, dry_run: bool, **shared: Any) -> int:
    """Open the gate of one pod now: it jumps the queue and kube-scheduler places it alone.

    Needs the right to patch the pod and the verb "release" on "gates" in group "tiphys.dev"
    (ClusterRole tiphys-gate-opener).

    With --watch or --once instead of a pod this is the releaser's process (docs/releaser.md).
    """

    async def work(session: sessions.Session) -> int:
        pod = await views.pod(session, name)
        about = pod["metadata"]
        key = f"{about['namespace']}/{about['name']}"
        patch = patches.opening(pod)
        if not patch:
            click.echo(f"{key}: no gate of Tiphys is on it", err=True)
            return sessions.NO
        try:
            made = await session.api.patch(
                f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}",
                patch,
                content_type=apis.JSON_PATCH,
                params={"dryRun": "All"} if dry_run else None,
            )
        except apis.ForbiddenError as error:
            click.echo(f"tiphys: {error}\nIt needs {RIGHT}.", err=True)
            return sessions.FORBIDDEN
        except apis.ConflictError:
            click.echo(f"tiphys: {key} changed meanwhile; look again", err=True)
            return sessions.NO
        others = views.gates(made)
        if session.output != "table":
            result = {"pod": key, "opened": not dry_run, "patch": patch, "otherGates": [*others]}
            sessions.show(result, session.output)
            return sessions.YES
        click.echo(f"{key}: its gate {'would be' if dry_run else 'is'} open")
        if others:
            click.echo(f"It still waits for other gates: {', '.join(others)}")
        return sessions.YES

    return sessions.run(work, **shared)


def main(arguments: list[str]) -> int:
    """Run the subcommand; return its exit code."""
    return sessions.main(release, "release", arguments)
