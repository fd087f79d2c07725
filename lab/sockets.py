"""Commands to the processes of a lab through their Unix sockets: one JSON line, one in answer."""

import socket
from pathlib import Path

import msgspec

from lab import errors


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process says when a command is done."""

    ok: bool
    error: str = ""
    exit_code: int = 1
    """The one that belongs to the error (see `lab.errors`)."""


def send(
    path: Path, command: msgspec.Struct, *, who: str, absent: str, log: Path, within_s: float
) -> None:
    """Send one command to `who` listens at `path`, and wait until it is done.

    Raises `UsageError` with the text `absent` where nobody listens, and `LabError` with the text of
    the answer, or where there is none within `within_s`: it names `log`.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(within_s)
        try:
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode(command) + b"\n")
            with connection.makefile("rb") as stream:
                raw = stream.readline()
        except TimeoutError as error:
            raise errors.LabError(
                f"{who} did not do in {within_s:.0f} s what it was told to: see {log}"
            ) from error
        except OSError as error:  # also a path that is too long for any lab to listen at
            raise errors.UsageError(absent) from error
    if not raw:
        raise errors.LabError(f"{who} ended before it answered: see {log}")
    answer = msgspec.json.decode(raw, type=Answer)
    if not answer.ok:
        refusal = errors.LabError(answer.error)
        refusal.exit_code = answer.exit_code
        raise refusal
