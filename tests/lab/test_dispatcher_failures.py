"""Whatever dies, no gate stays shut for ever: bounds in wall seconds (docs/releaser.md)."""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Iterator

import yaml

from lab import apis, faults, homes
from tests.lab import gates, polls

LEADER_S = 15.0
ALL_DEAD_S = 30.0
FLOOR_S = 120.0


async def _fill(api: apis.Api, *, waiting: int, **changes: str) -> str:
    """Create four pods that fill the cluster and others that wait; return their namespace."""
    space = await gates.a_namespace(api, **changes)
    uid = await gates.a_workflow(api, space, "wf")
    path = f"/api/v1/namespaces/{space}/pods"
    names = [f"p{n:04}" for n in range(4 + waiting)]
    limit = asyncio.Semaphore(16)

    async def make(name: str) -> None:
        async with limit:
            await api.create(path, gates.a_gated_pod(name, "wf", uid))

    await asyncio.gather(*(make(name) for name in names))
    return space


async def _opened(api: apis.Api, space: str, count: int, *, within_s: float) -> float:
    """Return after how many seconds so many gates are open."""
    began = time.monotonic()

    async def enough() -> bool:
        return len(await gates.open_pods(api, space)) >= count

    await polls.until(enough, within_s=within_s)
    return time.monotonic() - began


async def _reads(running: gates.Operator) -> bool:
    """Say whether a replica has read the cluster."""
    return "read the cluster" in running.log.read_text()


@contextlib.contextmanager
def releaser(home: homes.Home, how: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `tiphys release` with admin rights."""
    settings = home.root / "releaser.yaml"
    settings.write_text(yaml.safe_dump({"metricsPort": 0, "host": "127.0.0.1"}))
    with (home.logs / "releaser.log").open("wb") as out:
        process = subprocess.Popen(
            [
                gates.TIPHYS,
                "release",
                how,
                "--settings",
                settings,
                "--kubeconfig",
                home.kubeconfig,
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=gates.environment(**environ),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(15)


async def test_another_replica_adopts_the_gates_of_a_leader_that_was_killed(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Room that appears right after the kill is given away within 15 s by the other replica."""
    with contextlib.ExitStack() as running:
        first = running.enter_context(gates.operator(tiny))
        await gates.dispatching(first)  # before the second one starts, which could lead as well
        second = running.enter_context(gates.operator(tiny))
        await polls.until(lambda: _reads(second), within_s=40)
        space = await _fill(tiny_api, waiting=4)
        await _opened(tiny_api, space, 4, within_s=20)
        first.kill()
        held = sorted(await gates.open_pods(tiny_api, space))[0]
        path = f"/api/v1/namespaces/{space}/pods/{held}"
        await tiny_api.call("DELETE", path, params={"gracePeriodSeconds": "0"})
        spent_s = await _opened(tiny_api, space, 4, within_s=40)
        assert spent_s <= LEADER_S
        assert "dispatch begins" in second.log.read_text()
        await asyncio.sleep(2)
        # What the first one let go counts as used: nothing more is opened.
        assert 4 == len(await gates.open_pods(tiny_api, space))


async def test_the_releaser_opens_all_gates_when_all_operators_are_dead(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Nothing is opened while the operator lives; once it is killed all are within 30 s."""
    with gates.operator(tiny) as running, releaser(tiny, "--watch"):
        await gates.dispatching(running)
        space = await _fill(tiny_api, waiting=200)
        await _opened(tiny_api, space, 4, within_s=30)
        await asyncio.sleep(12)
        assert 4 == len(await gates.open_pods(tiny_api, space))
        running.kill()
        assert await _opened(tiny_api, space, 204, within_s=60) <= ALL_DEAD_S


async def test_the_floor_opens_all_gates_when_the_releaser_is_dead_too(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """`--once` leaves a living operator alone, and opens everything when there is none."""
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        space = await _fill(tiny_api, waiting=50)
        await _opened(tiny_api, space, 4, within_s=30)
        with releaser(tiny, "--once") as once:
            assert 0 == await asyncio.to_thread(once.wait, 60)
        assert 4 == len(await gates.open_pods(tiny_api, space))
        running.kill()
        began = time.monotonic()
        with releaser(tiny, "--once") as once:
            assert 0 == await asyncio.to_thread(once.wait, FLOOR_S)
        # A minute until the CronJob's next run comes on top.
        assert time.monotonic() - began <= FLOOR_S - 60
        assert 54 == len(await gates.open_pods(tiny_api, space))


async def test_an_operator_that_is_switched_off_opens_its_gates(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """TIPHYS_DISABLED=1 holds nobody."""
    space = await _fill(tiny_api, waiting=12)
    with gates.operator(tiny, environ={"TIPHYS_DISABLED": "1"}) as running:
        await gates.dispatching(running)
        await _opened(tiny_api, space, 16, within_s=15)


async def test_a_releaser_that_is_switched_off_opens_gates_whoever_lives(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """TIPHYS_DISABLED=1 on the releaser opens what an operator would hold."""
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        space = await _fill(tiny_api, waiting=6)
        await _opened(tiny_api, space, 4, within_s=20)
        with releaser(tiny, "--watch", TIPHYS_DISABLED="1"):
            await _opened(tiny_api, space, 10, within_s=10)


async def test_dispatch_goes_on_after_a_restart_of_the_api_server(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """While gates open one by one the API server is restarted; every pod still comes through."""
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    with gates.operator(tiny) as running, releaser(tiny, "--watch"):
        await gates.dispatching(running)
        path = f"/api/v1/namespaces/{space}/pods"
        for n in range(40):
            await tiny_api.create(
                path, gates.a_gated_pod(f"p{n:02}", "wf", uid, cpu="2", seconds=1)
            )
        await _opened(tiny_api, space, 8, within_s=30)
        await asyncio.to_thread(faults.restart, tiny, "kube-apiserver")
        await _opened(tiny_api, space, 40, within_s=90)
        # Time without an answer is no evidence that the operators are dead.
        assert "opened gates" not in (tiny.logs / "releaser.log").read_text()
