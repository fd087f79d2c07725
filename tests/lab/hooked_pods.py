"""What the webhook's lab tests share: its configurations, its pods, another webhook beside it."""

import asyncio
import base64
import contextlib
import json
import ssl
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from aiohttp import web

from lab import apis, homes
from tests.fakes import authorities
from tests.lab import polls

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
KINDS = {
    "/mutate": ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    "/validate": ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
}
STEERED = "tiphys.dev/steered"


def client_authority(home: homes.Home) -> bytes:
    """Return who signs the certificate that the lab's API server shows to webhooks."""
    return (home.pki / "webhook-client-ca.crt").read_bytes()


@contextlib.asynccontextmanager
async def configured(
    api: apis.Api,
    namespace: str,
    *,
    url: str,
    authority: bytes,
    paths: Iterable[str] = tuple(KINDS),
    name: str = "m-tiphys-test",
    timeout_s: int = 2,
) -> AsyncIterator[None]:
    """Register a webhook for steered pods of one namespace until the block ends.

    Configurations are called in the order of their names.
    """
    made = []
    name = f"{name}-{uuid.uuid4().hex[:6]}"
    for path in paths:
        kind, plural = KINDS[path]
        hook: dict[str, Any] = {
            "name": "pods.tiphys.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": f"{url}{path}",
                "caBundle": base64.b64encode(authority).decode(),
            },
            "failurePolicy": "Ignore",
            "timeoutSeconds": timeout_s,
            "sideEffects": "NoneOnDryRun",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": {STEERED: "true"}},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
        }
        if path == "/mutate":
            hook["reinvocationPolicy"] = "IfNeeded"
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [hook],
        }
        await api.create(f"{REGISTRATION}/{plural}", body)
        made.append(f"{REGISTRATION}/{plural}/{name}")
    try:
        yield
    finally:
        for path in made:
            await api.delete(path)


async def an_owner(api: apis.Api, namespace: str) -> apis.Object:
    """Create a suspended Workflow; return the reference that makes it a pod's controller."""
    made = await api.create(
        f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows",
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"generateName": "owner-"},
            "spec": {
                "suspend": True,
                "entrypoint": "main",
                "templates": [
                    {"name": "main", "container": {"image": "busybox:1", "command": ["true"]}}
                ],
            },
        },
    )
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "name": made["metadata"]["name"],
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def a_task(owner: apis.Object, name: str = "", **metadata: Any) -> apis.Object:
    """Return a steered pod of a workflow as Argo would make it."""
    labels = {
        STEERED: "true",
        "workflows.argoproj.io/completed": "false",
        "workflows.argoproj.io/workflow": owner["name"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name or f"task-{uuid.uuid4().hex[:8]}",
            "labels": labels,
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1",
                    "command": ["true"],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
        },
    }


async def reached(api: apis.Api, namespace: str, owner: apis.Object) -> None:
    """Wait until the API server calls the webhook for this namespace."""

    async def gated() -> bool:
        made = await api.call("POST", pods(namespace), body=a_task(owner), params={"dryRun": "All"})
        return "tiphys.dev/decision" in made["metadata"].get("annotations", {})

    await polls.until(gated, within_s=20)


def pods(namespace: str) -> str:
    """Return the path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


async def failed_open(api: apis.Api) -> float:
    """Return how often our webhooks failed and the API server let the object in."""
    lines = (await api.text("/metrics")).splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith("apiserver_admission_webhook_fail_open_count")
        and 'name="pods.tiphys.dev"' in line
    )


def sidecar(pod: apis.Object) -> list[apis.Object]:
    """Return the patch that adds a sidecar, once."""
    if "proxy" in [container["name"] for container in pod["spec"]["containers"]]:
        return []
    added = {"name": "proxy", "image": "mesh:1", "command": ["true"]}
    return [{"op": "add", "path": "/spec/containers/-", "value": added}]


def own_affinity(pod: apis.Object) -> list[apis.Object]:
    """Return the patch that writes an affinity over whatever there is, each time anew."""
    wanted = {"nodeAffinity": {}}
    if pod["spec"].get("affinity") == wanted:
        return []
    return [{"op": "add", "path": "/spec/affinity", "value": wanted}]


@contextlib.asynccontextmanager
async def injecting(
    leaf: authorities.Leaf, change: Callable[[apis.Object], list[apis.Object]] = sidecar
) -> AsyncIterator[str]:
    """Serve a webhook of somebody else's that changes pods; yields its URL."""

    async def answer(request: web.BaseRequest) -> web.Response:
        asked = json.loads(await request.content.read())["request"]
        response: dict[str, Any] = {"uid": asked["uid"], "allowed": True}
        if patch := change(asked["object"]):
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        found = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.Response(
            body=json.dumps({**found, "response": response}).encode(),
            content_type="application/json",
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(leaf.certificate + leaf.key)
        file.flush()
        context.load_cert_chain(file.name)
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        # The API server answers the end of TLS on the connection that it kept.
        await asyncio.sleep(0.2)
