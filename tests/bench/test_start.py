"""How long a lab takes to start and to end, whole and by component, with everything built."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from lab import homes
from lab.controlplane import binaries, labs, processes, states
from lab.reports import results

RANGES = yaml.safe_load(Path(__file__).with_name("ranges.yaml").read_text())["start"]
REPEATS = 3


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[homes.Home]:
    """Yield the home of a lab, below a path that is short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="tiphys-"))
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(root))
    made = homes.home("start")
    yield made
    labs.down(made)
    shutil.rmtree(root)


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_a_lab_is_ready_in_time(home: homes.Home, capsys: pytest.CaptureFixture[str]) -> None:
    """From `up` to ready with all components, and from `down` to the last process' end."""
    asked = states.Asked(speed=60.0, owner=processes.current())
    binaries.find(asked)
    parts: dict[str, list[float]] = {}
    for _ in range(REPEATS):
        began = time.monotonic()
        labs.up(home, asked)
        parts.setdefault("ready_s", []).append(time.monotonic() - began)
        for item in states.load(home).components:
            parts.setdefault(f"{item.name}.ready_s", []).append(item.ready_after_s or 0.0)
        began = time.monotonic()
        labs.down(home)
        parts.setdefault("down_s", []).append(time.monotonic() - began)
    figures = {name: round(statistics.median(values), 2) for name, values in parts.items()}
    path = results.write(
        "start",
        seed=None,
        speed=60.0,
        figures={**figures, "slowest_ready_s": round(max(parts["ready_s"]), 2)},
    )

    with capsys.disabled():
        for name, value in figures.items():
            Console().print(f"{name:36} {value:6.2f}")
        Console().print(f"written to {path}")
    missed = {
        name: figures[name] for name, limit in RANGES.items() if figures[name] > limit["most"]
    }
    assert {} == missed
