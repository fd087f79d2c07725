"""A lab that runs: the servers are the real ones, and everything is furnished as promised."""

import asyncio
import base64
import json
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lab import apis, homes
from lab.controlplane import certificates, components, controls, reviews, states, tools
from lab.controlplane import processes as identities
from tests.lab import polls

LabMaker = Callable[..., homes.Home]

pytestmark = pytest.mark.timeout(240)

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


def a_workflow(name: str) -> apis.Object:
    """Return a Workflow of one step."""
    step = {"name": "main", "container": {"image": "busybox", "command": ["true"]}}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name},
        "spec": {"entrypoint": "main", "templates": [step]},
    }


async def ended(api: apis.Api, namespace: str, name: str) -> str:
    """Wait for the end of a workflow and return its phase."""
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows/{name}"

    async def phase() -> str:
        found = (await api.get(path)).get("status", {}).get("phase", "")
        return found if found in ("Succeeded", "Failed", "Error") else ""

    return await polls.until(phase, within_s=60)


async def test_the_server_is_of_the_version_that_was_asked_for(
    api: apis.Api, kubernetes: str
) -> None:
    """It says so itself; clients choose by it."""
    assert kubernetes == (await api.get("/version"))["gitVersion"]


async def test_mutating_admission_policies_are_v1_on_the_newer_version_only(
    api: apis.Api, kubernetes: str
) -> None:
    """What installs Tiphys must cope with both."""
    served = kubernetes.startswith("v1.36")
    try:
        await api.get(POLICIES)
    except apis.ApiError as error:
        assert (404, False) == (error.status, served)
    else:
        assert served


async def test_every_component_is_ready_and_listed(lab: homes.Home, kubernetes: str) -> None:
    """With its process, version and the time that it took."""
    state = states.load(lab)

    assert list(components.NAMES) == [item.name for item in state.components]
    assert {states.Phase.READY} == {item.phase for item in state.components}
    assert all(item.process and item.process.alive for item in state.components)
    assert all(item.ready_after_s is not None for item in state.components)
    servers = (components.API_SERVER, components.CONTROLLER_MANAGER, components.SCHEDULER)
    promised = {
        components.ETCD: tools.ETCD_VERSION,
        components.ARGO: tools.ARGO_VERSION,
        components.KUBELET: "lab",
        components.PROCESS_NODE: "lab",
        **dict.fromkeys(servers, kubernetes),
    }
    # Prebuilt ones say themselves of which version they are.
    promised |= state.binaries.versions
    assert promised == {item.name: item.version for item in state.components}


async def test_a_workflow_runs_from_submission_to_success(api: apis.Api, namespace: str) -> None:
    """Argo, scheduler and nodes work together."""
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
    await api.create(path, a_workflow("first"))

    assert "Succeeded" == await ended(api, namespace, "first")


async def test_the_audit_log_holds_the_life_of_a_pod(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """Who created and bound it, to the microsecond; no object's content."""
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
    await api.create(path, a_workflow("audited"))
    await ended(api, namespace, "audited")
    await asyncio.sleep(2.5)

    lines = [json.loads(line) for line in lab.audit_log.read_text().splitlines()]
    mine = [
        line
        for line in lines
        if line["objectRef"].get("namespace") == namespace
        and line["objectRef"]["resource"] == "pods"
    ]
    calls = {(line["verb"], line["objectRef"].get("subresource", "")) for line in mine}
    assert {("create", ""), ("create", "binding")} <= calls
    assert {"system:serviceaccount:argo:argo"} == {
        line["user"]["username"]
        for line in mine
        if line["objectRef"].get("subresource") is None and line["verb"] == "create"
    }
    assert not any("requestObject" in line for line in lines)
    assert all(len(line["requestReceivedTimestamp"].split(".")[1]) == 7 for line in mine)


def test_kubectl_works_with_the_kubeconfig(lab: homes.Home, kubectl: str) -> None:
    """As any client does."""
    shown = subprocess.run(
        [kubectl, "--kubeconfig", lab.kubeconfig, "auth", "whoami", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "tiphys-lab-admin" == json.loads(shown)["status"]["userInfo"]["username"]


def status_of(url: str, tls: ssl.SSLContext) -> int:
    """Return the HTTP status that an URL answers with."""
    try:
        with urllib.request.urlopen(url, context=tls, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_metrics_of_scheduler_and_controllers_open_with_the_admins_certificate(
    lab: homes.Home,
) -> None:
    """And not without: loopback belongs to all users of a machine."""
    state = states.load(lab)
    urls = [
        f"https://127.0.0.1:{state.component(name).ports['secure']}/metrics"
        for name in (components.SCHEDULER, components.CONTROLLER_MANAGER)
    ]
    tls = ssl.create_default_context(cafile=lab.pki / "ca.crt")
    assert {status_of(url, tls) for url in urls} <= {401, 403}

    tls.load_cert_chain(lab.pki / "admin.crt", lab.pki / "admin.key")
    assert {200} == {status_of(url, tls) for url in urls}


def test_etcd_refuses_whoever_has_no_certificate_of_its_own(lab: homes.Home) -> None:
    """Not even the cluster's admin gets at it beside the API server."""
    url = f"https://127.0.0.1:{states.load(lab).component('etcd').ports['client']}/health"
    stranger, own = (ssl.create_default_context(cafile=lab.pki / "etcd-ca.crt") for _ in range(2))
    stranger.load_cert_chain(lab.pki / "admin.crt", lab.pki / "admin.key")
    own.load_cert_chain(lab.pki / "etcd-client.crt", lab.pki / "etcd-client.key")

    with pytest.raises(OSError, match=r"certificate|unknown ca|reset|EOF"):
        status_of(url, stranger)
    assert 200 == status_of(url, own)


@pytest.fixture
def webhook(lab: homes.Home, tmp_path: Path) -> Iterator[tuple[int, list[str], bytes]]:
    """Run a webhook that lets nobody in but the API server; yields port, callers and its CA."""
    callers: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            subject = self.connection.getpeercert()["subject"]
            callers.append("/".join(value for part in subject for _, value in part))
            review["response"] = {"uid": review["request"]["uid"], "allowed": True}
            answer = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return

    authority = certificates.write_authority(tmp_path / "ca", "test")
    certificates.write_server(
        tmp_path / "server", "webhook", authority=authority, names=["127.0.0.1"]
    )
    tls = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=lab.pki / "webhook-client-ca.crt"
    )
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, callers, (tmp_path / "ca.crt").read_bytes()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_the_api_server_shows_its_certificate_to_any_webhook(
    api: apis.Api, namespace: str, webhook: tuple[int, list[str], bytes], kind: str
) -> None:
    """Whatever its port: nobody knows it when the lab starts."""
    port, callers, authority = webhook
    collection = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"
    hook = {
        "name": "client-certificate.tiphys.dev",
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(authority).decode(),
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    name = f"test-{kind.lower()}"
    await api.create(collection, {"metadata": {"name": name}, "webhooks": [hook]})
    try:

        async def called() -> bool:
            configs = f"/api/v1/namespaces/{namespace}/configmaps"
            await api.create(configs, {"metadata": {"generateName": "seen-"}})
            return bool(callers)

        await polls.until(called, within_s=20)
    finally:
        await api.delete(f"{collection}/{name}")

    assert "system:apiserver/kube-apiserver" == callers[0]


async def test_nodes_are_reviewed_with_what_is_requested_of_them(
    lab: homes.Home, api: apis.Api
) -> None:
    """The simulated ones of the description, and the process node."""
    nodes = await reviews.nodes(api)

    assert {"old-0", "base-0", "fast-0", "turbo-0"} <= {node.name for node in nodes}
    assert all(node.ready for node in nodes)
    assert all(node.cpu_m >= 16_000 for node in nodes)


async def test_status_knows_what_each_process_uses(lab: homes.Home) -> None:
    """CPU time and memory, by pid."""
    used = {item.component.name: item for item in reviews.of_processes(states.load(lab))}

    assert (used[components.API_SERVER].memory_bytes or 0) > 100 * 2**20
    assert (used[components.API_SERVER].cpu_s or 0) > 0.5


async def test_a_second_lab_runs_beside_the_first(
    lab: homes.Home, make_lab: LabMaker, api: apis.Api, namespace: str
) -> None:
    """Both Argo controllers work, although only one gets the health port that Argo fixes."""
    second = make_lab("second", speed=60.0)
    workflows = "/apis/argoproj.io/v1alpha1/namespaces/{}/workflows"
    async with apis.Api(second.kubeconfig) as other:
        await other.create(workflows.format("default"), a_workflow("both"))
        await api.create(workflows.format(namespace), a_workflow("both"))

        assert "Succeeded" == await ended(other, "default", "both")
        assert "Succeeded" == await ended(api, namespace, "both")


async def test_a_restarted_api_server_keeps_its_port_and_the_cluster(
    make_lab: LabMaker,
) -> None:
    """Clients find it again where it was, with everything in it."""
    home = make_lab("restarted", without=(components.KUBELET, components.PROCESS_NODE))
    before = states.load(home).component(components.API_SERVER)
    argo = states.load(home).component(components.ARGO)
    async with apis.Api(home.kubeconfig) as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
        workflows = "/apis/argoproj.io/v1alpha1/namespaces/default/workflows"
        await api.create(workflows, a_workflow("seen"))

        async def pods() -> list[apis.Object]:
            return (await api.get("/api/v1/namespaces/default/pods"))["items"] or []

        await polls.until(pods, within_s=30)

    await asyncio.to_thread(controls.send, home, "restart", components.API_SERVER)

    after = states.load(home).component(components.API_SERVER)
    assert before.ports == after.ports
    assert before.process != after.process
    async with apis.Api(home.kubeconfig) as api:
        assert await api.get("/api/v1/namespaces/kept")
    # A controller that was refused by a server without roles would spin for ever.
    assert argo.process is not None
    spent = identities.usage(argo.process)
    await asyncio.sleep(5)
    spent_later = identities.usage(argo.process)
    assert spent is not None
    assert spent_later is not None
    assert spent_later.cpu_s - spent.cpu_s < 2.0
    assert Path(argo.log).stat().st_size < 2**20
    assert argo == states.load(home).component(components.ARGO)


async def test_components_can_be_disturbed_and_come_back(make_lab: LabMaker) -> None:
    """A crash is counted and mended; what was stopped stays down; what hangs goes on."""
    home = make_lab("disturbed", without=(components.KUBELET, components.PROCESS_NODE))
    name = components.SCHEDULER
    killed = states.load(home).component(name).process

    await asyncio.to_thread(controls.send, home, "kill", name)

    async def back() -> states.Component | None:
        found = states.load(home).component(name)
        returned = found.phase is states.Phase.READY and found.process != killed
        return found if returned else None

    now = await polls.until(back, within_s=30)
    assert now is not None
    assert (1, "SIGKILL") == (now.crashes, now.last_exit.split(":")[0])

    await asyncio.to_thread(controls.send, home, "stop", name)
    await asyncio.sleep(2.5)
    stopped = states.load(home).component(name)
    assert (states.Phase.STOPPED, None, 1) == (stopped.phase, stopped.process, stopped.crashes)
    await asyncio.to_thread(controls.send, home, "start", name)

    await asyncio.to_thread(controls.send, home, "pause", name)
    paused = states.load(home).component(name)
    assert paused.process is not None
    assert "T" == _run_state(paused.process)
    await asyncio.to_thread(controls.send, home, "resume", name)
    assert _run_state(paused.process) in "SR"


def _run_state(process: identities.Process) -> str:
    """Return the letter of a process's state: T is stopped."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
