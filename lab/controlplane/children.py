"""Child processes of the supervisor: their logs, their end, and an end with them at its death."""

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from lab.controlplane import processes

TAIL_LINES = 15
TAIL_BYTES = 8192
READ_BYTES = 256 * 1024
LOOK_EVERY_S = 0.2


class Child:
    """A started process; `ended` is done (with its return code) as soon as it is gone."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        folder: Path,
        keep: Sequence[int] = (),
    ) -> None:
        """Start `arguments` in `folder`; `keep` are file descriptors that it inherits."""
        loop = asyncio.get_running_loop()
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.log_offset = log.stat().st_size if log.exists() else 0
        with log.open("ab") as sink:
            # The supervisor has one thread, so code between fork and exec is safe here.
            self._popen = subprocess.Popen(
                list(arguments),
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                pass_fds=tuple(keep),
                preexec_fn=processes.dying_with(processes.current()),
            )
        found = processes.process(self._popen.pid)
        assert found is not None, "a child that nobody reaped has an entry in /proc"
        self.process = found
        self.ended: asyncio.Future[int] = loop.create_future()
        self._pidfd = os.pidfd_open(self._popen.pid)
        loop.add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.ended.set_result(self._popen.wait())

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self.ended.done()

    def signal(self, number: int) -> None:
        """Send a signal; it is our child and not reaped, so the pid is its own."""
        if self.running:
            self._popen.send_signal(number)

    async def end(self, *, grace_s: float) -> int:
        """SIGTERM, SIGKILL after `grace_s`; returns the return code."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        await asyncio.wait([self.ended], timeout=grace_s)
        self.signal(signal.SIGKILL)
        return await self.ended

    def how_it_ended(self) -> str:
        """Return `exit code 1` or `SIGKILL`."""
        code = self.ended.result()
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def tail(self) -> str:
        """Return the last lines that it wrote since it was started."""
        return tail(self.log, since=self.log_offset)


def tail(
    log: Path, *, since: int = 0, lines: int = TAIL_LINES, within_bytes: int = TAIL_BYTES
) -> str:
    """Return the last lines of a log after byte `since`; empty where there are none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(since, size - within_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def follow(log: Path, *, lines: int, within_bytes: int, over: Callable[[], bool]) -> Iterator[str]:
    """Yield the last lines of a log, then what is added, until `over` and all was yielded.

    A log that begins anew under the same name is followed from its beginning.
    """
    with contextlib.ExitStack() as stack:
        file: BinaryIO = stack.enter_context(log.open("rb"))
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - within_bytes))
        # What is read here and what is read below come from one place in one file: none is lost.
        yield decoder.decode(b"".join(file.read().splitlines(keepends=True)[-lines:]))
        while True:
            # Both are asked before reading: what was written until then is read for sure.
            last, other = over(), _another(log, file)
            while received := file.read(READ_BYTES):
                yield decoder.decode(received)
            if other is not None:
                file = stack.enter_context(other)
            elif last:
                return
            else:
                time.sleep(LOOK_EVERY_S)


def _another(log: Path, file: BinaryIO) -> BinaryIO | None:
    """Return what stands at the place of the file that is read, open, if it is another one."""
    try:
        other = log.open("rb")
    except FileNotFoundError:
        return None
    if os.path.samestat(os.fstat(other.fileno()), os.fstat(file.fileno())):
        other.close()
        return None
    return other
