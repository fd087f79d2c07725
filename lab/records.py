"""Files that a reader finds whole or not at all: written beside their place and renamed.

Records in JSON are read into a struct, and what is no record ends in one sentence.
"""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from lab import errors

Record = TypeVar("Record")


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write or replace a file; its folder is made where it is missing.

    `mode` is the most that others may do with it, as for `open`; the person's umask lessens it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read(path: Path, kind: type[Record], *, name: str, remedy: str) -> Record:
    """Return the record at `path`; `name` is what people call it.

    Raises `UsageError` where the file is missing (and says the `remedy`) or is no such record.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError as error:
        raise errors.UsageError(f"no {name} at {path}: {remedy}") from error
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise errors.UsageError(f"{path} is not a {name}: {error}") from error
