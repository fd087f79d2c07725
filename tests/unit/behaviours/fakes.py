"""A host and an API server in memory, and builders of pods as Argo's controller makes them."""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

from lab import apis, clocks
from lab.kubelet.behaviours import contracts
from lab.truths import Truth


class FakeApi(apis.Api):
    """Keeps what is created by its path; knows only what the behaviours ask for."""

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        self.objects: dict[str, Any] = objects or {}
        self.calls: list[tuple[str, str]] = []
        self.retries = 0

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = apis.JSON,
        params: Any = None,
        brief: bool = False,
    ) -> apis.Object:
        self.calls.append((method, path))
        if method == "GET":
            return copy.deepcopy(self._found(path))
        if method == "POST":
            target = f"{path}/{body['metadata'].get('name') or 'generated'}"
            if target in self.objects:
                raise self._refusal(409, "AlreadyExists", path)
            self.objects[target] = copy.deepcopy(body)
            return self.objects[target]
        if method == "DELETE":
            self.objects.pop(path, None)
            return {}
        if content_type == apis.APPLY_PATCH:
            self.objects[path] = copy.deepcopy(body)
        else:
            self.objects.setdefault(path, {})
            merge(self.objects[path], body)
        return self.objects[path]

    def _found(self, path: str) -> Any:
        if path not in self.objects:
            raise self._refusal(404, "NotFound", path)
        return self.objects[path]

    def _refusal(self, status: int, reason: str, path: str) -> apis.ApiError:
        return apis.ApiError(status=status, reason=reason, message=path, call=path)


def merge(target: dict[str, Any], patch: Any) -> None:
    """Apply a JSON merge patch in place."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value


class FakeHost:
    """A host whose tasks take no time."""

    def __init__(
        self,
        root: Path,
        pod: apis.Object,
        *,
        api: FakeApi | None = None,
        outcome: contracts.Outcome | None = None,
        speed: float = 100.0,
    ) -> None:
        self.api: apis.Api = api or FakeApi()
        self.clock = clocks.SimClock(speed=speed, epoch=0.0)
        self.artifacts = root / "artifacts"
        self.pod = pod
        self.address = "10.128.0.2"
        self.changes: list[tuple[dict[str, bool], dict[str, contracts.ContainerEnd]]] = []
        self.warnings: list[tuple[str, str]] = []
        self._outcome = outcome or contracts.Outcome(phase="Succeeded")

    async def compute(self, truth: Truth) -> contracts.Outcome:
        return self._outcome

    async def sleep(self, sim_s: float) -> None:
        await asyncio.sleep(0)

    async def containers_changed(
        self, *, ready: dict[str, bool], ended: dict[str, contracts.ContainerEnd]
    ) -> None:
        self.changes.append((ready, ended))

    def warn(self, reason: str, message: str) -> None:
        self.warnings.append((reason, message))


ARCHIVE = {"s3": {"endpoint": "e", "bucket": "b", "key": "wf/pod"}}
RESULT = "/apis/argoproj.io/v1alpha1/namespaces/ns/workflowtaskresults/wf-1"


def an_argo_pod(
    template: dict[str, Any],
    *,
    containers: list[dict[str, Any]] | None = None,
    included: bool = False,
    volumes: tuple[str, ...] = (),
    inits: tuple[dict[str, Any], ...] = (),
) -> apis.Object:
    """Return a pod with `init`, `wait` and the given containers, or one made from the template."""
    template = {"archiveLocation": ARCHIVE, **template}
    body = template.get("container") or template.get("script") or {}
    main = {
        "name": "main",
        "image": body.get("image", "busybox"),
        "command": emissary(body.get("command", [])),
        "args": body.get("args") or (["/argo/staging/script"] if "script" in template else []),
        "volumeMounts": body.get("volumeMounts") or [],
    }
    names = ("var-run-argo", "argo-staging", "input-artifacts", *volumes)
    shared = [
        {"name": "var-run-argo", "mountPath": "/var/run/argo"},
        {"name": "argo-staging", "mountPath": "/argo/staging"},
    ]
    env = [{"name": "ARGO_INCLUDE_SCRIPT_OUTPUT", "value": "true" if included else "false"}]
    chosen = containers or [main]
    for container in chosen:
        container["env"] = [*(container.get("env") or []), *env]
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), *shared]
        for artifact in (template.get("inputs") or {}).get("artifacts") or []:
            if container["name"] == "main":
                mount = {"name": "input-artifacts", "subPath": artifact["name"]}
                container["volumeMounts"].append({**mount, "mountPath": artifact["path"]})
    return {
        "metadata": {
            "name": "pod",
            "namespace": "ns",
            "uid": "u-1",
            "labels": {"workflows.argoproj.io/workflow": "wf"},
            "annotations": {
                "workflows.argoproj.io/node-id": "wf-1",
                "workflows.argoproj.io/node-name": "wf.task",
            },
            "ownerReferences": [
                {
                    "apiVersion": "argoproj.io/v1alpha1",
                    "kind": "Workflow",
                    "name": "wf",
                    "uid": "w-1",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": name, "emptyDir": {}} for name in names],
            "initContainers": [
                {
                    "name": "init",
                    "image": "argoexec",
                    "command": ["argoexec", "init"],
                    "env": [{"name": "ARGO_TEMPLATE", "value": json.dumps(template)}],
                },
                *inits,
            ],
            "containers": [
                {"name": "wait", "image": "argoexec", "command": ["argoexec", "wait"]},
                *chosen,
            ],
        },
    }


def emissary(command: list[str]) -> list[str]:
    """Return a command as Argo wraps it."""
    return ["/var/run/argo/argoexec", "emissary", "--loglevel", "info", "--", *command]


def a_shell(text: str, **more: Any) -> dict[str, Any]:
    """Return a container template that runs a line of shell."""
    return {"container": {"image": "busybox", "command": ["sh", "-c"], "args": [text], **more}}
