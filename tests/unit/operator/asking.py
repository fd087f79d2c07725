"""A replica's answering half without processes: caches, policies, decider, API; keys of a test."""

import dataclasses
import secrets
from typing import Any

from tests.fakes import clocks
from tiphys.models.wire import keys, messages, signatures
from tiphys.operator import (
    admissions,
    answers,
    assumptions,
    caches,
    decisions,
    metrics,
    policies,
    settings,
    snapshots,
)


@dataclasses.dataclass(slots=True)
class Trust:
    """Rings as `trusts.Follower` holds them."""

    ring: keys.Ring
    callers: keys.Ring
    ready: bool = True


class Replica:
    """Decides and answers."""

    def __init__(
        self,
        cached: caches.Caches,
        *,
        api: Any = None,
        clock: clocks.Clock | None = None,
        led: bool = True,
        disabled: bool = False,
    ) -> None:
        self.clock = clock or clocks.Clock()
        self.led = led
        self.caches = cached
        self.measured = metrics.Metrics()
        self.assumed = assumptions.Assumptions(self.clock.monotonic)
        self.pictured = snapshots.Snapshots(
            cached, self.assumed, clock=self.clock.now, monotonic=self.clock.monotonic
        )
        self.decider = decisions.Decider(
            api,
            cached,
            self.pictured,
            self.assumed,
            policies.Policies(cached),
            limits=settings.Decisions(),
            clock=self.clock,
            led=lambda: self.led,
            disabled=disabled,
        )
        at = self.clock.now()
        self.webhook_ring = ring(at)
        self.trust = Trust(ring=ring(at), callers=self.webhook_ring.public())
        self.admitted = admissions.Admissions()
        self.answers = answers.Answers(
            self.decider,
            self.trust,  # type: ignore[arg-type]
            limits=settings.Decisions(),
            clock=self.clock,
            measured=self.measured,
            estimates=lambda: None,
            admitted=self.admitted,
        )

    def question(self, pod: dict[str, Any], **changes: Any) -> decisions.Question:
        """Return a question about a pod of the namespace genomics."""
        given: dict[str, Any] = {
            "admission_uid": "adm-1",
            "namespace": "genomics",
            "dry_run": False,
            "nonce": "n",
            "asked_at": self.clock.monotonic(),
            **changes,
        }
        return decisions.Question(pod=pod, **given)

    def body(self, pod: dict[str, Any], **changes: Any) -> tuple[bytes, str]:
        """Return a signed request as the webhook makes it."""
        given: dict[str, Any] = {
            "admission_uid": "adm-1",
            "namespace": "genomics",
            "issued_at": self.clock.now(),
            "nonce": secrets.token_urlsafe(18),
            **changes,
        }
        encoded = messages.encode_request(messages.Request(pod=pod, **given))
        return encoded, signatures.sign(self.webhook_ring, encoded, self.clock.now())


def ring(at: float) -> keys.Ring:
    """Return a ring that holds at `at`."""
    return keys.Ring(keys=(keys.generate(not_before=at - 60, not_after=at + 3600),))
