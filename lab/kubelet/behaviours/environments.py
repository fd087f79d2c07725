"""A container's environment: literal values, references to the API, `$(NAME)` in both directions.

Semantics of the kubelet: later entries win, `$(NAME)` is replaced by an earlier variable, `$$`
stands for `$`, an unknown name stays as it is written.
"""

import base64
import re

from lab import apis
from lab.kubelet.behaviours import pods
from lab.processnode import fields

REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")


class MissingReferenceError(Exception):
    """A ConfigMap, a Secret or a key of one is not there (yet), or is no text where it must be."""


async def resolve(
    api: apis.Api, pod: apis.Object, container: apis.Object, *, address: str
) -> dict[str, str]:
    """Return the environment of one container; `address` is the pod's IP.

    Raises `MissingReferenceError` where a reference that is not optional leads nowhere.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix") or ""
        kind, reference = next(
            (kind, source[kind]) for kind in ("configMapRef", "secretRef") if kind in source
        )
        data = await contents(api, pod, kind.removesuffix("Ref"), reference)
        found.update({prefix + name: _text(data or {}, name) for name in data or {}})
    for entry in container.get("env") or []:
        if "valueFrom" not in entry:
            found[entry["name"]] = expand(str(entry.get("value") or ""), found)
            continue
        value = await _referenced(api, pod, container, entry["valueFrom"], address=address)
        if value is not None:
            found[entry["name"]] = value
    return found


def expand(text: str, environment: dict[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value."""

    def replace(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        return environment.get(match.group(2), match.group(0))

    return REFERENCE.sub(replace, text)


async def contents(
    api: apis.Api, pod: apis.Object, kind: str, reference: apis.Object, *, binary: bool = False
) -> dict[str, bytes] | None:
    """Return the data of a `configMap` or `secret`; None for an optional one that is missing.

    `binary`: with `binaryData`, which files show and variables never do.
    """
    plural = {"configMap": "configmaps", "secret": "secrets"}[kind]
    name = reference.get("name") or reference.get("secretName")
    namespace = pod["metadata"]["namespace"]
    try:
        found = await api.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}")
    except apis.ApiError as error:
        if error.status != 404:
            raise
        if reference.get("optional"):
            return None
        word = "configmap" if kind == "configMap" else "secret"
        raise MissingReferenceError(f'{word} "{name}" not found') from error
    raw = (found.get("binaryData") or {}) if binary else {}
    data = {key: base64.b64decode(value) for key, value in raw.items()}
    for key, value in (found.get("data") or {}).items():
        data[key] = base64.b64decode(value) if kind == "secret" else value.encode()
    return data


async def _referenced(
    api: apis.Api,
    pod: apis.Object,
    container: apis.Object,
    source: apis.Object,
    *,
    address: str,
) -> str | None:
    for field, kind in (("configMapKeyRef", "configMap"), ("secretKeyRef", "secret")):
        if reference := source.get(field):
            data = await contents(api, pod, kind, reference)
            if data is not None and reference["key"] in data:
                return _text(data, reference["key"])
            if reference.get("optional"):
                return None
            raise MissingReferenceError(
                f"couldn't find key {reference['key']} in {kind} "
                f"{pod['metadata']['namespace']}/{reference['name']}"
            )
    if reference := source.get("fieldRef"):
        return pod_field(pod, reference["fieldPath"], address=address)
    if reference := source.get("resourceFieldRef"):
        return await resource_field(api, pod, reference, container=container["name"])
    return None


def _text(data: dict[str, bytes], key: str) -> str:
    try:
        return data[key].decode()
    except UnicodeDecodeError as error:
        raise MissingReferenceError(
            f"key {key} is not UTF-8 text, so no variable can hold it: mount it as a file"
        ) from error


async def resource_field(
    api: apis.Api, pod: apis.Object, reference: apis.Object, *, container: str = ""
) -> str:
    """Return a container's request or limit as the downward API tells it: in its divisor's units.

    What has no limit may take all that its node gives to pods.
    """
    node = await api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    place = fields.Place(
        pod_ip="",
        node=pod["spec"]["nodeName"],
        node_ip="",
        allocatable=node["status"]["allocatable"],
    )
    return fields.resource(pod, reference, container=container, place=place)


def pod_field(pod: apis.Object, path: str, *, address: str) -> str:
    """Return one field of the downward API."""
    if match := re.fullmatch(r"metadata\.(labels|annotations)(?:\['(.+)'\])?", path):
        values = pod["metadata"].get(match.group(1)) or {}
        if match.group(2):
            return str(values.get(match.group(2), ""))
        return "\n".join(f'{name}="{value}"' for name, value in sorted(values.items()))
    if path in ("status.podIP", "status.podIPs"):
        return address
    if path in ("status.hostIP", "status.hostIPs"):
        return str((pod.get("status") or {}).get("hostIP", ""))
    found = pod
    for part in path.split("."):
        found = found.get(part) or {}
    return str(found or "")


def standard(pod: apis.Object, *, address: str, speed: float) -> dict[str, str]:
    """Return what every container of the lab finds in its environment."""
    namespace, name = pods.key(pod)
    return {
        "PATH": "/opt/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "HOSTNAME": name,
        "PYTHONPATH": "/opt/lab/site",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TIPHYS_LAB_SPEED": f"{speed:g}",
        "TIPHYS_POD_ADDRESS": address,
        "TIPHYS_POD_NAMESPACE": namespace,
    }
