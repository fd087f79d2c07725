"""Tiphys as a person installs it in a lab: one command, one annotation, and no trace afterwards."""

import asyncio
import subprocess
from collections.abc import Callable

import pytest

from lab import apis, homes
from lab.installs import charts
from tests.lab import polls
from tests.lab.chart_objects import (
    DECISION,
    GATE,
    GATED,
    SIGNATURE,
    STEERED,
    a_namespace,
    stamps,
)

pytestmark = pytest.mark.timeout(500)

SPEED = 20.0
TASKS = 24
"""Of four cores each: more than the 64 cores of the cluster `mixed` take at once."""
LONG_SIM_S = 6000
"""Longer than the test: what runs goes on running, and what waits goes on waiting."""


def run(command: list[str], *arguments: str) -> str:
    """Run a command of the lab to its end and return what it said; it must succeed."""
    ended = subprocess.run(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == ended.returncode, ended.stdout
    return ended.stdout


def a_wide_workflow() -> apis.Object:
    """Return a workflow of more tasks than there is room for."""
    requests = {"cpu": "4", "memory": "256Mi"}
    step = {"name": "all", "template": "task", "withSequence": {"count": str(TASKS)}}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "wide"},
        "spec": {
            "entrypoint": "main",
            "templates": [
                {"name": "main", "steps": [[step]]},
                {
                    "name": "task",
                    "container": {
                        "image": "busybox",
                        "command": ["sleep", str(LONG_SIM_S)],
                        "resources": {"requests": requests},
                    },
                },
            ],
        },
    }


async def test_one_command_one_annotation_and_no_trace_afterwards(
    make_lab: Callable[..., homes.Home], lab_command: list[str]
) -> None:
    """Installed, it decides and gates; taken out, every gate is open and nothing is left."""
    home = make_lab("installed", speed=SPEED)
    said = run(lab_command, "install", "--name", home.name)
    for role in ("operator", "webhook", "releaser"):
        assert f"  {role} " in said

    async with apis.Api(home.kubeconfig) as api:
        namespace = await a_namespace(api, "genomics", enabled="true")
        if not stamps(home):
            await polls.until(lambda: _selected(api, namespace), within_s=30)
        workflows = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
        await api.create(workflows, a_wide_workflow())
        path = f"/api/v1/namespaces/{namespace}/pods"

        async def pods() -> list[apis.Object]:
            listed = (await api.get(path))["items"]
            return listed if len(listed) == TASKS else []

        made = await polls.until(pods, within_s=60)
        for pod in made:
            stamp = pod["metadata"]["labels"].get(STEERED)
            assert ("true" if stamps(home) else None) == stamp
            assert {DECISION, SIGNATURE} <= set(pod["metadata"]["annotations"])
        gated = await polls.until(lambda: _gated(api, path), within_s=30)
        for pod in gated:
            assert "true" == pod["metadata"]["labels"][GATED]

        run(lab_command, "uninstall", "--name", home.name)

        assert [] == await _gated(api, path)
        assert {pod["metadata"]["uid"] for pod in made} == {
            pod["metadata"]["uid"] for pod in (await api.get(path))["items"]
        }
        assert [] == await _traces(api)
        for gone in (charts.NAMESPACE, charts.RELEASER_NAMESPACE):
            await polls.until(lambda name=gone: _absent(api, name), within_s=60)


async def _selected(api: apis.Api, namespace: str) -> bool:
    """Say whether the leader has listed a namespace; the API server learns of it a moment later."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tiphys"
    (webhook,) = (await api.get(path))["webhooks"]
    expressions = webhook["namespaceSelector"]["matchExpressions"]
    listed = [name for item in expressions if item["operator"] == "In" for name in item["values"]]
    await asyncio.sleep(1.0)
    return namespace in listed


async def _gated(api: apis.Api, path: str) -> list[apis.Object]:
    listed = (await api.get(path))["items"]
    return [
        pod
        for pod in listed
        if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ())
    ]


async def _traces(api: apis.Api) -> list[str]:
    """Return the cluster-wide objects that still carry our label."""
    admission = "/apis/admissionregistration.k8s.io/v1"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    params = {"labelSelector": "app.kubernetes.io/name=tiphys"}
    found = []
    for collection in (
        f"{admission}/mutatingwebhookconfigurations",
        f"{admission}/validatingwebhookconfigurations",
        f"{admission}/validatingadmissionpolicies",
        f"{admission}/validatingadmissionpolicybindings",
        f"{rbac}/clusterroles",
        f"{rbac}/clusterrolebindings",
        charts.DEFINITIONS,
    ):
        listed = await api.get(collection, params=params)
        found += [f"{collection}/{item['metadata']['name']}" for item in listed["items"]]
    return found


async def _absent(api: apis.Api, namespace: str) -> bool:
    try:
        await api.get(f"/api/v1/namespaces/{namespace}")
    except apis.ApiError as error:
        return error.status == 404
    return False
