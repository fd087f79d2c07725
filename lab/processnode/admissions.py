"""The admission webhook that sends marked pods to this node, so that no chart has to know it.

A pod annotated `lab.tiphys.dev/run: process` gets the node's selector and toleration when it is
created. The API server asks only for pods with the annotation (`matchConditions`), and refuses
them while the node is down: on a simulated node they would only pretend to run. Pods of DaemonSets
are left alone, because their controller has chosen their node before.
"""

import asyncio
import base64
import contextlib
import time

import msgspec
from aiohttp import web

from lab import apis
from lab.processnode import certificates, settings

NAME = "process-node.lab.tiphys.dev"
PATH = "/pods"
TRIALS = "/api/v1/namespaces/default/pods"
ASKED_WITHIN_S = 15.0
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
LARGEST_REVIEW_BYTES = 8 * 1024 * 1024


def configuration(url: str, authority: bytes) -> apis.Object:
    """Return the MutatingWebhookConfiguration for the webhook at `url`."""
    marked = f"object.metadata.?annotations[?'{settings.MARK}'].orValue('') == '{settings.MARKED}'"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": url,
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "matchConditions": [{"name": "marked", "expression": marked}],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 5,
            }
        ],
    }


def patch(pod: apis.Object) -> list[apis.Object]:
    """Return the JSON patch that sends a pod to this node; empty where nothing is missing."""
    owners = pod["metadata"].get("ownerReferences") or ()
    if any(owner.get("kind") == "DaemonSet" and owner.get("controller") for owner in owners):
        return []
    spec = pod["spec"]
    operations = []
    selector = spec.get("nodeSelector") or {}
    if settings.NODE_LABEL not in selector and not spec.get("nodeName"):
        chosen = {**selector, settings.NODE_LABEL: "true"}
        operations.append({"op": "add", "path": "/spec/nodeSelector", "value": chosen})
    tolerations = list(spec.get("tolerations") or ())
    if not any(_tolerates(item) for item in tolerations):
        tolerations.append(
            {"key": settings.NODE_LABEL, "operator": "Exists", "effect": "NoSchedule"}
        )
        operations.append({"op": "add", "path": "/spec/tolerations", "value": tolerations})
    return operations


def _tolerates(toleration: apis.Object) -> bool:
    if toleration.get("effect", "NoSchedule") != "NoSchedule":
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key", settings.NODE_LABEL) == settings.NODE_LABEL
    wanted = (settings.NODE_LABEL, "true")
    return (toleration.get("key"), toleration.get("value")) == wanted


def trial() -> apis.Object:
    """Return a marked pod that is only ever created as a dry run."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "process-node-trial",
            "annotations": {settings.MARK: settings.MARKED},
        },
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


async def wait_until_asked(api: apis.Api) -> bool:
    """Wait until the API server sends marked pods here; False if it does not in time.

    It learns of a new webhook a moment after it was written, and pods made meanwhile would miss it.
    """
    until = time.monotonic() + ASKED_WITHIN_S
    while time.monotonic() < until:
        with contextlib.suppress(apis.ApiError):  # no ServiceAccount in the namespace yet
            tried = await api.call("POST", TRIALS, body=trial(), params={"dryRun": "All"})
            if settings.NODE_LABEL in (tried["spec"].get("nodeSelector") or {}):
                return True
        await asyncio.sleep(0.1)
    return False


class Webhook:
    """The listener that the API server asks."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._pair = certificates.self_signed("tiphys-lab-processnode", address)
        self._runner: web.AppRunner | None = None

    async def start(self) -> apis.Object:
        """Listen, and return the configuration that tells the API server where."""
        application = web.Application(client_max_size=LARGEST_REVIEW_BYTES)
        application.router.add_post(PATH, _review)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner,
            self._address,
            0,
            ssl_context=certificates.server_context(self._pair),
        )
        await site.start()
        port = self._runner.addresses[0][1]
        return configuration(f"https://{self._address}:{port}{PATH}", self._pair.certificate)

    async def close(self) -> None:
        """Listen no longer."""
        if self._runner is not None:
            await self._runner.cleanup()


async def _review(request: web.Request) -> web.Response:
    review = msgspec.json.decode(await request.read())
    asked = review["request"]
    answer: apis.Object = {"uid": asked["uid"], "allowed": True}
    if operations := patch(asked["object"]):
        answer["patchType"] = "JSONPatch"
        answer["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode()
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": answer,
    }
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
