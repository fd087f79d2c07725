"""Reading a pod: which of its containers are Argo's, which are the user's, and what each is for.

Pure. Argo's words (names, annotations, environment) stand here and in `templates`, nowhere else.
Source of the facts: argo-workflows v4.0.5, `workflow/common/common.go`, `workflowpod.go`.
"""

import enum
from collections.abc import Iterator

from lab import apis

NODE_ID = "workflows.argoproj.io/node-id"
NODE_NAME = "workflows.argoproj.io/node-name"
WORKFLOW = "workflows.argoproj.io/workflow"
COMPONENT = "workflows.argoproj.io/component"
MAIN, INIT, WAIT = "main", "init", "wait"
PLUGIN_SIDECAR, PLUGIN_INIT = "artifact-plugin-", "init-artifact-"
EMISSARY = ["/var/run/argo/argoexec", "emissary"]


class Kind(enum.Enum):
    """What a pod is, told by its labels and commands."""

    TASK = "task"
    """Argo's container, script and container set templates: user commands between init and wait."""
    RESOURCE = "resource"
    DATA = "data"
    AGENT = "agent"
    ARTIFACT_GC = "artifact-gc"
    PLAIN = "plain"
    """Not Argo's: of a Job, a StatefulSet, a Deployment, or a person."""


def kind(pod: apis.Object) -> Kind:
    """Return what the pod is."""
    metadata = pod["metadata"]
    component = (metadata.get("labels") or {}).get(COMPONENT)
    if component == "agent":
        return Kind.AGENT
    if component == "artifact-gc":
        return Kind.ARTIFACT_GC
    if NODE_ID not in (metadata.get("annotations") or {}):
        return Kind.PLAIN
    for container in pod["spec"]["containers"]:
        if container["name"] == MAIN:
            # The executor itself is the main container of resource and data templates.
            words = argoexec_words(container)
            if words[:1] == ["resource"]:
                return Kind.RESOURCE
            if words[:1] == ["data"]:
                return Kind.DATA
    return Kind.TASK


def argoexec_words(container: apis.Object) -> list[str]:
    """Return what follows `argoexec` in a container that runs the executor (past the emissary)."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if words[:2] == EMISSARY:
        words = words[words.index("--") + 1 :] if "--" in words else []
    if not words or words[0].rsplit("/", 1)[-1] != "argoexec":
        return []
    return words[1:]


def is_argo(name: str) -> bool:
    """Whether a container is a part of Argo's executor that the lab does itself."""
    return name in (INIT, WAIT) or name.startswith((PLUGIN_SIDECAR, PLUGIN_INIT))


def user_containers(pod: apis.Object) -> Iterator[apis.Object]:
    """Yield the containers whose commands are the user's, in the order of the pod."""
    for container in pod["spec"]["containers"]:
        if not (kind(pod) is not Kind.PLAIN and is_argo(container["name"])):
            yield container


def user_inits(pod: apis.Object) -> Iterator[apis.Object]:
    """Yield the init containers whose commands are the user's, in the order of the pod."""
    for container in pod["spec"].get("initContainers") or []:
        if not (kind(pod) is not Kind.PLAIN and is_argo(container["name"])):
            yield container


def command(container: apis.Object) -> tuple[list[str], list[str] | None]:
    """Return a container's own command and args, without the emissary that Argo puts before it.

    The command is empty where the image decides; args is None where they are not given.
    """
    words = list(container.get("command") or [])
    if words[:2] == EMISSARY:
        words = words[words.index("--") + 1 :]
    return words, container.get("args")


def variable(pod: apis.Object, name: str) -> str | None:
    """Return the first literal value of an environment variable in any container of the pod."""
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        for entry in container.get("env") or []:
            if entry["name"] == name and "value" in entry:
                return str(entry["value"])
    return None


def key(pod: apis.Object) -> tuple[str, str]:
    """Return namespace and name."""
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def collection(pod: apis.Object, plural: str, *, group: str = "argoproj.io/v1alpha1") -> str:
    """Return the API path of a collection in the pod's namespace."""
    return f"/apis/{group}/namespaces/{pod['metadata']['namespace']}/{plural}"
