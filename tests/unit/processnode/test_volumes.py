"""What stands in volumes, that it changes all at once, and what is not given."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.processnode import environments, payloads, volumes
from tests.unit.processnode import builders as a

NAMES = st.text("abcdef.", min_size=1, max_size=4).filter(lambda name: name.strip("."))
NAMES = NAMES.filter(lambda name: not name.startswith(".."))
PAYLOADS = st.dictionaries(NAMES, st.tuples(st.binary(max_size=8), st.just(0o644)), max_size=4)


def read(folder):
    """Return what a container would see in a volume."""
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if not entry.name.startswith("..")
    }


@given(st.lists(PAYLOADS, min_size=1, max_size=4))
def test_a_volume_shows_exactly_what_was_written_last(tmp_path_factory, written):
    """Whatever was there before; and nothing old is left on disk."""
    folder = tmp_path_factory.mktemp("volume")
    for payload in written:
        payloads.write(folder, payload)
    assert {name: text for name, (text, _) in written[-1].items()} == read(folder)
    assert 2 == len([entry for entry in folder.iterdir() if entry.name.startswith("..")])


def test_all_files_change_by_one_rename(tmp_path):
    """Who reads through one look at `..data` never sees old and new together."""
    payloads.write(tmp_path, {"a": (b"1", 0o644), "deep/b": (b"1", 0o400)})
    held = os.open(tmp_path / "a", os.O_RDONLY)
    before = (tmp_path / "..data").readlink()

    payloads.write(tmp_path, {"a": (b"2", 0o644), "deep/b": (b"2", 0o400)})

    assert "..data/a" == str((tmp_path / "a").readlink())
    assert before != (tmp_path / "..data").readlink()
    assert (b"2", b"2") == (
        (tmp_path / "a").read_bytes(),
        (tmp_path / "deep" / "b").read_bytes(),
    )
    assert 0o400 == (tmp_path / "deep" / "b").stat().st_mode & 0o777
    assert b"1" == os.read(held, 9), "an open file stays what it was"
    os.close(held)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../b", "..data", ""])
def test_paths_that_leave_the_volume_are_refused(path):
    """Also those that would overwrite its own links."""
    with pytest.raises(ValueError, match="leaves its volume"):
        payloads.checked(path)


def test_projections_are_laid_over_one_another():
    """Items, modes, optional parts, fields and tokens in one volume."""
    volume = {
        "name": "all",
        "projected": {
            "defaultMode": 0o440,
            "sources": [
                {"configMap": {"name": "conf", "items": [{"key": "a", "path": "x/a"}]}},
                {"secret": {"name": "none", "optional": True}},
                {"serviceAccountToken": {"path": "token"}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "name",
                                "mode": 0o400,
                                "fieldRef": {"fieldPath": "metadata.name"},
                            }
                        ]
                    }
                },
            ],
        },
    }
    found = volumes.content(
        a.a_pod(),
        volume,
        sources=a.Sources(conf={"a": b"1", "b": b"2"}),
        place=a.PLACE,
        tokens=lambda projection: "secret",
    )
    assert {
        "x/a": (b"1", 0o440),
        "token": (b"secret", 0o440),
        "name": (b"web", 0o400),
    } == found


def the_volumes(tmp_path, *listed):
    """Return the volumes of a pod, and write them."""
    found = volumes.Volumes(
        a.a_pod(volumes=list(listed)), folder=tmp_path / "volumes", host_root=tmp_path / "home"
    )
    sources = a.Sources(conf={"a": b"1"})
    found.write(a.a_pod(), sources=sources, place=a.PLACE, tokens=lambda _: "")
    return found


def test_a_volume_that_cannot_be_made_keeps_no_other_from_its_changes(tmp_path):
    """A pod whose ConfigMap was deleted needs its next token all the same, which comes after it."""
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    pod = a.a_pod(volumes=[{"name": "conf", "configMap": {"name": "gone"}}, token])
    found = volumes.Volumes(pod, folder=tmp_path / "volumes", host_root=tmp_path)

    for text in ("first", "second"):
        with pytest.raises(environments.MissingError, match="'gone' not found"):
            found.write(pod, sources=a.Sources(), place=a.PLACE, tokens=lambda _, text=text: text)
        assert text == (tmp_path / "volumes" / "token" / "t").read_text()


def test_mounts_show_folders_or_parts_of_them(tmp_path):
    """ConfigMaps read-only whatever the mount says; a subPath of a folder is made."""
    found = the_volumes(
        tmp_path, {"name": "conf", "configMap": {"name": "conf"}}, {"name": "dir", "emptyDir": {}}
    )
    container = a.a_container(
        volumeMounts=[
            {"name": "conf", "mountPath": "/conf"},
            {"name": "conf", "mountPath": "/one", "subPath": "a"},
            {"name": "dir", "mountPath": "/dir", "subPathExpr": "of/$(POD)"},
        ]
    )
    mounts = found.mounts(container, {"POD": "web"})
    assert [True, True, False] == [mount.read_only for mount in mounts]
    assert b"1" == mounts[1].source.read_bytes()
    assert (tmp_path / "volumes" / "dir" / "of" / "web") == mounts[2].source
    assert mounts[2].source.is_dir()


@pytest.mark.parametrize("part", ["../other", "/etc"])
def test_a_sub_path_stays_in_its_volume(tmp_path, part):
    """By words."""
    found = the_volumes(tmp_path, {"name": "dir", "emptyDir": {}})
    mount = {"name": "dir", "mountPath": "/dir", "subPath": part}
    with pytest.raises(volumes.RefusedError):
        found.mounts(a.a_container(volumeMounts=[mount]), {})


def test_a_sub_path_does_not_follow_links_out_of_its_volume(tmp_path):
    """A container could have planted one."""
    found = the_volumes(tmp_path, {"name": "dir", "emptyDir": {}})
    (tmp_path / "volumes" / "dir" / "way").symlink_to("/etc")
    mount = {"name": "dir", "mountPath": "/dir", "subPath": "way/ssl"}
    with pytest.raises(volumes.RefusedError, match="leaves the volume"):
        found.mounts(a.a_container(volumeMounts=[mount]), {})


def test_a_missing_key_of_a_config_map_is_waited_for(tmp_path):
    """A subPath names a file that is not there yet."""
    found = the_volumes(tmp_path, {"name": "conf", "configMap": {"name": "conf"}})
    mount = {"name": "conf", "mountPath": "/one", "subPath": "b"}
    with pytest.raises(environments.MissingError, match="'b'"):
        found.mounts(a.a_container(volumeMounts=[mount]), {})


def test_host_paths_are_given_below_the_home_only(tmp_path):
    """Also not by a link that leads out."""
    inside = {"path": f"{tmp_path}/home/data", "type": "DirectoryOrCreate"}
    the_volumes(tmp_path, {"name": "data", "hostPath": inside})
    assert (tmp_path / "home" / "data").is_dir()
    (tmp_path / "home" / "out").symlink_to("/etc")
    for path in ("/etc", f"{tmp_path}/home/../x", f"{tmp_path}/home/out"):
        with pytest.raises(volumes.RefusedError, match="below the lab's home"):
            the_volumes(tmp_path, {"name": "data", "hostPath": {"path": path}})
