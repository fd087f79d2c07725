"""`tiphys release`: the releaser's process with `--watch` or `--once`, a person's command without.

Nothing is imported before it is known which: the releaser loads almost nothing (a test holds it).
"""

import importlib
from collections.abc import Callable

PROCESS = frozenset({"--watch", "--once"})


def main(arguments: list[str]) -> int:
    """Run whichever is meant; return its exit code."""
    name = "releaser.processes" if PROCESS.intersection(arguments) else "commands.releases"
    command: Callable[[list[str]], int] = importlib.import_module(f"tiphys.operator.{name}").main
    return command(arguments)
