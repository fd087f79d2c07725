"""What a person may get wrong, told at the command line: one sentence, nothing half-written."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import catalogs, homes, records
from lab.cli import groups
from lab.controlplane import configurations, states
from lab.workloads.readers import wfinstances
from tests.unit.controlplane import fake_tools, lab_states
from tests.unit.workloads.packs_made import a_pack, a_row

UP = ("up", "--name", "new")
BUILD = ("build",)
WRITE = ("workload", "write", "{folder}/made")
RUN = ("run", "--name", "there")
PROGRESS = ("building ", "  etcd (")
"""How lines begin that say how far a build is."""
DATA = ("--data", "{folder}/pack")


@dataclass(frozen=True)
class Place:
    """A folder that stands for the machine: labs, cache, programs and packs are below it."""

    folder: Path
    patch: pytest.MonkeyPatch

    def files(self) -> dict[Path, bytes]:
        """Return what stands there, but for locks, which stay, and for the calls of the fake Go."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {
            path: path.read_bytes() for path in found if not path.name.endswith((".lock", "go.log"))
        }

    def go(self, **how: str) -> None:
        """Install a Go."""
        fake_tools.install_go(self.folder, self.patch, **how)

    def pack(self, *rows: object) -> None:
        """Make a data pack of these workflows."""
        a_pack(self.folder / "pack", {wfinstances.FILE: list(rows)})

    def programs(self) -> Path:
        """Name a folder of prebuilt programs."""
        made = fake_tools.prebuilt(self.folder / "programs")
        self.patch.setenv("TIPHYS_LAB_BIN", str(made))
        return made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a machine with a lab `there` that runs, and neither Go nor programs nor a pack."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path / "labs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("TIPHYS_LAB_BIN", "TIPHYS_DATA", "TIPHYS_LAB"):
        monkeypatch.delenv(name, raising=False)
    home = homes.home("there")
    home.root.mkdir(parents=True)
    states.write(home, lab_states.a_state(home))
    mixed = configurations.cluster(catalogs.load("mixed"))
    records.write_whole(home.cluster, mixed.encode())
    return Place(tmp_path, monkeypatch)


def nothing(_: Place) -> None:
    """Change nothing: the command itself is wrong."""


def a_go_that_is_too_old(place: Place) -> None:
    """Install one that cannot fetch another."""
    place.go(version="go1.19.8")


def a_disk_that_fills_up(place: Place) -> None:
    """Let each build end in the middle of its program."""
    place.go(
        version="go1.99.0",
        build="printf half > $out; echo 'write /tmp/x: no space left on device' >&2; exit 1",
    )


def a_program_that_does_not_start(place: Place) -> None:
    """Let etcd be of another machine."""
    (place.programs() / "etcd").write_bytes(b"\x7fELF")


def a_program_that_is_absent(place: Place) -> None:
    """Leave etcd out."""
    (place.programs() / "etcd").unlink()


def programs_that_are_absent(place: Place) -> None:
    """Name a folder that was there once."""
    shutil.rmtree(place.programs())


def a_broken_line(place: Place) -> None:
    """Let the second workflow of the pack be cut off."""
    place.pack(a_row(), json.dumps(a_row())[:40])


def a_cycle(place: Place) -> None:
    """Let two tasks wait for each other."""
    row = a_row()
    row["tasks"][0]["p"] = [1]
    place.pack(row)


def a_pack_that_is_not_whole(place: Place) -> None:
    """Let it be a folder of nothing."""
    place.pack()
    (place.folder / "pack" / wfinstances.FILE).unlink()


def a_pack_that_is_absent(place: Place) -> None:
    """Name one by the variable."""
    place.patch.setenv("TIPHYS_DATA", "/nowhere/pack")


@pytest.mark.parametrize(
    ("wrong", "arguments", "code", "said", "remedy"),
    [
        (nothing, (*RUN, "genomix"), 2, "no mix 'genomix'", "choose one of"),
        (nothing, (*WRITE, "genomix"), 2, "no mix 'genomix'", "choose one of"),
        (nothing, UP, 3, "no `go` on PATH", "install it from https://go.dev/dl/"),
        (nothing, BUILD, 3, "no `go` on PATH", "install it from https://go.dev/dl/"),
        (a_go_that_is_too_old, UP, 3, "is go1.19.8, too old for", "or newer is needed; install it"),
        (a_go_that_is_too_old, BUILD, 3, "is go1.19.8, too old", "or newer is needed; install it"),
        (a_disk_that_fills_up, UP, 3, "the disk filled up while building", "make room"),
        (a_disk_that_fills_up, BUILD, 3, "the disk filled up while building", "make room"),
        (a_program_that_does_not_start, UP, 3, "etcd does not start (", "replace it"),
        (a_program_that_is_absent, UP, 3, "lacks etcd", "put them there"),
        (programs_that_are_absent, UP, 3, "does not exist", "or unset TIPHYS_LAB_BIN"),
        (a_broken_line, (*RUN, "genomics", *DATA), 2, ", line 2: ", "mend or remove the line"),
        (a_broken_line, (*WRITE, "genomics", *DATA), 2, ", line 2: ", "mend or remove the line"),
        (a_cycle, (*RUN, "genomics", *DATA), 2, "made/one has a cycle", "must have none"),
        (a_cycle, (*WRITE, "genomics", *DATA), 2, "made/one has a cycle", "must have none"),
        (a_pack_that_is_not_whole, (*RUN, "genomics", *DATA), 2, "is not complete", "copy it"),
        (a_pack_that_is_not_whole, (*WRITE, "genomics", *DATA), 2, "is not complete", "copy it"),
        (a_pack_that_is_absent, (*RUN, "genomics"), 2, "no data pack at", "give the folder"),
        (a_pack_that_is_absent, (*WRITE, "genomics"), 2, "no data pack at", "give the folder"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_a_remedy_and_leaves_nothing(
    place: Place,
    capsys: pytest.CaptureFixture[str],
    wrong: Callable[[Place], None],
    arguments: tuple[str, ...],
    code: int,
    said: str,
    remedy: str,
) -> None:
    """Neither a home, a program, a record nor a truth; the lab that runs is as it was."""
    wrong(place)
    before = place.files()

    found = groups.run([argument.format(folder=place.folder) for argument in arguments])

    told = capsys.readouterr().err.splitlines()
    (sentence,) = (line for line in told if not line.startswith(PROGRESS))
    assert (code, "error: ") == (found, sentence[:7])
    assert said in sentence
    assert remedy in sentence.partition(said)[2]
    assert before == place.files()
    assert not homes.home("new").root.exists()
    assert not (place.folder / "made").exists()
