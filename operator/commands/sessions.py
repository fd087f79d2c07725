"""What all commands share: options, a client, exit codes, and how answers are printed.

Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 there is no such object, 4 not allowed,
5 the API server does not answer.
"""

import asyncio
import dataclasses
import functools
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from rich import console, table

from tiphys.models.domain import errors
from tiphys.operator import apis, credentials, dispatch
from tiphys.operator.commands import refusals

YES, NO, USAGE, MISSING, FORBIDDEN, SILENT = range(6)
EXIT_CODES = (
    "Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 no such object, 4 not allowed, "
    "5 no answer."
)
SYSTEM = "tiphys-system"
OUTPUTS = ("table", "json", "yaml")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""What Kubernetes takes as a name."""
NAMED = (
    "Name a kubeconfig with --kubeconfig or in KUBECONFIG; `python -m lab kubeconfig` prints the "
    "path of a lab's, which is there while the lab is up (`python -m lab status`)."
)
Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run of a command."""

    api: apis.Api
    namespace: str
    output: str
    system: str


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command has."""
    for option in reversed(
        (
            click.option("-n", "--namespace", default="", help="Default: the context's."),
            click.option(
                "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True
            ),
            click.option(
                "--kubeconfig",
                type=click.Path(path_type=Path, dir_okay=False),
                help="Default: $KUBECONFIG, then ~/.kube/config.",
            ),
            click.option("--context", default="", help="Default: the kubeconfig's current one."),
            click.option("--as", "user", default="", help="Ask as this user (impersonation)."),
            click.option(
                "--as-group", "groups", multiple=True, help="And as of this group; repeatable."
            ),
            click.option("--as-uid", "uid", default="", help="And with this uid."),
            click.option(
                "--system-namespace", default=SYSTEM, show_default=True, help="Where Tiphys runs."
            ),
        )
    ):
        function = option(function)
    return function


def run(
    work: Callable[[Session], Awaitable[int]],
    *,
    kubeconfig: Path | None,
    context: str,
    user: str,
    groups: tuple[str, ...],
    uid: str,
    namespace: str,
    output: str,
    system_namespace: str,
) -> int:
    """Run the work of a command with a client; return its exit code, with errors in one line."""

    server = ""

    async def inside() -> int:
        nonlocal server
        for each in filter(None, (namespace, system_namespace)):
            if not NAME.fullmatch(each):
                raise errors.InputError(f"{each!r} cannot name a namespace")
        login = credentials.find(kubeconfig, context=context)
        server = login.server
        given = namespace or str(getattr(login, "namespace", "") or "default")
        # What is typed stands in for what the kubeconfig says, as with kubectl.
        headers = credentials.impersonation(user, groups, uid) or getattr(
            login, "impersonation", ()
        )
        async with apis.Api(
            login, agent="tiphys-cli", attempts=2, timeout_s=15.0, headers=headers
        ) as api:
            return await work(
                Session(api=api, namespace=given, output=output, system=system_namespace)
            )

    try:
        return asyncio.run(inside())
    except errors.TiphysError as error:
        return failed(error, server=server)


def failed(error: errors.TiphysError, *, server: str = "") -> int:
    """Say what went wrong and return the exit code that stands for it; `server` was asked."""
    said = refusals.words(error, server)
    hint = f". {NAMED}" if isinstance(error, credentials.AbsentError) else ""
    click.echo(f"tiphys: {said}{hint}", err=True)
    if isinstance(error, apis.NotFoundError):
        return MISSING
    if isinstance(error, errors.RefusedError):
        return FORBIDDEN
    if isinstance(error, errors.UnavailableError):
        return SILENT
    return USAGE if isinstance(error, errors.InputError) else NO


def main(command: click.Command, name: str, arguments: list[str]) -> int:
    """Run a click command as a subcommand of `tiphys`; return its exit code."""
    try:
        code = command.main(
            arguments,
            prog_name=f"{dispatch.program(sys.argv[0])} {name}",
            standalone_mode=False,
            help_option_names=["-h", "--help"],
        )
    except click.ClickException as error:
        error.show()
        return USAGE
    except click.Abort:
        return NO
    return int(code or 0)


def show(found: object, output: str) -> None:
    """Print an answer as JSON or YAML."""
    if output == "json":
        click.echo(json.dumps(found, indent=2, ensure_ascii=False, default=str))
    else:
        click.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=100), nl=False)


@functools.cache
def screen() -> console.Console:
    """Return where tables go; a pipe gets no colours and enough columns."""
    width = None if sys.stdout.isatty() else 160
    return console.Console(width=width, highlight=False, soft_wrap=False)


def listed(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table."""
    shown = table.Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*row)
    screen().print(shown)


def facts(rows: list[tuple[str, str]]) -> None:
    """Print names and values under one another; empty values are left out."""
    shown = table.Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in rows:
        if value:
            shown.add_row(name, value)
    screen().print(shown)


def text(found: Mapping[str, Any], *path: str) -> str:
    """Return a text deep in a JSON value, or an empty one."""
    value: Any = found
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def some(names: Sequence[str], *, most: int, between: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more
