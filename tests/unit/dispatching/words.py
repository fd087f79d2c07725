"""Words on pods, as an operator signs them."""

import dataclasses
from typing import Any

from tiphys.models.domain import decisions
from tiphys.models.wire import keys, signatures, stamps
from tiphys.operator import objects

PLACED = decisions.Placement(group="m5/a", selector=(("node.kubernetes.io/instance-type", "m5"),))


def signed(
    seen: objects.Seen, ring: keys.Ring, *, issued_at: float, **changes: Any
) -> objects.Seen:
    """Return a pod with a release of its own on it; `changes` are fields of the decision.

    A date that no key of the ring holds at is signed by its newest one all the same.
    """
    given: dict[str, Any] = {
        "id": "d-aaaaaaaaaaaaaaaaaaaa",
        "verdict": decisions.Verdict.RELEASE,
        "pod": seen.pod.key,
        "pod_uid": seen.pod.uid,
        "workflow_uid": seen.pod.workflow_uid,
        "issued_at": issued_at,
        **changes,
    }
    stamp = stamps.encode(decisions.Decision(**given))
    signature = signatures.sign(ring, stamp, ring.keys[-1].not_before)
    if given["verdict"] is decisions.Verdict.RELEASE:
        names = (decisions.RELEASE_ANNOTATION, decisions.RELEASE_SIGNATURE)
    else:
        names = (decisions.ANNOTATION, decisions.SIGNATURE)
    annotations = tuple(zip(names, (stamp.decode(), signature), strict=True))
    return dataclasses.replace(seen, annotations=annotations)
