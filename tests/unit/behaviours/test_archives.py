import io
import tarfile
from pathlib import Path

import pytest

from lab.kubelet.behaviours import archives


def test_a_packed_file_comes_back_as_a_file(tmp_path: Path) -> None:
    """A tar of one entry is unpacked to that entry, under the wanted name."""
    (tmp_path / "hello.txt").write_text("hello")
    archives.pack_tar(tmp_path / "hello.txt", tmp_path / "a.tgz", level=0)
    assert archives.is_tar(tmp_path / "a.tgz")
    archives.unpack_tar(tmp_path / "a.tgz", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "hello"


def test_a_packed_folder_comes_back_as_a_folder(tmp_path: Path) -> None:
    """Its own name is replaced by the wanted one."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").write_text("x")
    archives.pack_tar(tmp_path / "d", tmp_path / "a.tgz", level=6)
    archives.unpack_tar(tmp_path / "a.tgz", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]


def test_a_zip_comes_back_as_it_was(tmp_path: Path) -> None:
    """One file or several."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").write_text("x")
    archives.pack_zip(tmp_path / "d", tmp_path / "a.zip")
    archives.unpack_zip(tmp_path / "a.zip", tmp_path / "out")
    assert (tmp_path / "out/x").read_text() == "x"


@pytest.mark.parametrize("content", [b"", b"plain", b"\x1f\x8b\x08\x00broken"])
def test_other_files_are_no_tars(tmp_path: Path, content: bytes) -> None:
    """What is no gzipped tar stays as it is."""
    (tmp_path / "f").write_bytes(content)
    assert not archives.is_tar(tmp_path / "f")


@pytest.mark.parametrize("name", ["../out-of-it", "/tmp/out-of-it"])
def test_a_tar_cannot_write_outside(tmp_path: Path, name: str) -> None:
    """An artifact is somebody else's file; its names are not trusted."""
    with tarfile.open(tmp_path / "evil.tgz", "w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
        archive.addfile(tarfile.TarInfo("fine"), io.BytesIO())
    if name.startswith("/"):
        archives.unpack_tar(tmp_path / "evil.tgz", tmp_path / "out")
        assert not Path(name).exists()
    else:
        with pytest.raises(tarfile.TarError):
            archives.unpack_tar(tmp_path / "evil.tgz", tmp_path / "out")
        assert not (tmp_path / "out").exists()
