"""What the watch on pods tells, decoded only as far as a kubelet looks at it.

Half of a pod's JSON says who set which field (`managedFields`), and most of the rest is a spec that
is known already. A pod changes some eight times; decoding all of it each time costs three times as
much, and throwing it away costs again.
"""

from typing import Any, TypedDict, cast

import msgspec

from lab import apis


class _Metadata(TypedDict, total=False):
    """All but `managedFields`."""

    name: str
    generateName: str
    namespace: str
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str
    deletionTimestamp: str
    deletionGracePeriodSeconds: int
    labels: dict[str, str]
    annotations: dict[str, str]
    ownerReferences: list[dict[str, Any]]
    finalizers: list[str]


class _Pod(TypedDict, total=False):
    metadata: _Metadata
    spec: msgspec.Raw
    status: dict[str, Any]


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_decoder = msgspec.json.Decoder(_Event)


def event(line: bytes) -> tuple[str, apis.Object]:
    """Return the kind and the object of a line of the watch; see `complete` about its spec."""
    try:
        told = _decoder.decode(line)
    except msgspec.ValidationError:
        # No pod but an error or a bookmark.
        return apis.event(line)
    return told.type, cast("apis.Object", told.object)


def complete(item: apis.Object, *, before: apis.Object | None) -> None:
    """Give a pod its spec: the one of its object `before` while that holds, else decode it.

    A spec changes with the pod's generation only (requests by a resize, the deadline), and of a
    pod that is over nobody looks at it any more.
    """
    spec = item["spec"]
    if not isinstance(spec, msgspec.Raw):
        return
    if before is not None and "spec" not in before:
        item["spec"] = {}
    elif before is not None and _generation(before) == _generation(item):
        item["spec"] = before["spec"]
    else:
        item["spec"] = msgspec.json.decode(spec)


def _generation(item: apis.Object) -> int:
    return int(item["metadata"].get("generation", 0))
