"""Commands to a running supervisor on `HOME/supervisor.sock`: one JSON line, one in answer.

`{"command": "restart", "component": "etcd"}` is answered with `{"ok": true}` when it is done, or
with `{"ok": false, "error": "…", "exit_code": 2}`.
"""

import asyncio
import contextlib
import os
import socket

import msgspec

from lab import errors, homes
from lab.controlplane import states, supervisors

COMPONENT_COMMANDS = ("start", "stop", "restart", "kill", "pause", "resume")
ANSWER_WITHIN_S = 150.0
"""Longer than any component may take to end and to come up."""


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client asks for; `component` is empty for `status` and `shutdown`."""

    command: str
    component: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the supervisor says when the command is done."""

    ok: bool
    error: str = ""
    exit_code: int = 1
    state: states.State | None = None
    """With `status` only."""


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


async def _obey(supervisor: supervisors.Supervisor, line: bytes) -> Answer:
    try:
        asked = msgspec.json.decode(line, type=Command)
        match asked.command:
            case "status":
                return Answer(ok=True, state=supervisor.state)
            case "shutdown":
                supervisor.close()
            case name if name in COMPONENT_COMMANDS:
                await getattr(supervisor, name)(asked.component)
            case name:
                known = ", ".join(("status", "shutdown", *COMPONENT_COMMANDS))
                raise errors.UsageError(f"no command {name!r}: there are {known}")
    except errors.LabError as error:
        return Answer(ok=False, error=str(error), exit_code=error.exit_code)
    except msgspec.DecodeError as error:
        return Answer(ok=False, error=f"not a command: {error}", exit_code=2)
    return Answer(ok=True)


def send(home: homes.Home, command: str, component: str = "") -> Answer:
    """Send one command and wait until it is done; raises `LabError` with the answer's text.

    Raises `UsageError` when nobody listens, that is when the lab does not run.
    """
    line = msgspec.json.encode(Command(command=command, component=component)) + b"\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_WITHIN_S)
        try:
            connection.connect(str(home.supervisor_socket))
            connection.sendall(line)
            with connection.makefile("rb") as stream:
                raw = stream.readline()
        except TimeoutError as error:
            raise errors.LabError(
                f"the supervisor of lab {home.name!r} gave no answer to `{command}` in "
                f"{ANSWER_WITHIN_S:.0f} s: see {home.logs / 'supervisor.log'}"
            ) from error
        except OSError as error:  # also a path that is too long for any lab to listen at
            raise errors.UsageError(
                f"lab {home.name!r} does not listen: `python -m lab status --name {home.name}`"
            ) from error
    if not raw:
        raise errors.LabError(f"the supervisor of lab {home.name!r} ended before it answered")
    answer = msgspec.json.decode(raw, type=Answer)
    if not answer.ok:
        refusal = errors.LabError(answer.error)
        refusal.exit_code = answer.exit_code
        raise refusal
    return answer
