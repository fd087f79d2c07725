"""Admission without a network: a clock that stands still, keys that stay, a ready answer."""

import dataclasses
import resource
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.fakes import pods
from tiphys.models.domain import decisions, errors
from tiphys.models.wire import keys, signatures, stamps
from tiphys.webhook import (
    admissions,
    breakers,
    inquiries,
    metrics,
    replays,
    reviews,
    settings,
)

NOON = 1796040000.0
PRIVATE = bytes(range(32))


def a_ring() -> keys.Ring:
    """Return the same ring each time; its signatures are the same for the same text."""
    key = keys.generate(not_before=NOON - 600, not_after=NOON + 3600)
    public = ed25519.Ed25519PrivateKey.from_private_bytes(PRIVATE).public_key().public_bytes_raw()
    return keys.Ring(
        keys=(dataclasses.replace(key, kid=keys.name(public), public=public, private=PRIVATE),)
    )


@dataclasses.dataclass(kw_only=True)
class Ready:
    """An asker that has its answer ready; `decide` makes the decision's changes for a question."""

    ring: keys.Ring
    decide: Callable[[inquiries.Question], dict[str, Any]]
    asked: int = 0

    async def ask(self, question: inquiries.Question) -> inquiries.Answer:
        """Answer at once."""
        self.asked += 1
        name = reviews.metadata(question.pod).get("name")
        values: dict[str, Any] = {
            "id": f"d-{self.asked:020}",
            "verdict": decisions.Verdict.GATE,
            "pod": f"{question.namespace}/{name}",
            "admission_uid": question.admission_uid,
            "workflow_uid": reviews.workflow_uid(question.pod),
            "policy": "builtin-srwf-wait-v1",
            "reason": "waits",
            "issued_at": NOON,
            "expires_at": NOON + 30,
            **self.decide(question),
        }
        decision = decisions.Decision(**values)
        text = stamps.encode(decision)
        return inquiries.Answer(
            decision=decision,
            stamp=stamps.decode(text),
            text=text.decode(),
            signature=signatures.sign(self.ring, text, NOON),
        )


def effects(
    decide: Callable[[inquiries.Question], dict[str, Any]] = lambda _: {},
) -> admissions.Effects:
    """Return what admission reaches, all of it standing still."""
    ring = a_ring()
    return admissions.Effects(
        asker=Ready(ring=ring, decide=decide),
        breaker=breakers.Breaker(settings.Breaker(), clock=lambda: 0.0),
        replays=replays.Cache(most=1000),
        ring=ring.public,
        metrics=metrics.Metrics(),
        clock=lambda: NOON,
        timer=lambda: 0.0,
    )


def a_decided_pod(ring: keys.Ring) -> dict[str, Any]:
    """Return a gated pod with a good decision at noon."""
    stamp = stamps.encode(
        decisions.Decision(
            id="d-aaaaaaaaaaaaaaaaaaaa",
            verdict=decisions.Verdict.GATE,
            pod=f"{pods.NAMESPACE}/{pods.NAME}",
            workflow_uid=pods.WORKFLOW_UID,
            issued_at=NOON,
            expires_at=NOON + 30,
        )
    )
    pod = pods.a_pod(spec__schedulingGates=[{"name": "tiphys.dev/steer"}])
    pod["metadata"]["labels"]["tiphys.dev/gated"] = "true"
    pod["metadata"]["annotations"] |= {
        "tiphys.dev/decision": stamp.decode(),
        "tiphys.dev/signature": signatures.sign(ring, stamp, NOON),
    }
    return pod


async def fed(reached: admissions.Effects, bodies: Iterable[bytes]) -> tuple[int, int]:
    """Feed bodies to both calls as the listener does; return (answered, refused as malformed)."""
    answered = malformed = 0
    for body in bodies:
        try:
            review = reviews.read(body)
        except errors.InputError:
            malformed += 1
            continue
        await admissions.mutate(review, reached)
        admissions.validate(review, reached)
        answered += 1
    return answered, malformed


def resident_bytes() -> int:
    """Return the memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
