"""Bodies of the decision API, `POST /v1/decisions`, and the whole decision as JSON.

A request carries the pod as the API server sent it. A response carries the whole decision (for
logs) and the stamp with its own signature (for the pod). Each body is signed as it stands, in the
header `signatures.HEADER`. Whoever reads one checks the signature first, then decodes.
"""

import dataclasses
import json
from collections.abc import Mapping

from tiphys.models.domain import decisions, errors
from tiphys.models.wire import fields

API_VERSION = "tiphys.dev/v1alpha1"
PATH = "/v1/decisions"
REQUEST = "DecisionRequest"
RESPONSE = "DecisionResponse"
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode
"""Escaped, text that is not English would take up to three times its bytes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question: what about this pod?"""

    admission_uid: str
    """Of the webhook's call; the API server makes a new one for each call."""
    namespace: str
    pod: Mapping[str, object]
    """The object of the admission review, with its name, before any of our fields."""
    dry_run: bool = False
    """Nothing may be kept of it."""
    issued_at: float
    """Unix seconds."""
    nonce: str
    """Text of at least 128 random bits; the answer repeats it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer."""

    admission_uid: str
    nonce: str
    decision: decisions.Decision
    stamp: str
    """Canonical text of `stamps.encode(decision)`."""
    stamp_signature: str
    """Detached JWS over the bytes of `stamp`."""


def encode_request(request: Request) -> bytes:
    """Return the body."""
    return _dump(
        {
            "apiVersion": API_VERSION,
            "kind": REQUEST,
            "admissionUid": request.admission_uid,
            "namespace": request.namespace,
            "dryRun": request.dry_run,
            "pod": request.pod,
            "issuedAt": request.issued_at,
            "nonce": request.nonce,
        }
    )


def decode_request(body: bytes) -> Request:
    """Read a body.  Raises `errors.InputError`."""
    found = _load(body, kind=REQUEST)
    return Request(
        admission_uid=_needed(found, "admissionUid", where=REQUEST),
        namespace=_needed(found, "namespace", where=REQUEST),
        pod=fields.mapping(found.get("pod"), where=f"{REQUEST}.pod"),
        dry_run=fields.flag(found, "dryRun", where=REQUEST),
        issued_at=fields.number(found, "issuedAt", where=REQUEST),
        nonce=_needed(found, "nonce", where=REQUEST),
    )


def encode_response(response: Response) -> bytes:
    """Return the body."""
    return _dump(
        {
            "apiVersion": API_VERSION,
            "kind": RESPONSE,
            "admissionUid": response.admission_uid,
            "nonce": response.nonce,
            "decision": encode_decision(response.decision),
            "stamp": response.stamp,
            "stampSignature": response.stamp_signature,
        }
    )


def decode_response(body: bytes) -> Response:
    """Read a body.  Raises `errors.InputError`."""
    found = _load(body, kind=RESPONSE)
    return Response(
        admission_uid=_needed(found, "admissionUid", where=RESPONSE),
        nonce=_needed(found, "nonce", where=RESPONSE),
        decision=decode_decision(
            fields.mapping(found.get("decision"), where=f"{RESPONSE}.decision")
        ),
        stamp=_needed(found, "stamp", where=RESPONSE),
        stamp_signature=_needed(found, "stampSignature", where=RESPONSE),
    )


def encode_decision(decision: decisions.Decision) -> dict[str, object]:
    """Return the whole decision as plain JSON values, for a body, a log or a store."""
    found = {key: getattr(decision, name) for name, key in _KEYS.items()}
    found["verdict"], found["arm"] = str(decision.verdict), str(decision.arm)
    found["placement"] = {
        "group": decision.placement.group,
        "selector": dict(decision.placement.selector),
        "bind": decision.placement.bind,
    }
    for name, keys in _ROWS.items():
        rows = getattr(decision, name)
        found[name] = [{key: getattr(row, each) for each, key in keys.items()} for row in rows]
    return found


def decode_decision(found: Mapping[str, object]) -> decisions.Decision:
    """Read a whole decision; unknown fields are refused.  Raises `errors.InputError`."""
    where = "decision"
    if unknown := found.keys() - _FIELDS:
        raise errors.InputError(f"{where}: unknown field {sorted(unknown)[0][:40]!r}")
    rows = {
        name: [
            fields.mapping(row, where=f"{where}.{name}[{place}]")
            for place, row in enumerate(fields.listed(found, name, where=where))
        ]
        for name in _ROWS
    }
    texts = {name: fields.text(found, _KEYS[name], where=where) for name in _TEXTS}
    return decisions.Decision(
        **texts,
        verdict=fields.choice(found, "verdict", decisions.Verdict, where=where),
        arm=fields.choice(found, "arm", decisions.Arm, where=where, default=decisions.Arm.STABLE),
        snapshot_version=fields.whole(found, "snapshotVersion", where=where),
        snapshot_age_s=fields.number(found, "snapshotAgeS", where=where),
        sizings=tuple(_sizing(row) for row in rows["sizings"]),
        placement=fields.placement(
            fields.mapping(found.get("placement", {}), where=f"{where}.placement"),
            where=f"{where}.placement",
        ),
        rank=fields.whole(found, "rank", where=where),
        candidates=tuple(
            decisions.Candidate(
                group=fields.text(row, "group", where="candidate"),
                score=fields.number(row, "score", where="candidate"),
                why=fields.text(row, "why", where="candidate"),
            )
            for row in rows["candidates"]
        ),
        masked=tuple(
            decisions.Masked(
                group=fields.text(row, "group", where="masked"),
                why=fields.text(row, "why", where="masked"),
            )
            for row in rows["masked"]
        ),
        issued_at=fields.number(found, "issuedAt", where=where),
        expires_at=fields.number(found, "expiresAt", where=where),
    )


def _sizing(row: Mapping[str, object]) -> decisions.Sizing:
    where = "sizing"
    return decisions.Sizing(
        container=fields.text(row, "container", where=where),
        cpu_m=fields.whole(row, "cpuM", where=where),
        memory_bytes=fields.whole(row, "memoryBytes", where=where),
        original_cpu_m=fields.whole(row, "originalCpuM", where=where),
        original_memory_bytes=fields.whole(row, "originalMemoryBytes", where=where),
    )


def _needed(found: Mapping[str, object], key: str, *, where: str) -> str:
    value = fields.text(found, key, where=where)
    if not value:
        raise errors.InputError(f"{where}.{key}: missing")
    return value


def _load(body: bytes, *, kind: str) -> Mapping[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise errors.InputError(f"{kind}: no JSON ({error})") from error
    found = fields.mapping(found, where=kind)
    if (found.get("apiVersion"), found.get("kind")) != (API_VERSION, kind):
        raise errors.InputError(f"{kind}: expected apiVersion {API_VERSION} and kind {kind}")
    return found


def _dump(found: Mapping[str, object]) -> bytes:
    try:
        return _ENCODE(found).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.InputError(f"{found['kind']}: cannot be written as JSON ({error})") from error


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_KEYS = {field.name: _camel(field.name) for field in dataclasses.fields(decisions.Decision)}
_FIELDS = frozenset(_KEYS.values())
_ROWS = {
    "sizings": {name: _camel(name) for name in decisions.Sizing.__slots__},
    "candidates": {name: _camel(name) for name in decisions.Candidate.__slots__},
    "masked": {name: _camel(name) for name in decisions.Masked.__slots__},
}
_TEXTS = tuple(field.name for field in dataclasses.fields(decisions.Decision) if field.type is str)
