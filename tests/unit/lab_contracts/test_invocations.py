import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lab import invocations


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this process be run by the environment of a checkout that is not on the path."""
    python = tmp_path / "checkout" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", "/nowhere")
    return python


def test_in_the_checkout_the_environment_is_named(
    interpreter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `make demo` leaves a person: in the checkout, without its environment on the path."""
    monkeypatch.chdir(interpreter.parents[2])
    assert ".venv/bin/python -m lab" == invocations.lab()


@pytest.mark.parametrize("folder", ["checkout/.venv/bin", "elsewhere"])
def test_elsewhere_the_whole_path_is_named(
    interpreter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Also beside the interpreter: its bare name would be looked for on the path."""
    (tmp_path / folder).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    assert f"{interpreter} -m lab" == invocations.lab()


def test_python_is_enough_where_it_is_this_one(
    interpreter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the environment on the path, as the README has it."""
    monkeypatch.setenv("PATH", f"{interpreter.parent}:/usr/bin")
    assert "python -m lab" == invocations.lab()


def test_another_environment_is_not_this_one(
    interpreter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though both link to the same interpreter, only one has the libraries."""
    other = tmp_path / "other" / "python"
    other.parent.mkdir()
    other.symlink_to(interpreter.resolve())
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.chdir(other.parent)
    assert f"{interpreter} -m lab" == invocations.lab()


def test_what_is_said_can_be_typed() -> None:
    """From where these tests run, by the real interpreter."""
    done = subprocess.run(
        [*shlex.split(invocations.lab()), "--help"], capture_output=True, text=True, check=True
    )
    assert f"Usage: {invocations.lab()} " in done.stdout
