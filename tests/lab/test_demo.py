"""`lab demo` as a stranger meets it: figures, a page, and nothing left, however it ends."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lab import homes
from lab.controlplane import processes
from lab.reports import measurements

ROOT = Path(__file__).parents[2]
SMALL = ("--workflows", "3", "--overload", "1", "--speed", "40")
STARTED = "arriving over"
"""What `lab run` prints once the lab is up and the first workflow is about to come."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def demo(labs_root, lab_command, kubernetes, tmp_path, monkeypatch):
    """Return what starts the demo without a terminal; its lab is gone after the test."""
    monkeypatch.setenv("TIPHYS_RESULTS", str(tmp_path / "results"))
    into = ["--into", str(tmp_path / "out")]
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [*lab_command, "demo", *into, *arguments, "--kubernetes", kubernetes],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.stdout.close()
        process.wait()


def left_over():
    """Return the processes of the demo's lab that still run, waiting a little for the last."""
    until = time.monotonic() + 30
    root = homes.home("demo").root
    while (left := processes.of_lab(root)) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def read_until(process, words):
    """Read the output up to the line that has `words`; returns it."""
    read = []
    for line in process.stdout:
        read.append(line)
        if words in line:
            return "".join(read)
    raise AssertionError(f"{words!r} never came:\n{''.join(read)}")


def test_the_demo_ends_with_figures_and_a_page_and_nothing_left(demo, tmp_path):
    """By both arms all pods accounted for and all workflows ended, and the schema's keys there."""
    process = demo(*SMALL)
    output, _ = process.communicate()
    assert 0 == process.returncode, output
    assert "mean completion, simulated min" in output
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    for arm in ("default", "tiphys"):
        assert 3 == read[f"{arm}.workflows"]
        assert read[f"{arm}.pods_created"] == read[f"{arm}.pods_ended"] > 0
        assert 0 == read[f"{arm}.problems"]
    low, high = read["ratio.interval_95"]
    assert 0 < low <= read["ratio.mean_completion"] <= high
    assert 3 == read["ratio.pairs"] + read["ratio.left_out"]
    asked = (
        "succeeded mean_completion_s p95_completion_s mean_wait_s utilisation wall_s oom_kills"
        " requested_over_used_memory valid"
    )
    names = [f"{arm}.{name}" for arm in ("default", "tiphys") for name in asked.split()]
    assert [] == [name for name in names if read[name] is None]
    said = f"python -m lab demo --into {tmp_path / 'out'} {' '.join(SMALL)}"
    assert read["command"].startswith(said)
    (page,) = (tmp_path / "out").glob("*.html")
    assert str(page) in output.replace("\n", "")
    for arm in ("default", "tiphys"):
        measured = measurements.read(page.with_name(f"{page.stem}-{arm}.json"))
        assert read[f"{arm}.pods_created"] == len(measured.tasks)
        assert {task.reason for task in measured.tasks} <= {"Completed", "OOMKilled"}
    assert [] == left_over()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_interrupted_demo_leaves_nothing(demo, tmp_path, number, code):
    """Ctrl-C ends the lab in moments; after SIGKILL the lab notices that its owner is gone."""
    process = demo(*SMALL)
    read_until(process, "pods done")
    assert processes.of_lab(homes.home("demo").root)
    interrupted_s = time.monotonic()
    os.kill(process.pid, number)
    process.communicate()
    # Pods alone take up to 30 s where they are deleted one by one.
    assert time.monotonic() - interrupted_s < 20
    assert code == process.returncode
    assert [] == left_over()
    assert not (tmp_path / "results" / "demo.json").exists()


def test_a_second_demo_does_not_touch_the_first(demo):
    """It says what is in the way; the lab of the first goes on."""
    first = demo(*SMALL)
    read_until(first, STARTED)
    second = demo(*SMALL)
    output, _ = second.communicate()
    assert 2 == second.returncode
    assert "lab 'demo' runs already" in output
    assert processes.of_lab(homes.home("demo").root)
    with contextlib.suppress(ProcessLookupError):
        first.send_signal(signal.SIGINT)
    first.communicate()
    assert [] == left_over()
