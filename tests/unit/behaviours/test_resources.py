import asyncio
from pathlib import Path
from typing import Any

import pytest

from lab.kubelet.behaviours import chooser, contracts, grounds, kubectls
from tests.unit.behaviours.fakes import RESULT, FakeApi, FakeHost, an_argo_pod
from tests.unit.kubelet.builders import until

DISCOVERY = {
    "/api/v1": {
        "resources": [
            {"name": "configmaps", "singularName": "configmap", "kind": "ConfigMap",
             "namespaced": True, "shortNames": ["cm"]},
            {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True},
        ]
    },
    "/apis": {"groups": [{"preferredVersion": {"groupVersion": "batch/v1"}}]},
    "/apis/batch/v1": {
        "resources": [{"name": "jobs", "singularName": "job", "kind": "Job", "namespaced": True}]
    },
}  # fmt: skip
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {}\n"
JOB_PATH = "/apis/batch/v1/namespaces/ns/jobs/j"


@pytest.fixture
def api() -> FakeApi:
    """Return an API server that serves a few kinds."""
    return FakeApi(dict(DISCOVERY))


def a_resource_pod(action: str, manifest: str = JOB, **more: Any) -> dict[str, Any]:
    """Return the pod of a resource template."""
    outputs = more.pop("outputs", {})
    resource = {"action": action, "manifest": manifest, **more}
    main = {"name": "main", "image": "argoexec", "command": ["argoexec", "resource", action]}
    return an_argo_pod({"resource": resource, "outputs": outputs}, containers=[main])


async def live(tmp_path: Path, pod: dict[str, Any], api: FakeApi) -> contracts.Outcome:
    """Take a pod through its life."""
    behaviour = chooser.choose(FakeHost(tmp_path, pod, api=api), None)
    await behaviour.prepare()
    return await behaviour.report(await behaviour.run())


async def test_create_makes_the_object_and_reads_outputs_from_it(
    tmp_path: Path, api: FakeApi
) -> None:
    """By jsonPath and by jq."""
    outputs = {
        "parameters": [
            {"name": "n", "valueFrom": {"jsonPath": "{.metadata.name}"}},
            {"name": "k", "valueFrom": {"jqFilter": ".kind"}},
        ]
    }
    outcome = await live(tmp_path, a_resource_pod("create", outputs=outputs), api)
    assert outcome.phase == "Succeeded"
    assert api.objects[JOB_PATH]["kind"] == "Job"
    told = api.objects[RESULT]["outputs"]["parameters"]
    assert [parameter["value"] for parameter in told] == ["j", "Job"]


async def test_a_success_condition_is_waited_for(tmp_path: Path, api: FakeApi) -> None:
    """Until the resource's status says so."""
    pod = a_resource_pod("create", successCondition="status.succeeded > 2")
    task = asyncio.create_task(live(tmp_path, pod, api))
    await until(lambda: JOB_PATH in api.objects)
    await asyncio.sleep(0.1)
    assert not task.done()
    api.objects[JOB_PATH]["status"] = {"succeeded": 3}
    assert (await task).phase == "Succeeded"


async def test_a_failure_condition_fails_the_task_with_argos_words(
    tmp_path: Path, api: FakeApi
) -> None:
    """Exit code 64 in the main container."""
    api.objects[JOB_PATH] = {"status": {"phase": "Error"}}
    condition = "status.phase in (Failed, Error)"
    outcome = await live(tmp_path, a_resource_pod("get", failureCondition=condition), api)
    assert outcome.phase == "Failed"
    end = outcome.containers["main"]
    assert end.exit_code == 64
    assert end.message == "failure condition 'status.phase in (Failed,Error)' evaluated true"


async def test_an_unknown_kind_fails_as_kubectl_says_it(tmp_path: Path, api: FakeApi) -> None:
    """With the hint to install the CRD."""
    manifest = "apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: r}\n"
    outcome = await live(tmp_path, a_resource_pod("create", manifest), api)
    message = outcome.containers["main"].message
    assert message.startswith("no more retries error: resource mapping not found")
    assert 'no matches for kind "Route" in version "route.openshift.io/v1"' in message


async def test_patch_takes_its_target_from_flags_or_manifest(tmp_path: Path, api: FakeApi) -> None:
    """Without a kind in the manifest the flags name the object."""
    api.objects["/api/v1/namespaces/ns/pods/p"] = {"metadata": {}}
    manifest = "metadata: {annotations: {foo: bar}}\n"
    flags = ["pod", "p"]
    pod = a_resource_pod("patch", manifest, mergeStrategy="merge", flags=flags)
    assert (await live(tmp_path, pod, api)).phase == "Succeeded"
    found = api.objects["/api/v1/namespaces/ns/pods/p"]
    assert found["metadata"]["annotations"] == {"foo": "bar"}


async def test_delete_takes_no_outputs(tmp_path: Path, api: FakeApi) -> None:
    """Argo refuses conditions and outputs there."""
    outputs = {"parameters": [{"name": "x", "valueFrom": {"jsonPath": "{.a}"}}]}
    outcome = await live(tmp_path, a_resource_pod("delete", outputs=outputs), api)
    assert "not supported for delete action" in outcome.containers["main"].message


async def test_delete_is_content_with_what_is_gone(tmp_path: Path, api: FakeApi) -> None:
    """As with --ignore-not-found."""
    assert (await live(tmp_path, a_resource_pod("delete"), api)).phase == "Succeeded"


async def test_kubectl_in_a_container_lists_and_shows_logs(tmp_path: Path, api: FakeApi) -> None:
    """The two verbs that examples use."""
    api.objects["/api/v1/namespaces/ns/pods/"] = {"items": [{"metadata": {"name": "p"}}]}
    api.objects["/api/v1/namespaces/ns/pods"] = {"items": [{"metadata": {"name": "p"}}]}
    host = FakeHost(tmp_path, a_resource_pod("get"), api=api)
    ground = grounds.of(host)
    ground.logs["ns", "p", "main"] = b"printed\n"
    kubectl = kubectls.Kubectl(ground, "ns")
    assert await kubectl.run(["get", "po", "-o", "name"]) == (
        1, "", "error: the server doesn't have a resource type \"po\"\n",
    )  # fmt: skip
    assert await kubectl.run(["get", "pods", "-o", "name"]) == (0, "pod/p\n", "")
    assert await kubectl.run(["logs", "pod/p"]) == (0, "printed\n", "")
    code, _, problem = await kubectl.run(["drain", "n"])
    assert (code, problem) == (1, "kubectl: 'drain n' is more than this stand-in knows\n")
