import fcntl
import os
import threading
from pathlib import Path

import pytest

from lab import errors
from lab.controlplane import builds, processes, tools
from tests.unit.controlplane import fake_tools as a


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for the machine: cache, tools, and Go are below it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tools, "FOLDER", tmp_path / "tools")
    return tmp_path


def target_in(folder: Path) -> builds.Target:
    """Return the one program of the one tool."""
    tool = a.a_tool(folder / "tools")
    return builds.target(tool, tool.programs[0])


def left_in(target: builds.Target) -> list[str]:
    """Return what stands in the cache folder beside the lock."""
    return sorted(path.name for path in target.folder.iterdir() if path.name != ".lock")


def calls(log: Path, verb: str) -> int:
    """Return how often Go was called with a verb."""
    return sum(line.split()[0] == verb for line in log.read_text().splitlines())


def test_a_program_is_built_into_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a name that says tool, version and key; nothing else stays there."""
    a.install_go(folder, monkeypatch)
    target = target_in(folder)

    builds.build([target])

    assert folder / "cache" / "tiphys" / "bin" == target.folder.parent
    assert ["program"] == left_in(target)


def test_nothing_is_built_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second build does not even ask Go."""
    log = a.install_go(folder, monkeypatch)
    builds.build([target_in(folder)])
    builds.build([target_in(folder)])

    assert 1 == calls(log, "build")


def test_two_builds_at_once_build_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, says so, and finds the work done."""
    log = a.install_go(folder, monkeypatch, build=f"sleep 1.5; {a.BUILT}")
    seen: list[list[builds.Stage]] = [[], []]

    def build(stages: list[builds.Stage]) -> None:
        builds.build([target_in(folder)], report=lambda step: stages.append(step.stage))

    threads = [threading.Thread(target=build, args=(stages,)) for stages in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == calls(log, "build")
    assert builds.Stage.WAITING in {*seen[0], *seen[1]}


@pytest.mark.parametrize(("written", "holder"), [("4711", "process 4711"), ("", "another process")])
def test_a_build_that_never_ends_is_waited_for_a_limited_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, written: str, holder: str
) -> None:
    """The sentence names who holds the lock, where, and what to do."""
    log = a.install_go(folder, monkeypatch)
    monkeypatch.setattr(builds, "LOCKED_WITHIN_S", 0.3)
    monkeypatch.setattr(builds, "HEARTBEAT_S", 0.05)
    target = target_in(folder)
    target.folder.mkdir(parents=True)
    lock = target.folder / ".lock"
    lock.write_text(written)
    stages: list[builds.Stage] = []

    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(errors.SetupError) as caught:
            builds.build([target], report=lambda step: stages.append(step.stage))

    said = str(caught.value)
    assert said.startswith(f"{holder} has built in {target.folder} for 0 s: wait for it or end it")
    assert f"`fuser {lock}`" in said
    assert {builds.Stage.WAITING} == set(stages)
    assert 0 == calls(log, "build")


def test_the_lock_names_who_holds_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever held it before is not named any more."""
    a.install_go(folder, monkeypatch)
    target = target_in(folder)
    target.folder.mkdir(parents=True)
    (target.folder / ".lock").write_text("123456789")

    builds.build([target])

    assert str(os.getpid()) == (target.folder / ".lock").read_text()


def test_progress_says_which_program_and_how_many_packages(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From reading modules to done; Go names each package that it compiles."""
    listing = "echo 'go: downloading example.com/x v1' >&2"
    a.install_go(folder, monkeypatch, listing=listing)
    steps: list[builds.Progress] = []

    builds.build([target_in(folder)], report=steps.append)

    stages = list(dict.fromkeys(step.stage for step in steps))
    assert [
        builds.Stage.DOWNLOADING,
        builds.Stage.COMPILING,
        builds.Stage.LINKING,
        builds.Stage.DONE,
    ] == stages
    assert (2, 3) == max((step.packages, step.packages_at_most) for step in steps)
    assert {("program", 1, 1)} == {(step.program, step.number, step.count) for step in steps}


def test_a_silent_build_is_reported_each_second(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person sees that it goes on."""
    monkeypatch.setattr(builds, "HEARTBEAT_S", 0.05)
    a.install_go(folder, monkeypatch, build=f"sleep 0.5; {a.BUILT}")
    steps: list[builds.Progress] = []

    builds.build([target_in(folder)], report=steps.append)

    assert sum(step.stage is builds.Stage.COMPILING for step in steps) > 4


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        (
            "/tmp/x: write error: No space left on device",
            r"the disk filled up while building program \(thing v1\): .* GiB are free in",
        ),
        (
            "go: example.com/x@v1: Get https://proxy: dial tcp: lookup proxy: no such host",
            "could not be fetched through GOPROXY=",
        ),
        (
            "go: example.com/x@v1: reading https://proxy/x.zip: 404 Not Found",
            "could not be fetched through GOPROXY=",
        ),
        ("x.go:1:1: syntax error", r"building program \(thing v1\) failed: x.go:1:1: syntax error"),
        ("", "Go gave no reason"),
    ],
)
def test_what_go_complains_about_becomes_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, said: str
) -> None:
    """It says what to do, and nothing half-built is left."""
    build = f"printf half > $out; echo '# pkg' >&2; echo '{complaint}' >&2; exit 1"
    a.install_go(folder, monkeypatch, build=build)
    target = target_in(folder)

    with pytest.raises(errors.SetupError, match=said):
        builds.build([target])

    assert [] == left_in(target)


def test_a_full_disk_of_the_cache_itself_is_said_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only Go meets it: here the renaming does."""
    a.install_go(folder, monkeypatch)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    target = target_in(folder)

    with pytest.raises(errors.SetupError, match="the disk filled up"):
        builds.build([target])

    assert [] == left_in(target)


@pytest.mark.parametrize("content", ["#!/bin/sh\\necho broken; exit 3\\n", "\\177ELF"])
def test_a_program_that_does_not_start_never_reaches_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """It is started once before it is renamed."""
    build = f"printf '{content}' > $out; chmod +x $out"
    a.install_go(folder, monkeypatch, build=build)
    target = target_in(folder)

    with pytest.raises(errors.SetupError, match="program was built but does not start"):
        builds.build([target])

    assert [] == left_in(target)


def test_an_interrupted_build_ends_go_and_can_be_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C leaves neither a process nor a half-built program."""
    a.install_go(folder, monkeypatch, build=f"echo $$ > {folder}/pid; exec sleep 60")
    monkeypatch.setattr(builds, "HEARTBEAT_S", 0.05)
    target = target_in(folder)

    def interrupt(step: builds.Progress) -> None:
        if (folder / "pid").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        builds.build([target], report=interrupt)

    assert None is processes.process(int((folder / "pid").read_text()))
    assert [] == left_in(target)
    a.install_go(folder, monkeypatch)
    builds.build([target])
    assert ["program"] == left_in(target)


def test_what_a_killed_build_left_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even SIGKILL leaves the lock free, and half a program does not fill the disk for ever."""
    a.install_go(folder, monkeypatch)
    target = target_in(folder)
    target.folder.mkdir(parents=True)
    (target.folder / ".program.12345").write_text("half")
    (target.folder / ".source.12345" / "cmd").mkdir(parents=True)

    builds.build([target])

    assert ["program"] == left_in(target)
