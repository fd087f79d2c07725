"""What the driver does with one example, against a fake API server."""

import asyncio
from typing import Any

import pytest

from lab.corpus import drivers, examples, expectations, preparations, watchers
from tests.unit.behaviours.fakes import FakeApi


class FakeWatcher(watchers.Watcher):
    """Shows what the fake API server has."""

    def __init__(self, api: FakeApi) -> None:
        super().__init__(api)
        self._fake = api

    async def first(self, wanted: Any, *, limit_s: float) -> Any:
        for _ in range(200):
            for path, item in self._fake.objects.items():
                if "/workflows/" in path:
                    key = (path.split("/")[5], path.split("/")[7])
                    self.workflows[key] = item
                    if wanted(key, item):
                        return key, item
            await asyncio.sleep(0.01)
        return None


def known_with(name: str, **more: Any) -> expectations.Expectations:
    """Return expectations of one Workflow."""
    item = expectations.Expectation(**{"end": "Succeeded", "source": "s", **more})
    return expectations.Expectations(
        argo_test=(), described={name: item}, not_runnable={}, stored={}
    )


def a_workflow(name: str = "w", **status: Any) -> examples.Example:
    """Return an example that has its end already."""
    body = {"kind": "Workflow", "metadata": {"name": name}, "spec": {}, "status": status}
    return examples.Example(name=name, text="", body=body)


async def drive(example: examples.Example, known: expectations.Expectations) -> drivers.Result:
    """Drive one example against a fake API server."""
    api = FakeApi()
    return await drivers.Driver(api, FakeWatcher(api)).drive(example, known)


@pytest.mark.parametrize(
    ("phase", "end", "reached"),
    [
        ("Succeeded", "Succeeded", True),
        ("Failed", "Succeeded", False),
        ("Failed", "Failed", True),
        ("Error", ("Succeeded", "Failed"), False),
        ("Failed", ("Succeeded", "Failed"), True),
    ],
)
async def test_an_end_is_reached_if_it_is_one_that_is_documented(
    phase: str, end: Any, reached: bool
) -> None:
    """And no other."""
    result = await drive(a_workflow(phase=phase), known_with("w", end=end))
    assert (result.end, result.reached) == (phase, reached)


async def test_a_refused_example_is_a_miss_with_the_servers_words() -> None:
    """Never an exception: one bad example must not end a run of all."""

    class Refusing(FakeApi):
        async def create(self, path: str, body: object) -> Any:
            raise self._refusal(422, "Invalid", path)

    api = Refusing()
    driver = drivers.Driver(api, FakeWatcher(api))
    result = await driver.drive(a_workflow(), known_with("w"))
    assert (result.end, result.reached) == ("refused", False)
    assert "422 Invalid" in result.message


async def test_a_suspended_step_is_resumed_with_the_values_that_it_asks_for() -> None:
    """Steps that wait for a time are left alone."""
    supplied = {"name": "message", "valueFrom": {"supplied": {}}}
    nodes = {
        "a": {
            "type": "Suspend",
            "phase": "Running",
            "templateName": "ask",
            "outputs": {"parameters": [supplied]},
        },
        "b": {"type": "Suspend", "phase": "Running", "templateName": "pause"},
    }
    example = a_workflow(phase="Running", nodes=nodes)
    example.body["spec"] = {"templates": [{"name": "pause", "suspend": {"duration": "20"}}]}

    class Resuming(FakeApi):
        async def call(self, method: str, path: str, **more: Any) -> Any:
            if method == "PUT":
                self.objects[path] = {**more["body"]}
                self.objects[path]["status"]["phase"] = "Succeeded"
                return {}
            return await super().call(method, path, **more)

    api = Resuming()
    driver = drivers.Driver(api, FakeWatcher(api))
    drive = {"supply": {"message": "Hello"}}
    known = known_with("w", drive=expectations.Drive(**drive))
    assert (await driver.drive(example, known)).reached
    (path,) = [path for path in api.objects if path.endswith("/workflows/w")]
    changed = api.objects[path]["status"]["nodes"]
    assert changed["a"]["phase"] == "Succeeded"
    assert changed["a"]["outputs"]["parameters"] == [{"name": "message", "value": "Hello"}]
    assert changed["b"]["phase"] == "Running"


def test_a_template_is_submitted_as_by_argo_submit_from() -> None:
    """By reference; a CronWorkflow by its own spec."""
    cluster = {"kind": "ClusterWorkflowTemplate", "metadata": {"name": "t"}}
    made = drivers._from(cluster, {"a": "1"})
    assert made["spec"]["workflowTemplateRef"] == {"name": "t", "clusterScope": True}
    assert made["spec"]["arguments"] == {"parameters": [{"name": "a", "value": "1"}]}
    cron = {
        "kind": "CronWorkflow",
        "metadata": {"name": "c"},
        "spec": {"workflowSpec": {"entrypoint": "main"}},
    }
    assert drivers._from(cron, {})["spec"] == {"entrypoint": "main"}


async def test_settings_of_the_controller_are_added_not_replaced() -> None:
    """Maps keep what the lab put there."""
    data = {"images": "a: {cmd: [x]}\n"}
    api = FakeApi({preparations.SETTINGS: {"data": data}})
    part = {"images": {"b": {"cmd": ["y"]}}, "artifactDrivers": [{"name": "test"}]}
    assert await preparations._set(api, [part])
    found = api.objects[preparations.SETTINGS]["data"]
    assert "a:" in found["images"]
    assert "b:" in found["images"]
    assert "test" in found["artifactDrivers"]
    assert not await preparations._set(api, [part])
