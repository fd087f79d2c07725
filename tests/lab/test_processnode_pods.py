"""What a pod on the process node sees: environment, files, identity, and their changes."""

import asyncio
import base64
import subprocess

import aiohttp
import pytest

from lab import apis, homes
from tests.lab import process_pods
from tests.lab.process_pods import Pods, a_container, a_pod, a_script, a_server, until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def pods(api: apis.Api, namespace: str) -> Pods:
    """Return the pods of a fresh namespace of the shared lab."""
    return Pods(api, namespace)


async def fetch(url: str) -> apis.Object:
    """Return the JSON that a pod answers."""
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return dict(await answer.json())


async def account(pods: Pods, name: str, *, may: list[str]) -> None:
    """Make a ServiceAccount that may list some resources of its namespace."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{pods.namespace}"
    await pods.api.create(f"{pods.path}/serviceaccounts", {"metadata": {"name": name}})
    await pods.api.create(
        f"{rbac}/roles",
        {
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": may, "verbs": ["get", "list"]}],
        },
    )
    await pods.api.create(
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": name,
            },
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": pods.namespace}],
        },
    )


async def test_two_replicas_serve_on_one_port_with_their_own_rights(pods: Pods) -> None:
    """Each has its own address; the token opens what the Role says, and nothing else."""
    await account(pods, "web", may=["pods"])
    template = process_pods.a_template(a_server(), serviceAccountName="web")
    await pods.api.create(
        f"/apis/apps/v1/namespaces/{pods.namespace}/deployments",
        process_pods.a_deployment("web", template, replicas=2),
    )

    ready = await until(
        lambda: pods.listed("app=web"),
        lambda found: len(found) == 2 and all(process_pods.is_ready(pod) for pod in found),
    )

    addresses = {pod["status"]["podIP"] for pod in ready}
    assert 2 == len(addresses)
    for address in addresses:
        asked = f"http://{address}:8080/ask?path=/api/v1/namespaces/{pods.namespace}"
        assert {"status": 200} == await fetch(f"{asked}/pods")
        assert {"status": 403} == await fetch(f"{asked}/secrets")


async def test_a_container_sees_its_environment_and_volumes(pods: Pods) -> None:
    """Values of every kind, expanded, on a clean environment; files where the pod says."""
    await pods.api.create(
        f"{pods.path}/configmaps",
        {"metadata": {"name": "settings"}, "data": {"LEVEL": "debug", "a.yaml": "a: 1"}},
    )
    password = base64.b64encode(b"hunter2").decode()
    await pods.api.create(
        f"{pods.path}/secrets", {"metadata": {"name": "keys"}, "data": {"password": password}}
    )
    server = a_server(
        args=["--name=$(POD_NAME)", "$$(POD_NAME)"],
        env=[
            {
                "name": "PASSWORD",
                "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}},
            },
            {"name": "GREETING", "value": "I am $(POD_NAME), $(UNKNOWN)"},
            {
                "name": "CPU",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
            },
        ],
        envFrom=[{"prefix": "CONF_", "configMapRef": {"name": "settings"}}],
        resources={"limits": {"cpu": "500m", "memory": "64Mi"}},
        volumeMounts=[
            {"name": "settings", "mountPath": "/etc/tiphys/settings"},
            {"name": "settings", "mountPath": "/etc/tiphys/one.yaml", "subPath": "a.yaml"},
            {"name": "all", "mountPath": "/var/run/tiphys"},
        ],
    )
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"secret": {"name": "keys", "items": [{"key": "password", "path": "p/w"}]}},
                    {"configMap": {"name": "absent", "optional": True}},
                    {
                        "downwardAPI": {
                            "items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]
                        }
                    },
                ]
            },
        },
    ]
    await pods.create(a_pod("seer", server, volumes=volumes))
    address = (await pods.ready("seer"))["status"]["podIP"]

    files = ["/etc/tiphys/settings/a.yaml", "/etc/tiphys/one.yaml", "/var/run/tiphys/p/w"]
    query = "&".join(f"file={path}" for path in (*files, "/var/run/tiphys/name"))
    seen = await fetch(f"http://{address}:8080/show?{query}")

    environment = seen["environment"]
    assert ["--name=seer", "$(POD_NAME)"] == seen["arguments"]
    assert "hunter2" == environment["PASSWORD"]
    assert "I am seer, $(UNKNOWN)" == environment["GREETING"]
    assert ("500", "debug", address) == tuple(
        environment[name] for name in ("CPU", "CONF_LEVEL", "POD_IP")
    )
    assert "TIPHYS_KUBERNETES" not in environment, "what the lab was started with leaks in"
    assert ["a: 1", "a: 1", "hunter2", "seer"] == list(seen["files"].values())


async def test_changes_of_config_maps_and_secrets_reach_the_files(pods: Pods) -> None:
    """Within ten seconds and all keys at once; a subPath keeps what it had, as kubelets do it."""
    maps = f"{pods.path}/configmaps"
    await pods.api.create(maps, {"metadata": {"name": "live"}, "data": {"a": "1", "b": "1"}})
    server = a_server(
        volumeMounts=[
            {"name": "live", "mountPath": "/live"},
            {"name": "live", "mountPath": "/still", "subPath": "a"},
        ],
    )
    await pods.create(
        a_pod("reader", server, volumes=[{"name": "live", "configMap": {"name": "live"}}])
    )
    address = (await pods.ready("reader"))["status"]["podIP"]
    url = f"http://{address}:8080/show?file=/live/a&file=/live/b&file=/still"

    await pods.api.patch(f"{maps}/live", {"data": {"a": "2", "b": "2"}})
    seen = await until(
        lambda: fetch(url), lambda found: found["files"]["/live/a"] == "2", within_s=10
    )

    assert ["2", "2", "1"] == list(seen["files"].values())


async def test_a_pod_waits_for_a_config_map_that_comes_later(pods: Pods) -> None:
    """It says what is missing while it waits."""
    volumes = [{"name": "late", "configMap": {"name": "late"}}]
    await pods.create(a_pod("waiter", a_container(), volumes=volumes))
    waiting = await until(
        lambda: pods.read("waiter"),
        lambda pod: "late" in str(process_pods.state(pod).get("state")),
    )
    assert "ContainerCreating" == process_pods.state(waiting)["state"]["waiting"]["reason"]

    await pods.api.create(f"{pods.path}/configmaps", {"metadata": {"name": "late"}})

    await pods.ready("waiter")


async def test_unmarked_pods_are_refused_and_marked_ones_need_no_toleration(pods: Pods) -> None:
    """Whoever tolerates the taint without the mark fails with a sentence that says why."""
    intruder = a_pod(
        "intruder",
        a_container(),
        nodeSelector={"lab.tiphys.dev/process-node": "true"},
        tolerations=[{"operator": "Exists"}],
    )
    del intruder["metadata"]["annotations"]
    await pods.create(intruder)
    await pods.create(a_pod("guest", a_container()))

    guest = await pods.ready("guest")
    refused = await pods.over("intruder")

    assert "process-0" == guest["spec"]["nodeName"]
    assert ("Failed", "ProcessNodeRefused") == (
        refused["status"]["phase"],
        refused["status"]["reason"],
    )
    assert "lab.tiphys.dev/run: process" in refused["status"]["message"]


async def test_what_processes_cannot_have_is_refused(pods: Pods) -> None:
    """A host path outside the lab, an image that nobody can start: each says so."""
    outside = [{"name": "etc", "hostPath": {"path": "/etc"}}]
    await pods.create(a_pod("outside", a_container(), volumes=outside))
    image = {"name": "main", "image": "docker.io/library/redis:7"}
    await pods.create(a_pod("image", image))

    for name, words in (("outside", "below the lab's home"), ("image", "give the container")):
        seen = await until(
            lambda name=name: pods.read(name),
            lambda pod, words=words: words in str(process_pods.state(pod).get("state")),
        )
        assert "Pending" == process_pods.phase(seen)


async def test_logs_and_commands_work_with_kubectl(
    pods: Pods, lab: homes.Home, kubectl: str
) -> None:
    """`kubectl logs` with its options, and `kubectl exec` with streams and exit codes."""
    await pods.create(
        a_pod("talker", a_script("echo one; echo two >&2; sleep 0.2; echo three; sleep 1000"))
    )
    await pods.ready("talker")
    await asyncio.sleep(0.5)

    def call(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl, f"--kubeconfig={lab.kubeconfig}", "-n", pods.namespace, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    run = asyncio.to_thread
    # Two streams are two pipes: which of two lines came first, nobody knows.
    assert {"one", "two", "three"} == set((await run(call, "logs", "talker")).stdout.split())
    assert "three\n" == (await run(call, "logs", "talker", "--tail=1")).stdout
    assert 3 == (await run(call, "exec", "talker", "--", "sh", "-c", "exit 3")).returncode
    echoed = await run(call, "exec", "-i", "talker", "--", "cat", text="through the pipe\n")
    assert "through the pipe\n" == echoed.stdout, echoed.stderr
    named = await run(call, "exec", "talker", "--", "hostname")
    assert "talker\n" == named.stdout
