"""Turns: who submits work to a lab, one at a time, since two runs would measure each other.

A turn is a lock on `HOME/run.lock`, which the kernel takes back whatever ends its holder. The file
says who has it, for whoever comes second; what a dead holder left in it means nothing.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

import msgspec

from lab import errors, homes, invocations


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who has the turn."""

    what: str
    """In words: `a run of genomics`."""
    pid: int
    since: float
    """Wall time (unix seconds)."""

    def __str__(self) -> str:
        """Say it to whoever has to wait."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.since))
        return f"{self.what} (pid {self.pid}, since {clock})"


@contextlib.contextmanager
def taken(home: homes.Home, what: str) -> Iterator[None]:
    """Have the turn in a lab that runs; raises `UsageError` naming whoever has it already."""
    descriptor = os.open(home.root / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise errors.UsageError(_refusal(home, file.read())) from error
        file.truncate()
        file.write(msgspec.json.encode(Holder(what=what, pid=os.getpid(), since=time.time())))
        file.flush()
        yield


def _refusal(home: homes.Home, written: bytes) -> str:
    """Return why there is no turn now; a holder that has only just come may have said nothing."""
    try:
        holder = msgspec.json.decode(written, type=Holder)
    except msgspec.DecodeError:
        who, end = "another run", "end it with Ctrl-C"
    else:
        who, end = str(holder), f"end it with Ctrl-C or `kill {holder.pid}`"
    return (
        f"lab {home.name!r} is busy with {who}, and two at once would measure each other: wait for "
        f"it, {end}, or start another lab with `{invocations.lab()} up --name OTHER`"
    )
