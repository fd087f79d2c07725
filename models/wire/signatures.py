"""Detached JWS over exact bytes: RFC 7515 (appendix F), `alg` Ed25519 of RFC 9864, `kid`, no more.

The text is `HEADER..SIGNATURE`; the payload travels beside it, byte for byte as it was signed.
Signatures are made, and those with a header that is written as ours is are checked, by
`cryptography` directly; every other spelling is left to joserfc (ADR 0036).
"""

import base64
import binascii
import functools
import json

from cryptography import exceptions
from joserfc import errors as jose_errors
from joserfc import jws

from tiphys.models.domain import errors
from tiphys.models.wire import keys

ALGORITHM = "Ed25519"
HEADER = "X-Workflow-Signature"
"""The HTTP header that carries the signature of a body."""
LONGEST_PAYLOAD = 4 * 2**20
"""Bytes; a pod in etcd has at most 1.5 MiB, and one in an admission review at most 3 MiB."""
LONGEST_SIGNATURE = 512
SHORT = 1024
"""Bytes of a stamp at most: of what is so short the finding is remembered."""
REMEMBERED = 1024
"""Findings about short texts: the pod that one call of the webhook wrote comes back in the next."""


class _Registry(jws.JWSRegistry):
    """The library's registry, open to bodies as large as a pod may be."""

    max_payload_length = 2 * LONGEST_PAYLOAD


_REGISTRY = _Registry(algorithms=[ALGORITHM])


class UnknownKeyError(errors.RefusedError):
    """The signature names a key that is not in the ring: foreign, or long gone."""


def sign(ring: keys.Ring, payload: bytes, at: float) -> str:
    """Return the detached signature of `payload` by the ring's newest key at `at`, unix seconds.

    Raises `errors.UnavailableError` without a usable private key.
    """
    key = ring.signing(at)
    header = _header(key.kid)
    return f"{header}..{_encoded(keys.private(key).sign(_signed(header, payload)))}"


def verify(ring: keys.Ring, payload: bytes, signature: str, at: float) -> keys.Key:
    """Return the key of `ring` that signed `payload`; `at` is the moment of signing, unix seconds.

    Raises `UnknownKeyError` for a key that the ring lacks, else `errors.RefusedError`.
    """
    header, dots, tail = signature.partition("..")
    if not dots or len(signature) > LONGEST_SIGNATURE or len(payload) > LONGEST_PAYLOAD:
        raise errors.RefusedError("the signature is no detached JWS, HEADER..SIGNATURE")
    key = _named(ring, header)
    if key is None:
        return _checked(ring, payload, signature, at)
    check = _remembered if len(payload) <= SHORT else _valid
    if not check(key, payload, tail):
        raise errors.RefusedError(f"the signature by key {key.kid} does not fit what it signs")
    return _in_time(key, at)


def _named(ring: keys.Ring, header: str) -> keys.Key | None:
    """Return the key whose header, as we write it, this is."""
    return next((key for key in ring.keys if _header(key.kid) == header), None)


def _valid(key: keys.Key, payload: bytes, tail: str) -> bool:
    """Say whether the signature fits; its text may be written in one way only."""
    try:
        raw = base64.b64decode(tail + "=" * (-len(tail) % 4), altchars=b"-_", validate=True)
        if _encoded(raw) != tail:
            return False
        keys.public(key).verify(raw, _signed(_header(key.kid), payload))
    except (exceptions.InvalidSignature, binascii.Error, ValueError):
        return False
    return True


_remembered = functools.lru_cache(maxsize=REMEMBERED)(_valid)


def _checked(ring: keys.Ring, payload: bytes, signature: str, at: float) -> keys.Key:
    """Verify by the library, which says what is wrong."""
    try:
        extracted = jws.extract_compact(signature.encode(), payload, _REGISTRY)
        protected = extracted.headers()
        kid = protected.get("kid")
        if set(protected) != {"alg", "kid"} or not isinstance(kid, str):
            raise errors.RefusedError("the signature's header has to hold alg and kid alone")
        key = ring.named(kid)
        if key is None:
            raise UnknownKeyError(f"signed by key {kid[:40]!r}, which is not known here")
        valid = jws.validate_compact(extracted, keys.jose(key), registry=_REGISTRY)
    except (jose_errors.JoseError, ValueError, TypeError, AttributeError) as error:
        raise errors.RefusedError(f"the signature cannot be read ({error})") from error
    if not valid:
        raise errors.RefusedError(f"the signature by key {key.kid} does not fit what it signs")
    return _in_time(key, at)


def _in_time(key: keys.Key, at: float) -> keys.Key:
    if not key.holds(at, skew_s=keys.SKEW_S):
        raise errors.RefusedError(f"key {key.kid} did not hold when this was signed")
    return key


@functools.lru_cache(maxsize=256)
def _header(kid: str) -> str:
    return _encoded(json.dumps({"alg": ALGORITHM, "kid": kid}, separators=(",", ":")).encode())


def _signed(header: str, payload: bytes) -> bytes:
    """Return what RFC 7515 signs."""
    return b"%b.%b" % (header.encode(), base64.urlsafe_b64encode(payload).rstrip(b"="))


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
