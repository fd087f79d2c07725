"""Questions to the decision API: mutual TLS, a deadline, and an answer that is proved, or nothing.

What comes back is signed by the operator, for this nonce, this admission and this pod, and fresh;
everything else is a `failures.FailedError` and the pod passes untouched.
"""

import asyncio
import dataclasses
import io
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import aiohttp

from tiphys.models.domain import decisions, errors
from tiphys.models.wire import keys, messages, signatures, stamps
from tiphys.webhook import failures, materials, settings

LONGEST_ANSWER = 256 * 1024
"""Bytes; a decision with all its candidates has some kilobytes."""
LARGE = 256 * 1024
HEALTH = "/healthz"
ABOUT_THE_POD = frozenset({400, 413, 422})
"""Answers that speak against this question, not against the decision API."""
REUSED_AND_GONE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
"""A kept-alive connection that the other side had closed; it did not read the question."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked."""

    admission_uid: str
    namespace: str
    pod: Mapping[str, object]
    dry_run: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision that was proved to be the operator's, with the texts for the pod."""

    decision: decisions.Decision
    stamp: decisions.Stamp
    text: str
    signature: str


class Asker(Protocol):
    """Who can be asked for a decision."""

    async def ask(self, question: Question) -> Answer:
        """Return a proved answer.  Raises `failures.FailedError`."""


class Client:
    """The pool of connections to the decision API."""

    def __init__(
        self,
        chosen: settings.Decisions,
        *,
        address: str,
        current: Callable[[], materials.Materials],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`address` is HOST:PORT, `clock` returns unix seconds."""
        self._chosen = chosen
        self._address = address
        self._current = current
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._tls: materials.Tls | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._in_flight = 0

    async def ask(self, question: Question) -> Answer:
        """Return a proved answer within the deadline.  Raises `failures.FailedError`."""
        if self._in_flight >= self._chosen.in_flight:
            raise failures.FailedError(
                failures.Kind.OVERLOAD, f"{self._in_flight} questions are on their way"
            )
        self._in_flight += 1
        try:
            async with asyncio.timeout(self._chosen.deadline_s):
                try:
                    return await self._ask(question)
                except REUSED_AND_GONE as error:
                    if isinstance(error, aiohttp.ClientConnectorError):
                        raise
                    return await self._ask(question)
        except TimeoutError as error:
            raise failures.FailedError(
                failures.Kind.DEADLINE, f"no answer within {self._chosen.deadline_s:g} s"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise failures.FailedError(failures.Kind.UNREACHABLE, _said(error)) from error
        finally:
            self._in_flight -= 1

    async def reachable(self) -> bool:
        """Say whether the decision API answers at all, over mutual TLS."""
        try:
            async with (
                asyncio.timeout(self._chosen.probe_s),
                self._pool().get(
                    f"https://{self._address}{HEALTH}", server_hostname=self._chosen.server_name
                ) as response,
            ):
                await response.read()
                return True
        except (TimeoutError, aiohttp.ClientError, OSError, failures.FailedError):
            return False

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _ask(self, question: Question) -> Answer:
        now, held = self._clock(), self._current()
        nonce = secrets.token_urlsafe(18)
        try:
            body = messages.encode_request(
                messages.Request(
                    admission_uid=question.admission_uid,
                    namespace=question.namespace,
                    pod=question.pod,
                    dry_run=question.dry_run,
                    issued_at=now,
                    nonce=nonce,
                )
            )
            signature = signatures.sign(held.ring, body, now)
        except errors.UnavailableError as error:
            raise failures.FailedError(failures.Kind.KEYS, str(error)) from error
        except errors.InputError as error:
            raise failures.FailedError(failures.Kind.MISMATCH, str(error)) from error
        async with self._pool().post(
            f"https://{self._address}{messages.PATH}",
            # A stream keeps a body of megabytes from being written in one go.
            data=body if len(body) < LARGE else io.BytesIO(body),
            headers={signatures.HEADER: signature, "Content-Type": "application/json"},
            server_hostname=self._chosen.server_name,
            allow_redirects=False,
        ) as response:
            answer = await _bounded(response)
            if response.status != 200:
                text = answer[:200].decode(errors="replace")
                about_pod = response.status in ABOUT_THE_POD
                kind = failures.Kind.MISMATCH if about_pod else failures.Kind.STATUS
                raise failures.FailedError(kind, f"{response.status} {text}")
            signature = response.headers.get(signatures.HEADER, "")
        return self._proved(answer, signature, question, nonce)

    def _proved(self, body: bytes, signature: str, question: Question, nonce: str) -> Answer:
        """Check who signed, then what it answers, then whether it is fresh."""
        now, ring = self._clock(), self._current().operator_ring
        kind = failures.Kind.SIGNATURE
        try:
            signatures.verify(ring, body, signature, now)
            kind = failures.Kind.UNREADABLE
            response = messages.decode_response(body)
            stamp = stamps.decode(response.stamp)
            kind = failures.Kind.SIGNATURE
            signatures.verify(ring, response.stamp.encode(), response.stamp_signature, now)
        except (errors.RefusedError, errors.InputError) as error:
            raise failures.FailedError(kind, str(error)) from error
        decision = response.decision
        if not secrets.compare_digest(response.nonce.encode(), nonce.encode()):
            raise failures.FailedError(
                failures.Kind.NONCE, "the answer repeats another nonce than was asked with"
            )
        if {response.admission_uid, stamp.admission_uid} != {question.admission_uid}:
            raise failures.FailedError(failures.Kind.UID, "the answer is for another admission")
        if not decision.issued_at - keys.SKEW_S <= now <= decision.expires_at:
            raise failures.FailedError(
                failures.Kind.EXPIRED,
                f"issued {now - decision.issued_at:.1f} s ago, "
                f"ends in {decision.expires_at - now:.1f} s",
            )
        try:
            same = stamps.of(decision) == stamp
        except errors.InputError as error:
            raise failures.FailedError(failures.Kind.UNREADABLE, str(error)) from error
        if not same:
            raise failures.FailedError(
                failures.Kind.UNREADABLE, "the stamp says another thing than the decision"
            )
        return Answer(
            decision=decision,
            stamp=stamp,
            text=response.stamp,
            signature=response.stamp_signature,
        )

    def _pool(self) -> aiohttp.ClientSession:
        """Return the session; another one once the certificates changed, the old one fades."""
        tls = self._current().tls
        if tls is None:
            raise failures.FailedError(failures.Kind.KEYS, "no certificate yet")
        if self._session is None or self._tls is not tls:
            if self._session is not None:
                task = asyncio.create_task(_faded(self._session, self._chosen.deadline_s))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
            self._session = _session(materials.client_context(tls), self._chosen.connections)
            self._tls = tls
        return self._session


def _session(context: ssl.SSLContext, connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=connections, keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def _faded(session: aiohttp.ClientSession, after_s: float) -> None:
    """Close a session once the last question that used it is over."""
    try:
        await asyncio.sleep(2 * after_s)
    finally:
        await session.close()


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > LONGEST_ANSWER:
            response.close()
            raise failures.FailedError(
                failures.Kind.UNREADABLE, f"an answer of more than {LONGEST_ANSWER} bytes"
            )
    return bytes(body)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]
