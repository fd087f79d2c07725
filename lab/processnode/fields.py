"""The downward API: a pod's own fields and its containers' resources, as text."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab import apis
from tiphys.models.domain import quantities

_KEYED = re.compile(r"(metadata\.(?:labels|annotations))\['([^']+)'\]")


class UnknownError(ValueError):
    """A field that does not exist; `str()` names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is known of a pod before it runs, beside its object."""

    pod_ip: str
    node: str
    node_ip: str
    allocatable: Mapping[str, str]
    """Quantities of the node: what a container without a limit could take."""


def field(pod: apis.Object, path: str, *, place: Place) -> str:
    """Return the text of a `fieldRef`; raises `UnknownError`."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _KEYED.fullmatch(path):
        kind, key = match.groups()
        return str((metadata.get(kind.partition(".")[2]) or {}).get(key, ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata[path.partition(".")[2]])
        case "metadata.labels" | "metadata.annotations":
            return _mapping(metadata.get(path.partition(".")[2]) or {})
        case "spec.nodeName":
            return place.node
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName", "default"))
        case "status.hostIP" | "status.hostIPs":
            return place.node_ip
        case "status.podIP" | "status.podIPs":
            return place.pod_ip
    raise UnknownError(f"the downward API has no field {path!r}")


def resource(pod: apis.Object, reference: apis.Object, *, container: str = "", place: Place) -> str:
    """Return the text of a `resourceFieldRef`, rounded up to its divisor; raises `UnknownError`."""
    name = reference.get("containerName") or container
    every = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    owner = next((item for item in every if item["name"] == name), None)
    if owner is None:
        raise UnknownError(
            f"resourceFieldRef names container {name!r}, which the pod does not have"
        )
    kind, _, what = str(reference["resource"]).partition(".")
    if kind not in ("limits", "requests"):
        raise UnknownError(f"the downward API has no resource {reference['resource']!r}")
    given = (owner.get("resources") or {}).get(kind) or {}
    fallback = place.allocatable.get(what, "0") if kind == "limits" else "0"
    amount = quantities.parse(given.get(what, fallback))
    divisor = quantities.parse(reference.get("divisor") or "1") or 1
    return str(math.ceil(amount / divisor))


def _mapping(content: Mapping[str, str]) -> str:
    """Return `key="value"` lines, values quoted as Go would."""
    return "\n".join(
        f"{key}={json.dumps(content[key], ensure_ascii=False)}" for key in sorted(content)
    )
