"""Detached signatures: what holds, and each way in which one does not."""

import base64
import json
import time

import pytest

from tests.fakes import deciders
from tiphys.models.domain import errors
from tiphys.models.wire import keys, signatures

BODY = b'{"a": 1}'


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
