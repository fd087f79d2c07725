"""Packing and unpacking artifacts as Argo's executor does: gzipped tar, zip, or as they are.

Source: argo-workflows v4.0.5, `util/archive`, `workflow/executor/executor.go` (`untar`, `unzip`,
`unpack`, `isTarball`).
"""

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

NOT_A_TAR = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error)


def pack_tar(source: Path, target: Path, *, level: int) -> None:
    """Write `source` as a gzipped tar whose top entry has its name."""
    with (
        gzip.open(target, "wb", compresslevel=level) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        archive.add(source, arcname=source.name)


def pack_zip(source: Path, target: Path) -> None:
    """Write the files of `source` as a zip."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        paths = sorted(source.rglob("*")) if source.is_dir() else [source]
        for path in paths:
            # A link is left out: here, outside the container, it could lead anywhere.
            if path.is_file() and not path.is_symlink():
                archive.write(path, str(path.relative_to(source.parent)))


def is_tar(path: Path) -> bool:
    """Whether a file is a gzipped tar."""
    if not path.is_file():
        return False
    try:
        with tarfile.open(path, "r:gz") as archive:
            archive.next()
    except NOT_A_TAR:
        return False
    return True


def unpack_tar(source: Path, target: Path) -> None:
    """Unpack a tar, gzipped or not, to `target`; entries that lead outside are refused."""

    def extract(folder: Path) -> None:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")

    _unpack(target, extract)


def unpack_zip(source: Path, target: Path) -> None:
    """Unpack a zip to `target`."""

    def extract(folder: Path) -> None:
        with zipfile.ZipFile(source) as archive:
            archive.extractall(folder)

    _unpack(target, extract)


def _unpack(target: Path, extract: Callable[[Path], None]) -> None:
    """Extract beside `target`; a single entry takes its place itself, several become a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as name:
        folder = Path(name) / "content"
        folder.mkdir()
        extract(folder)
        entries = list(folder.iterdir())
        found = entries[0] if len(entries) == 1 else folder
        if target.is_dir():
            shutil.rmtree(target)
        found.rename(target)
