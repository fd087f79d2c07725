import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lab import errors, homes
from lab.controlplane import components, probes, processes, states, supervisors
from tests.unit.controlplane import lab_states

NAME = components.SCHEDULER


class Programs:
    """What each component is in these tests: a line of shell, ready as soon as it runs."""

    def __init__(self) -> None:
        self.scripts = dict.fromkeys(components.NAMES, "exec sleep 60")

    def plan(self, name: str, **_: object) -> components.Plan:
        """Stand in for `components.plan`."""
        return components.Plan(
            name=name,
            arguments=("/bin/sh", "-c", self.scripts[name]),
            ready_within_s=1.0,
            grace_s=0.3,
        )


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Put shells in the place of the real programs, which are ready once they have run a while."""
    made = Programs()

    async def ready(*_: object) -> bool:
        await asyncio.sleep(0.05)
        return True

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(components, "plan", made.plan)
    monkeypatch.setattr(probes.Probes, "ready", ready)
    monkeypatch.setattr(supervisors.Supervisor, "_furnish", nothing)
    monkeypatch.setattr(supervisors, "FIRST_PAUSE_S", 0.01)
    return made


@pytest.fixture
async def supervisor(tmp_path: Path, programs: Programs) -> AsyncIterator[supervisors.Supervisor]:
    """Return a supervisor whose lab runs; it is taken down after the test."""
    made = a_supervisor(tmp_path)
    running = asyncio.create_task(made.run())
    await phase(made, NAME, states.Phase.READY)
    yield made
    made.close()
    await running
    assert [] == processes.of_lab(tmp_path)


def a_supervisor(folder: Path) -> supervisors.Supervisor:
    """Return a supervisor of etcd, API server and scheduler that has not begun."""
    home = homes.Home(name="a", root=folder)
    home.pki.mkdir()
    home.cluster.write_text(
        "{name: x, about: x, network: {rack_uplink: 1, object_store: 1}, groups: [{name: g,"
        " count: 1, instance_type: t, rack: r, zone: z, cores: 1, memory: 1Gi,"
        " memory_bandwidth: 1Gi, nic: 1, disk: {kind: ssd, bandwidth: 1, iops: 1}}]}"
    )
    without = tuple(name for name in components.OPTIONAL if name != NAME)
    return supervisors.Supervisor(
        home, lab_states.a_state(home, asked=states.Asked(without=without))
    )


async def phase(
    made: supervisors.Supervisor, name: str, wanted: states.Phase, *, crashes: int = 0
) -> states.Component:
    """Wait until a component stands where it should."""
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(errors.UsageError):
                found = made.state.component(name)
                if (found.phase, found.crashes) == (wanted, crashes):
                    return found
            await asyncio.sleep(0.01)


async def test_a_crash_is_mended_and_counted(supervisor: supervisors.Supervisor) -> None:
    """The state tells a disturbed run from an undisturbed one."""
    first = supervisor.state.component(NAME).process

    await supervisor.kill(NAME)

    mended = await phase(supervisor, NAME, states.Phase.READY, crashes=1)
    assert first != mended.process
    assert mended.last_exit == "SIGKILL"


async def test_what_crashes_again_and_again_is_given_up(
    supervisor: supervisors.Supervisor, programs: Programs
) -> None:
    """With the last line that it wrote, and the lab goes on without it."""
    programs.scripts[NAME] = "echo no luck; sleep 0.1; exit 3"

    await supervisor.kill(NAME)

    given_up = await phase(supervisor, NAME, states.Phase.FAILED, crashes=6)
    assert given_up.last_exit == "exit code 3: no luck"
    assert states.Phase.READY == supervisor.state.component(components.ETCD).phase


async def test_what_does_not_come_up_after_a_crash_is_tried_again(
    supervisor: supervisors.Supervisor, programs: Programs, tmp_path: Path
) -> None:
    """A failed start counts as another crash."""
    programs.scripts[NAME] = f"test -e {tmp_path}/now || exit 1; exec sleep 60"
    await supervisor.kill(NAME)
    await phase(supervisor, NAME, states.Phase.CRASHED, crashes=2)
    (tmp_path / "now").touch()

    async with asyncio.timeout(10):
        while supervisor.state.component(NAME).phase is not states.Phase.READY:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_crash_on_a_full_disk_is_mended_and_written_down_later(
    supervisor: supervisors.Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes room finds the lab as it is."""
    home = homes.Home(name="a", root=tmp_path)
    write, full = states.write, True

    def when_there_is_room(home: homes.Home, state: states.State) -> None:
        if full:
            raise OSError(errno.ENOSPC, "no space left on device")
        write(home, state)

    monkeypatch.setattr(states, "write", when_there_is_room)
    monkeypatch.setattr(states, "WRITE_AGAIN_S", 0.01)
    await supervisor.kill(NAME)
    mended = await phase(supervisor, NAME, states.Phase.READY, crashes=1)
    assert mended not in states.load(home).components

    full = False

    async with asyncio.timeout(10):
        while mended not in states.load(home).components:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_was_stopped_stays_down(supervisor: supervisors.Supervisor) -> None:
    """Until it is started; neither is a crash."""
    await supervisor.stop(NAME)
    await asyncio.sleep(0.1)
    assert states.Phase.STOPPED == supervisor.state.component(NAME).phase

    await supervisor.start(NAME)

    assert await phase(supervisor, NAME, states.Phase.READY)


async def test_a_restart_keeps_the_ports_and_is_no_crash(
    supervisor: supervisors.Supervisor,
) -> None:
    """Clients find it again where it was."""
    before = supervisor.state.component(NAME)

    await supervisor.restart(NAME)

    after = await phase(supervisor, NAME, states.Phase.READY)
    assert before.ports == after.ports
    assert before.process != after.process


async def test_two_commands_at_once_leave_one_process(
    supervisor: supervisors.Supervisor, tmp_path: Path
) -> None:
    """Else both would fight for its ports, and one would be lost sight of."""
    await asyncio.gather(*(supervisor.restart(NAME) for _ in range(3)), supervisor.start(NAME))

    mine = [item for item in processes.of_lab(tmp_path) if NAME in _log_of(item)]
    assert [supervisor.state.component(NAME).process] == mine


def _log_of(process: processes.Process) -> str:
    """Return where a process writes: that tells which component it is."""
    return str(Path(f"/proc/{process.pid}/fd/1").readlink())


async def test_a_stop_does_not_wait_for_a_start_that_hangs(
    supervisor: supervisors.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends what is being started, and the start says so."""
    await supervisor.stop(NAME)

    async def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(probes.Probes, "ready", never)
    starting = asyncio.create_task(supervisor.start(NAME))
    await phase(supervisor, NAME, states.Phase.STARTING)

    await supervisor.stop(NAME)

    with pytest.raises(errors.StartError, match="ended with SIGTERM before it was ready"):
        await starting
    assert states.Phase.STOPPED == supervisor.state.component(NAME).phase


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("listen tcp 127.0.0.1:23456: bind: address already in use", True),
        ('level=ERROR msg="listen tcp :6060: bind: address already in use"', False),
        ("permission denied", False),
    ],
)
def test_a_taken_port_is_told_from_argos_health_port(line: str, expected: bool) -> None:
    """Argo's controller names the latter in every second lab, and works."""
    assert expected == supervisors._port_was_taken(f"started\n{line}")


async def test_who_ignores_sigterm_is_killed_when_the_lab_goes_down(
    tmp_path: Path, programs: Programs
) -> None:
    """Argo's controller does not end on SIGTERM."""
    programs.scripts[NAME] = "trap '' TERM; while :; do sleep 0.05; done"
    made = a_supervisor(tmp_path)
    running = asyncio.create_task(made.run())
    process = (await phase(made, NAME, states.Phase.READY)).process
    assert process is not None

    made.close()
    await running

    assert not process.alive


async def test_a_lab_that_is_closed_while_it_starts_ends_what_it_started(
    tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No need to wait for what will not be used."""

    async def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(probes.Probes, "ready", never)
    made = a_supervisor(tmp_path)
    running = asyncio.create_task(made.run())
    process = (await phase(made, components.ETCD, states.Phase.STARTING)).process
    assert process is not None

    made.close()
    await running

    assert not process.alive
    assert made.state.ready_after_s is None


@pytest.mark.parametrize("command", ["kill", "pause", "resume"])
async def test_what_does_not_run_cannot_be_disturbed(
    supervisor: supervisors.Supervisor, command: str
) -> None:
    """The error says how it is started."""
    await supervisor.stop(NAME)

    with pytest.raises(errors.UsageError, match="component start kube-scheduler --name a`"):
        await getattr(supervisor, command)(NAME)


async def test_an_unknown_component_is_no_command(supervisor: supervisors.Supervisor) -> None:
    """The known ones are named."""
    with pytest.raises(errors.UsageError, match="it has etcd, kube-apiserver, kube-scheduler"):
        await supervisor.stop("scheduler")


async def test_a_paused_component_is_stopped_by_the_kernel(
    supervisor: supervisors.Supervisor,
) -> None:
    """And goes on when it is told to."""
    process = supervisor.state.component(NAME).process
    assert process is not None

    await supervisor.pause(NAME)
    assert states.Phase.PAUSED == supervisor.state.component(NAME).phase
    await supervisor.resume(NAME)

    assert states.Phase.READY == supervisor.state.component(NAME).phase
    assert process.alive


async def test_the_end_of_a_component_before_it_is_ready_fails_the_start(
    tmp_path: Path, programs: Programs
) -> None:
    """With its name, how it ended, and the tail of its log; nothing is left."""
    programs.scripts[NAME] = "echo no luck; exit 3"
    made = a_supervisor(tmp_path)

    with pytest.raises(errors.StartError, match="kube-scheduler ended with exit code 3") as caught:
        await made.run()

    assert "no luck" == caught.value.tail
    assert [] == processes.of_lab(tmp_path)
