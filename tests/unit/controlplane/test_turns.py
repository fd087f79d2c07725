"""One run at a time in a lab."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from lab import errors, homes
from lab.cli import groups, runs, turns
from lab.controlplane import states
from lab.corpus import examples, expectations
from lab.workloads import runs as records
from tests.unit.controlplane import lab_states
from tests.unit.reports import synthetic_runs

HOLD = """
import sys, time
from pathlib import Path
from lab import homes
from lab.cli import turns
with turns.taken(homes.Home(name="a", root=Path(sys.argv[1])), "a run of genomics"):
    print("taken", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path) -> homes.Home:
    """Return the empty home of a lab `a`."""
    return homes.Home(name="a", root=tmp_path)


def a_holder(home: homes.Home) -> "subprocess.Popen[bytes]":
    """Start a program that takes the turn, and return it when it has."""
    program = subprocess.Popen([sys.executable, "-c", HOLD, home.root], stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert b"taken\n" == program.stdout.readline()
    return program


def test_whoever_comes_second_learns_who_has_the_turn(home: homes.Home) -> None:
    """What it does, its pid, since when, and three ways out; nothing is started."""
    with a_holder(home) as first:
        with pytest.raises(errors.UsageError) as caught, turns.taken(home, "another"):
            pytest.fail("two have the turn")
        first.kill()

    said = str(caught.value)
    assert f"lab 'a' is busy with a run of genomics (pid {first.pid}, since " in said
    assert "wait for it" in said
    assert f"`kill {first.pid}`" in said
    assert "start another lab" in said


def test_a_holder_that_was_killed_is_in_nobodys_way(home: homes.Home) -> None:
    """The kernel takes the turn back; what the dead one wrote is written over."""
    with a_holder(home) as first:
        first.send_signal(signal.SIGKILL)

    with turns.taken(home, "x"):
        assert str(os.getpid()) in (home.root / "run.lock").read_text()
        assert "genomics" not in (home.root / "run.lock").read_text()


def test_a_turn_ends_with_its_block(home: homes.Home) -> None:
    """Also when it ends by an error."""
    with pytest.raises(KeyboardInterrupt), turns.taken(home, "first"):
        raise KeyboardInterrupt
    with turns.taken(home, "second"):
        pass


def test_a_holder_that_has_said_nothing_yet_is_respected(home: homes.Home) -> None:
    """It has only just come."""
    with turns.taken(home, "first"):
        (home.root / "run.lock").write_text("")
        with (
            pytest.raises(errors.UsageError, match="busy with another run"),
            turns.taken(home, "second"),
        ):
            pytest.fail("two have the turn")


@pytest.mark.parametrize("command", [["run", "uniform"], ["corpus"]])
def test_a_second_run_in_a_lab_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    """Before it writes a truth or a record, or submits anything."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    monkeypatch.setattr(examples, "load", lambda folder: {})
    monkeypatch.setattr(expectations, "check", lambda found, known: None)
    home = homes.home("default")
    home.root.mkdir()
    states.write(home, lab_states.a_state(home))

    with turns.taken(home, "a run of genomics"):
        code = groups.run(command)

    assert errors.UsageError.exit_code == code
    assert "lab 'default' is busy with a run of genomics" in capsys.readouterr().err
    assert ["run.lock", "state.json"] == sorted(path.name for path in home.root.iterdir())


def test_a_run_that_was_killed_is_told_to_the_next(home: homes.Home) -> None:
    """Its record goes on for ever; what it submitted may still be there."""
    run = synthetic_runs.a_run().record
    for name, outcome in (("a-s1", "complete"), ("a-s2", "running"), ("a-s3", "interrupted")):
        records.write(home, structs.replace(run, run=name, outcome=outcome))

    assert ["a-s2"] == runs.killed(home)
