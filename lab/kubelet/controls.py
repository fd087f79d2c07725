"""Commands to the running kubelet: one JSON line each way on `HOME/kubelet.sock`.

`{"fault": "slow-disk", "node": "ssd-0", "iops": 2000}` is answered with `{"ok": true}` when it has
happened, or with `{"ok": false, "error": "…", "exit_code": 2}`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from lab import errors
from tiphys.models.physics import errors as physics_errors

logger = logging.getLogger(__name__)


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to happen, and to which node; amounts as the fault needs them."""

    fault: str
    node: str = ""
    bandwidth: float | None = None
    """Disk cap in bytes/s; None leaves it as it is."""
    iops: float | None = None
    root: int = 0
    """PCIe root complex."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a command."""

    ok: bool
    error: str = ""
    exit_code: int = 1


async def serve(path: Path, obey: Callable[[Command], Awaitable[None]]) -> asyncio.Server:
    """Listen on a socket; only its owner can connect. `obey` raises `LabError` for a refusal."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            async for line in reader:
                writer.write(msgspec.json.encode(await _answer(line, obey)) + b"\n")
                await writer.drain()
            writer.close()
            await writer.wait_closed()

    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(answer, path)
    finally:
        os.umask(before)


async def _answer(line: bytes, obey: Callable[[Command], Awaitable[None]]) -> Answer:
    try:
        await obey(msgspec.json.decode(line, type=Command))
    except errors.LabError as error:
        return Answer(ok=False, error=str(error), exit_code=error.exit_code)
    except physics_errors.PhysicsError as error:
        return Answer(ok=False, error=str(error), exit_code=2)
    except msgspec.MsgspecError as error:
        return Answer(ok=False, error=f"not a command: {error}", exit_code=2)
    except Exception as error:
        logger.exception("a command failed")
        return Answer(ok=False, error=f"the simulated kubelet failed: {error!r}; see its log")
    return Answer(ok=True)
