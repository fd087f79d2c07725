"""Builders of pods for the process node, and waits that end with what was seen last."""

import asyncio
import textwrap
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from lab import apis
from lab.processnode import settings

WITHIN_S = 30.0

SERVER = textwrap.dedent(
    """
    import json, os, pathlib, ssl, sys
    from aiohttp import ClientSession, web

    ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")

    async def well(request):
        return web.Response(status=503 if pathlib.Path("ill").exists() else 200)

    async def show(request):
        files = {path: pathlib.Path(path).read_text() for path in request.query.getall("file", [])}
        return web.json_response({"environment": dict(os.environ), "files": files,
                                  "arguments": sys.argv[1:], "folder": os.getcwd()})

    async def ask(request):
        tls = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
        host, port = (os.environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        headers = {"Authorization": "Bearer " + (ACCOUNT / "token").read_text()}
        url = f"https://{host}:{port}{request.query['path']}"
        async with ClientSession() as session, session.get(url, ssl=tls, headers=headers) as answer:
            return web.json_response({"status": answer.status})

    async def fetch(request):
        async with ClientSession() as session, session.get(request.query["url"]) as answer:
            return web.json_response(await answer.json())

    app = web.Application()
    app.add_routes([web.get("/healthz", well), web.get("/show", show), web.get("/ask", ask),
                    web.get("/fetch", fetch)])
    print("listening", flush=True)
    web.run_app(app, host=os.environ["POD_IP"], port=8080, print=None)
    print("ended in order", flush=True)
    """
)
"""A small aiohttp server that tells what it sees and asks what it is told to."""

OWN_NAME = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
OWN_ADDRESS = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def a_container(name: str = "main", **fields: Any) -> apis.Object:
    """Return a container that does nothing until it is ended, but for what `fields` say."""
    return {"name": name, "image": "none", "command": ["sleep", "1000"], **fields}


def a_script(text: str, name: str = "main", **fields: Any) -> apis.Object:
    """Return a container that runs a shell script."""
    return a_container(name, command=["sh", "-c", text], **fields)


def a_server(**fields: Any) -> apis.Object:
    """Return a container with the aiohttp server and its probes."""
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1}
    found = a_container(
        "server",
        command=["python", "-c", SERVER],
        env=[OWN_ADDRESS, OWN_NAME],
        ports=[{"name": "http", "containerPort": 8080}],
        readinessProbe=probe,
        livenessProbe=probe,
    )
    found["env"] = [*found["env"], *fields.pop("env", ())]
    return found | fields


def a_template(
    *containers: apis.Object, labels: Mapping[str, str] | None = None, **spec: Any
) -> apis.Object:
    """Return a pod template that is marked for the process node."""
    return {
        "metadata": {
            "labels": dict(labels or {}),
            "annotations": {settings.MARK: settings.MARKED},
        },
        "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 3, **spec},
    }


def a_pod(name: str, *containers: apis.Object, **spec: Any) -> apis.Object:
    """Return a pod that is marked for the process node."""
    template = a_template(*containers, **spec)
    return {"metadata": {"name": name, **template["metadata"]}, "spec": template["spec"]}


def a_deployment(name: str, template: apis.Object, *, replicas: int = 1) -> apis.Object:
    """Return a Deployment whose pods carry the label `app: NAME`."""
    template["metadata"]["labels"]["app"] = name
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


async def until(
    read: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool], *, within_s: float = WITHIN_S
) -> Any:
    """Read until what was read holds, and return it; fails with what was read last."""
    ends_at = time.monotonic() + within_s
    while True:
        seen = await read()
        if holds(seen):
            return seen
        assert time.monotonic() < ends_at, f"not in {within_s:g} s; last seen: {seen}"
        await asyncio.sleep(0.1)


class Pods:
    """The pods of one namespace, seen through the API server."""

    def __init__(self, api: apis.Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}"

    async def create(self, pod: apis.Object) -> apis.Object:
        """Create a pod."""
        return await self.api.create(f"{self.path}/pods", pod)

    async def read(self, name: str) -> apis.Object:
        """Read a pod; `{}` if there is none."""
        try:
            return await self.api.get(f"{self.path}/pods/{name}")
        except apis.ApiError as error:
            if error.status != 404:
                raise
            return {}

    async def listed(self, label: str = "") -> list[apis.Object]:
        """List pods by label."""
        answer = await self.api.get(f"{self.path}/pods", params={"labelSelector": label})
        return list(answer["items"])

    async def ready(self, name: str, *, within_s: float = WITHIN_S) -> apis.Object:
        """Wait until a pod is ready."""
        return await until(lambda: self.read(name), is_ready, within_s=within_s)

    async def over(self, name: str, *, within_s: float = WITHIN_S) -> apis.Object:
        """Wait until a pod has ended."""
        return await until(
            lambda: self.read(name), lambda pod: phase(pod) in ENDS, within_s=within_s
        )

    async def gone(self, name: str, *, within_s: float = WITHIN_S) -> None:
        """Wait until a pod's object is gone."""
        await until(lambda: self.read(name), lambda pod: not pod, within_s=within_s)

    async def delete(self, name: str, **parameters: str) -> None:
        """Ask for the end of a pod."""
        await self.api.delete(f"{self.path}/pods/{name}", params=parameters)


ENDS = ("Succeeded", "Failed")


def phase(pod: apis.Object) -> str:
    """Return the phase of a pod; empty for none."""
    return str(pod.get("status", {}).get("phase", ""))


def is_ready(pod: apis.Object) -> bool:
    """Whether the Ready condition is True."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def state(pod: apis.Object, name: str = "main") -> apis.Object:
    """Return the status of one container; `{}` before there is one."""
    for kind in ("containerStatuses", "initContainerStatuses"):
        for item in pod.get("status", {}).get(kind) or ():
            if item["name"] == name:
                return dict(item)
    return {}
