"""The data pack: a folder of public workflow traces outside the repository, and its stand-in.

Looked for in this order: the path given (`--data`), `TIPHYS_DATA`, `../shared/data` beside the
repository. Where none is given and none exists, the small sample of our own making in
`lab/workloads/sample` stands in: it shows how everything works, its figures mean nothing.
"""

import lzma
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from lab import errors

SAMPLE = Path(__file__).resolve().parent / "sample"
POINT_TO_A_PACK = "--data or TIPHYS_DATA point to a pack"
"""Said by commands that have the option."""
SAMPLE_NOTE = (
    "no data pack: the repository's own small sample stands in, so figures show how the lab "
    f"works and nothing else ({POINT_TO_A_PACK})"
)
SAMPLE_TITLE = "SAMPLE DATA: these figures show how the lab works and nothing else"
REPOSITORY = SAMPLE.parents[2]
DEFAULT = REPOSITORY.parent / "shared" / "data"

NAN = re.compile(rb"(?<=[:,\[])\s*NaN(?=[,}\]])")

Row = TypeVar("Row")
Amount = Annotated[float, msgspec.Meta(ge=0)]
"""Seconds, bytes, percent: what no trace can have less than nothing of."""
Count = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A folder laid out like the data pack; `sample` where it is the repository's own."""

    root: Path
    sample: bool = False

    @property
    def kind(self) -> str:
        """What results call it: `pack` or `sample`."""
        return "sample" if self.sample else "pack"

    def file(self, relative: str) -> Path:
        """Return a file of the pack, packed or plain; raises `UsageError` where it is missing."""
        path = self.root / relative
        plain = path.with_suffix("") if path.suffix == ".xz" else path
        if plain.is_file():
            return plain
        if not path.is_file() and self.sample:
            raise errors.UsageError(
                f"this needs {relative} of the data pack, which the repository's own sample does "
                "not have: point --data or TIPHYS_DATA to a pack"
            )
        if not path.is_file():
            raise errors.UsageError(
                f"{path} is missing: the data pack at {self.root} is not complete; copy it again, "
                "or point --data or TIPHYS_DATA to a whole one"
            )
        return path


def find(given: str | Path | None = None) -> Pack:
    """Return the data pack; raises `UsageError` where the path given is no pack."""
    named = given or os.environ.get("TIPHYS_DATA")
    if named:
        root = Path(named)
        if not root.is_dir():
            source = "--data" if given else "TIPHYS_DATA"
            raise errors.UsageError(
                f"no data pack at {root} (from {source}): give the folder that holds "
                "wfinstances/, cws_k8s/, …; without it the repository's own sample is used"
            )
        return Pack(root=root, sample=root.resolve() == SAMPLE)
    if DEFAULT.is_dir():
        return Pack(root=DEFAULT)
    return Pack(root=SAMPLE, sample=True)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, line) of a text file, unpacked if it ends in `.xz`."""
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            yield from enumerate(file, start=1)
    except (lzma.LZMAError, EOFError) as error:
        raise errors.UsageError(
            f"{path} cannot be unpacked ({error}): it is cut short or no .xz file; copy it again"
        ) from error


def rows(path: Path, kind: type[Row]) -> Iterator[tuple[str, Row]]:
    """Yield ("FILE, line N", row) of a JSON lines file; `UsageError` for a line that is not one.

    `NaN`, which is no JSON but stands in some lines of the pack, is read as null.
    """
    decoder = msgspec.json.Decoder(kind)
    for number, line in lines(path):
        where = f"{path}, line {number}"
        try:
            yield where, decoder.decode(NAN.sub(b"null", line))
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise errors.UsageError(
                f"{where}: {error}; mend or remove the line, or copy the file again"
            ) from error
