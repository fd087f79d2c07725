from pathlib import Path

import pytest

from lab.kubelet.behaviours import stores


def s3(root: Path, key: str) -> stores.Place:
    """Return a place in one bucket."""
    return stores.place(root, {"s3": {"endpoint": "e", "bucket": "b", "key": key}})


def a_file(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_key_and_a_key_below_it_exist_side_by_side(tmp_path: Path) -> None:
    """As in an object store, where keys are no folders."""
    root = tmp_path / "store"
    stores.put(s3(root, "a"), a_file(tmp_path, "1", "one"))
    stores.put(s3(root, "a/b"), a_file(tmp_path, "2", "two"))
    stores.get(s3(root, "a"), tmp_path / "got")
    assert (tmp_path / "got").read_text() == "one"
    stores.get(s3(root, "a/b"), tmp_path / "got2")
    assert (tmp_path / "got2").read_text() == "two"


def test_a_prefix_fetches_a_folder(tmp_path: Path) -> None:
    """Everything below the key, at its place below."""
    root = tmp_path / "store"
    stores.put(s3(root, "run/1/x"), a_file(tmp_path, "1", "one"))
    stores.put(s3(root, "run/y"), a_file(tmp_path, "2", "two"))
    stores.get(s3(root, "run"), tmp_path / "got")
    assert (tmp_path / "got/1/x").read_text() == "one"
    assert (tmp_path / "got/y").read_text() == "two"


def test_a_folder_is_put_file_by_file_without_links(tmp_path: Path) -> None:
    """S3 knows no links, so they are left out."""
    folder = tmp_path / "out"
    a_file(folder, "a", "1")
    (folder / "link").symlink_to("a")
    stores.put(s3(tmp_path / "store", "parts/"), folder)
    assert list(stores.keys_below(s3(tmp_path / "store", "parts"))) == ["parts/a"]


def test_a_missing_key_is_said_in_the_words_of_s3(tmp_path: Path) -> None:
    """Optional artifacts are told apart from broken ones by the error's type."""
    with pytest.raises(stores.NoSuchKeyError, match="The specified key does not exist"):
        stores.get(s3(tmp_path, "nowhere"), tmp_path / "got")


@pytest.mark.parametrize("key", ["../../etc/passwd", "a/../../b", "/abs", "a//b", "..", "a+/b"])
def test_no_key_leads_out_of_its_bucket(tmp_path: Path, key: str) -> None:
    """Keys are names chosen by workflows; they must not reach other files of the machine."""
    place = s3(tmp_path / "store", key)
    stores.put(place, a_file(tmp_path, "source", "x"))
    assert place.file.resolve().is_relative_to(tmp_path / "store" / "s3" / "b")
    stores.get(place, tmp_path / "got")
    assert (tmp_path / "got").read_text() == "x"


def test_deleting_takes_an_object_and_all_below_it(tmp_path: Path) -> None:
    """And is no error when there is nothing."""
    root = tmp_path / "store"
    stores.put(s3(root, "a"), a_file(tmp_path, "1", "one"))
    stores.put(s3(root, "a/b"), a_file(tmp_path, "2", "two"))
    stores.delete(s3(root, "a"))
    stores.delete(s3(root, "a"))
    assert list(stores.keys_below(s3(root, ""))) == []


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ({"gcs": {"bucket": "b", "key": "k"}}, "gcs/b"),
        ({"azure": {"container": "c", "blob": "k"}}, "azure/c"),
        ({"hdfs": {"addresses": ["a"], "path": "/k"}}, "hdfs/all"),
        ({"http": {"url": "https://example.com/x?y=z"}}, "http/all"),
    ],
)
def test_each_kind_of_store_has_a_folder(
    tmp_path: Path, location: dict[str, object], folder: str
) -> None:
    """Locations differ in their words only."""
    assert stores.place(tmp_path, location).file.is_relative_to(tmp_path / folder)
