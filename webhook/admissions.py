"""What happens to a pod at CREATE: one decision asked for and written, or nothing at all.

`mutate` asks, proves and patches; any failure lets the pod pass untouched, counted and explained in
the API server's audit log. `validate` refuses pods whose decision is not ours, not whole, not for
them or not fresh. Neither raises.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from tiphys.argo import patches
from tiphys.models.domain import decisions, errors
from tiphys.models.wire import keys, signatures
from tiphys.webhook import breakers, checks, failures, inquiries, metrics, replays, reviews

_log = logging.getLogger(__name__)

ANNOTATION_BYTES = 2 * (decisions.LONGEST_STAMP + signatures.LONGEST_SIGNATURE + 64)
"""What our annotations take at most with their names: two now, two at the release."""
_OUTCOMES = {
    decisions.Verdict.GATE: "gated",
    decisions.Verdict.PLACE: "placed",
    decisions.Verdict.PASS: "passed",
    decisions.Verdict.SHADOW: "shadow",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What admission reaches outside of itself."""

    asker: inquiries.Asker
    breaker: breakers.Breaker
    replays: replays.Cache
    ring: Callable[[], keys.Ring]
    """Public halves of the operator's keys, as they are now."""
    metrics: metrics.Metrics
    disabled: bool = False
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    timer: Callable[[], float] = time.perf_counter


async def mutate(review: reviews.Review, effects: Effects) -> bytes:
    """Return the answer to a mutating call."""
    began = effects.timer()
    try:
        outcome, patch, notes = await _decided(review, effects)
    except failures.FailedError as error:
        effects.metrics.failures.labels(str(error.kind)).inc()
        outcome, patch = "failed", _stripped(review, effects)
        notes = {"reason": f"{error.kind}: {error}"}
        _log.warning(
            "pod passed without a decision",
            extra={"values": {**_named(review), "kind": str(error.kind), "why": str(error)}},
        )
    except Exception:
        effects.metrics.failures.labels(str(failures.Kind.INTERNAL)).inc()
        outcome, patch, notes = "failed", [], {"reason": str(failures.Kind.INTERNAL)}
        _log.exception("admission failed", extra={"values": _named(review)})
    effects.metrics.mutations.labels(outcome).inc()
    effects.metrics.mutate_s.observe(effects.timer() - began)
    return reviews.allowed(review.uid, patch=patch, notes={"outcome": outcome, **notes})


def validate(review: reviews.Review, effects: Effects) -> bytes:
    """Return the answer to a validating call."""
    verdict, notes = "none", {}
    refusal = ""
    try:
        if effects.disabled:
            verdict = "disabled"
        elif review.creates_pod:
            stamp = _held(review, effects)
            if stamp is not None:
                verdict, notes = "held", {"decision": stamp.id}
                if not review.dry_run:
                    _remember(stamp, effects)
    except checks.FaultyError as error:
        verdict, refusal = str(error.fault), str(error)
        _log.warning(
            "decision refused",
            extra={"values": {**_named(review), "fault": verdict, "why": refusal}},
        )
    except failures.FailedError as error:
        verdict, notes = "failed", {"reason": f"{error.kind}: {error}"}
        effects.metrics.failures.labels(str(error.kind)).inc()
    except Exception:
        verdict, notes = "failed", {"reason": str(failures.Kind.INTERNAL)}
        effects.metrics.failures.labels(str(failures.Kind.INTERNAL)).inc()
        _log.exception("validation failed", extra={"values": _named(review)})
    effects.metrics.validations.labels(verdict).inc()
    notes = {"outcome": verdict, **notes}
    if refusal:
        return reviews.denied(review.uid, message=refusal, notes=notes)
    return reviews.allowed(review.uid, notes=notes)


async def _decided(
    review: reviews.Review, effects: Effects
) -> tuple[str, Sequence[Mapping[str, object]], dict[str, str]]:
    """Return outcome, patch and notes.  Raises `failures.FailedError`."""
    if effects.disabled:
        return "disabled", [], {}
    if not review.creates_pod:
        return "other", [], {}
    if not review.name or not reviews.workflow_uid(review.pod):
        return "other", _stripped(review, effects), {}
    if reviews.bound(review.pod):
        return "other", _stripped(review, effects), {"reason": "its author chose the node"}
    if _reinvoked(review, effects):
        return "reinvoked", [], {}
    taken_bytes = reviews.annotation_bytes(review.pod)
    if taken_bytes + ANNOTATION_BYTES > reviews.MOST_ANNOTATION_BYTES:
        raise failures.FailedError(
            failures.Kind.MISMATCH, f"annotations of {taken_bytes} bytes leave no room for ours"
        )
    # Last, since whoever is let through may be the only trial for a while.
    if not effects.breaker.allows():
        raise failures.FailedError(failures.Kind.BREAKER, "the decision API failed just before")
    answer = await _asked(review, effects)
    decision = answer.decision
    notes = {"decision": decision.id, "reason": decision.reason, "policy": decision.policy}
    try:
        if decision.verdict in checks.AT_CREATE:
            checks.check(answer.stamp, review.pod, namespace=review.namespace, at=effects.clock())
        patch = patches.create(
            review.pod, answer.stamp, stamp=answer.text, signature=answer.signature
        )
    except (checks.FaultyError, errors.InputError) as error:
        raise failures.FailedError(failures.Kind.MISMATCH, str(error)) from error
    _log.info(
        "pod decided",
        extra={
            "values": {
                **_named(review),
                "decision": decision.id,
                "verdict": str(decision.verdict),
                "policy": decision.policy,
                "group": decision.placement.group,
                "why": decision.reason,
                "operations": len(patch),
            }
        },
    )
    return _OUTCOMES[decision.verdict], patch, notes


async def _asked(review: reviews.Review, effects: Effects) -> inquiries.Answer:
    """Ask, and let the breaker know how it went."""
    began = effects.timer()
    try:
        answer = await effects.asker.ask(
            inquiries.Question(
                admission_uid=review.uid,
                namespace=review.namespace,
                pod=_bare(review),
                dry_run=review.dry_run,
            )
        )
    except failures.FailedError as error:
        if error.kind in failures.SICK:
            effects.breaker.failed()
        raise
    else:
        effects.breaker.succeeded()
        return answer
    finally:
        effects.metrics.ask_s.observe(effects.timer() - began)
        effects.metrics.breaker_open.set(effects.breaker.is_open)


def _bare(review: reviews.Review) -> Mapping[str, object]:
    """Return the pod with its namespace, as the operator knows pods."""
    about = reviews.metadata(review.pod)
    if about.get("namespace") == review.namespace:
        return review.pod
    return {**review.pod, "metadata": {**about, "namespace": review.namespace}}


def _reinvoked(review: reviews.Review, effects: Effects) -> bool:
    """Say whether a decision of ours stands on the pod already, written some milliseconds ago.

    Raises `failures.FailedError` where another webhook has overwritten what it decided since. To
    write it again would begin a quarrel, and when the other one has the last word the validating
    webhook refuses a pod that was fine: it goes on without a decision.
    """
    try:
        return _held(review, effects) is not None
    except checks.OverwrittenError as error:
        if effects.replays.holds(error.decision):
            return False  # brought along from a pod that is there already
        raise failures.FailedError(failures.Kind.OVERWRITTEN, str(error)) from error
    except (checks.FaultyError, failures.FailedError):
        return False


def _held(review: reviews.Review, effects: Effects) -> decisions.Stamp | None:
    """Return the decision on the pod that holds, None without one.

    Raises `checks.FaultyError`, and `failures.FailedError` where there is no key to check with.
    """
    ring, now = effects.ring(), effects.clock()
    annotations = reviews.metadata(review.pod).get("annotations")
    if not isinstance(annotations, Mapping) or not set(decisions.WRITTEN) & set(annotations):
        return None
    if not ring.honours(now):
        raise failures.FailedError(failures.Kind.KEYS, "no key of the operator to check with")
    stamp = checks.examine(review.pod, namespace=review.namespace, ring=ring, at=now)
    if stamp is not None and effects.replays.holds(stamp.id):
        raise checks.FaultyError(
            checks.Fault.REPLAYED, f"decision {stamp.id} was taken for a pod before"
        )
    return stamp


def _remember(stamp: decisions.Stamp, effects: Effects) -> None:
    until = stamp.expires_at + keys.SKEW_S
    effects.replays.remember(stamp.id, until=until, now=effects.clock())


def _stripped(review: reviews.Review, effects: Effects) -> Sequence[Mapping[str, object]]:
    """Return the patch that takes away what the create brought along, if it can be made."""
    if not review.creates_pod:
        return []
    try:
        patch = patches.strip(review.pod)
    except errors.InputError:
        return []
    if patch:
        effects.metrics.stripped.inc()
    return patch


def _named(review: reviews.Review) -> dict[str, object]:
    return {
        "pod": f"{review.namespace}/{review.name}",
        "admission": review.uid,
        "dry_run": review.dry_run,
    }
