from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from msgspec import structs

from lab import apis, homes
from lab.cli import tables
from lab.controlplane import processes, reviews, states
from tests.unit.controlplane import lab_states as a


def container(cpu: str, memory: str, **more: str) -> apis.Object:
    """Return a container with requests."""
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def a_pod(phase: str, *containers: apis.Object, **spec: object) -> apis.Object:
    """Return a pod of node `n` as the API server lists it."""
    return {
        "metadata": {"uid": "u", "namespace": "d", "name": "p", "creationTimestamp": "now"},
        "spec": {"nodeName": "n", "containers": containers, **spec},
        "status": {"phase": phase},
    }


class Cluster:
    """An API server with two nodes, whose pods come in pages of two."""

    def __init__(self, *pods: apis.Object) -> None:
        self._pods = pods

    async def get(self, path: str, *, params: Mapping[str, str] | None = None) -> apis.Object:
        """Return a list."""
        if path.endswith("/nodes"):
            status = {"allocatable": {"cpu": "8", "memory": "16Gi"}}
            names = ("n", "idle")
            return {"items": [{"metadata": {"name": name}, "status": status} for name in names]}
        start = int((params or {}).get("continue", 0))
        more = {"continue": str(start + 2)} if start + 2 < len(self._pods) else {}
        return {"items": self._pods[start : start + 2], "metadata": more}


async def test_a_node_shows_what_the_scheduler_counts_of_its_pods() -> None:
    """Of those that have not ended; sidecars count with whatever runs beside them."""
    sidecar = container("1", "1Gi", restartPolicy="Always")
    first = container("2", "1Mi")
    cluster = Cluster(
        a_pod("Running", container("500m", "1Gi"), {"name": "besteffort"}),
        a_pod("Pending", container("1", "1Gi"), initContainers=[sidecar, first]),
        a_pod("Succeeded", container("4", "4Gi")),
    )

    idle, busy = await reviews.nodes(cast("apis.Api", cluster))

    assert ("n", 3500, 3 * 2**30, 2) == (
        busy.name,
        busy.requested_cpu_m,
        busy.requested_memory_bytes,
        busy.pods,
    )
    assert ("idle", 8000, 0, 0) == (idle.name, idle.cpu_m, idle.requested_cpu_m, idle.pods)


def test_the_times_say_what_is_scaled_set_and_wall(tmp_path: Path) -> None:
    """At speed 50 Argo looks again after 0.2 s instead of 10."""
    times = reviews.times(a.a_state(homes.Home(name="a", root=tmp_path), speed=50))

    assert any("requeue: 0.2 s of wall time for 10 s" in line for line in times.scaled)
    assert any("tolerationSeconds): 6 s of wall time for 300 s" in line for line in times.scaled)
    assert any("node-eviction-rate): 5 nodes a second" in line for line in times.scaled)
    assert any("node-monitor-grace-period, 50 s" in line for line in times.wall)
    assert any("back-off: 1 s of wall time" in line for line in times.chosen)
    assert any("CronWorkflows" in line for line in times.wall)


def test_a_component_without_a_process_uses_nothing(tmp_path: Path) -> None:
    """Absent is not zero."""
    state = a.a_state(homes.Home(name="a", root=tmp_path))

    assert [None, None] == [item.cpu_s for item in reviews.of_processes(state)]


def a_crashed_state(home: homes.Home) -> states.State:
    """Return the state of a lab whose supervisor and processes are gone."""
    gone = processes.Process(pid=2**22 - 1, started_ticks=1)
    state = a.a_state(home, supervisor=gone)
    ready = tuple(
        structs.replace(item, phase=states.Phase.READY, process=gone) for item in state.components
    )
    return structs.replace(state, components=ready)


def test_after_a_crash_nothing_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in JSON nor in the table, whatever the supervisor wrote last."""
    home = homes.Home(name="a", root=tmp_path)

    review = reviews.review(a_crashed_state(home), nodes=None)
    tables.show_state(home, review)

    assert (False, states.Phase.GONE) == (review.running, review.state.phase)
    assert {(states.Phase.GONE, None)} == {
        (item.component.phase, item.component.process) for item in review.processes
    }
    shown = capsys.readouterr().out
    assert "lab a: not running: it crashed" in shown
    assert "4 nodes, of which none runs" in shown
    assert "ready" not in shown
    assert "so far" not in shown


def test_a_lab_that_runs_is_as_it_was_written(tmp_path: Path) -> None:
    """Its supervisor knows best."""
    state = a.a_state(homes.Home(name="a", root=tmp_path))

    assert state == reviews.as_it_is(state)


def test_a_process_that_has_ended_is_not_ready_whatever_stands_on_disk(tmp_path: Path) -> None:
    """A supervisor cannot write its end down while the disk is full."""
    home = homes.Home(name="a", root=tmp_path)
    state = structs.replace(a_crashed_state(home), supervisor=processes.current())

    found = reviews.as_it_is(state)

    assert states.Phase.READY == found.phase
    assert {(states.Phase.CRASHED, None)} == {
        (item.phase, item.process) for item in found.components
    }


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        (0, "1 node, 1 ready; 0 pods that have not ended"),
        (1, "1 node, 1 ready; 1 pod that has not ended"),
    ],
)
def test_nodes_and_pods_are_counted_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pods: int, expected: str
) -> None:
    """One is not `1 pods`."""
    home = homes.Home(name="a", root=tmp_path)
    node = reviews.NodeReview(
        name="n", ready=True, instance_type="t", rack="r", cpu_m=1, memory_bytes=1, pods=pods
    )

    tables.show_state(home, reviews.review(a.a_state(home), nodes=[node]))

    assert expected in capsys.readouterr().out
