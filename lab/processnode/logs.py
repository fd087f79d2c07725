"""Container logs on disk, as the shims write them: reading, following, and keeping few.

One line is `2026-11-30T05:42:47.443007352Z stdout F text`; `P` instead of `F` marks a part of a
line that goes on. `CONTAINER.log` is the run of now, `CONTAINER.previous.log` the one before, and
a file that grew too long goes on in a new one, with its beginning in `.1`.
"""

import asyncio
import os
import shutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lab import apis

KEPT_FOLDERS = 200
"""Log folders of pods that are kept, the oldest go first."""
MESSAGE_BYTES = 4096
MESSAGE_LOG_BYTES, MESSAGE_LOG_LINES = 2048, 80
FOLLOW_PAUSE_S = 0.2
READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which part of a log somebody asked for."""

    since: str = ""
    """RFC 3339 time in UTC; entries before it are left out."""
    tail_lines: int | None = None
    limit_bytes: int | None = None
    timestamps: bool = False
    stream: str = ""
    """`stdout` or `stderr`; empty for both."""


def folder(root: Path, pod: apis.Object) -> Path:
    """Return the folder of a pod's logs."""
    return root / f"{pod['metadata']['namespace']}_{pod['metadata']['name']}"


def begin(log: Path) -> None:
    """Make room for a new run: what is there becomes the previous one."""
    log.parent.mkdir(parents=True, exist_ok=True)
    before = previous(log)
    for old, new in ((log, before), (_rotated(log), _rotated(before))):
        if old.exists():
            old.replace(new)
        else:
            new.unlink(missing_ok=True)


def previous(log: Path) -> Path:
    """Return the log of the run before."""
    return log.with_name(f"{log.stem}.previous.log")


def prune(root: Path, *, in_use: Iterable[Path]) -> None:
    """Delete the oldest folders beyond `KEPT_FOLDERS`."""
    kept = set(in_use)
    idle = [path for path in root.iterdir() if path.is_dir() and path not in kept]
    idle.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in idle[KEPT_FOLDERS:]:
        shutil.rmtree(path, ignore_errors=True)


def read(log: Path, wanted: Wanted) -> bytes:
    """Return what is asked for of the entries so far."""
    text = b"".join(_last(_chosen(_entries(log), wanted), wanted.tail_lines))
    return text if wanted.limit_bytes is None else text[: wanted.limit_bytes]


async def follow(log: Path, wanted: Wanted, *, over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the entries so far, then what is written later, until `over` and all was yielded."""
    while not log.exists():
        if over():
            return
        await asyncio.sleep(FOLLOW_PAUSE_S)
    earlier = list(_entries(_rotated(log)))
    file = log.open("rb")
    try:
        # The file that is read first is the one that is followed: no entry falls between.
        *whole, rest = file.read().split(b"\n")
        entries = [*earlier, *(line + b"\n" for line in whole)]
        yield b"".join(_last(_chosen(entries, wanted), wanted.tail_lines))
        while True:
            # Both are asked before reading: what was written until then is read for sure.
            last, moved = over(), _is_other(log, file)
            while received := file.read(READ_BYTES):
                *whole, rest = (rest + received).split(b"\n")
                if text := b"".join(_chosen((line + b"\n" for line in whole), wanted)):
                    yield text
            if moved:
                file.close()
                file = log.open("rb")
            elif last:
                return
            else:
                await asyncio.sleep(FOLLOW_PAUSE_S)
    finally:
        file.close()


def _is_other(log: Path, file: BinaryIO) -> bool:
    """Whether another file stands at the place of the one that is read."""
    return log.exists() and log.stat().st_ino != os.fstat(file.fileno()).st_ino


def last_words(log: Path) -> str:
    """Return the end of a log, for the termination message of a container that said nothing."""
    wanted = Wanted(tail_lines=MESSAGE_LOG_LINES)
    return read(log, wanted)[-MESSAGE_LOG_BYTES:].decode(errors="replace")


def _rotated(log: Path) -> Path:
    return log.with_name(log.name + ".1")


def _entries(log: Path) -> Iterator[bytes]:
    for path in (_rotated(log), log):
        if path.exists():
            with path.open("rb") as file:
                yield from file


def _last(entries: Iterator[bytes], count: int | None) -> Iterable[bytes]:
    return entries if count is None else deque(entries, maxlen=count)


def _chosen(entries: Iterable[bytes], wanted: Wanted) -> Iterator[bytes]:
    for entry in entries:
        at, stream, tag, text = (*entry.split(b" ", 3), b"", b"", b"")[:4]
        if (wanted.since and at.decode() < wanted.since) or (
            wanted.stream and stream.decode() != wanted.stream
        ):
            continue
        if tag == b"P":
            text = text.removesuffix(b"\n")
        yield at + b" " + text if wanted.timestamps else text
