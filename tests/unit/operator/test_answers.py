"""The decision API over real mutual TLS: signed both ways, fresh, new, bounded."""

import contextlib
import dataclasses
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.fakes import authorities
from tests.fakes import pods as fake_pods
from tests.unit.operator import asking, builders
from tiphys.argo import pods as argo_pods
from tiphys.models.domain import decisions
from tiphys.models.domain import pods as domain
from tiphys.models.wire import messages, signatures, stamps
from tiphys.operator import admissions, answers, servers

NAME = "tiphys-operator.tiphys-system.svc"


class Caller:
    """Calls the API with one certificate."""

    def __init__(self, replica: asking.Replica, port: int, identity: servers.Identity) -> None:
        self.replica = replica
        self._port = port
        self._identity = identity

    async def post(self, body: bytes, signature: str) -> tuple[int, bytes, str]:
        """Return status, body and signature of the answer."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"https://127.0.0.1:{self._port}{messages.PATH}",
                data=io.BytesIO(body),
                headers={signatures.HEADER: signature},
                ssl=self._identity.calling,
                server_hostname=NAME,
            ) as response,
        ):
            return (
                response.status,
                await response.read(),
                response.headers.get(signatures.HEADER, ""),
            )


@contextlib.asynccontextmanager
async def calling(common_name: str = "tiphys-webhook") -> AsyncIterator[Caller]:
    """Serve a replica and give a caller with a certificate of that name."""
    cached = builders.filled(builders.a_node("n"))
    cached.workflows.put("genomics/exome", builders.a_run("1"))
    replica = asking.Replica(cached)
    root = authorities.Authority()
    ours, theirs = servers.Identity(), servers.Identity()
    for identity, leaf in (
        (ours, root.leaf("CN=tiphys-operator", names=[NAME])),
        (theirs, root.leaf(f"CN={common_name}")),
    ):
        identity.take({"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": root.pem})
    runner, port = await servers.start(
        replica.answers.application(), "127.0.0.1", 0, tls=ours.listening
    )
    try:
        yield Caller(replica, port, theirs)
    finally:
        await runner.cleanup()


async def test_an_answer_is_signed_and_its_stamp_too() -> None:
    """Both verify with the operator's public ring; the answer repeats uid and nonce."""
    async with calling() as caller:
        body, signature = caller.replica.body(fake_pods.a_pod(), nonce="abc")
        status, answer, signed = await caller.post(body, signature)
        assert 200 == status
        ring, now = caller.replica.trust.ring.public(), caller.replica.clock.now()
        signatures.verify(ring, answer, signed, now)
        found = messages.decode_response(answer)
        assert ("adm-1", "abc") == (found.admission_uid, found.nonce)
        assert decisions.Verdict.PLACE == found.decision.verdict
        signatures.verify(ring, found.stamp.encode(), found.stamp_signature, now)
        assert found.decision.id == stamps.decode(found.stamp).id


async def refused(caller: Caller, body: bytes, signature: str) -> tuple[int, str]:
    """Return status and sentence of a refusal; it is never signed."""
    status, text, signed = await caller.post(body, signature)
    assert "" == signed
    return status, text.decode()


async def test_what_was_decided_is_remembered_whole_but_not_a_dry_run() -> None:
    """`explain` tells from it what does not stand on the pod."""
    async with calling() as caller:
        body, signature = caller.replica.body(fake_pods.a_pod(), nonce="a", dry_run=True)
        assert 200 == (await caller.post(body, signature))[0]
        pod = argo_pods.read(fake_pods.a_pod())
        assert caller.replica.admitted.of(pod) is None
        body, signature = caller.replica.body(fake_pods.a_pod(), nonce="b")
        _, answer, _ = await caller.post(body, signature)
        assert messages.decode_response(answer).decision == caller.replica.admitted.of(pod)


def test_the_oldest_decisions_are_forgotten_first() -> None:
    """A pod that is decided again counts as new."""
    kept = admissions.Admissions(most=2)
    decision = decisions.Decision(id="d", verdict=decisions.Verdict.PASS, pod="a/x")
    for name in ("x", "y", "x", "z"):
        kept.note(dataclasses.replace(decision, pod=f"a/{name}", id=name))
    pods = {name: domain.Pod(namespace="a", name=name, uid="") for name in "xyz"}
    assert [True, False, True] == [kept.of(pods[name]) is not None for name in "xyz"]


async def test_a_question_is_answered_once() -> None:
    """The same bytes again are a replay."""
    async with calling() as caller:
        body, signature = caller.replica.body(fake_pods.a_pod())
        assert 200 == (await caller.post(body, signature))[0]
        assert (409, "this question was asked before\n") == await refused(caller, body, signature)


@pytest.mark.parametrize(
    ("change", "status"),
    [("altered", 401), ("foreign", 401), ("unsigned", 401), ("old", 401), ("garbage", 400)],
)
async def test_what_cannot_be_trusted_gets_no_decision(change: str, status: int) -> None:
    """Altered, signed by somebody else, not signed, issued long ago, no JSON."""
    async with calling() as caller:
        replica = caller.replica
        changes: dict[str, Any] = {}
        if change == "old":
            changes["issued_at"] = replica.clock.now() - 31
        body, signature = replica.body(fake_pods.a_pod(), **changes)
        if change == "altered":
            body = body.replace(b"exome-align-1", b"exome-align-2")
        elif change == "foreign":
            foreign = asking.ring(replica.clock.now())
            signature = signatures.sign(foreign, body, replica.clock.now())
        elif change == "unsigned":
            signature = ""
        elif change == "garbage":
            body = b"{"
            signature = signatures.sign(replica.webhook_ring, body, replica.clock.now())
        assert status == (await refused(caller, body, signature))[0]


async def test_only_our_own_processes_are_answered() -> None:
    """A certificate of our authority with another name is told so."""
    async with calling("somebody") as caller:
        body, signature = caller.replica.body(fake_pods.a_pod())
        assert (403, "somebody may not ask here\n") == await refused(caller, body, signature)


async def test_a_body_that_is_too_large_is_cut_off() -> None:
    """4 MiB are read at most."""
    async with calling() as caller:
        status, _ = await refused(caller, b"x" * (4 * 2**20 + 1), "")
        assert 413 == status


async def test_without_keys_nobody_is_answered() -> None:
    """503: the webhook lets the pod pass."""
    async with calling() as caller:
        caller.replica.trust.ready = False
        body, signature = caller.replica.body(fake_pods.a_pod())
        assert 503 == (await refused(caller, body, signature))[0]


def test_nonces_are_forgotten_when_a_signature_with_them_would_be_too_old() -> None:
    """The memory is bounded by time and by number."""
    nonces = answers.Nonces(kept_s=60.0, most=3)
    assert nonces.take("a", 0.0)
    assert not nonces.take("a", 59.0)
    assert nonces.take("a", 61.0)
    assert all(nonces.take(each, 62.0) for each in "bcd")
    assert nonces.take("a", 62.0)
