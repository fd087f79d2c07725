"""The process node itself: killed, ended, restarted, cut off; its tokens; nothing is left."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from lab import apis, homes
from lab.controlplane import labs, processes, states
from lab.processnode import addresses
from tests.lab import process_pods
from tests.lab.process_pods import Pods, a_container, a_pod, a_script, state, until

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).parents[2]
WITHOUT = ("workflow-controller", "kubelet", "processnode")
READY = "is ready"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def bare(labs_root: Path, kubernetes: str) -> Iterator[homes.Home]:
    """Return the home of a lab whose process node the tests start themselves."""
    home = homes.home("bare")
    owner = processes.current()
    labs.up(home, states.Asked(kubernetes=kubernetes, owner=owner, without=WITHOUT))
    yield home
    labs.down(home)


@pytest.fixture
def start(bare: homes.Home) -> Iterator[Start]:
    """Return a function that starts the node with more arguments; it is ended after the test.

    It returns when the node says in its log that it is ready.
    """
    started = []
    log_path = bare.logs / "processnode.log"

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        said_before = log_path.read_text().count(READY) if log_path.exists() else 0
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.processnode", "--lab", bare.name, *arguments],
                cwd=ROOT,
                env={**os.environ, processes.MARKER: str(bare.root)},
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        started.append(process)
        until = time.monotonic() + process_pods.WITHIN_S
        while log_path.read_text().count(READY) == said_before:
            assert time.monotonic() < until and process.poll() is None, log_path.read_text()[-2000:]
            time.sleep(0.05)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        process.wait(timeout=10)


@pytest.fixture
async def pods(bare: homes.Home) -> AsyncIterator[Pods]:
    """Return the pods of namespace `default`, which is empty again after the test."""
    async with apis.Api(bare.kubeconfig) as api:
        found = Pods(api, "default")
        yield found
        for pod in await found.listed():
            await found.delete(pod["metadata"]["name"], gracePeriodSeconds="0")


def children(root: Path) -> list[processes.Process]:
    """Return the processes of a lab's pods: shims and what they started."""
    listed = processes.of_lab(root)
    return [item for item in listed if "sleep" in _line(item) or "shims.py" in _line(item)]


def _line(process: processes.Process) -> str:
    return processes.command(process.pid)


async def test_labs_of_one_name_in_different_homes_have_different_addresses(
    bare: homes.Home, kubernetes: str
) -> None:
    """Two people of one machine need not agree on names; each API server has its own range."""
    root = Path(tempfile.mkdtemp(prefix="tiphys-")) / bare.name
    twin = homes.Home(name=bare.name, root=root)
    asked = states.Asked(
        kubernetes=kubernetes,
        owner=processes.current(),
        without=("workflow-controller", "kubelet", "kube-scheduler"),
    )
    try:
        labs.up(twin, asked)
        found = []
        for home in (bare, twin):
            async with apis.Api(home.kubeconfig) as api:
                server = await api.get("/api/v1/namespaces/default/services/kubernetes")
                found.append(server["spec"]["clusterIP"])
        assert [addresses.recorded(home.root, lab="").server for home in (bare, twin)] == found
        assert 2 == len(set(found))
    finally:
        labs.down(twin)
        shutil.rmtree(root.parent)


async def test_a_killed_node_leaves_no_process(bare: homes.Home, start: Start, pods: Pods) -> None:
    """Not even those that a container started in sessions of their own."""
    node = start()
    text = "setsid sleep 1000 & (sleep 1000 & sleep 1000) & sleep 1000"
    for name in ("one", "two"):
        await pods.create(a_pod(name, a_script(text)))
    for name in ("one", "two"):
        await pods.ready(name)
    await until(_count(bare.root), lambda count: count >= 10)

    node.send_signal(signal.SIGKILL)
    node.wait()

    await until(_count(bare.root), lambda count: count == 0, within_s=5)


def _count(root: Path) -> Callable[[], "asyncio.Future[int]"]:
    return lambda: asyncio.ensure_future(asyncio.to_thread(lambda: len(children(root))))


async def test_a_node_that_is_ended_is_gone_in_seconds(
    bare: homes.Home, start: Start, pods: Pods
) -> None:
    """SIGTERM to the node ends every pod, also one that would not hear."""
    node = start()
    await pods.create(a_pod("deaf", a_script("trap '' TERM; sleep 1000; sleep 1000")))
    await pods.ready("deaf")

    began_at = time.monotonic()
    node.terminate()
    code = await asyncio.to_thread(node.wait, 10)

    assert (0, True) == (code, time.monotonic() - began_at < 5)
    assert [] == children(bare.root)


async def test_after_a_restart_pods_run_again_as_their_policy_says(
    bare: homes.Home, start: Start, pods: Pods
) -> None:
    """`Always` runs again and is counted, `Never` has failed; what is on disk starts anew."""
    node = start()
    note = a_script(
        "ls /scratch; touch /scratch/mark; sleep 1000",
        volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
    )
    volumes = [{"name": "scratch", "emptyDir": {}}]
    await pods.create(a_pod("always", note, volumes=volumes))
    await pods.create(a_pod("never", a_container(), restartPolicy="Never"))
    for name in ("always", "never"):
        await pods.ready(name)
    node.kill()
    node.wait()

    start()
    again = await until(
        lambda: pods.read("always"),
        lambda pod: state(pod)["restartCount"] == 1 and process_pods.is_ready(pod),
    )
    failed = await pods.over("never")

    for ended in (state(again)["lastState"]["terminated"], state(failed)["state"]["terminated"]):
        assert (137, "ContainerStatusUnknown") == (ended["exitCode"], ended["reason"])
    assert "Failed" == process_pods.phase(failed)
    log = bare.logs / "pods" / "default_always" / "main.log"
    assert "mark" not in log.read_text()


async def test_tokens_are_renewed_in_the_mounted_file(
    bare: homes.Home, start: Start, pods: Pods
) -> None:
    """Long before they end: here after 1 % of ten minutes; each is bound to the pod."""
    start("--token-refresh", "0.01")
    mount = {"name": "token", "mountPath": "/var/run/secrets/tiphys"}
    source = {"path": "token", "audience": "tiphys.dev", "expirationSeconds": 600}
    volumes = [{"name": "token", "projected": {"sources": [{"serviceAccountToken": source}]}}]
    text = f"while true; do cat {mount['mountPath']}/token; echo; sleep 0.5; done"
    await pods.create(a_pod("holder", a_script(text, volumeMounts=[mount]), volumes=volumes))
    await pods.ready("holder")
    log = bare.logs / "pods" / "default_holder" / "main.log"

    async def tokens() -> set[str]:
        lines = log.read_text().splitlines() if log.exists() else []
        return {line.split(" ", 3)[3] for line in lines if line.count(".") >= 3}

    seen = await until(tokens, lambda found: len(found) >= 3)

    for token in seen:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        assert ["tiphys.dev"] == claims["aud"]
        assert "holder" == claims["kubernetes.io"]["pod"]["name"]


async def test_marked_pods_are_refused_while_the_node_is_down(
    bare: homes.Home, start: Start, pods: Pods
) -> None:
    """On a simulated node they would only pretend to run; whoever makes them tries again."""
    node = start()
    await pods.create(a_pod("before", a_container()))
    await pods.ready("before")
    node.terminate()
    node.wait()

    async with apis.Api(bare.kubeconfig, attempts=2) as hasty:
        with pytest.raises(apis.ApiError, match=r"process-node\.lab\.tiphys\.dev"):
            await Pods(hasty, "default").create(a_pod("during", a_container()))
    plain = a_pod("plain", a_container())
    del plain["metadata"]["annotations"]
    await pods.create(plain)

    start()
    await until(lambda: _created(pods, "after"), bool)
    await pods.ready("after")


async def _created(pods: Pods, name: str) -> bool:
    try:
        await pods.create(a_pod(name, a_container()))
    except apis.ApiError:
        return False
    return True


async def test_an_api_server_that_goes_away_costs_no_pod(
    bare: homes.Home, start: Start, pods: Pods
) -> None:
    """What runs goes on; what comes afterwards is served as before."""
    start()
    await pods.create(a_pod("survivor", a_container()))
    survivor = await pods.ready("survivor")

    command = [sys.executable, "-m", "lab", "component"]
    for verb in ("stop", "start"):
        words = [*command, verb, "kube-apiserver", "--name", bare.name]
        ended = await asyncio.to_thread(
            subprocess.run, words, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert 0 == ended.returncode, ended.stderr
        await asyncio.sleep(1)

    await until(lambda: _created(pods, "newcomer"), bool, within_s=60)
    await pods.ready("newcomer", within_s=60)
    same = await pods.ready("survivor")
    assert state(survivor)["containerID"] == state(same)["containerID"]
