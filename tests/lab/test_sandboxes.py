"""Commands of pods in real sandboxes: namespaces, staged files, outputs and artifacts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from lab.kubelet.behaviours import chooser, contracts, grounds, stores
from tests.unit.behaviours.fakes import (
    RESULT,
    FakeApi,
    FakeHost,
    a_shell,
    an_argo_pod,
    emissary,
)


@pytest.fixture(scope="module", autouse=True)
def permitted() -> None:
    """Skip where the machine permits no namespaces."""
    if problem := asyncio.run(grounds.probe()):
        pytest.skip(f"no sandboxes here: {problem}")


async def live(host: FakeHost) -> contracts.Outcome:
    """Take a pod through its life as the kubelet does."""
    behaviour = chooser.choose(host, None)
    prepared = await behaviour.prepare()
    assert prepared == contracts.ContainerEnd()
    return await behaviour.report(await behaviour.run())


def told(host: FakeHost) -> dict[str, Any]:
    """Return the outputs that the controller was told."""
    assert isinstance(host.api, FakeApi)
    result = host.api.objects[RESULT]
    completed = "workflows.argoproj.io/report-outputs-completed"
    assert result["metadata"]["labels"][completed] == "true"
    outputs: dict[str, Any] = result.get("outputs") or {}
    return outputs


async def test_the_output_of_a_script_becomes_its_result(tmp_path: Path) -> None:
    """A script runs from its staged file, and one trailing newline is cut."""
    template = {"script": {"image": "x", "command": ["python"], "source": "print(6 * 7)\n"}}
    host = FakeHost(tmp_path, an_argo_pod(template, included=True))
    outcome = await live(host)
    assert outcome.phase == "Succeeded"
    assert told(host) == {"result": "42"}


async def test_output_is_not_told_when_nobody_refers_to_it(tmp_path: Path) -> None:
    """Argo asks for the result only where the workflow uses it."""
    host = FakeHost(tmp_path, an_argo_pod(a_shell("echo hi")))
    await live(host)
    assert told(host) == {}


async def test_an_exit_code_fails_the_pod_and_names_the_container(tmp_path: Path) -> None:
    """A command's exit code is the container's."""
    host = FakeHost(tmp_path, an_argo_pod(a_shell("exit 7")))
    outcome = await live(host)
    assert outcome.phase == "Failed"
    assert outcome.containers["main"] == contracts.ContainerEnd(exit_code=7, reason="Error")


async def test_parameters_are_read_from_files_and_fall_back_to_their_default(
    tmp_path: Path,
) -> None:
    """A file's text less one newline; the default where the file is missing."""
    outputs = {
        "parameters": [
            {"name": "a", "valueFrom": {"path": "/tmp/a"}},
            {"name": "b", "valueFrom": {"path": "/tmp/b", "default": "none"}},
        ]
    }
    host = FakeHost(tmp_path, an_argo_pod({**a_shell("echo one > /tmp/a"), "outputs": outputs}))
    await live(host)
    assert [("a", "one"), ("b", "none")] == [
        (parameter["name"], parameter["value"]) for parameter in told(host)["parameters"]
    ]


async def test_a_missing_parameter_fails_the_pod_in_the_wait_container(tmp_path: Path) -> None:
    """Argo ends such a task in Error with the path of the file."""
    outputs = {"parameters": [{"name": "a", "valueFrom": {"path": "/tmp/a"}}]}
    host = FakeHost(tmp_path, an_argo_pod({**a_shell("true"), "outputs": outputs}))
    outcome = await live(host)
    assert outcome.phase == "Failed"
    assert outcome.containers["wait"].exit_code == 64
    assert "/outputs/parameters/tmp/a: no such file" in outcome.containers["wait"].message


async def test_an_artifact_travels_from_one_pod_to_the_next(tmp_path: Path) -> None:
    """Saved as a gzipped tar below the archive location's key, loaded as the file it was."""
    outputs = {"artifacts": [{"name": "art", "path": "/tmp/hello.txt"}]}
    first = FakeHost(
        tmp_path, an_argo_pod({**a_shell("echo hello > /tmp/hello.txt"), "outputs": outputs})
    )
    await live(first)
    (saved,) = told(first)["artifacts"]
    assert saved["s3"] == {"key": "wf/pod/art.tgz"}

    inputs = {"artifacts": [{"name": "in", "path": "/data/in.txt", "s3": saved["s3"]}]}
    second = FakeHost(
        tmp_path, an_argo_pod({**a_shell("cat /data/in.txt"), "inputs": inputs}, included=True)
    )
    await live(second)
    assert told(second)["result"] == "hello"


async def test_a_folder_without_archive_becomes_objects_below_its_key(tmp_path: Path) -> None:
    """With `archive: none` every file is an object; the key loads them all again."""
    artifact = {
        "name": "parts",
        "path": "/mnt/out",
        "archive": {"none": {}},
        "s3": {"key": "run/parts/"},
    }
    template = a_shell("mkdir /mnt/out; echo 1 > /mnt/out/1.json; echo 2 > /mnt/out/2.json")
    host = FakeHost(tmp_path, an_argo_pod({**template, "outputs": {"artifacts": [artifact]}}))
    await live(host)
    place = stores.Place(bucket=tmp_path / "artifacts" / "s3" / "b", key="run/parts")
    assert list(stores.keys_below(place)) == ["run/parts/1.json", "run/parts/2.json"]


async def test_an_optional_artifact_may_be_missing_and_a_required_one_may_not(
    tmp_path: Path,
) -> None:
    """On both sides of a task."""
    optional = {"name": "o", "path": "/o", "optional": True, "s3": {"key": "nowhere"}}
    outputs = {"artifacts": [{"name": "p", "path": "/p", "optional": True}]}
    template = {**a_shell("true"), "inputs": {"artifacts": [optional]}, "outputs": outputs}
    host = FakeHost(tmp_path, an_argo_pod(template))
    assert (await live(host)).phase == "Succeeded"

    required = {**a_shell("true"), "inputs": {"artifacts": [{**optional, "optional": False}]}}
    behaviour = chooser.choose(FakeHost(tmp_path, an_argo_pod(required)), None)
    prepared = await behaviour.prepare()
    assert prepared.exit_code == 64
    assert prepared.message == "artifact o failed to load: The specified key does not exist."


async def test_containers_of_a_set_run_in_the_order_of_their_graph(tmp_path: Path) -> None:
    """Files pass through a shared volume; each end is published as it comes."""
    mounts = [{"name": "work", "mountPath": "/data"}]
    graph = [
        {"name": "a", "command": ["sh", "-c", "echo a > /data/out"]},
        {"name": "main", "command": ["sh", "-c", "cat /data/out"], "dependencies": ["a"]},
    ]
    template = {"containerSet": {"volumeMounts": mounts, "containers": graph}}
    containers = [
        {
            "name": entry["name"],
            "image": "busybox",
            "command": emissary(list(entry["command"])),
            "volumeMounts": list(mounts),
        }
        for entry in graph
    ]
    pod = an_argo_pod(template, containers=containers, included=True, volumes=("work",))
    host = FakeHost(tmp_path, pod)
    outcome = await live(host)
    assert outcome.phase == "Succeeded"
    assert told(host)["result"] == "a"
    assert [list(ended) for _, ended in host.changes] == [["a"]]


async def test_a_container_of_a_set_does_not_start_after_a_failed_dependency(
    tmp_path: Path,
) -> None:
    """Argo's emissary ends with 64 then."""
    graph = [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]
    containers = [
        {"name": "a", "image": "x", "command": emissary(["false"])},
        {"name": "b", "image": "x", "command": emissary(["true"])},
    ]
    pod = an_argo_pod({"containerSet": {"containers": graph}}, containers=containers)
    outcome = await live(FakeHost(tmp_path, pod))
    assert outcome.phase == "Failed"
    assert (outcome.containers["a"].exit_code, outcome.containers["b"].exit_code) == (1, 64)


async def test_a_sidecar_serves_the_main_container_and_is_stopped_after_it(
    tmp_path: Path,
) -> None:
    """The stand-in for nginx answers the stand-in for curl on loopback."""
    template = {**a_shell("x"), "sidecars": [{"name": "nginx"}]}
    ask = "until curl -s http://127.0.0.1/ > /tmp/o; do sleep 1; done; cat /tmp/o"
    containers = [
        {"name": "main", "image": "curl", "command": emissary(["sh", "-c", ask])},
        {"name": "nginx", "image": "nginx:1.13", "command": emissary(["nginx", "-g", "x"])},
    ]
    host = FakeHost(tmp_path, an_argo_pod(template, containers=containers, included=True))
    outcome = await live(host)
    assert outcome.phase == "Succeeded"
    assert "Welcome to nginx!" in told(host)["result"]
    assert outcome.containers["nginx"].exit_code in (0, 143)


async def test_a_stopped_pod_leaves_no_process_and_can_still_report(tmp_path: Path) -> None:
    """When the kubelet cancels the run, the commands are gone at once."""
    mounts = [{"name": "work", "mountPath": "/data"}]
    template = a_shell("touch /data/begun; sleep infinity", volumeMounts=mounts)
    host = FakeHost(tmp_path, an_argo_pod(template, volumes=("work",)))
    behaviour = chooser.choose(host, None)
    await behaviour.prepare()
    task = asyncio.create_task(behaviour.run())
    async with asyncio.timeout(20):
        while not list(grounds.of(host).pod_folder(host.pod).rglob("begun")):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await behaviour.report(contracts.Outcome(phase="Failed"))
    assert told(host) == {}
    assert not grounds.of(host).pod_folder(host.pod).exists()


async def test_a_container_sees_little_of_the_machine(tmp_path: Path) -> None:
    """No files of the host, no network, no other processes, read-only programs."""
    probe = (
        "import os, pathlib\n"
        f"assert not pathlib.Path({str(Path.cwd())!r}).exists()\n"
        "assert os.getpid() == 2, os.getpid()\n"
        "assert os.listdir('/sys' if os.path.exists('/sys') else '/mnt') == []\n"
        "open('/anywhere', 'w').write('x')\n"
        "try:\n"
        "    open('/usr/x', 'w')\n"
        "except OSError:\n"
        "    print(len(open('/proc/net/dev').readlines()) - 2)\n"
    )
    template = {"script": {"image": "x", "command": ["python"], "source": probe}}
    host = FakeHost(tmp_path, an_argo_pod(template, included=True))
    await live(host)
    assert told(host)["result"] == "1"


async def test_a_link_out_of_a_volume_is_not_followed_by_the_kubelet(tmp_path: Path) -> None:
    """The lab itself reads what a container wrote; a link must not lead it elsewhere."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    mounts = [{"name": "work", "mountPath": "/data"}]
    outputs = {"parameters": [{"name": "a", "valueFrom": {"path": "/data/a"}}]}
    template = {**a_shell(f"ln -s {secret} /data/a", volumeMounts=mounts), "outputs": outputs}
    host = FakeHost(tmp_path, an_argo_pod(template, volumes=("work",)))
    outcome = await live(host)
    assert outcome.phase == "Failed"
    assert "secret" not in json.dumps(told(host))


async def test_an_init_container_of_the_user_runs_before_the_main_one(tmp_path: Path) -> None:
    """Its failure keeps the main container from running."""
    init = {"name": "hello", "image": "x", "command": ["sh", "-c", "exit 3"]}
    host = FakeHost(tmp_path, an_argo_pod(a_shell("true"), inits=(init,)))
    prepared = await chooser.choose(host, None).prepare()
    assert prepared == contracts.ContainerEnd(exit_code=3, reason="Error")


async def test_a_pod_that_is_not_argos_runs_its_command(tmp_path: Path) -> None:
    """The pod of a Job, with an environment from a Secret and a ConfigMap."""
    api = FakeApi(
        {
            "/api/v1/namespaces/ns/secrets/s": {"data": {"k": "c2VjcmV0"}},
            "/api/v1/namespaces/ns/configmaps/c": {"data": {"K": "map"}},
        }
    )
    secret = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    check = '[ "$A-$K-$(id -u)" = secret-map-0 ] && [ "$1" = secret ]'
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sh", "-c", check, "sh", "$(A)"],
        "env": [secret],
        "envFrom": [{"configMapRef": {"name": "c"}}],
    }
    pod = {
        "metadata": {"name": "job-1", "namespace": "ns", "uid": "u-2"},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    outcome = await live(FakeHost(tmp_path, pod, api=api))
    assert outcome.phase == "Succeeded"
    assert api.calls.count(("POST", RESULT.rpartition("/")[0])) == 0
