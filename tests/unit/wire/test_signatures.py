"""Detached signatures: what holds, and each way in which one does not."""

import base64
import json
import time
from collections.abc import Callable

import hypothesis
import pytest
from hypothesis import strategies as st
from joserfc import jws

from tests.fakes import deciders
from tiphys.models.domain import errors
from tiphys.models.wire import keys, signatures

BODY = b'{"a": 1}'
RING = deciders.a_ring()


@pytest.fixture(scope="module")
def ring() -> keys.Ring:
    """Return a ring of one key."""
    return deciders.a_ring()


def test_a_signature_names_its_key_and_leaves_the_payload_out(ring: keys.Ring) -> None:
    """`alg` is the fully specified Ed25519 of RFC 9864; nothing lies between the dots."""
    signature = signatures.sign(ring, BODY, time.time())
    header, payload, _ = signature.split(".")
    decoded = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    assert {"alg": "Ed25519", "kid": ring.keys[0].kid} == decoded
    assert payload == ""
    assert ring.keys[0].kid == signatures.verify(ring.public(), BODY, signature, time.time()).kid


def test_a_body_as_large_as_a_pod_may_be_is_signed(ring: keys.Ring) -> None:
    """3 MiB and a little more."""
    body = b"x" * (3 * 2**20 + 1000)
    signatures.verify(ring, body, signatures.sign(ring, body, time.time()), time.time())


def test_another_byte_does_not_fit(ring: keys.Ring) -> None:
    """The very bytes are signed, not what they mean."""
    signature = signatures.sign(ring, BODY, time.time())
    with pytest.raises(errors.RefusedError, match="does not fit"):
        signatures.verify(ring, BODY + b" ", signature, time.time())


def test_a_key_that_is_not_known_is_told_apart(ring: keys.Ring) -> None:
    """Foreign is another fault than altered."""
    signature = signatures.sign(deciders.a_ring(), BODY, time.time())
    with pytest.raises(signatures.UnknownKeyError, match="not known"):
        signatures.verify(ring, BODY, signature, time.time())


def test_a_key_counts_only_in_its_time(ring: keys.Ring) -> None:
    """With 30 s for clocks that differ."""
    signature = signatures.sign(ring, BODY, time.time())
    ends = ring.keys[0].not_after
    signatures.verify(ring, BODY, signature, ends + 29)
    with pytest.raises(errors.RefusedError, match="did not hold"):
        signatures.verify(ring, BODY, signature, ends + 31)


def _headed(header: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "kid": "KID"},
        {"alg": "EdDSA", "kid": "KID"},
        {"alg": "HS256", "kid": "KID"},
        {"alg": "Ed25519"},
        {"alg": "Ed25519", "kid": 7},
        {"alg": "Ed25519", "kid": "KID", "crit": ["b64"], "b64": False},
        {"alg": "Ed25519", "kid": "KID", "jwk": {"kty": "OKP"}},
        [],
        None,
    ],
)
def test_only_our_own_header_is_taken(ring: keys.Ring, header: object) -> None:
    """No other algorithm, no key of the sender's, no extension."""
    if isinstance(header, dict) and header.get("kid") == "KID":
        header = {**header, "kid": ring.keys[0].kid}
    tail = signatures.sign(ring, BODY, time.time()).partition("..")[2]
    with pytest.raises(errors.RefusedError):
        signatures.verify(ring, BODY, f"{_headed(header)}..{tail}", time.time())


@pytest.mark.parametrize("text", ["", "a", "..", "a..b", "é..x", "a.b.c", "x" * 1000 + ".."])
def test_what_is_no_signature_is_refused(ring: keys.Ring, text: str) -> None:
    """Never another error than the one that callers expect."""
    with pytest.raises(errors.RefusedError):
        signatures.verify(ring, BODY, text, time.time())


@hypothesis.given(st.binary(max_size=2000))
def test_joserfc_makes_and_takes_the_same_signatures(body: bytes) -> None:
    """The quick way is no format of its own: Ed25519 gives one signature for one text."""
    key = RING.keys[0]
    header = {"alg": "Ed25519", "kid": key.kid}
    registry = jws.JWSRegistry(algorithms=["Ed25519"])
    whole = jws.serialize_compact(header, body, keys.jose(key), registry=registry)
    assert jws.detach_content(whole) == signatures.sign(RING, body, time.time())


def test_a_header_written_in_another_way_is_read_by_the_library(ring: keys.Ring) -> None:
    """The same fields in another order are as good."""
    kid = ring.keys[0].kid
    header = _headed({"kid": kid, "alg": "Ed25519"})
    signed = f"{header}.{base64.urlsafe_b64encode(BODY).rstrip(b'=').decode()}".encode()
    raw = keys.private(ring.keys[0]).sign(signed)
    text = f"{header}..{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"
    assert kid == signatures.verify(ring.public(), BODY, text, time.time()).kid


@pytest.mark.parametrize("change", [lambda t: t + "=", lambda t: t[:-1], lambda t: t + "A"])
def test_a_signature_has_one_text(ring: keys.Ring, change: Callable[[str], str]) -> None:
    """Also the second time, when a good one is remembered."""
    good = signatures.sign(ring, BODY, time.time())
    for _ in range(2):
        signatures.verify(ring.public(), BODY, good, time.time())
        with pytest.raises(errors.RefusedError):
            signatures.verify(ring.public(), BODY, change(good), time.time())


def test_a_remembered_signature_holds_only_while_its_key_is_in_the_ring(ring: keys.Ring) -> None:
    """What was found valid once says nothing about whose key is honoured now."""
    good = signatures.sign(ring, BODY, time.time())
    signatures.verify(ring.public(), BODY, good, time.time())
    with pytest.raises(signatures.UnknownKeyError):
        signatures.verify(keys.Ring(), BODY, good, time.time())
