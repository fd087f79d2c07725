"""`.ci/setup` and `.ci/run` when something is wrong: one sentence, an exit code, nothing left."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests import programs
from tests.unit.architecture import trees

PROGRAMS = ("bash", "cat", "cut", "dirname", "env", "id", "mkdir")
"""What the set-up of Debian's packages cannot do without."""
OLD = """#!/bin/sh
if [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi
"""
WITHOUT_VENV = """#!/bin/sh
case "$2" in *venv*) exit 1;; esac
"""
DOWNLOADED = """#!/bin/sh
case "$1 $2" in
"update -q") ;;
"download -q") touch "$3.deb" ;;
*) exit 100 ;;
esac
"""
UNPACKED = """#!/bin/sh
test -f "$2" && mkdir -p "$3/usr/bin" && touch "$3/usr/bin/prometheus" &&
    chmod +x "$3/usr/bin/prometheus"
"""
SLOW = """#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then touch started; exec sleep 60; fi
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the least that the two scripts need, in a folder of their own."""
    shutil.copytree(trees.ROOT / ".ci", tmp_path / ".ci")
    for name in ("requirements.lock", "setup.cfg", "pyproject.toml"):
        shutil.copy(trees.ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(checkout: Path, name: str, text: str) -> Path:
    """Put an executable script into `checkout`'s bin folder."""
    path = checkout / "bin" / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def start(checkout: Path, *command: str, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a group of its own; it finds the programs of `checkout` first."""
    return subprocess.Popen(
        command,
        cwd=checkout,
        env={**os.environ, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_an_old_python_is_named_with_what_to_do(checkout: Path) -> None:
    """The sentence says what was found and how to choose another; nothing is made."""
    old = program(checkout, "old", OLD)
    process = start(checkout, ".ci/setup", "python", PYTHON=str(old))
    said, _ = process.communicate()
    assert process.returncode == 3
    assert said == (
        f"set-up: Python 3.11 or newer is needed ({old} is Python 3.9.2); install it, or name one: "
        "make test PYTHON=/path/to/python3.12\n"
    )
    assert not (checkout / ".venv").exists()


def test_a_python_without_venv_names_the_package(checkout: Path) -> None:
    """Where nothing may be installed, the sentence names what is missing."""
    python = program(checkout, "bare", WITHOUT_VENV)
    program(checkout, "apt-get", "#!/bin/sh\nexit 1\n")
    process = start(checkout, ".ci/setup", "python", PYTHON=str(python))
    said, _ = process.communicate()
    assert process.returncode == 3
    assert "install its venv module (Debian: apt-get install python3-venv)" in said
    assert not (checkout / ".venv").exists()


def test_an_interrupted_set_up_is_begun_again(checkout: Path) -> None:
    """Ctrl-C ends it with a sentence; the next one removes what was half made."""
    slow = program(checkout, "slow", SLOW)
    for expected in ("new environment", "removing .venv"):
        process = start(checkout, ".ci/setup", "python", PYTHON=str(slow))
        limit = time.monotonic() + 60
        while not (checkout / "started").exists() and time.monotonic() < limit:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert expected in said
        assert "interrupted; the same command continues" in said
        (checkout / "started").unlink()


def test_another_set_up_is_waited_for_a_limited_time(checkout: Path) -> None:
    """The sentence at the end names the process that holds the lock, and what to do."""
    script = checkout / ".ci" / "setup"
    script.write_text(re.sub(r"(?m)^wait_s=\d+", "wait_s=1", script.read_text()))
    slow = program(checkout, "slow", SLOW)
    first = start(checkout, ".ci/setup", "python", PYTHON=str(slow))
    try:
        limit = time.monotonic() + 60
        while not (checkout / "started").exists() and time.monotonic() < limit:
            time.sleep(0.01)
        second = start(checkout, ".ci/setup", "python", PYTHON=str(slow))
        said, _ = second.communicate(timeout=60)
    finally:
        os.killpg(first.pid, signal.SIGINT)
        first.communicate(timeout=60)
    assert second.returncode == 3
    assert said == (
        "set-up: another set-up of this checkout is running; waiting for it, 1 s at most\n"
        f"set-up: process {first.pid} still sets this checkout up after 1 s; "
        "wait for it or end it, then run the same command again\n"
    )


def test_what_cannot_be_installed_is_named_and_skipped(checkout: Path) -> None:
    """Without rights or network the sentence names package and loss, and the set-up goes on."""
    for name in PROGRAMS:
        (checkout / "bin" / name).symlink_to(shutil.which(name) or name)
    program(checkout, "apt-get", "#!/bin/sh\nexit 100\n")
    program(checkout, "git", "#!/bin/sh\n")
    process = start(checkout, ".ci/setup", "debian", PATH=str(checkout / "bin"))
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert "chromium is not here and could not be installed" in said
    assert "skipped without it: the tests that look at the HTML page in a browser" in said
    assert "git is not here" not in said


def test_what_would_come_with_a_service_is_unpacked_and_not_installed(checkout: Path) -> None:
    """Prometheus: once, into build/debian, where the tests look for it."""
    for name in (*PROGRAMS, "chmod", "cp", "rm", "touch"):
        (checkout / "bin" / name).symlink_to(shutil.which(name) or name)
    program(checkout, "apt-get", DOWNLOADED)
    program(checkout, "dpkg-deb", UNPACKED)
    for expected in (True, False):
        process = start(checkout, ".ci/setup", "debian", PATH=str(checkout / "bin"))
        said, _ = process.communicate()
        assert process.returncode == 0, said
        assert expected == ("set-up: Debian package: prometheus, its files alone" in said)
        assert "prometheus is not here" not in said
        assert "chromium is not here" in said
    assert (checkout / programs.UNPACKED.relative_to(trees.ROOT) / "prometheus").exists()
    assert not (checkout / "build" / "debian.new").exists()


def test_tests_prefer_the_machines_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they take what was unpacked; without either they are told so."""
    unpacked, own = tmp_path / "unpacked", tmp_path / "own"
    monkeypatch.setattr(programs, "UNPACKED", unpacked)
    monkeypatch.setenv("PATH", str(own))
    found = [programs.find("promtool")]
    for folder in (unpacked, own):
        folder.mkdir()
        (folder / "promtool").touch(mode=0o755)
        found.append(programs.find("promtool"))
    assert [None, str(unpacked / "promtool"), str(own / "promtool")] == found


def test_an_unknown_step_lists_the_steps(checkout: Path) -> None:
    """A misspelt step is refused by name."""
    process = start(checkout, ".ci/setup", "pyhton")
    said, _ = process.communicate()
    assert process.returncode == 3
    assert said == "set-up: no step 'pyhton'; the steps are python, debian, binaries\n"


@pytest.mark.parametrize(("lint", "test", "code"), [(0, 0, 0), (0, 1, 1), (1, 0, 1)])
def test_ci_runs_both_and_fails_if_either_does(
    checkout: Path, lint: int, test: int, code: int
) -> None:
    """A failing lint does not hide the tests, nor does it count as passed."""
    program(checkout, "make", f"#!/bin/sh\ntest $1 = lint && exit {lint}\nexit {test}\n")
    process = start(checkout, ".ci/run")
    said, _ = process.communicate()
    assert (code, 2) == (process.returncode, said.count("exit code"))


def test_ci_finds_and_ends_what_was_left_running(checkout: Path) -> None:
    """A process that outlives the run fails it, is named, and is ended, however detached it is."""
    left = "setsid sleep 300 >/dev/null 2>&1 &\necho $! > pid"
    program(checkout, "make", f"#!/bin/sh\nif [ $1 = test ]; then\n{left}\nfi\n")
    process = start(checkout, ".ci/run")
    said, _ = process.communicate()
    pid = int((checkout / "pid").read_text())
    assert process.returncode == 1
    assert f"{pid} sleep 300" in said
    given_up_at = time.monotonic() + 10
    while _is_sleep(pid):
        assert time.monotonic() < given_up_at
        time.sleep(0.05)


def _is_sleep(pid: int) -> bool:
    """Tell whether the process still sleeps; a dead one that nobody reaped has no command line."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "sleep" in Path(f"/proc/{pid}/cmdline").read_text()
    return False
