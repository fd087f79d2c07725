"""What a Pod object asks for, and whether this node can give it; pure readings of the spec."""

import shlex
from collections.abc import Iterator

from lab import apis
from lab.processnode import settings

PROJECTED = frozenset({"serviceAccountToken", "configMap", "secret", "downwardAPI"})
VOLUMES = frozenset({"configMap", "secret", "projected", "emptyDir", "downwardAPI", "hostPath"})
DEFAULT_GRACE_S = 30.0


def uid(pod: apis.Object) -> str:
    """Return the uid, which outlives nothing and is never used again."""
    return str(pod["metadata"]["uid"])


def name(pod: apis.Object) -> str:
    """Return `NAMESPACE/NAME`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def path(pod: apis.Object) -> str:
    """Return the path of the object at the API server."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def is_marked(pod: apis.Object) -> bool:
    """Whether the pod is one that shall run here."""
    annotations = pod["metadata"].get("annotations") or {}
    return bool(annotations.get(settings.MARK) == settings.MARKED)


def is_over(pod: apis.Object) -> bool:
    """Whether the pod has ended for good."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_sidecar(container: apis.Object) -> bool:
    """Whether an init container keeps running beside the main ones."""
    return bool(container.get("restartPolicy") == "Always")


def init_containers(pod: apis.Object) -> list[apis.Object]:
    """Return init containers, sidecars among them, in their order."""
    return list(pod["spec"].get("initContainers") or ())


def containers(pod: apis.Object) -> list[apis.Object]:
    """Return the main containers."""
    return list(pod["spec"]["containers"])


def every_container(pod: apis.Object) -> list[apis.Object]:
    """Return init containers and main ones."""
    return [*init_containers(pod), *containers(pod)]


def restart_policy(pod: apis.Object, container: apis.Object) -> str:
    """Return `Always`, `OnFailure` or `Never` for one container."""
    if own := container.get("restartPolicy"):
        return str(own)
    policy = str(pod["spec"].get("restartPolicy", "Always"))
    # An init container that ended well is not run again, whatever the pod says.
    initial = any(item["name"] == container["name"] for item in init_containers(pod))
    return "OnFailure" if initial and policy == "Always" else policy


def grace_s(pod: apis.Object) -> float:
    """Return how long the pod's containers may take to end."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_S if asked is None else float(asked)


def hostname(pod: apis.Object) -> str:
    """Return the host name that its processes see."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


def port(container: apis.Object, wanted: int | str) -> int | None:
    """Return the number of a port given by number or by name; None if it names none."""
    if isinstance(wanted, int):
        return wanted
    for item in container.get("ports") or ():
        if item.get("name") == wanted:
            return int(item["containerPort"])
    return int(wanted) if wanted.isdigit() else None


def objection(pod: apis.Object) -> str:
    """Return why this node will not run the pod, as one sentence; empty if it will."""
    if not is_marked(pod):
        return (
            f"this node only runs pods annotated {settings.MARK}: {settings.MARKED}; "
            f"annotate the pod, or take the toleration of {settings.NODE_LABEL} away"
        )
    return next(_objections(pod), "")


def _objections(pod: apis.Object) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        kinds = set(volume) - {"name"}
        if unknown := sorted(kinds - VOLUMES):
            yield (
                f"volume {volume['name']!r} is of kind {unknown[0]}, which processes cannot have; "
                f"use one of {', '.join(sorted(VOLUMES))}"
            )
        for source in (volume.get("projected") or {}).get("sources") or ():
            if unknown := sorted(set(source) - PROJECTED):
                yield (
                    f"volume {volume['name']!r} projects {unknown[0]}; "
                    f"only {', '.join(sorted(PROJECTED))} can be projected here"
                )
    for container in every_container(pod):
        probes = [container.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness")]
        if any(probe and "grpc" in probe for probe in probes):
            yield (
                f"container {container['name']!r} has a grpc probe, which this node cannot make; "
                "use httpGet, tcpSocket or exec"
            )
        if container.get("volumeDevices"):
            yield f"container {container['name']!r} wants a block device, which it cannot have here"


def shown_command(command: list[str]) -> str:
    """Return a command as a person would type it."""
    return shlex.join(command)
