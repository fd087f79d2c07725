"""The `tiphys` command: finds the subcommand's entry point and imports nothing else.

Each folder registers its subcommands under the entry-point group `tiphys.commands`; the value is a
callable that takes the remaining arguments and returns the exit code. So `tiphys webhook` never
loads what `tiphys operator` needs.
"""

import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import TextIO

GROUP = "tiphys.commands"
WORDS = {
    "explain": "why a pod or workflow is where it is, or waits, and for what",
    "operator": "decide, dispatch and keep: the process of the Deployment tiphys-operator",
    "release": "open the gate of one pod now; with --watch or --once the releaser's process",
    "status": "operators, policies, opted-in namespaces and waiting pods",
    "verify": "check the signed decisions on a pod",
    "webhook": "answer the API server: the process of the Deployment tiphys-webhook",
}
"""What each command is for; kept here, since help loads none of them."""


def main(argv: list[str] | None = None) -> int:
    """Run the subcommand that the first argument names; return its exit code (2 = usage)."""
    arguments = sys.argv[1:] if argv is None else argv
    return run(
        arguments,
        metadata.entry_points(group=GROUP),
        out=sys.stdout,
        err=sys.stderr,
        called=program(sys.argv[0]),
    )


def program(path: str) -> str:
    """Return how a person wrote the program's name, by the path that was started."""
    name = path.rpartition("/")[2]
    return "kubectl tiphys" if name.startswith("kubectl-") else "tiphys"


def run(
    arguments: list[str],
    commands: Iterable[metadata.EntryPoint],
    *,
    out: TextIO,
    err: TextIO,
    called: str = "tiphys",
) -> int:
    """Dispatch `arguments` to one of `commands`; only the chosen one is imported."""
    known = {command.name: command for command in commands}
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        out.write(usage(sorted(known), called=called))
        return 0
    if name == "--version":
        out.write(f"tiphys {metadata.version('tiphys')}\n")
        return 0
    if name not in known:
        err.write(f"tiphys: no command {name!r}; `{called} --help` lists the commands\n")
        return 2
    try:
        command: Callable[[list[str]], int] = known[name].load()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tiphys":
            raise
        extra = known[name].module.split(".")[1]
        err.write(
            f"tiphys {name}: there is no module {error.name!r} here; install the libraries of this "
            f"command: pip install 'tiphys[{extra}]'\n"
        )
        return 2
    return command(rest)


def usage(names: list[str], *, called: str = "tiphys") -> str:
    """Return the text of `tiphys --help` for the installed command names."""
    wide = max(map(len, names), default=0)
    listed = (
        "\n".join(f"  {name:{wide}}  {WORDS.get(name, '')}".rstrip() for name in names)
        or "  (none is installed yet)"
    )
    return (
        f"usage: {called} COMMAND [ARGUMENT ...]\n\n"
        "Steers Argo Workflows: what runs next, and where.\n\n"
        f"commands:\n{listed}\n\n`{called} COMMAND --help` says more.\n\n"
        "options:\n  -h, --help   show this text\n  --version    show the version\n"
    )
