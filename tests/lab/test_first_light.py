"""An annotated namespace is steered from admission to release, by Tiphys as its chart installs it.

One lab with the chart in it, at 20 times wall time. Processes run with the chart's ServiceAccounts;
the tests look at the world: pods, gates, ends, and what the command line says of them.
"""

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from lab import apis, homes
from lab.cli import installs
from lab.controlplane import processes
from lab.installs import charts, rollouts
from tests.lab import hooked_pods, polls
from tests.lab.chart_objects import (
    DECISION,
    GATE,
    GATED,
    RELEASE,
    SIGNATURE,
    a_namespace,
    stamps,
)

pytestmark = pytest.mark.timeout(400)

TASKS = 24
"""Of four cores each: more than the 64 cores of the cluster `mixed` take at once."""
SHORT_SIM_S, LONG_SIM_S = 100, 20_000
RELEASER_BOUND_S, FLOOR_BOUND_S = 30.0, 120.0
HUNG_CREATE_S = 1.5
"""The webhook waits 0.15 s for an operator, the API server 2 s for the webhook; the rest is for a
busy machine."""
SLACK_S = 5.0
"""For the test to see what has happened."""
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments/{}"


@pytest.fixture(scope="module")
def lab(make_module_lab: Callable[..., homes.Home]) -> homes.Home:
    """Return the home of a lab with Tiphys in it."""
    home = make_module_lab("light", speed=20.0)
    installs.install_into(home, more={})
    return home


@pytest.fixture
async def opted_in(lab: homes.Home, api: apis.Api) -> AsyncIterator[str]:
    """Return a namespace that opted in by its one annotation; deleted after the test."""
    name = await a_namespace(api, f"in-{uuid.uuid4().hex[:6]}", enabled="true")
    if not stamps(lab):
        await asyncio.sleep(3.0)  # the leader lists it, the API server learns of the list
    yield name
    await _cleared(api, name)


def a_workflow(name: str, *, tasks: int, sim_s: float, **metadata: object) -> apis.Object:
    """Return a workflow of equal tasks, all ready at once."""
    step = {"name": "all", "template": "task", "withSequence": {"count": str(tasks)}}
    container = {
        "image": "busybox",
        "command": ["sleep", str(sim_s)],
        "resources": {"requests": {"cpu": "4", "memory": "256Mi"}},
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, **metadata},
        "spec": {
            "entrypoint": "main",
            "templates": [
                {"name": "main", "steps": [[step]]},
                {"name": "task", "container": container},
            ],
        },
    }


async def test_a_namespace_with_one_annotation_is_steered_and_can_tell_why(
    api: apis.Api, opted_in: str, tiphys: Callable[..., str]
) -> None:
    """Signed at creation, held while there is no room, released, done; and explained."""
    await _submitted(api, opted_in, a_workflow("wide", tasks=TASKS, sim_s=SHORT_SIM_S))

    made = await polls.until(lambda: _pods(api, opted_in, TASKS), within_s=60)
    for pod in made:
        assert {DECISION, SIGNATURE} <= set(pod["metadata"]["annotations"])
    gated = await polls.until(lambda: _gated(api, opted_in), within_s=30)
    waiting = gated[-1]["metadata"]["name"]
    assert "true" == gated[-1]["metadata"]["labels"][GATED]

    explained = tiphys("explain", "pod", f"{opted_in}/{waiting}")
    assert waiting in explained
    assert "builtin-srwf-wait-v1" in explained
    assert opted_in in tiphys("status", "-n", opted_in)

    async def released() -> apis.Object:
        pod = await _pod(api, opted_in, waiting)
        return pod if not _is_gated(pod) else {}

    pod = await polls.until(released, within_s=120)
    assert RELEASE in pod["metadata"]["annotations"]
    assert GATED not in pod["metadata"]["labels"]
    _, *lines = tiphys("verify", f"{opted_in}/{waiting}").splitlines()
    assert {"created": "valid", "released": "valid"} == dict(line.split()[:2] for line in lines)
    assert "Succeeded" == await _end(api, opted_in, "wide", within_s=120)


async def test_who_did_not_opt_in_is_not_touched(api: apis.Api) -> None:
    """No label, no annotation, no gate, beside a namespace that is steered."""
    silent = await a_namespace(api, f"silent-{uuid.uuid4().hex[:6]}")
    try:
        await _submitted(api, silent, a_workflow("plain", tasks=3, sim_s=SHORT_SIM_S))
        pods = await polls.until(lambda: _pods(api, silent, 3), within_s=60)
        for pod in pods:
            assert "tiphys.dev" not in str(pod)
        assert "Succeeded" == await _end(api, silent, "plain", within_s=120)
    finally:
        await _cleared(api, silent)


async def test_a_template_opts_its_workflows_in_where_the_namespace_is_silent(
    api: apis.Api,
) -> None:
    """The leader lists the namespace; a workflow of no such template stays as it is."""
    silent = await a_namespace(api, f"tpl-{uuid.uuid4().hex[:6]}")
    argo = f"/apis/argoproj.io/v1alpha1/namespaces/{silent}"
    template = a_workflow(
        "steered", tasks=1, sim_s=SHORT_SIM_S, annotations={"tiphys.dev/enabled": "true"}
    )
    template["kind"] = "WorkflowTemplate"
    try:
        await api.create(f"{argo}/workflowtemplates", template)
        await asyncio.sleep(5.0)
        run = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": "of-template"},
            "spec": {"workflowTemplateRef": {"name": "steered"}},
        }
        await _submitted(api, silent, run)
        await _submitted(api, silent, a_workflow("plain", tasks=1, sim_s=SHORT_SIM_S))
        pods = await polls.until(lambda: _pods(api, silent, 2), within_s=60)
        decided = {
            pod["metadata"]["labels"]["workflows.argoproj.io/workflow"]
            for pod in pods
            if DECISION in pod["metadata"].get("annotations", {})
        }
        assert {"of-template"} == decided
    finally:
        await _cleared(api, silent)


async def test_the_other_replica_takes_over_when_the_leader_is_killed(
    api: apis.Api, opted_in: str
) -> None:
    """Gated pods are adopted: they are released as room appears, and the workflow succeeds."""
    await _submitted(api, opted_in, a_workflow("wide", tasks=TASKS, sim_s=SHORT_SIM_S))
    await polls.until(lambda: _gated(api, opted_in), within_s=60)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{charts.NAMESPACE}/leases/tiphys-operator"
    leader = (await api.get(lease))["spec"]["holderIdentity"]

    await api.delete(
        f"/api/v1/namespaces/{charts.NAMESPACE}/pods/{leader}", params={"gracePeriodSeconds": "0"}
    )

    async def another() -> bool:
        holder = (await api.get(lease))["spec"].get("holderIdentity")
        return bool(holder) and holder != leader

    await polls.until(another, within_s=15 + SLACK_S)
    assert "Succeeded" == await _end(api, opted_in, "wide", within_s=120)


async def test_pods_pass_while_every_operator_hangs(
    lab: homes.Home, api: apis.Api, opted_in: str
) -> None:
    """Stopped, not dead: they take questions and answer none, and no create waits for long."""
    owner = await hooked_pods.an_owner(api, opted_in)
    await _submitted(api, opted_in, a_workflow("before", tasks=1, sim_s=SHORT_SIM_S))
    (before,) = await polls.until(lambda: _pods(api, opted_in, 1), within_s=60)
    assert DECISION in before["metadata"]["annotations"]
    hung = _operators(lab)
    assert 2 == len(hung)
    try:
        for process in hung:
            process.signal(signal.SIGSTOP)
        await _submitted(api, opted_in, a_workflow("while", tasks=3, sim_s=SHORT_SIM_S))
        took_s = []
        for number in range(3):
            began = time.monotonic()
            pod = hooked_pods.a_task(owner, f"hung-{number}")
            await api.create(hooked_pods.pods(opted_in), pod)
            took_s.append(time.monotonic() - began)
        assert min(took_s) < HUNG_CREATE_S
        for pod in await polls.until(lambda: _pods(api, opted_in, 7), within_s=60):
            if pod["metadata"]["name"] != before["metadata"]["name"]:
                assert DECISION not in pod["metadata"].get("annotations", {})
                assert "schedulingGates" not in pod["spec"]
    finally:
        for process in hung:
            process.signal(signal.SIGCONT)
        await rollouts.wait(api, lab)


def _operators(home: homes.Home) -> list[processes.Process]:
    """Return the processes of the chart's operators."""
    found = []
    for process in processes.of_lab(home.root):
        words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        if b"operator" in words and b"--settings" in words:
            found.append(process)
    return found


@pytest.mark.parametrize(
    ("dead", "bound_s"),
    [(("operator",), RELEASER_BOUND_S), (("operator", "releaser"), FLOOR_BOUND_S)],
    ids=["releaser", "floor"],
)
async def test_gates_open_within_their_bound_when_nobody_lives(
    lab: homes.Home, api: apis.Api, opted_in: str, dead: tuple[str, ...], bound_s: float
) -> None:
    """All operators killed at once: the releaser opens; that one dead too: its CronJob."""
    await _submitted(api, opted_in, a_workflow("wide", tasks=TASKS, sim_s=LONG_SIM_S))
    await polls.until(lambda: _pods(api, opted_in, TASKS), within_s=60)
    await polls.until(lambda: _gated(api, opted_in), within_s=30)
    try:
        began = time.monotonic()
        for role in dead:
            await _killed(api, role)
        while await _gated(api, opted_in):
            assert time.monotonic() - began < bound_s + SLACK_S
            await asyncio.sleep(0.2)
        # What is created meanwhile passes untouched.
        await _submitted(api, opted_in, a_workflow("later", tasks=1, sim_s=SHORT_SIM_S))
        await polls.until(lambda: _pods(api, opted_in, TASKS + 1), within_s=60)
        assert [] == await _gated(api, opted_in)
    finally:
        for role in dead:
            await _scaled(api, role, 2 if role == "operator" else 1)
        await rollouts.wait(api, lab)


def _namespace(role: str) -> str:
    return charts.RELEASER_NAMESPACE if role == "releaser" else charts.NAMESPACE


async def _scaled(api: apis.Api, role: str, replicas: int) -> None:
    path = DEPLOYMENTS.format(_namespace(role), f"tiphys-{role}")
    await api.patch(path, {"spec": {"replicas": replicas}})


async def _killed(api: apis.Api, role: str) -> None:
    """End every pod of a role without grace, and let none come again."""
    await _scaled(api, role, 0)
    path = f"/api/v1/namespaces/{_namespace(role)}/pods"
    params = {"labelSelector": f"app.kubernetes.io/component={role}"}
    for pod in (await api.get(path, params=params))["items"]:
        await api.delete(f"{path}/{pod['metadata']['name']}", params={"gracePeriodSeconds": "0"})


async def _submitted(api: apis.Api, namespace: str, workflow: apis.Object) -> None:
    await api.create(f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows", workflow)


async def _pods(api: apis.Api, namespace: str, count: int) -> list[apis.Object]:
    """Return the pods of a namespace once there are so many; else none."""
    listed: list[apis.Object] = (await api.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]
    return listed if len(listed) >= count else []


async def _pod(api: apis.Api, namespace: str, name: str) -> apis.Object:
    return await api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")


async def _gated(api: apis.Api, namespace: str) -> list[apis.Object]:
    return [pod for pod in await _pods(api, namespace, 0) if _is_gated(pod)]


def _is_gated(pod: apis.Object) -> bool:
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ())


async def _end(api: apis.Api, namespace: str, name: str, *, within_s: float) -> str:
    """Return the phase in which a workflow ended."""
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows/{name}"

    async def ended() -> str:
        phase = (await api.get(path)).get("status", {}).get("phase", "")
        return phase if phase in ("Succeeded", "Failed", "Error") else ""

    return await polls.until(ended, within_s=within_s)


async def _cleared(api: apis.Api, namespace: str) -> None:
    """Delete a namespace and wait until its pods take no room any more."""
    await api.delete(f"/api/v1/namespaces/{namespace}")

    async def gone() -> bool:
        return not await _pods(api, namespace, 0)

    await polls.until(gone, within_s=60)
