from pathlib import Path
from typing import Any

from lab.kubelet.behaviours import chooser, computed, contracts, grounds
from lab.truths import Truth
from tests.unit.behaviours.fakes import RESULT, FakeApi, FakeHost, a_shell, an_argo_pod

TRUTH = Truth(namespace="ns", workflow="wf", task="task", template="t", cpu_s=1.0)


async def test_a_task_with_a_truth_costs_one_call_and_no_process(tmp_path: Path) -> None:
    """Whatever its command says, it is not run."""
    host = FakeHost(tmp_path, an_argo_pod(a_shell("exit 9")))
    behaviour = chooser.choose(host, TRUTH)
    assert isinstance(behaviour, computed.Computed)
    assert await behaviour.prepare() == contracts.ContainerEnd()
    outcome = await behaviour.report(await behaviour.run())
    assert outcome.phase == "Succeeded"
    assert isinstance(host.api, FakeApi)
    assert host.api.calls == [("POST", RESULT.rpartition("/")[0])]
    assert not (tmp_path / "standins").exists()
    assert tmp_path not in grounds._grounds


async def test_a_truth_tells_parameters_results_and_names_artifacts(tmp_path: Path) -> None:
    """Artifacts are named as Argo would name them, not stored."""
    outputs = {
        "parameters": [
            {"name": "a", "valueFrom": {"path": "/a"}},
            {"name": "b", "valueFrom": {"path": "/b", "default": "none"}},
        ],
        "artifacts": [{"name": "art", "path": "/art"}],
    }
    host = FakeHost(tmp_path, an_argo_pod({**a_shell("true"), "outputs": outputs}))
    truth = Truth(**{**_fields(TRUTH), "outputs": {"a": "1", "result": "r"}})
    behaviour = chooser.choose(host, truth)
    await behaviour.report(await behaviour.run())
    assert isinstance(host.api, FakeApi)
    told = host.api.objects[RESULT]["outputs"]
    assert told["result"] == "r"
    assert [parameter["value"] for parameter in told["parameters"]] == ["1", "none"]
    assert told["artifacts"] == [{"name": "art", "path": "/art", "s3": {"key": "wf/pod/art.tgz"}}]


async def test_an_output_that_the_truth_lacks_fails_the_task_as_in_argo(tmp_path: Path) -> None:
    """In the container `wait`, with the path."""
    outputs = {"parameters": [{"name": "a", "valueFrom": {"path": "/a"}}]}
    host = FakeHost(tmp_path, an_argo_pod({**a_shell("true"), "outputs": outputs}))
    behaviour = chooser.choose(host, TRUTH)
    outcome = await behaviour.report(await behaviour.run())
    assert outcome.phase == "Failed"
    assert outcome.containers["wait"].exit_code == 64


async def test_a_failed_task_still_tells_that_its_outputs_are_complete(tmp_path: Path) -> None:
    """Else the controller waits ten minutes for them."""
    killed = contracts.ContainerEnd(exit_code=137, reason="OOMKilled")
    outcome = contracts.Outcome(phase="Failed", containers={"main": killed})
    host = FakeHost(tmp_path, an_argo_pod(a_shell("true")), outcome=outcome)
    behaviour = chooser.choose(host, TRUTH)
    assert await behaviour.report(await behaviour.run()) == outcome
    assert isinstance(host.api, FakeApi)
    assert RESULT in host.api.objects


async def test_a_result_that_exists_already_is_completed(tmp_path: Path) -> None:
    """A pod that reported its progress has one."""
    api = FakeApi({RESULT: {"metadata": {"name": "wf-1", "labels": {}}}})
    host = FakeHost(tmp_path, an_argo_pod(a_shell("true")), api=api)
    behaviour = chooser.choose(host, TRUTH)
    await behaviour.report(await behaviour.run())
    completed = "workflows.argoproj.io/report-outputs-completed"
    assert api.objects[RESULT]["metadata"]["labels"][completed] == "true"


def _fields(truth: Truth) -> dict[str, Any]:
    return {name: getattr(truth, name) for name in truth.__struct_fields__}
