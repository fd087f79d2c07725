"""Commands to a running supervisor, on `HOME/supervisor.sock` (see `lab.sockets`)."""

import asyncio

import msgspec

from lab import errors, homes, invocations, sockets
from lab.controlplane import supervisors

COMPONENT_COMMANDS = ("start", "stop", "restart", "kill", "pause", "resume")
ANSWER_WITHIN_S = 150.0
"""Longer than any component may take to end and to come up."""


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client asks for; `component` is empty for `shutdown`."""

    command: str
    component: str = ""


async def serve(home: homes.Home, supervisor: supervisors.Supervisor) -> asyncio.Server:
    """Listen on the socket of the lab; only its owner can connect."""

    async def obey(asked: Command) -> None:
        match asked.command:
            case "shutdown":
                supervisor.close()
            case name if name in COMPONENT_COMMANDS:
                await getattr(supervisor, name)(asked.component)
            case name:
                known = ", ".join(("shutdown", *COMPONENT_COMMANDS))
                raise errors.UsageError(f"no command {name!r}: there are {known}")

    return await sockets.serve(home.supervisor_socket, Command, obey, who="the supervisor")


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
