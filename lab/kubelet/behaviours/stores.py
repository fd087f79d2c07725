"""The simulated object store: every kind of artifact repository is folders below HOME/artifacts.

S3, GCS, OSS, Azure, HDFS, Artifactory, HTTP and plugin locations differ in their words only: a
kind and a bucket choose a folder, a key chooses a file in it. A key is kept as one file; its
folders are marked (`logs+/main`), so that the keys `logs` and `logs/main` can exist side by side,
as they can in an object store. Objects keep S3's rules: a key that is no object may be the prefix
of several.
"""

import shutil
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.kubelet.behaviours import templates

BUCKET_FIELD = {
    "artifactory": "",
    "azure": "container",
    "gcs": "bucket",
    "hdfs": "",
    "http": "",
    "oss": "bucket",
    "s3": "bucket",
    "plugin": "name",
}
"""Which field of a location names its bucket; empty where the key alone says it all."""


class NoSuchKeyError(Exception):
    """Neither an object nor a prefix of one has this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one object, or all objects below a prefix, lie."""

    bucket: Path
    key: str

    @property
    def file(self) -> Path:
        """The file of the object itself."""
        *folders, name = _segments(self.key)
        return self.bucket.joinpath(*(f"{folder}+" for folder in folders), name)

    @property
    def prefix(self) -> Path:
        """The folder of the objects whose keys begin with this key and a slash."""
        return self.bucket.joinpath(*(f"{segment}+" for segment in _segments(self.key)))


def place(root: Path, artifact: templates.Artifact) -> Place:
    """Return where an artifact with a whole location lies in the store below `root`."""
    found = templates.location(artifact)
    assert found is not None, "relocate first"
    kind, body = found
    return Place(
        bucket=root / kind / _quoted(_bucket(kind, body)),
        key=str(body.get(templates.KEY_FIELD[kind]) or ""),
    )


def put(place: Place, source: Path) -> None:
    """Store a file, or every file of a folder below the key; links are left out, as S3 does."""
    if not source.is_dir():
        _copy(source, place.file)
        return
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink():
            key = f"{place.key.rstrip('/')}/{path.relative_to(source)}"
            _copy(path, Place(bucket=place.bucket, key=key).file)


def get(place: Place, target: Path) -> None:
    """Fetch an object to a file, or all below its key to a folder; raises `NoSuchKeyError`."""
    if place.key and place.file.is_file():
        _copy(place.file, target)
        return
    keys = list(keys_below(place))
    if not keys:
        raise NoSuchKeyError("The specified key does not exist.")
    for key in keys:
        relative = key.removeprefix(place.key).lstrip("/")
        _copy(Place(bucket=place.bucket, key=key).file, target / relative)


def keys_below(place: Place) -> Iterator[str]:
    """Yield the keys of all objects below a prefix, sorted; an empty key means the whole bucket."""
    folder = place.prefix if _segments(place.key) else place.bucket
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            parts = [part.removesuffix("+") for part in path.relative_to(place.bucket).parts]
            yield "/".join(urllib.parse.unquote(part) for part in parts)


def delete(place: Place) -> None:
    """Delete an object and all below its key; one that is gone already is no error."""
    place.file.unlink(missing_ok=True)
    shutil.rmtree(place.prefix, ignore_errors=True)


def _bucket(kind: str, body: dict[str, Any]) -> str:
    field = BUCKET_FIELD[kind]
    return str(body.get(field) or "default") if field else "all"


def _segments(key: str) -> list[str]:
    return [_quoted(segment) for segment in key.split("/") if segment]


def _quoted(segment: str) -> str:
    """Return a segment as a file name; dots alone would be a folder's own name or its parent's."""
    return urllib.parse.quote(segment, safe="") if segment.strip(".") else f"%2E{segment[1:]}"


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.partial")
    shutil.copyfile(source, beside)
    beside.replace(target)
