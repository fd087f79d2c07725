"""Services in front of process pods: addresses, names, refusal, and webhooks of the API server."""

import asyncio
import base64
import textwrap
from pathlib import Path

import aiohttp
import pytest

from lab import apis, homes
from lab.controlplane import certificates
from tests.lab import process_pods
from tests.lab.process_pods import Pods, a_pod, a_server, until

pytestmark = pytest.mark.timeout(180)

HOOK = textwrap.dedent(
    """
    import os, ssl
    from aiohttp import web

    async def review(request):
        asked = (await request.json())["request"]
        labels = asked["object"]["metadata"].get("labels") or {}
        answer = {"uid": asked["uid"], "allowed": labels.get("refuse") != "me",
                  "status": {"message": "not for " + caller(request)}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1",
                                  "kind": "AdmissionReview", "response": answer})

    def caller(request):
        peer = request.transport.get_extra_info("peercert")
        subject = dict(pair for part in peer["subject"] for pair in part)
        return subject["organizationName"] + "/" + subject["commonName"]

    async def well(request):
        return web.Response()

    app = web.Application()
    app.add_routes([web.post("/review", review), web.get("/healthz", well)])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    tls.load_verify_locations("/tls/clients.crt")
    tls.verify_mode = ssl.CERT_REQUIRED
    web.run_app(app, host=os.environ["POD_IP"], port=8443, ssl_context=tls, print=None)
    """
)


@pytest.fixture
def pods(api: apis.Api, namespace: str) -> Pods:
    """Return the pods of a fresh namespace of the shared lab."""
    return Pods(api, namespace)


async def a_service(pods: Pods, name: str, *, port: int, target: int | str) -> str:
    """Make a Service in front of `app: NAME` and return its cluster IP."""
    spec = {"selector": {"app": name}, "ports": [{"port": port, "targetPort": target}]}
    made = await pods.api.create(
        f"{pods.path}/services", {"metadata": {"name": name}, "spec": spec}
    )
    return str(made["spec"]["clusterIP"])


def labelled(pod: apis.Object, app: str) -> apis.Object:
    """Return the pod with a label that a Service selects."""
    pod["metadata"]["labels"]["app"] = app
    return pod


async def served_by(url: str) -> str:
    """Return the name of the pod that answers; empty if nobody does."""
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            known = answer.status == 200
            return str((await answer.json())["environment"]["POD_NAME"]) if known else ""
    except aiohttp.ClientConnectionError:
        return ""


async def test_a_service_leads_to_every_ready_pod_and_to_no_other(pods: Pods) -> None:
    """By address and by name; with nobody behind it the connection is refused at once."""
    cluster_ip = await a_service(pods, "web", port=8081, target="http")
    url = f"http://{cluster_ip}:8081/show"
    assert "" == await served_by(url)

    for name in ("one", "two"):
        await pods.create(labelled(a_pod(name, a_server()), "web"))
    for name in ("one", "two"):
        await pods.ready(name)
    await until(lambda: _answers(url), lambda names: names == {"one", "two"})

    address = (await pods.read("one"))["status"]["podIP"]
    for host in ("web", f"web.{pods.namespace}", f"web.{pods.namespace}.svc"):
        asked = f"http://{address}:8080/fetch?url=http://{host}:8081/show"
        assert await served_by(asked) in ("one", "two")

    await pods.delete("one")
    await pods.gone("one")
    assert {"two"} == await _answers(url)
    await pods.delete("two")
    await until(lambda: served_by(url), lambda name: name == "")


async def _answers(url: str) -> set[str]:
    return {await served_by(url) for _ in range(6)}


async def test_pods_of_a_stateful_set_have_names_of_their_own(pods: Pods) -> None:
    """Through its headless Service, each at its own address."""
    spec = {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 8080}]}
    await pods.api.create(f"{pods.path}/services", {"metadata": {"name": "db"}, "spec": spec})
    template = process_pods.a_template(a_server(), labels={"app": "db"})
    await pods.api.create(
        f"/apis/apps/v1/namespaces/{pods.namespace}/statefulsets",
        {
            "metadata": {"name": "db"},
            "spec": {
                "serviceName": "db",
                "replicas": 2,
                "selector": {"matchLabels": {"app": "db"}},
                "template": template,
            },
        },
    )

    for name in ("db-0", "db-1"):
        await pods.ready(name)
    address = (await pods.read("db-1"))["status"]["podIP"]

    async def zero() -> str:
        return await served_by(f"http://{address}:8080/fetch?url=http://db-0.db:8080/show")

    await until(zero, lambda name: name == "db-0", within_s=5)


@pytest.mark.parametrize("way", ["service", "url"])
async def test_the_api_server_calls_a_webhook_and_shows_its_certificate(
    pods: Pods, lab: homes.Home, tmp_path: Path, way: str
) -> None:
    """`clientConfig.service` as charts write it, or the Service's address as `clientConfig.url`.

    The pod has its certificate from a Secret, and lets nobody in but the API server.
    """
    address = await a_service(pods, "hook", port=8443, target=8443)
    names = [f"hook.{pods.namespace}.svc", address]
    authority = certificates.write_authority(tmp_path / "ca", "hook-ca")
    certificates.write_server(tmp_path / "tls", "hook", authority=authority, names=names)
    files = {
        "tls.crt": tmp_path / "tls.crt",
        "tls.key": tmp_path / "tls.key",
        "clients.crt": lab.pki / "webhook-client-ca.crt",
    }
    data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    await pods.api.create(
        f"{pods.path}/secrets",
        {"metadata": {"name": "tls"}, "type": "kubernetes.io/tls", "data": data},
    )
    server = process_pods.a_container(
        "hook",
        command=["python", "-c", HOOK],
        env=[process_pods.OWN_ADDRESS],
        startupProbe={"tcpSocket": {"port": 8443}, "periodSeconds": 1},
        readinessProbe={"tcpSocket": {"port": 8443}, "periodSeconds": 1},
        volumeMounts=[{"name": "tls", "mountPath": "/tls"}],
    )
    volumes = [{"name": "tls", "secret": {"secretName": "tls"}}]
    await pods.create(labelled(a_pod("hook", server, volumes=volumes), "hook"))
    await pods.ready("hook")
    name = f"hook-{pods.namespace}"
    await pods.api.create(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        _configuration(
            name,
            pods.namespace,
            authority=(tmp_path / "ca.crt").read_bytes(),
            url=f"https://{address}:8443/review" if way == "url" else "",
        ),
    )
    try:
        caller = "system:apiserver/kube-apiserver"
        await until(lambda: _refused(pods), lambda reason: f"not for {caller}" in reason)
        await pods.api.create(f"{pods.path}/configmaps", {"metadata": {"name": "welcome"}})
    finally:
        await pods.api.delete(
            f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}"
        )


def _configuration(name: str, namespace: str, *, authority: bytes, url: str) -> apis.Object:
    service = {"name": "hook", "namespace": namespace, "path": "/review", "port": 8443}
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "hook.lab.tiphys.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 5,
                "clientConfig": {
                    **({"url": url} if url else {"service": service}),
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ],
            }
        ],
    }


async def _refused(pods: Pods) -> str:
    """Try to make what the webhook refuses; returns what was said."""
    refused = {"metadata": {"generateName": "no-", "labels": {"refuse": "me"}}}
    try:
        await pods.api.create(f"{pods.path}/configmaps", refused)
    except apis.ApiError as error:
        return str(error)
    await asyncio.sleep(0.5)
    return "it was let through"
