"""The decision API over HTTP: who calls, is it signed, fresh and new; then the signed answer.

`POST /v1/decisions` for the webhook, `GET /v1/estimates` for other replicas, `GET /healthz`, all
over mutual TLS. What cannot be trusted gets a status and one sentence, never a decision.
"""

import collections
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from tiphys.models.domain import decisions, errors
from tiphys.models.wire import keys, messages, signatures, stamps
from tiphys.operator import admissions, clocks, estimates, metrics, servers, settings, trusts
from tiphys.operator import decisions as deciders

ESTIMATES = "/v1/estimates"
MOST_NONCES = 200_000
"""Remembered at most: a minute of three times the load that the product is sized for, and more."""

log = structlog.get_logger()


class Nonces:
    """Nonces that were seen, for as long as a signature with them could still be fresh."""

    def __init__(self, *, kept_s: float = 2 * keys.SKEW_S, most: int = MOST_NONCES) -> None:
        self._kept_s = kept_s
        self._most = most
        self._seen: collections.OrderedDict[str, float] = collections.OrderedDict()

    def take(self, nonce: str, now_s: float) -> bool:
        """Say whether a nonce is new at the monotonic second, and remember it."""
        while self._seen:
            oldest, seen_s = next(iter(self._seen.items()))
            if now_s - seen_s <= self._kept_s and len(self._seen) < self._most:
                break
            del self._seen[oldest]
        if nonce in self._seen:
            return False
        self._seen[nonce] = now_s
        return True


class Answers:
    """The handlers."""

    def __init__(
        self,
        decider: deciders.Decider,
        trust: trusts.Follower,
        *,
        limits: settings.Decisions,
        clock: clocks.Clock,
        measured: metrics.Metrics,
        estimates: Callable[[], bytes | None],
        admitted: admissions.Admissions,
    ) -> None:
        """`estimates` returns the published snapshot, or None on a replica that has none."""
        self._decider = decider
        self._trust = trust
        self._limits = limits
        self._clock = clock
        self._measured = measured
        self._estimates = estimates
        self._admitted = admitted
        self._nonces = Nonces()
        self.draining = False
        """Connections are closed after their answer, so that callers move on."""

    def application(self) -> web.Application:
        """Return the application to serve."""
        app = web.Application(client_max_size=self._limits.most_body_bytes)
        app.router.add_post(messages.PATH, self._guarded(self._decide))
        app.router.add_get(ESTIMATES, self._guarded(self._publish))
        app.router.add_get("/healthz", self._guarded(self._health))
        return app

    def _guarded(
        self, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def guarded(request: web.Request) -> web.Response:
            name = servers.caller(request)
            if name not in self._limits.callers:
                return self._refused(403, "caller", f"{name or 'nobody'} may not ask here")
            response = await handler(request)
            if self.draining:
                response.force_close()
            return response

        return guarded

    async def _decide(self, request: web.Request) -> web.Response:
        asked_at = self._clock.monotonic()
        try:
            body = await request.read()
            now = self._clock.now()
            if not self._trust.ready:
                return self._refused(503, "keys", "no valid keys yet; the leader makes them")
            signature = request.headers.get(signatures.HEADER, "")
            signatures.verify(self._trust.callers, body, signature, now)
            asked = messages.decode_request(body)
            if abs(asked.issued_at - now) > keys.SKEW_S:
                raise errors.RefusedError(f"issued {now - asked.issued_at:.0f} s ago")
            # Bound to the admission uid: the API server makes a new one for each call.
            if not self._nonces.take(f"{asked.admission_uid}/{asked.nonce}", asked_at):
                return self._refused(409, "replay", "this question was asked before")
            decision = await self._decider.decide(
                deciders.Question(
                    admission_uid=asked.admission_uid,
                    namespace=asked.namespace,
                    pod=asked.pod,
                    dry_run=asked.dry_run,
                    nonce=asked.nonce,
                    asked_at=asked_at,
                )
            )
            answer = self._signed(asked, decision)
        except web.HTTPRequestEntityTooLarge:
            return self._refused(413, "size", "the request is too large")
        except errors.InputError as error:
            return self._refused(400, "input", str(error))
        except errors.RefusedError as error:
            return self._refused(401, "signature", str(error))
        except errors.TiphysError as error:
            return self._refused(503, "unavailable", str(error))
        if not asked.dry_run:
            self._admitted.note(decision)
        spent_s = self._clock.monotonic() - asked_at
        self._measured.decision_seconds.observe(spent_s)
        self._measured.decisions.labels(decision.verdict).inc()
        log.info(
            "decided",
            decision=decision.id,
            verdict=str(decision.verdict),
            pod=decision.pod,
            policy=decision.policy,
            group=decision.placement.group,
            rank=decision.rank,
            reason=decision.reason,
            snapshot_age_s=decision.snapshot_age_s,
            spent_ms=round(spent_s * 1000, 2),
            dry_run=asked.dry_run,
        )
        return answer

    def _signed(self, asked: messages.Request, decision: decisions.Decision) -> web.Response:
        now, ring = self._clock.now(), self._trust.ring
        stamp = stamps.encode(decision)
        body = messages.encode_response(
            messages.Response(
                admission_uid=asked.admission_uid,
                nonce=asked.nonce,
                decision=decision,
                stamp=stamp.decode(),
                stamp_signature=signatures.sign(ring, stamp, now),
            )
        )
        return web.Response(
            body=body,
            content_type="application/json",
            headers={signatures.HEADER: signatures.sign(ring, body, now)},
        )

    async def _publish(self, request: web.Request) -> web.Response:
        """Answer another replica with the estimates, unless it has them."""
        published = self._estimates()
        if published is None:
            return self._refused(404, "estimates", "this replica publishes no estimates")
        tag = estimates.tag(published)
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304)
        return web.Response(body=published, content_type="application/json", headers={"ETag": tag})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    def _refused(self, status: int, why: str, text: str) -> web.Response:
        self._measured.refusals.labels(why).inc()
        log.warning("refused a request", status=status, why=why, text=text)
        return web.Response(status=status, text=text + "\n")
