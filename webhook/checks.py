"""Whether a decision on a pod is ours, whole, for this pod and fresh; else which of four it is.

The same rules hold for what the validating webhook finds on a pod and for what the mutating one is
about to write: nothing is ever written that would be refused a moment later.
"""

import enum
from collections.abc import Mapping

from tiphys.argo import patches
from tiphys.models.domain import decisions, errors
from tiphys.models.wire import keys, signatures, stamps
from tiphys.webhook import reviews

AT_CREATE = (decisions.Verdict.GATE, decisions.Verdict.PLACE)


class Fault(enum.StrEnum):
    """What is wrong with a decision."""

    UNSIGNED = "unsigned"
    FOREIGN = "foreign"
    """Signed by a key that is none of ours."""
    ALTERED = "altered"
    """It, or a field that it decided, was changed."""
    REPLAYED = "replayed"
    """Made for another pod or run, taken before, or too old."""


class FaultyError(errors.RefusedError):
    """The decision does not hold; `str()` tells whoever made the pod what to do."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(f"tiphys: {fault} decision: {text}")
        self.fault = fault


class OverwrittenError(FaultyError):
    """A decision of ours, good for this pod and now, of which the pod holds another thing."""

    def __init__(self, decision: str, text: str) -> None:
        """`decision` is its id."""
        super().__init__(Fault.ALTERED, text)
        self.decision = decision


def examine(
    pod: Mapping[str, object], *, namespace: str, ring: keys.Ring, at: float
) -> decisions.Stamp | None:
    """Return the decision on a pod that is being created, None where there is none.

    `at` is now, unix seconds.  Raises `FaultyError`.
    """
    annotations = reviews.metadata(pod).get("annotations")
    ours: dict[str, object] = {}
    if isinstance(annotations, Mapping):
        ours = {name: annotations[name] for name in decisions.WRITTEN if name in annotations}
    if not ours:
        return None
    text, signature = ours.get(decisions.ANNOTATION), ours.get(decisions.SIGNATURE)
    if not isinstance(signature, str) or not signature:
        raise FaultyError(
            Fault.UNSIGNED,
            f"the annotation {decisions.SIGNATURE} is missing; "
            f"create the pod without annotations {', '.join(decisions.WRITTEN)}",
        )
    if not isinstance(text, str):
        raise FaultyError(Fault.ALTERED, f"the annotation {decisions.ANNOTATION} is missing")
    stamp = _verified(text, signature, ring)
    if decisions.RELEASE_ANNOTATION in ours or decisions.RELEASE_SIGNATURE in ours:
        raise FaultyError(
            Fault.REPLAYED, f"{decisions.RELEASE_ANNOTATION} cannot stand on a pod from the start"
        )
    check(stamp, pod, namespace=namespace, at=at)
    try:
        changed = patches.differences(pod, stamp)
    except errors.InputError as error:
        raise FaultyError(Fault.ALTERED, f"the pod of {stamp.id} has no shape: {error}") from error
    if changed:
        raise OverwrittenError(
            stamp.id, f"decision {stamp.id} does not match {', '.join(changed)} of the pod"
        )
    return stamp


def check(stamp: decisions.Stamp, pod: Mapping[str, object], *, namespace: str, at: float) -> None:
    """Check that a decision is for this pod and fresh at `at`, unix seconds: else `FaultyError`."""
    key = f"{namespace}/{reviews.metadata(pod).get('name')}"
    if stamp.pod != key:
        raise FaultyError(
            Fault.REPLAYED, f"decision {stamp.id} was made for pod {stamp.pod}, this is {key}"
        )
    uid = reviews.workflow_uid(pod)
    if not uid or stamp.workflow_uid != uid:
        raise FaultyError(
            Fault.REPLAYED,
            f"decision {stamp.id} was made for another run of the workflow "
            f"(uid {stamp.workflow_uid or 'not named'}, this is {uid or 'no pod of a workflow'})",
        )
    if not stamp.issued_at - keys.SKEW_S <= at <= stamp.expires_at + keys.SKEW_S:
        raise FaultyError(
            Fault.REPLAYED,
            f"decision {stamp.id} was good for {stamp.expires_at - stamp.issued_at:.0f} s and is "
            f"{at - stamp.issued_at:.0f} s old",
        )
    if stamp.verdict not in AT_CREATE:
        raise FaultyError(
            Fault.REPLAYED, f"decision {stamp.id} ({stamp.verdict}) is none for a new pod"
        )


def _verified(text: str, signature: str, ring: keys.Ring) -> decisions.Stamp:
    """Return the stamp whose very text was signed by a key of the ring."""
    try:
        raw = text.encode()
        stamp = stamps.decode(raw)
        signatures.verify(ring, raw, signature, stamp.issued_at)
    except signatures.UnknownKeyError as error:
        raise FaultyError(Fault.FOREIGN, str(error)) from error
    except (errors.RefusedError, errors.InputError, UnicodeEncodeError) as error:
        raise FaultyError(Fault.ALTERED, str(error)) from error
    return stamp
