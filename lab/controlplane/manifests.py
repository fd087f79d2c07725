"""What an empty cluster is given: Argo's CRDs and RBAC, its ConfigMap, and the lab's own rights.

Argo's parts are read from its Go module, so they are those of the version that runs; only names of
objects that the module leaves to kustomize (the namespace) are filled in.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from lab import apis, errors
from lab.controlplane import certificates

NAMESPACE = "argo"
DONE_WITHIN_S = 60.0
Object = dict[str, Any]

COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}

IMAGES = {
    "argoproj/argosay:v1": {"entrypoint": ["cowsay"]},
    "argoproj/argosay:v2": {"entrypoint": ["/argosay"]},
    "docker/whalesay:latest": {"entrypoint": [""], "cmd": ["cowsay"]},
    "alpine/git:v2.26.2": {"entrypoint": ["git"]},
    "influxdb:1.2": {"entrypoint": ["/entrypoint.sh"], "cmd": ["influxd"]},
    "nginx:1.13": {"cmd": ["nginx", "-g", "daemon off;"]},
    "remuslazar/gnuplot": {"entrypoint": ["gnuplot"]},
    "golang:1.18": {"cmd": ["bash"]},
    "debian": {"cmd": ["bash"]},
    "ubuntu": {"cmd": ["bash"]},
    "alpine": {"cmd": ["sh"]},
    "alpine:3.23": {"cmd": ["sh"]},
}
"""What the images of Argo's examples run where a template names no command: nothing here can ask a
registry."""

ARTIFACT_REPOSITORY = {
    "archiveLogs": True,
    "s3": {
        "bucket": "lab",
        "endpoint": "artifacts.lab.invalid",
        "insecure": True,
        # As with a cloud's own identities: no namespace needs a Secret with keys.
        "useSDKCreds": True,
    },
}
"""An S3 store that only the simulated kubelet plays; `.invalid` never resolves."""


def argo_crds(folder: Path, *, full: bool) -> list[Object]:
    """Return Argo's CRDs: `minimal` take any content, `full` check it and cost the API server."""
    kind = "full" if full else "minimal"
    return list(_read(sorted((folder / "crds" / kind).glob("argo*.yaml"))))


def argo_objects(folder: Path) -> list[Object]:
    """Return what Argo's controller needs beside CRDs and ConfigMap, namespace first."""
    objects: list[Object] = [_named("v1", "Namespace", NAMESPACE)]
    for item in _read(sorted((folder / "rbac").glob("*.yaml"))):
        for subject in item.get("subjects", ()):
            subject.setdefault("namespace", NAMESPACE)
        objects.append(item)
    return [*objects, *executor_rights()]


def argo_settings(*, metrics_port: int) -> Object:
    """Return the ConfigMap that the controller reads."""
    parts = {
        "executor": {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}},
        "images": IMAGES,
        "metricsConfig": {
            "enabled": True,
            "path": "/metrics",
            "port": metrics_port,
            "secure": False,
        },
        "artifactRepository": ARTIFACT_REPOSITORY,
    }
    settings = _named("v1", "ConfigMap", "workflow-controller-configmap")
    settings["metadata"]["namespace"] = NAMESPACE
    settings["data"] = {key: yaml.safe_dump(value) for key, value in parts.items()}
    return settings


def executor_rights() -> list[Object]:
    """Return what Argo's quick start gives its executors, here for any ServiceAccount."""
    rules = [
        _rule("argoproj.io", ["workflowtaskresults"], ["create", "patch"]),
        _rule("argoproj.io", ["workflowtasksets"], ["list", "watch"]),
        _rule("argoproj.io", ["workflowtasksets/status"], ["patch"]),
        _rule("argoproj.io", ["workflowartifactgctasks"], ["list", "watch"]),
        _rule("argoproj.io", ["workflowartifactgctasks/status"], ["patch"]),
        _rule("", ["configmaps"], ["create", "get", "update"]),
    ]
    role = _rbac("ClusterRole", "tiphys-lab:executor")
    role["rules"] = rules
    return [
        role,
        _binding("tiphys-lab:executor", {"kind": "Group", "name": "system:serviceaccounts"}),
    ]


def lab_rights() -> list[Object]:
    """Return the rights of the lab's own node programs.

    They stand for every node and, by Argo's `resource` templates, for whatever a pod creates: no
    narrower role holds all of that. Each has its own name in the audit log.
    """
    return [
        _binding(
            f"tiphys-lab:{client.file}",
            {"kind": "User", "name": client.user},
            role="cluster-admin",
        )
        for client in certificates.CLIENTS
        if client.file in ("kubelet", "processnode")
    ]


def path(item: Object) -> str:
    """Return the path of one object; objects that name no namespace belong to Argo's."""
    namespace = item["metadata"].get("namespace", NAMESPACE)
    collection = COLLECTIONS[item["kind"]].format(namespace=namespace)
    return f"{collection}/{item['metadata']['name']}"


async def apply(api: apis.Api, objects: Iterable[Object]) -> None:
    """Apply objects one after the other."""
    for item in objects:
        await api.apply(path(item), item)


async def apply_crds(api: apis.Api, crds: list[Object]) -> None:
    """Apply CRDs and wait until the API server serves each."""
    await asyncio.gather(*(api.apply(path(crd), crd) for crd in crds))
    for crd in crds:
        await _until(api, path(crd), _established, what=f"serve {crd['metadata']['name']}")


async def accounts_exist(api: apis.Api, namespaces: Iterable[str]) -> None:
    """Wait for the default ServiceAccounts: without one a namespace refuses every pod."""
    for namespace in namespaces:
        collection = COLLECTIONS["ServiceAccount"].format(namespace=namespace)
        what = f"make ServiceAccount `default` in namespace {namespace!r}"
        await _until(api, f"{collection}/default", bool, what=what)


async def _until(api: apis.Api, path: str, done: Callable[[Object], bool], *, what: str) -> None:
    """Read an object until it is as wished; raises `StartError` after `DONE_WITHIN_S`."""
    until = time.monotonic() + DONE_WITHIN_S
    while True:
        try:
            if done(await api.get(path)):
                return
        except apis.ApiError as error:
            if error.status != 404:
                raise
        if time.monotonic() > until:
            raise errors.StartError(f"the control plane did not {what} in {DONE_WITHIN_S:.0f} s")
        await asyncio.sleep(0.05)


def _established(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def _read(paths: Iterable[Path]) -> Iterator[Object]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in paths:
        for item in yaml.load_all(file.read_text(), Loader=loader):
            if item and item.get("kind") in COLLECTIONS:
                yield item


def _named(version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _rbac(kind: str, name: str) -> Object:
    return _named("rbac.authorization.k8s.io/v1", kind, name)


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _binding(name: str, subject: Object, *, role: str | None = None) -> Object:
    binding = _rbac("ClusterRoleBinding", name)
    group = "rbac.authorization.k8s.io"
    binding["roleRef"] = {"apiGroup": group, "kind": "ClusterRole", "name": role or name}
    binding["subjects"] = [{"apiGroup": group, **subject}]
    return binding
