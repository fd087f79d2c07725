"""Commands to a running supervisor on `HOME/supervisor.sock`: one JSON line, one in answer.

`{"command": "restart", "component": "etcd"}` is answered with `{"ok": true}` when it is done, or
with `{"ok": false, "error": "…", "exit_code": 2}`.
"""

import asyncio
import contextlib
import logging
import os

import msgspec

from lab import errors, homes, invocations, sockets
from lab.controlplane import supervisors

COMPONENT_COMMANDS = ("start", "stop", "restart", "kill", "pause", "resume")
ANSWER_WITHIN_S = 150.0
"""Longer than any component may take to end and to come up."""

logger = logging.getLogger("lab.controlplane")


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client asks for; `component` is empty for `shutdown`."""

    command: str
    component: str = ""


async def serve(home: homes.Home, supervisor: supervisors.Supervisor) -> asyncio.Server:
    """Listen on the socket of the lab; only its owner can connect."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            if line := await reader.readline():
                writer.write(msgspec.json.encode(await _obey(supervisor, line)) + b"\n")
                await writer.drain()
        writer.close()

    home.supervisor_socket.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(answer, home.supervisor_socket)
    finally:
        os.umask(before)


async def _obey(supervisor: supervisors.Supervisor, line: bytes) -> sockets.Answer:
    try:
        asked = msgspec.json.decode(line, type=Command)
        match asked.command:
            case "shutdown":
                supervisor.close()
            case name if name in COMPONENT_COMMANDS:
                await getattr(supervisor, name)(asked.component)
            case name:
                known = ", ".join(("shutdown", *COMPONENT_COMMANDS))
                raise errors.UsageError(f"no command {name!r}: there are {known}")
    except errors.LabError as error:
        return sockets.Answer(ok=False, error=str(error), exit_code=error.exit_code)
    except msgspec.DecodeError as error:
        return sockets.Answer(ok=False, error=f"not a command: {error}", exit_code=2)
    except Exception as error:
        logger.exception("a command failed")
        return sockets.Answer(ok=False, error=f"the supervisor failed: {error!r}; see its log")
    return sockets.Answer(ok=True)


def send(
    home: homes.Home, command: str, component: str = "", *, within_s: float = ANSWER_WITHIN_S
) -> None:
    """Send one command and wait until it is done; raises `LabError` with the answer's text.

    Raises `UsageError` when nobody listens, that is when the lab does not run.
    """
    sockets.send(
        home.supervisor_socket,
        Command(command=command, component=component),
        who=f"the supervisor of lab {home.name!r}",
        absent=f"lab {home.name!r} does not listen: "
        f"see `{invocations.lab()} status --name {home.name}`",
        log=home.logs / "supervisor.log",
        within_s=within_s,
    )
