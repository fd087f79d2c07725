import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lab import apis, errors
from lab.kubelet.behaviours import chooser, collectors, contracts, stores, webs
from tests.unit.behaviours.fakes import ARCHIVE, FakeApi, FakeHost
from tests.unit.kubelet.builders import until

SITE = (
    'https://example.com/ok: {status: 200, body: fine}\n"https://example.com/d/*": {status: 201}\n'
)
SETS = "/apis/argoproj.io/v1alpha1/namespaces/ns/workflowtasksets"


class WatchedApi(FakeApi):
    """Also lets a test feed a watch."""

    def __init__(self) -> None:
        super().__init__()
        self.events: asyncio.Queue[tuple[str, apis.Object]] = asyncio.Queue()

    async def watch(self, path: str, *, params: Any = None) -> AsyncIterator[tuple[str, Any]]:
        while True:
            yield await self.events.get()


def an_agent_pod() -> apis.Object:
    """Return the pod that Argo makes for a workflow's http templates."""
    labels = {"workflows.argoproj.io/component": "agent"}
    env = [{"name": "ARGO_WORKFLOW_NAME", "value": "wf"}]
    return {
        "metadata": {"name": "wf-agent", "namespace": "ns", "uid": "u", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "argoexec", "env": env}]},
    }


def a_task_set(*, completed: bool = False, **tasks: Any) -> apis.Object:
    """Return a WorkflowTaskSet."""
    labels = {"workflows.argoproj.io/completed": "true"} if completed else {}
    return {"metadata": {"name": "wf", "labels": labels}, "spec": {"tasks": tasks}}


async def test_an_agent_does_each_http_task_once_and_ends_with_the_workflow(
    tmp_path: Path,
) -> None:
    """Results go to the task set's status."""
    (tmp_path / "web.yaml").write_text(SITE)
    api = WatchedApi()
    behaviour = chooser.choose(FakeHost(tmp_path, an_agent_pod(), api=api), None)
    running = asyncio.create_task(behaviour.run())
    condition = "response.statusCode == 201"
    tasks = {
        "good": {"http": {"url": "https://example.com/ok"}},
        "wrong": {"http": {"url": "https://example.com/no"}},
        "fits": {"http": {"url": "https://example.com/d/1", "successCondition": condition}},
        "unfit": {"http": {"url": "https://example.com/ok", "successCondition": condition}},
        "lost": {"http": {"url": "https://nowhere.example/"}},
        "plug": {"plugin": {"hello": {}}},
    }
    await api.events.put(("ADDED", a_task_set(**tasks)))
    await api.events.put(("LISTED", {"metadata": {}, "uids": set()}))
    await api.events.put(("MODIFIED", a_task_set(**tasks)))
    status = f"{SETS}/wf/status"
    await until(lambda: len(api.objects.get(status, {}).get("status", {}).get("nodes", ())) == 6)
    nodes = api.objects[status]["status"]["nodes"]
    assert {name: node["phase"] for name, node in nodes.items()} == {
        "good": "Succeeded",
        "wrong": "Failed",
        "fits": "Succeeded",
        "unfit": "Failed",
        "lost": "Failed",
        "plug": "Failed",
    }
    assert nodes["good"]["outputs"]["result"] == "fine"
    assert nodes["wrong"]["message"] == "received non-2xx response code: 404"
    assert nodes["unfit"]["message"] == f"successCondition '{condition}' evaluated false"
    assert "lookup nowhere.example: no such host" in nodes["lost"]["message"]
    assert nodes["plug"]["message"] == "no plugin executed the template"
    await api.events.put(("MODIFIED", a_task_set(completed=True, **tasks)))
    assert (await running).phase == "Succeeded"


def test_a_broken_file_of_sites_is_named(tmp_path: Path) -> None:
    """With what is wrong in it."""
    (tmp_path / "web.yaml").write_text("https://x.example: {state: 200}\n")
    with pytest.raises(errors.UsageError, match=r"web\.yaml"):
        webs.sites(tmp_path / "web.yaml")


async def test_artifact_collection_deletes_and_says_so(tmp_path: Path) -> None:
    """An artifact of a kind that cannot be deleted from is an error of its own."""
    label = "workflows.argoproj.io/component"
    env = [{"name": "ARGO_ARTIFACT_POD_NAME", "value": "123"}]
    pod = {
        "metadata": {"name": "gc", "namespace": "ns", "uid": "u", "labels": {label: "artifact-gc"}},
        "spec": {"containers": [{"name": "main", "image": "argoexec", "env": env}]},
    }
    artifacts = {
        "a": {"name": "a", "s3": {"key": "x"}},
        "b": {"name": "b", "http": {"url": "http://h"}},
    }
    spec = {"artifactsByNode": {"n": {"archiveLocation": ARCHIVE, "artifacts": artifacts}}}
    tasks = "/apis/argoproj.io/v1alpha1/namespaces/ns/workflowartifactgctasks"
    api = FakeApi({tasks: {"items": [{"metadata": {"name": "t"}, "spec": spec}]}})
    host = FakeHost(tmp_path, pod, api=api)
    place = stores.place(host.artifacts, {"s3": {"endpoint": "e", "bucket": "b", "key": "x"}})
    (tmp_path / "f").write_text("x")
    stores.put(place, tmp_path / "f")
    behaviour = chooser.choose(host, None)
    assert isinstance(behaviour, collectors.Collector)
    assert await behaviour.run() == contracts.Outcome(phase="Succeeded")
    found = api.objects[f"{tasks}/t/status"]["status"]["artifactResultsByNode"]["n"]
    assert found["artifactResults"]["a"] == {"name": "a", "success": True}
    assert not found["artifactResults"]["b"]["success"]
    assert not place.file.exists()
