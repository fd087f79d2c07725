"""JSON patches on paper: what a decision changed of a pod, made again from what stands on it."""

import copy
from collections.abc import Mapping
from typing import Any

from tiphys.argo import patches
from tiphys.models.domain import decisions, pods

Object = dict[str, Any]


def applied(pod: Mapping[str, Any], patch: patches.Patch) -> Object:
    """Return the pod with a patch applied; `test` is taken to hold."""
    changed: Object = copy.deepcopy(dict(pod))
    for operation in patch:
        if operation["op"] == "test":
            continue
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/")
        ]
        owner: Any = changed
        for part in parents:
            owner = owner[int(part)] if isinstance(owner, list) else owner[part]
        if operation["op"] == "remove":
            del owner[int(last) if isinstance(owner, list) else last]
        elif isinstance(owner, list):
            owner.insert(len(owner) if last == "-" else int(last), operation["value"])
        else:
            owner[last] = copy.deepcopy(operation["value"])
    return changed


def created(pod: Mapping[str, Any], stamp: decisions.Stamp) -> patches.Patch:
    """Return the patch that made the decision at creation, on the pod as it came."""
    bare = _unreleased(pod, None)
    if stamp.verdict is decisions.Verdict.PLACE:
        bare = _unplaced(bare, stamp.placement)
    bare = applied(bare, patches.strip(bare))
    return patches.create(bare, stamp, **_texts(pod, decisions.ANNOTATION, decisions.SIGNATURE))


def released(pod: Mapping[str, Any], stamp: decisions.Stamp) -> patches.Patch:
    """Return the patch that opened the gate, on the pod as it waited."""
    waiting = _unplaced(_unreleased(pod, stamp), stamp.placement)
    texts = _texts(pod, decisions.RELEASE_ANNOTATION, decisions.RELEASE_SIGNATURE)
    return patches.release(waiting, stamp, **texts)


def _texts(pod: Mapping[str, Any], stamp: str, signature: str) -> dict[str, str]:
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return {"stamp": annotations.get(stamp, ""), "signature": annotations.get(signature, "")}


def _unreleased(pod: Mapping[str, Any], stamp: decisions.Stamp | None) -> Object:
    """Return the pod before its gate opened; with a stamp, gated again."""
    found = copy.deepcopy(dict(pod))
    annotations = found["metadata"].get("annotations") or {}
    for name in (decisions.RELEASE_ANNOTATION, decisions.RELEASE_SIGNATURE):
        annotations.pop(name, None)
    if stamp is not None:
        gates = found["spec"].setdefault("schedulingGates", [])
        gates.append({"name": pods.STEERING_GATE})
        found["metadata"].setdefault("labels", {})[decisions.GATED_LABEL] = "true"
    return found


def _unplaced(pod: Mapping[str, Any], placement: decisions.Placement) -> Object:
    found = copy.deepcopy(dict(pod))
    spec = found["spec"]
    selector = spec.get("nodeSelector") or {}
    if placement.bind == "require":
        for name, value in placement.selector:
            if selector.get(name) == value:
                del selector[name]
        if not selector:
            spec.pop("nodeSelector", None)
        return found
    affinity = spec.get("affinity") or {}
    node = affinity.get("nodeAffinity") or {}
    expressions = [{"key": k, "operator": "In", "values": [v]} for k, v in placement.selector]
    ours = {
        "weight": patches.PREFERENCE_WEIGHT,
        "preference": {"matchExpressions": expressions},
    }
    terms = [term for term in node.get(patches.PREFERRED) or () if term != ours]
    if terms:
        node[patches.PREFERRED] = terms
    else:
        node.pop(patches.PREFERRED, None)
    if not node:
        affinity.pop("nodeAffinity", None)
    if not affinity:
        spec.pop("affinity", None)
    return found
