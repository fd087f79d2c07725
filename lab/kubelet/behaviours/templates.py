"""The Argo template that a pod carries: outputs, artifacts and where artifacts lie.

Templates are Argo's JSON; only what the lab acts on is read. Pure but for `read`, which fetches a
template that was too large for the pod (Argo then keeps it in a ConfigMap named like the pod).
"""

import posixpath
from typing import Any

import msgspec

from lab import apis
from lab.kubelet.behaviours import pods

Template = dict[str, Any]
Artifact = dict[str, Any]

VARIABLE = "ARGO_TEMPLATE"
OFFLOADED = "offloaded"
LOCATIONS = (
    "artifactory",
    "azure",
    "git",
    "gcs",
    "hdfs",
    "http",
    "oss",
    "raw",
    "s3",
    "plugin",
)
"""Kinds of artifact locations, in the order in which Argo looks for one."""
KEY_FIELD = {
    "artifactory": "url",
    "azure": "blob",
    "gcs": "key",
    "hdfs": "path",
    "http": "url",
    "oss": "key",
    "s3": "key",
    "plugin": "key",
}
REQUIRED = {
    "artifactory": ("url",),
    "azure": ("container", "blob"),
    "git": ("repo",),
    "gcs": ("bucket", "key"),
    "hdfs": ("addresses", "path"),
    "http": ("url",),
    "oss": ("bucket", "endpoint", "key"),
    "raw": ("data",),
    "s3": ("endpoint", "bucket", "key"),
    "plugin": ("name", "key"),
}
"""What a location needs besides its key to be whole; a location of only a key is completed from
the template's archive location."""


async def read(api: apis.Api, pod: apis.Object) -> Template:
    """Return the pod's template; empty for a pod that carries none."""
    text = pods.variable(pod, VARIABLE)
    if text == OFFLOADED:
        namespace, name = pods.key(pod)
        found = await api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        text = found["data"][VARIABLE]
    template: Template = msgspec.json.decode(text) if text else {}
    return template


def main_names(template: Template) -> list[str]:
    """Return the names of the containers whose end is the end of the task."""
    containers = (template.get("containerSet") or {}).get("containers")
    return [container["name"] for container in containers] if containers else [pods.MAIN]


def dependencies(template: Template, container: str) -> list[str]:
    """Return the containers of a set that must end well before `container` starts."""
    for entry in (template.get("containerSet") or {}).get("containers") or []:
        if entry["name"] == container:
            return list(entry.get("dependencies") or [])
    return []


def mounts(template: Template) -> list[dict[str, Any]]:
    """Return the volume mounts that the user gave the main container or the container set."""
    for kind in ("container", "script", "containerSet"):
        if body := template.get(kind):
            return list(body.get("volumeMounts") or [])
    return []


def overlapping_mount(template: Template, path: str) -> dict[str, Any] | None:
    """Return the user's mount that holds `path`, the deepest where several do."""
    found = [
        mount
        for mount in mounts(template)
        if path == mount["mountPath"].rstrip("/")
        or path.startswith(mount["mountPath"].rstrip("/") + "/")
    ]
    return max(found, key=lambda mount: len(mount["mountPath"]), default=None)


def parameters(template: Template) -> list[dict[str, Any]]:
    """Return the output parameters."""
    return list((template.get("outputs") or {}).get("parameters") or [])


def output_artifacts(template: Template) -> list[Artifact]:
    """Return the output artifacts."""
    return list((template.get("outputs") or {}).get("artifacts") or [])


def input_artifacts(template: Template) -> list[Artifact]:
    """Return the input artifacts."""
    return list((template.get("inputs") or {}).get("artifacts") or [])


def location(artifact: Artifact) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and body of where an artifact lies, or None where it says nothing."""
    for kind in LOCATIONS:
        if artifact.get(kind) is not None:
            return kind, artifact[kind]
    return None


def is_whole(artifact: Artifact) -> bool:
    """Whether the artifact's location can be used as it stands."""
    found = location(artifact)
    return found is not None and all(found[1].get(field) for field in REQUIRED[found[0]])


def key(artifact: Artifact) -> str:
    """Return the key of the artifact's location; empty where it has none."""
    found = location(artifact)
    if found is None or found[0] not in KEY_FIELD:
        return ""
    return str(found[1].get(KEY_FIELD[found[0]]) or "")


def has_location_or_key(artifact: Artifact) -> bool:
    """Whether there is anything to load."""
    return is_whole(artifact) or bool(key(artifact))


def relocated(artifact: Artifact, template: Template) -> Artifact:
    """Return the artifact with a whole location: its own, or its key in the archive location.

    Raises `LookupError` with Argo's words where the template has no archive location.
    """
    if is_whole(artifact):
        return artifact
    found = location(template.get("archiveLocation") or {})
    if found is None:
        raise LookupError("template artifact location not set")
    kind, body = found
    rest = {name: value for name, value in artifact.items() if name not in LOCATIONS}
    return {**rest, kind: {**body, KEY_FIELD[kind]: key(artifact)}}


def keyed(artifact: Artifact, template: Template, *, file: str) -> Artifact:
    """Return an output artifact with a key: its own, or `file` below the archive location's key.

    As Argo does, only the key is added; everything else stays in the archive location. Raises
    `LookupError` where no artifact repository is configured.
    """
    if key(artifact):
        return artifact
    found = location(template.get("archiveLocation") or {})
    if found is None:
        raise LookupError(
            "artifact storage is not configured; see the docs for setup instructions: "
            "https://argo-workflows.readthedocs.io/en/latest/configure-artifact-repository/"
        )
    kind, body = found
    field = KEY_FIELD[kind]
    return {**artifact, kind: {field: posixpath.join(str(body.get(field) or ""), file)}}


def saves_logs(template: Template) -> bool:
    """Whether the containers' logs become artifacts."""
    return bool((template.get("archiveLocation") or {}).get("archiveLogs"))


def has_result(template: Template) -> bool:
    """Whether the main container's output may be the template's result."""
    return any(kind in template for kind in ("container", "script", "data", "http", "plugin")) or (
        pods.MAIN in main_names(template)
    )
