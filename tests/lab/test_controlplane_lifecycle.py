"""However a lab ends, nothing of it is left; and whatever was left, `up` and `down` cope with it.

The labs here have neither nodes nor process node: what ends them is the supervisor's work alone.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import catalogs, errors, homes
from lab.controlplane import binaries, components, labs, ports, processes, states, supervisors
from tests.lab import polls

pytestmark = pytest.mark.timeout(240)

BARE = (components.KUBELET, components.PROCESS_NODE)
BARE_FLAGS = [word for name in BARE for word in ("--without", name)]
LabMaker = Callable[..., homes.Home]
Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(labs_root: Path) -> Iterator[Starter]:
    """Return what starts the lab's command line as a program of its own."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "lab", *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        assert process.stdout is not None
        process.stdout.close()
        process.wait()


def nothing_left(home: homes.Home) -> bool:
    """Whether no process of a lab runs, and no file says that one does."""
    found = polls.blocking(lambda: not processes.of_lab(home.root), within_s=20)
    return found and not home.state.exists() and not home.supervisor_socket.exists()


def no_process_of(state: states.State) -> bool:
    """Whether every process that a state names has ended."""
    return [] == processes.wait_gone(state.processes(), limit_s=20)


def begun(home: homes.Home) -> states.State | None:
    """Return the state as soon as the API server has been started."""
    state = states.read(home)
    if state is None or len(state.components) < 2 or state.components[1].process is None:
        return None
    return state


def test_down_leaves_nothing(make_lab: LabMaker) -> None:
    """No process, no port, no state; the logs stay until they are purged."""
    home = make_lab("downed", without=BARE)
    state = states.load(home)
    taken = [port for item in state.components for port in item.ports.values()]

    assert labs.Outcome.STOPPED == labs.down(home)

    assert no_process_of(state)
    assert nothing_left(home)
    assert all(ports.is_free(port) for port in taken)
    assert (home.logs / "etcd.log").exists()
    labs.down(home, purge=True)
    assert not home.root.exists()


def test_up_of_a_running_lab_says_so_and_changes_nothing(
    make_lab: LabMaker, start: Starter
) -> None:
    """It is what the person asked for, so it is no error; what it is not, is one."""
    home = make_lab("twice", without=BARE)
    before = states.load(home)

    again = start("up", "--name", "twice", *BARE_FLAGS)
    shown, _ = again.communicate(timeout=60)

    assert (0, True) == (again.returncode, "lab 'twice' runs already" in shown)
    other = start("up", "--name", "twice", "--speed", "30")
    shown, _ = other.communicate(timeout=60)
    assert other.returncode == errors.StaleError.exit_code
    assert "lab 'twice' runs with speed 1.0 (not 30.0): end it with" in shown
    assert before == states.load(home)


def test_up_of_a_lab_whose_cluster_was_edited_is_an_error(
    make_lab: LabMaker, kubernetes: str, tmp_path: Path
) -> None:
    """The file has the same name, but describes other nodes than those that run."""
    file = tmp_path / "mine.yaml"
    file.write_text((catalogs.SHIPPED / "mixed.yaml").read_text())
    home = make_lab("edited", cluster=str(file), without=BARE)
    asked = states.Asked(kubernetes=kubernetes, cluster=str(file), without=BARE)
    assert labs.Outcome.RAN_ALREADY is labs.up(home, asked)

    file.write_text(file.read_text().replace("cores: 16", "cores: 8"))
    with pytest.raises(errors.StaleError, match=r"described when it started: end it with"):
        labs.up(home, asked)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_up_that_is_interrupted_leaves_nothing(start: Starter, number: int) -> None:
    """Ctrl-C, a polite end, or one that lets nobody act."""
    home = homes.home(f"cut-{number}")
    starting = start("up", "--name", home.name, *BARE_FLAGS)
    state = polls.blocking(lambda: begun(home), within_s=60)
    assert state is not None

    starting.send_signal(number)
    shown, _ = starting.communicate(timeout=60)

    assert starting.returncode == (130 if number == signal.SIGINT else -number), shown
    assert no_process_of(state)
    assert nothing_left(home)


def test_a_lab_ends_with_its_owner(start: Starter) -> None:
    """Also when the owner is killed and can say nothing."""
    with subprocess.Popen(["sleep", "600"]) as owner:
        home = homes.home("owned")
        up = start("up", "--name", home.name, "--owner-pid", str(owner.pid), *BARE_FLAGS)
        shown, _ = up.communicate(timeout=120)
        assert 0 == up.returncode, shown
        state = states.load(home)
        owner.kill()

    assert no_process_of(state)
    assert nothing_left(home)


def test_when_the_supervisor_is_killed_everything_ends_and_up_begins_again(
    make_lab: LabMaker, start: Starter
) -> None:
    """`status` says what happened; `up` clears and continues; no pid is guessed."""
    home = make_lab("crashed", without=BARE)
    before = states.load(home)
    assert before.supervisor is not None
    before.supervisor.signal(signal.SIGKILL)

    assert no_process_of(before)
    status = start("status", "--name", home.name)
    shown, _ = status.communicate(timeout=60)
    assert (errors.StaleError.exit_code, True) == (status.returncode, "it crashed" in shown)
    rows = [line for line in shown.splitlines() if line.strip().startswith("kube-")]
    assert ["not running"] * 3 == [" ".join(row.split()[1:3]) for row in rows]

    make_lab("crashed", without=BARE)
    after = states.load(home)
    assert after.supervisor != before.supervisor
    assert states.Phase.READY == after.phase


def test_down_clears_a_crashed_lab(make_lab: LabMaker) -> None:
    """Including a process that lost its supervisor and lived on."""
    home = make_lab("orphaned", without=BARE)
    state = states.load(home)
    environment = {**os.environ, processes.MARKER: str(home.root)}
    with subprocess.Popen(["sleep", "600"], env=environment) as orphan:
        assert state.supervisor is not None
        state.supervisor.signal(signal.SIGKILL)
        assert no_process_of(state)

        assert labs.Outcome.CLEANED == labs.down(home)

        assert -signal.SIGKILL == orphan.wait(timeout=10)
    assert nothing_left(home)


def test_a_stopped_supervisor_cannot_keep_its_lab_up(
    make_lab: LabMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs and answers no command is ended all the same."""
    monkeypatch.setattr(labs, "SHUTDOWN_HEARD_WITHIN_S", 2.0)
    home = make_lab("hung", without=BARE)
    state = states.load(home)
    assert state.supervisor is not None
    state.supervisor.signal(signal.SIGSTOP)

    labs.down(home)

    assert no_process_of(state)
    assert nothing_left(home)


def test_another_version_is_not_replaced_behind_a_persons_back(
    make_lab: LabMaker, kubernetes: str
) -> None:
    """Neither one that runs nor what one left by a crash; the command that clears it is named."""
    other = "v1.34.4" if kubernetes != "v1.34.4" else "v1.36.3"
    home = make_lab("versions", without=BARE)
    state = states.load(home)

    with pytest.raises(errors.StaleError, match=r"runs with .*lab down --name versions"):
        labs.up(home, states.Asked(kubernetes=other, without=BARE))
    assert state == states.load(home)

    assert state.supervisor is not None
    state.supervisor.signal(signal.SIGKILL)
    assert no_process_of(state)
    with pytest.raises(errors.StaleError, match=r"crashed with .*lab down --purge"):
        labs.up(home, states.Asked(kubernetes=other, without=BARE))


def test_state_of_another_format_names_the_command_that_clears_it(start: Starter) -> None:
    """And that command does clear it."""
    home = homes.home("ancient")
    home.root.mkdir()
    home.state.write_text(json.dumps({"format": 0}))

    up = start("up", "--name", home.name, *BARE_FLAGS)
    shown, _ = up.communicate(timeout=60)
    assert errors.StaleError.exit_code == up.returncode
    assert "python -m lab down --name ancient`, which keeps logs and records" in shown
    down = start("down", "--name", home.name)
    shown, _ = down.communicate(timeout=60)

    assert (0, "lab 'ancient' cleaned\n") == (down.returncode, shown)
    assert not home.state.exists()


def test_a_port_that_is_taken_is_named_with_its_holder(start: Starter) -> None:
    """A fixed port cannot be moved, so the person has to choose."""
    home = homes.home("ported")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        up = start("up", "--name", home.name, "--api-port", str(port), *BARE_FLAGS)
        shown, _ = up.communicate(timeout=120)

    assert up.returncode == errors.SetupError.exit_code
    assert f"port {port} for kube-apiserver is taken by process {os.getpid()} (" in shown
    assert "choose another with --api-port" in shown
    assert nothing_left(home)


def test_a_fixed_port_is_used(make_lab: LabMaker) -> None:
    """For a kubeconfig that a person wants to keep."""
    (port,) = ports.free(1)
    home = make_lab("fixed", api_port=port, without=BARE)

    assert {"secure": port} == states.load(home).component(components.API_SERVER).ports


async def test_a_port_that_was_taken_meanwhile_is_replaced(
    bare_supervisor: supervisors.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking and listening another program may take it: then etcd moves on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        answers = [[taken, *ports.free(1)]]
        real = ports.free
        monkeypatch.setattr(ports, "free", lambda count: answers.pop() if answers else real(count))
        running = asyncio.create_task(bare_supervisor.run())

        async def ready() -> bool:
            return bare_supervisor.state.phase is states.Phase.READY

        await polls.until(ready, within_s=60)
        bare_supervisor.close()
        await running

    assert [] == answers
    assert taken not in bare_supervisor.state.component(components.ETCD).ports.values()


async def test_a_component_that_hangs_ends_the_wait_with_its_name(
    bare_supervisor: supervisors.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every wait has a limit, and shows the tail of the log."""
    hanging = components.Plan(
        name=components.ETCD,
        arguments=("/bin/sh", "-c", "echo thinking; exec sleep 600"),
        ready_within_s=1.0,
    )
    monkeypatch.setattr(components, "plan", lambda *_, **__: hanging)

    with pytest.raises(errors.StartError, match="etcd was not ready within 1 s") as caught:
        await bare_supervisor.run()

    assert "thinking" == caught.value.tail
    assert states.Phase.FAILED == bare_supervisor.state.phase


def test_a_component_that_ends_at_once_is_named_with_the_tail_of_its_log(
    start: Starter, prebuilt: Path
) -> None:
    """And what had been started before it is ended again."""
    program = prebuilt / "kube-scheduler"
    real = program.resolve()
    program.unlink()
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\necho "out of luck"; exit 3\n'
    )
    program.chmod(0o755)
    home = homes.home("broken")

    up = start("up", "--name", home.name, *BARE_FLAGS, TIPHYS_LAB_BIN=str(prebuilt))
    shown, _ = up.communicate(timeout=120)

    assert errors.StartError.exit_code == up.returncode
    assert "kube-scheduler ended with exit code 3 before it was ready" in shown
    assert "out of luck" in shown
    assert nothing_left(home)


@pytest.fixture
def prebuilt(tmp_path: Path, kubernetes: str) -> Path:
    """Return a folder of links to the programs, as `TIPHYS_LAB_BIN` wants it."""
    found = binaries.find(states.Asked(kubernetes=kubernetes))
    for path in (
        found.etcd,
        found.kube_apiserver,
        found.kube_controller_manager,
        found.kube_scheduler,
        found.workflow_controller,
    ):
        (tmp_path / Path(path).name).symlink_to(path)
    (tmp_path / "manifests").symlink_to(found.argo_manifests)
    return tmp_path


@pytest.fixture
def bare_supervisor(labs_root: Path, kubernetes: str) -> Iterator[supervisors.Supervisor]:
    """Return a supervisor of etcd and API server that runs in this very process."""
    home = homes.home("inner")
    asked = states.Asked(kubernetes=kubernetes, without=components.OPTIONAL)
    yield supervisors.Supervisor(home, labs.prepare(home, asked))
    assert [] == processes.of_lab(home.root)
    # It names this process as the lab's supervisor; nobody shall take that down.
    home.state.unlink()
