"""How long work is shown: one line that moves on a terminal, a line every 20 s without one."""

import sys
import time
from types import TracebackType
from typing import Self

import click
from rich import console, progress

from lab.controlplane import builds, states

PLAIN_EVERY_S = 20.0
EXPLAINED = "the first time takes 10 to 20 minutes on two cores; interrupting loses nothing"


class Builds:
    """Shows builds; use as `with Builds() as shown`, and hand `shown.report` to the builder."""

    def __init__(self, *, terminal: bool | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._said_at = 0.0
        self._last = ("", "")
        self._bar: progress.Progress | None = None
        self._task: progress.TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def report(self, step: builds.Progress) -> None:
        """Show one step."""
        if not self._last[0]:
            click.echo(f"building {step.count} programs; {EXPLAINED}", err=True)
        if self._terminal:
            self._move(step)
        else:
            self._say(step)
        self._last = (step.program, step.stage)

    def _say(self, step: builds.Progress) -> None:
        now = time.monotonic()
        news = step.program != self._last[0] or step.stage is builds.Stage.DONE
        if news or now - self._said_at >= PLAIN_EVERY_S:
            self._said_at = now
            click.echo(f"  {in_words(step)}", err=True)

    def _move(self, step: builds.Progress) -> None:
        if self._bar is None:
            self._bar = progress.Progress(
                progress.SpinnerColumn(),
                progress.TextColumn("{task.description}"),
                console=console.Console(stderr=True),
            )
            self._bar.start()
        if step.program != self._last[0]:
            self._task = self._bar.add_task(in_words(step), total=1)
        assert self._task is not None
        done = step.stage is builds.Stage.DONE
        self._bar.update(self._task, description=in_words(step), completed=int(done))


def in_words(step: builds.Progress) -> str:
    """Return `kube-apiserver (2 of 5): compiling, 312 packages of at most 1948, 45 s`."""
    parts = [str(step.stage)]
    if step.packages:
        most = f" of at most {step.packages_at_most}" if step.packages_at_most else ""
        parts.append(f"{step.packages} packages{most}")
    parts.append(f"{step.elapsed_s:.0f} s")
    return f"{step.program} ({step.number} of {step.count}): {', '.join(parts)}"


class Starts:
    """Says once of each component that it is ready."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def report(self, state: states.State) -> None:
        """Show what is new in a state."""
        for item in state.components:
            if item.ready_after_s is not None and item.name not in self._said:
                self._said.add(item.name)
                click.echo(f"  {item.name:24} ready after {item.ready_after_s:4.1f} s", err=True)
