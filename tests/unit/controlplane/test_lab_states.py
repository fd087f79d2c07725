from pathlib import Path

import pytest

from lab import errors, homes
from lab.controlplane import processes, states
from tests.unit.controlplane import lab_states


@pytest.fixture
def home(tmp_path: Path) -> homes.Home:
    """Return the empty home of a lab `a`."""
    return homes.Home(name="a", root=tmp_path)


def test_what_is_written_is_read(home: homes.Home) -> None:
    """The state survives the way through its file."""
    state = lab_states.a_state(home, speed=60)
    states.write(home, state)

    assert state == states.load(home)


def test_the_file_is_replaced_whole_and_for_the_owner_only(home: homes.Home) -> None:
    """A reader never meets a part of it, and nothing is left beside it."""
    states.write(home, lab_states.a_state(home))
    states.write(home, lab_states.a_state(home, nodes=7))

    assert 7 == states.load(home).nodes
    assert ["state.json"] == [path.name for path in home.root.iterdir()]
    assert 0o600 == home.state.stat().st_mode & 0o777


def test_the_clock_runs_at_the_labs_speed(home: homes.Home) -> None:
    """Simulated time begins with the lab."""
    clock = lab_states.a_state(home, speed=60).clock

    assert (1_000_000.0, 1.0) == (clock.epoch, clock.wall_duration(60.0))


def test_a_lab_that_was_never_started_is_not_running(home: homes.Home) -> None:
    """The error names the command that starts it."""
    with pytest.raises(errors.UsageError, match=r"not running: start it with `.*python -m lab up"):
        states.load(home)


def test_a_lab_whose_supervisor_is_gone_crashed(home: homes.Home) -> None:
    """Its state stands there, but nobody keeps it."""
    gone = processes.Process(pid=2**22 - 1, started_ticks=1)
    states.write(home, lab_states.a_state(home, supervisor=gone))

    with pytest.raises(errors.UsageError, match="crashed: start it with"):
        states.load(home)


def test_processes_of_an_earlier_boot_are_not_ours(home: homes.Home) -> None:
    """After a reboot pids and start times mean other processes."""
    state = lab_states.a_state(home, boot_id="another boot")

    assert not state.running
    assert [] == state.processes()


@pytest.mark.parametrize("content", ['{"format": 99}', "{", "[]", '{"format": 1}'])
def test_a_state_that_this_version_cannot_read_names_the_command_that_clears_it(
    home: homes.Home, content: str
) -> None:
    """Another version's, a damaged one, or no state at all."""
    home.state.write_text(content)

    with pytest.raises(errors.StaleError, match=r"`.*python -m lab down --name a`"):
        states.read(home)


def test_an_unknown_component_is_answered_with_the_known_ones(home: homes.Home) -> None:
    """So that a person can correct a typing error at once."""
    with pytest.raises(errors.UsageError, match="it has etcd, kube-apiserver"):
        lab_states.a_state(home).component("apiserver")
