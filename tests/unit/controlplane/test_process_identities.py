import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.controlplane import processes

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a process that only waits."""
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def _of(child: "subprocess.Popen[bytes]") -> processes.Process:
    found = processes.process(child.pid)
    assert found is not None
    return found


def test_a_process_is_alive_until_it_ends(sleeper: "subprocess.Popen[bytes]") -> None:
    """Also a zombie counts as ended: nothing of it runs any more."""
    seen = _of(sleeper)
    assert seen.alive

    sleeper.kill()
    assert [] == processes.wait_gone([seen], limit_s=5)
    assert sleeper.returncode is None, "nobody has reaped it yet"


def test_another_process_with_the_same_pid_is_not_ours(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    """A pid that was used again is told apart by its start time, and gets no signal."""
    earlier = processes.Process(pid=sleeper.pid, started_ticks=_of(sleeper).started_ticks - 1)

    earlier.signal(signal.SIGKILL)

    assert not earlier.alive
    assert None is processes.usage(earlier)
    time.sleep(0.05)
    assert None is sleeper.poll()


def test_a_signal_to_a_pid_that_nobody_has_is_no_error() -> None:
    """The process may end at any instant before the signal."""
    with subprocess.Popen(["true"]) as child:
        seen = _of(child)

    seen.signal(signal.SIGTERM)


def test_who_ignores_sigterm_is_killed_after_the_grace() -> None:
    """`end` returns only when the process is gone."""
    code = f"{STUBBORN}; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()

        processes.end([_of(child)], grace_s=0.2)

        assert -signal.SIGKILL == child.wait(timeout=5)


def test_a_stopped_process_can_be_ended(sleeper: "subprocess.Popen[bytes]") -> None:
    """One that was paused by SIGSTOP gets SIGCONT, or it would never see SIGTERM."""
    sleeper.send_signal(signal.SIGSTOP)

    processes.end([_of(sleeper)], grace_s=5)

    assert -signal.SIGTERM == sleeper.wait(timeout=5)


def test_the_processes_of_a_lab_are_found_by_their_environment(tmp_path: Path) -> None:
    """Also those that no state names; a lab whose path only begins alike is another lab."""
    mine = {**os.environ, processes.MARKER: str(tmp_path / "a")}
    other = {**os.environ, processes.MARKER: str(tmp_path / "ab")}
    with (
        subprocess.Popen(["sleep", "60"], env=mine) as wanted,
        subprocess.Popen(["sleep", "60"], env=other) as stranger,
    ):
        until = time.monotonic() + 5
        while not processes.of_lab(tmp_path / "a") and time.monotonic() < until:
            time.sleep(0.01)
        found = processes.of_lab(tmp_path / "a")
        wanted.kill()
        stranger.kill()

    assert [wanted.pid] == [item.pid for item in found]


def test_a_child_ends_when_its_parent_is_killed() -> None:
    """PDEATHSIG holds also where the parent gets no chance to act."""
    code = (
        "import subprocess, sys, time\n"
        "from lab.controlplane import processes\n"
        "child = subprocess.Popen(['sleep', '60'],"
        " preexec_fn=processes.dying_with(processes.current()))\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = processes.process(int(parent.stdout.readline()))
        assert child is not None
        parent.kill()

    assert [] == processes.wait_gone([child], limit_s=5)


def test_usage_counts_cpu_and_memory_of_the_process() -> None:
    """This very process has used some of both."""
    used = processes.usage(processes.current())

    assert used is not None
    assert used.cpu_s > 0.05
    assert used.memory_bytes > 10 * 2**20
    assert 0 <= used.uptime_s < 24 * 3600
