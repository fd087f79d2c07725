"""AdmissionReview v1: what is read of a request, and how an answer is written.

Whatever comes in gives a `Review` or `errors.InputError`; nothing else is raised.
"""

import base64
import dataclasses
from collections.abc import Mapping, Sequence

import orjson

from tiphys.models.domain import errors

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
LONGEST_NOTE = 256
LONGEST_UID = 128
MOST_ANNOTATION_BYTES = 256 * 1024
"""Names and values of an object's annotations; Kubernetes refuses more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One admission request."""

    uid: str
    """Of this call: the API server makes another for each webhook and each reinvocation."""
    operation: str
    kind: str
    sub_resource: str
    namespace: str
    dry_run: bool
    pod: Mapping[str, object]
    """The object; empty where the request has none."""

    @property
    def creates_pod(self) -> bool:
        """Say whether it is the creation of a pod."""
        return (self.operation, self.kind, self.sub_resource) == ("CREATE", "Pod", "")

    @property
    def name(self) -> str:
        """The pod's name; empty while it is yet to be generated."""
        name = metadata(self.pod).get("name")
        return name if isinstance(name, str) else ""


def read(body: bytes) -> Review:
    """Read a request.  Raises `errors.InputError`."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.InputError(f"no JSON: {error}") from error
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise errors.InputError(f"expected kind {KIND}")
    if found.get("apiVersion") != API_VERSION:
        raise errors.InputError(
            f"expected apiVersion {API_VERSION}; name it in admissionReviewVersions"
        )
    request = found.get("request")
    if not isinstance(request, dict):
        raise errors.InputError("request: expected an object")
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= LONGEST_UID:
        raise errors.InputError("request.uid: expected text")
    pod = request.get("object")
    kind = request.get("kind")
    if not isinstance(kind, dict) or not isinstance(pod, dict | None):
        raise errors.InputError("request.kind, request.object: expected objects")
    return Review(
        uid=uid,
        operation=_text(request, "operation"),
        kind=_text(kind, "kind") if _text(kind, "group") == "" else "",
        sub_resource=_text(request, "subResource"),
        namespace=_text(request, "namespace"),
        dry_run=request.get("dryRun") is True,
        pod=pod or {},
    )


def metadata(pod: Mapping[str, object]) -> Mapping[str, object]:
    """Return an object's metadata; empty where it has none that is an object."""
    found = pod.get("metadata")
    return found if isinstance(found, Mapping) else {}


def bound(pod: Mapping[str, object]) -> bool:
    """Say whether the author chose the node: then there may be no gate, and nothing to place."""
    spec = pod.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("nodeName"))


def annotation_bytes(pod: Mapping[str, object]) -> int:
    """Return how much of the room for annotations is taken."""
    found = metadata(pod).get("annotations")
    if not isinstance(found, Mapping):
        return 0
    return sum(len(str(text).encode(errors="replace")) for pair in found.items() for text in pair)


def workflow_uid(pod: Mapping[str, object]) -> str:
    """Return the uid of the Workflow that controls a pod; empty for every other pod."""
    owners = metadata(pod).get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if (
            isinstance(owner, Mapping)
            and owner.get("controller") is True
            and owner.get("kind") == "Workflow"
            and str(owner.get("apiVersion")).startswith("argoproj.io/")
        ):
            uid = owner.get("uid")
            return uid if isinstance(uid, str) else ""
    return ""


def allowed(
    uid: str, *, patch: Sequence[Mapping[str, object]] = (), notes: Mapping[str, str]
) -> bytes:
    """Return an answer that lets the pod in, with a patch; `notes` go into the audit log."""
    response: dict[str, object] = {"uid": uid, "allowed": True, "auditAnnotations": _cut(notes)}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    return _answer(response)


def denied(uid: str, *, message: str, notes: Mapping[str, str]) -> bytes:
    """Return an answer that refuses the pod with 403 and a sentence."""
    status = {"code": 403, "reason": "Forbidden", "message": message}
    return _answer(
        {"uid": uid, "allowed": False, "status": status, "auditAnnotations": _cut(notes)}
    )


def _answer(response: Mapping[str, object]) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _cut(notes: Mapping[str, str]) -> dict[str, str]:
    return {key: text[:LONGEST_NOTE] for key, text in notes.items() if text}


def _text(found: Mapping[str, object], key: str) -> str:
    value = found.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise errors.InputError(f"request…{key}: expected text")
    return value
