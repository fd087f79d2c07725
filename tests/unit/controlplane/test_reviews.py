from pathlib import Path

import pytest

from lab import apis, homes
from lab.controlplane import reviews
from tests.unit.controlplane import lab_states as a


def container(cpu: str, memory: str, **more: str) -> apis.Object:
    """Return a container with requests."""
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container("500m", "1Gi"), {}]}, (500, 2**30)),
        (
            {
                "containers": [container("1", "1Gi"), container("1", "1Gi")],
                "initContainers": [container("3", "1Mi"), container("1m", "4Gi")],
            },
            (3000, 4 * 2**30),
        ),
        (
            {
                "containers": [container("1", "1Gi")],
                "initContainers": [container("1", "1Gi", restartPolicy="Always")],
            },
            (2000, 2 * 2**30),
        ),
        ({"containers": [{}]}, (0, 0)),
    ],
)
def test_a_pod_requests_what_the_scheduler_counts(
    spec: apis.Object, expected: tuple[int, int]
) -> None:
    """The larger of its containers together and of any one init container."""
    assert expected == reviews.requested({"spec": spec})


def test_the_times_say_what_is_scaled_set_and_wall(tmp_path: Path) -> None:
    """At speed 50 Argo looks again after 0.2 s instead of 10."""
    times = reviews.times(a.a_state(homes.Home(name="a", root=tmp_path), speed=50))

    assert any("requeue: 0.2 s of wall time for 10 s" in line for line in times.scaled)
    assert any("back-off: 1 s of wall time" in line for line in times.chosen)
    assert any("CronWorkflows" in line for line in times.wall)


def test_a_component_without_a_process_uses_nothing(tmp_path: Path) -> None:
    """Absent is not zero."""
    state = a.a_state(homes.Home(name="a", root=tmp_path))

    assert [None, None] == [item.cpu_s for item in reviews.of_processes(state)]
