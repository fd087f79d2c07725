"""What the simulated kubelet costs per pod, and how many pods a second all of it holds."""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from lab import homes
from lab.controlplane import binaries, labs, processes, states
from lab.reports import results
from tests.bench import pod_loads

RANGES = yaml.safe_load(Path(__file__).with_name("ranges.yaml").read_text())["kubelet"]
WORKFLOWS, WIDTH, SEED, SPEED = 60, 20, 1, 60.0
CPU_S = 60.0
OTHERS_MOST = 0.2
"""Part of the machine's CPU time that others may take before wall time says nothing."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[homes.Home]:
    """Yield the home of a running lab of eight equal nodes."""
    root = Path(tempfile.mkdtemp(prefix="tiphys-"))
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(root))
    made = homes.home("kubelet")
    asked = states.Asked(cluster="uniform", speed=SPEED, owner=processes.current())
    binaries.find(asked)
    labs.up(made, asked)
    yield made
    labs.down(made)
    shutil.rmtree(root)


@pytest.mark.bench
@pytest.mark.timeout(600)
async def test_the_kubelet_costs_little_and_loses_no_pod(
    home: homes.Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 workflows of 22 pods, all at once; CPU from the processes' own counters.

    Pods a wall second are judged only where nobody else keeps the machine busy.
    """
    before, busy_before = cpu_s(home), busy_s()
    wall_s = await pod_loads.run(
        home, workflows=WORKFLOWS, width=WIDTH, seed=SEED, cpu_s=CPU_S, limit_s=500
    )
    await asyncio.sleep(2.0)
    after, busy_after = cpu_s(home), busy_s()
    pods = WORKFLOWS * (WIDTH + 2)
    lines = [json.loads(line) for line in home.journal.read_text().splitlines()]
    ended = [line["uid"] for line in lines if line["kind"] == "pod"]
    figures: dict[str, results.Figure] = {
        f"{name}.cpu_per_pod_ms": round((after[name] - before[name]) * 1000 / pods, 2)
        for name in before
    }
    ours = sum(after.values()) - sum(before.values())
    others = 1 - ours / (busy_after - busy_before)
    figures |= {
        "workflows": WORKFLOWS,
        "pods": pods,
        "pods_recorded": len(ended),
        "pods_distinct": len(set(ended)),
        "wall_s": round(wall_s, 2),
        "pods_per_wall_s": round(pods / wall_s, 2),
        "pods_per_s_if_alone": round(pods / ours * (os.cpu_count() or 1), 2),
        "cpu_share_of_others": round(others, 3),
    }
    path = results.write("kubelet", seed=SEED, speed=SPEED, figures=figures)
    with capsys.disabled():
        for name, value in figures.items():
            Console().print(f"{name:44} {value}")
        Console().print(f"written to {path}")
    assert [pods, pods] == [len(ended), len(set(ended))]
    assert RANGES["cpu_per_pod_ms"]["most"] >= figures["kubelet.cpu_per_pod_ms"]  # type: ignore[operator]
    assert RANGES["pods_per_s_if_alone"]["least"] <= figures["pods_per_s_if_alone"]  # type: ignore[operator]
    if others < OTHERS_MOST:
        assert RANGES["pods_per_wall_s"]["least"] <= figures["pods_per_wall_s"]  # type: ignore[operator]


def busy_s() -> float:
    """Return the CPU seconds that the whole machine has been busy so far."""
    user, nice, system, _, _, interrupts, soft, *_ = Path("/proc/stat").read_text().split()[1:9]
    return sum(map(int, (user, nice, system, interrupts, soft))) / TICKS_PER_S


def cpu_s(home: homes.Home) -> dict[str, float]:
    """Return the CPU seconds that each component has used so far."""
    found = {}
    for component in states.load(home).components:
        if component.process is not None:
            stat = Path(f"/proc/{component.process.pid}/stat").read_text()
            user, system = stat.rpartition(")")[2].split()[11:13]
            found[component.name] = (int(user) + int(system)) / TICKS_PER_S
    return found
