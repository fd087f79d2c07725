from pathlib import Path

import pytest

from lab import homes, invocations
from lab.controlplane import components, states
from tests.unit.controlplane import lab_states as a


@pytest.fixture
def home(tmp_path: Path) -> homes.Home:
    """Return the empty home of a lab `a`."""
    return homes.Home(name="a", root=tmp_path)


def plan(home: homes.Home, name: str, *, speed: float = 1.0) -> components.Plan:
    """Return the plan of one component with arbitrary ports."""
    ports = dict.fromkeys(components.PORTS[name], 23456)
    return components.plan(name, home=home, state=a.a_state(home, speed=speed), ports=ports)


@pytest.mark.parametrize("name", components.NAMES)
def test_each_component_listens_on_loopback_only(home: homes.Home, name: str) -> None:
    """No address that another machine reaches stands in a command line."""
    text = " ".join(plan(home, name).arguments)

    assert "=0.0.0.0" not in text
    assert "--bind-address=127.0.0.1" in text or name not in (
        components.API_SERVER,
        components.CONTROLLER_MANAGER,
        components.SCHEDULER,
    )


@pytest.mark.parametrize("name", components.NAMES)
def test_no_secret_stands_in_a_command_line(home: homes.Home, name: str) -> None:
    """Keys are named by file: a command line is readable by every user of the machine."""
    assert "BEGIN" not in " ".join(plan(home, name).arguments)


def test_etcd_lets_in_only_who_has_its_certificate(home: homes.Home) -> None:
    """Loopback is shared by all users of the machine."""
    arguments = plan(home, components.ETCD).arguments

    assert {"--client-cert-auth", "--peer-client-cert-auth"} <= set(arguments)


def test_the_api_server_is_told_where_etcd_listens(home: homes.Home) -> None:
    """The port is etcd's own, as the state says."""
    assert "--etcd-servers=https://127.0.0.1:21000" in plan(home, components.API_SERVER).arguments


@pytest.mark.parametrize(
    ("speed", "expected"), [(1.0, "10000000us"), (60.0, "166667us"), (1e9, "1us")]
)
def test_argos_requeue_runs_at_the_labs_speed(
    home: homes.Home, speed: float, expected: str
) -> None:
    """Ten simulated seconds, and never zero, which Argo would read as no time at all."""
    environment = plan(home, components.ARGO, speed=speed).environment

    assert expected == environment["DEFAULT_REQUEUE_TIME"]


@pytest.mark.parametrize(
    ("name", "program", "expected"),
    [
        (
            components.ETCD,
            "cache/tiphys/bin/etcd",
            f"and `{invocations.lab()} build` makes it anew",
        ),
        (components.ETCD, "mine/etcd", "replace "),
        (components.KUBELET, ".venv/bin/python", "`make lab-up` sets up"),
    ],
)
def test_a_program_that_is_refused_is_mended_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, program: str, expected: str
) -> None:
    """Nobody is told to delete their interpreter."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert expected in components.remedy(name, str(tmp_path / program))


@pytest.mark.parametrize(("speed", "expected"), [(1.0, 300), (60.0, 5), (1e6, 1)])
def test_pods_leave_a_lost_node_at_the_labs_speed(
    home: homes.Home, speed: float, expected: int
) -> None:
    """Whole seconds, and never zero, which would evict at once."""
    arguments = plan(home, components.API_SERVER, speed=speed).arguments

    assert f"--default-not-ready-toleration-seconds={expected}" in arguments
    assert f"--default-unreachable-toleration-seconds={expected}" in arguments


def test_lost_nodes_are_cleared_at_the_labs_speed(home: homes.Home) -> None:
    """One in ten simulated seconds."""
    arguments = plan(home, components.CONTROLLER_MANAGER, speed=60.0).arguments

    assert "--node-eviction-rate=6" in arguments


def test_what_was_left_out_is_not_present() -> None:
    """The others keep their order."""
    asked = states.Asked(without=(components.KUBELET, components.PROCESS_NODE))

    assert components.NAMES[:5] == components.present(asked)


def test_the_lab_cannot_do_without_etcd_and_the_api_server() -> None:
    """Nothing else would have a meaning."""
    required = set(components.NAMES) - set(components.OPTIONAL)

    assert {components.ETCD, components.API_SERVER} == required
