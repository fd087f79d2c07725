"""The compact decision on a pod: canonical JSON (RFC 8785) of at most 1 KiB, there and back.

Empty fields are left out. Times are unix seconds in whole milliseconds. `sizes` holds for each
container the decided CPU (millicores) and memory (bytes), then both as they were before. When the
text would be too long the reason is cut, never anything else.

The standard library writes the same bytes as RFC 8785 asks for wherever keys are ASCII and numbers
are not extreme, at a tenth of the time; the rest is left to rfc8785 (ADR 0036).
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping

import rfc8785

from tiphys.models.domain import decisions, errors
from tiphys.models.wire import fields

FORMAT = 1
"""Value of `v`; another number means another form of the text."""

_TEXTS = {
    "id": "id",
    "pod": "pod",
    "admission_uid": "admission",
    "pod_uid": "podUid",
    "workflow": "workflow",
    "workflow_uid": "workflowUid",
    "policy": "policy",
    "bundle": "bundle",
    "reason": "reason",
    "nonce": "nonce",
}
_ENCODE = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
).encode
_REMEMBERED = 256
"""Texts whose stamp is kept: the pod that one call of the webhook wrote comes back in the next."""
_KNOWN = {
    *("v", "verdict", "arm", "snapshot", "snapshotAge", "sizes", "placement", "rank"),
    *("issued", "expires", *_TEXTS.values()),
}


def of(decision: decisions.Decision) -> decisions.Stamp:
    """Return the compact form of a decision, its reason cut to what 1 KiB leaves.

    Raises `errors.InputError` when even without a reason it is too long.
    """
    return _cut(_whole(decision))[0]


def encode(decision: decisions.Decision | decisions.Stamp) -> bytes:
    """Return the canonical text.  Raises `errors.InputError` for one that cannot be so short."""
    if isinstance(decision, decisions.Decision):
        return _cut(_whole(decision))[1]
    text = _text(decision)
    if len(text) > decisions.LONGEST_STAMP:
        raise errors.InputError(
            f"decision {decision.id}: {len(text)} bytes, {decisions.LONGEST_STAMP} are allowed"
        )
    return text


def decode(text: bytes | str) -> decisions.Stamp:
    """Read a stamp; only canonical text of this form is taken.  Raises `errors.InputError`."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    if len(raw) > decisions.LONGEST_STAMP:
        raise errors.InputError(f"stamp: longer than {decisions.LONGEST_STAMP} bytes")
    return _decoded(raw)


@functools.lru_cache(maxsize=_REMEMBERED)
def _decoded(raw: bytes) -> decisions.Stamp:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise errors.InputError(f"stamp: no JSON ({error})") from error
    stamp = _stamp(fields.mapping(found, where="stamp"))
    if _text(stamp) != raw:
        raise errors.InputError("stamp: not the canonical text (RFC 8785) of what it says")
    return stamp


def _whole(decision: decisions.Decision) -> decisions.Stamp:
    return decisions.Stamp(
        id=decision.id,
        verdict=decision.verdict,
        pod=decision.pod,
        admission_uid=decision.admission_uid,
        pod_uid=decision.pod_uid,
        workflow=decision.workflow,
        workflow_uid=decision.workflow_uid,
        snapshot_version=decision.snapshot_version,
        snapshot_age_s=_milli(decision.snapshot_age_s),
        policy=decision.policy,
        arm=decision.arm,
        bundle=decision.bundle,
        sizings=tuple(sorted(decision.sizings, key=lambda sizing: sizing.container)),
        placement=decision.placement,
        rank=decision.rank,
        reason=decision.reason,
        issued_at=_milli(decision.issued_at),
        expires_at=_milli(decision.expires_at),
        nonce=decision.nonce,
    )


def _cut(stamp: decisions.Stamp) -> tuple[decisions.Stamp, bytes]:
    """Return the stamp with the longest beginning of its reason that fits, and its text."""
    text = _text(stamp)
    if len(text) <= decisions.LONGEST_STAMP:
        return stamp, text
    bare = len(_text(_reasoned(stamp, "")))
    if bare > decisions.LONGEST_STAMP:
        raise errors.InputError(
            f"decision {stamp.id}: {bare} bytes without its reason, "
            f"{decisions.LONGEST_STAMP} are allowed; decide fewer sizes or labels"
        )
    room = decisions.LONGEST_STAMP - bare - len(',"reason":')
    reason = stamp.reason[: decisions.LONGEST_STAMP]
    low, high = 0, len(reason)
    while low < high:
        middle = (low + high + 1) // 2
        if _length(reason[:middle] + "…") <= room:
            low = middle
        else:
            high = middle - 1
    short = _reasoned(stamp, reason[:low] + "…" if low else "")
    return short, _text(short)


def _length(text: str) -> int:
    """Return the bytes that a text takes in JSON; the standard library escapes as RFC 8785 does."""
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace"))


def _reasoned(stamp: decisions.Stamp, reason: str) -> decisions.Stamp:
    return dataclasses.replace(stamp, reason=reason)


def _text(stamp: decisions.Stamp) -> bytes:
    found: dict[str, object] = {"v": FORMAT, "verdict": str(stamp.verdict)}
    for name, key in _TEXTS.items():
        if value := getattr(stamp, name):
            found[key] = value
    if stamp.arm is not decisions.Arm.STABLE:
        found["arm"] = str(stamp.arm)
    numbers = {
        "snapshot": stamp.snapshot_version,
        "snapshotAge": stamp.snapshot_age_s,
        "rank": stamp.rank,
        "issued": stamp.issued_at,
        "expires": stamp.expires_at,
    }
    found.update({key: value for key, value in numbers.items() if value})
    if stamp.sizings:
        found["sizes"] = {
            sizing.container: [
                sizing.cpu_m,
                sizing.memory_bytes,
                sizing.original_cpu_m,
                sizing.original_memory_bytes,
            ]
            for sizing in stamp.sizings
        }
    if stamp.placement != decisions.Placement():
        placement = stamp.placement
        found["placement"] = {
            "bind": placement.bind,
            **({"group": placement.group} if placement.group else {}),
            **({"selector": dict(placement.selector)} if placement.selector else {}),
        }
    if _plain(stamp, numbers.values()):
        whole = {key: int(value) for key, value in numbers.items() if value == int(value) != 0}
        try:
            return _ENCODE({**found, **whole}).encode()
        except UnicodeEncodeError as error:
            raise errors.InputError(f"decision {stamp.id}: {error}") from error
    try:
        return rfc8785.dumps(found)  # type: ignore[arg-type]
    except rfc8785.CanonicalizationError as error:
        raise errors.InputError(f"decision {stamp.id}: {error}") from error


def _plain(stamp: decisions.Stamp, numbers: Iterable[float]) -> bool:
    """Say whether the standard library writes it as RFC 8785 does.

    It sorts by code points, RFC 8785 by UTF-16; floats look alike below 1e16, whole ones apart.
    """
    return (
        all(not value or 1e-6 <= abs(value) <= fields.LARGEST_WHOLE for value in numbers)
        and all(key.isascii() for key, _ in stamp.placement.selector)
        and all(
            sizing.container.isascii()
            and max(
                abs(sizing.cpu_m),
                abs(sizing.memory_bytes),
                abs(sizing.original_cpu_m),
                abs(sizing.original_memory_bytes),
            )
            <= fields.LARGEST_WHOLE
            for sizing in stamp.sizings
        )
    )


def _stamp(found: Mapping[str, object]) -> decisions.Stamp:
    if unknown := set(found) - _KNOWN:
        raise errors.InputError(f"stamp: unknown field {sorted(unknown)[0][:40]!r}")
    if found.get("v") != FORMAT:
        raise errors.InputError(f"stamp.v: expected {FORMAT}, got {str(found.get('v'))[:40]!r}")
    placed = fields.mapping(found.get("placement", {}), where="stamp.placement")
    sizes = fields.mapping(found.get("sizes", {}), where="stamp.sizes")
    return decisions.Stamp(
        **{name: fields.text(found, key, where="stamp") for name, key in _TEXTS.items()},
        verdict=fields.choice(found, "verdict", decisions.Verdict, where="stamp"),
        arm=fields.choice(found, "arm", decisions.Arm, where="stamp", default=decisions.Arm.STABLE),
        snapshot_version=fields.whole(found, "snapshot", where="stamp"),
        snapshot_age_s=fields.number(found, "snapshotAge", where="stamp"),
        sizings=tuple(_sizing(name, row) for name, row in sorted(sizes.items())),
        placement=fields.placement(placed, where="stamp.placement"),
        rank=fields.whole(found, "rank", where="stamp"),
        issued_at=fields.number(found, "issued", where="stamp"),
        expires_at=fields.number(found, "expires", where="stamp"),
    )


def _sizing(container: str, row: object) -> decisions.Sizing:
    if not isinstance(row, list) or len(row) != 4 or any(type(cell) is not int for cell in row):
        raise errors.InputError(f"stamp.sizes.{container[:63]}: expected four whole numbers")
    return decisions.Sizing(
        container=container,
        cpu_m=row[0],
        memory_bytes=row[1],
        original_cpu_m=row[2],
        original_memory_bytes=row[3],
    )


def _milli(at: float) -> float:
    return round(at, 3)
