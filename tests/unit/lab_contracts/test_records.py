"""Records are whole on disk, and what is none ends in a sentence."""

from pathlib import Path

import msgspec
import pytest

from lab import errors, records


class Thing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record of this test."""

    size: int


def read(path: Path) -> Thing:
    """Read a thing."""
    return records.read(path, Thing, name="thing", remedy="make one")


def test_a_file_appears_whole_in_a_new_folder_and_alone(tmp_path: Path) -> None:
    """What is written beside it is gone."""
    path = tmp_path / "new" / "thing.json"
    records.write_whole(path, b'{"size": 1}')
    records.write_whole(path, b'{"size": 2}')
    assert Thing(size=2) == read(path)
    assert [path] == list(path.parent.iterdir())


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """Here a folder stands where the file should be."""
    path = tmp_path / "thing.json"
    (path / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match=r"thing\.json"):
        records.write_whole(path, b"{}")
    assert [path] == list(tmp_path.iterdir())


def test_a_missing_record_says_how_to_get_one(tmp_path: Path) -> None:
    """What, where, and the remedy."""
    with pytest.raises(errors.UsageError, match=r"^no thing at .*thing\.json: make one$"):
        read(tmp_path / "thing.json")


@pytest.mark.parametrize("content", [b"", b"{", b'{"size": "large"}', b'{"size": 1, "more": 2}'])
def test_what_is_no_record_is_named(tmp_path: Path, content: bytes) -> None:
    """Cut off, of other types, or of another version."""
    path = tmp_path / "thing.json"
    path.write_bytes(content)
    with pytest.raises(errors.UsageError, match=r"thing\.json is not a thing: "):
        read(path)
