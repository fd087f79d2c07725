"""Commands to the processes of a lab through their Unix sockets: one JSON line, one in answer.

`{"fault": "slow-disk", "node": "ssd-0", "iops": 2000}` is answered with `{"ok": true}` when it is
done, or with `{"ok": false, "error": "…", "exit_code": 2}`.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from lab import errors

Command = TypeVar("Command", bound=msgspec.Struct)

logger = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process says when a command is done."""

    ok: bool
    error: str = ""
    exit_code: int = 1
    """The one that belongs to the error (see `lab.errors`)."""


async def serve(
    path: Path, kind: type[Command], obey: Callable[[Command], Awaitable[None]], *, who: str
) -> asyncio.Server:
    """Listen at `path` for commands of one kind; only its owner can connect.

    `obey` raises `LabError` for a refusal. Whatever else it raises is answered as a failure of
    `who`, and logged.
    """

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            async for line in reader:
                answer = await _answer(line, kind, obey, who=who)
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
            writer.close()
            await writer.wait_closed()

    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(hear, path)
    finally:
        os.umask(before)


async def _answer(
    line: bytes, kind: type[Command], obey: Callable[[Command], Awaitable[None]], *, who: str
) -> Answer:
    try:
        await obey(msgspec.json.decode(line, type=kind))
    except errors.LabError as error:
        return Answer(ok=False, error=str(error), exit_code=error.exit_code)
    except msgspec.MsgspecError as error:
        return Answer(ok=False, error=f"not a command: {error}", exit_code=2)
    except Exception as error:
        logger.exception("a command failed")
        return Answer(ok=False, error=f"{who} failed: {error!r}; see its log")
    return Answer(ok=True)


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
