"""Detached JWS over exact bytes: RFC 7515 (appendix F), `alg` Ed25519 of RFC 9864, `kid`, no more.

The text is `HEADER..SIGNATURE`; the payload travels beside it, byte for byte as it was signed.
"""

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
    whole = jws.serialize_compact(
        {"alg": ALGORITHM, "kid": key.kid}, payload, keys.jose(key), registry=_REGISTRY
    )
    return jws.detach_content(whole)


def verify(ring: keys.Ring, payload: bytes, signature: str, at: float) -> keys.Key:
    """Return the key of `ring` that signed `payload`; `at` is the moment of signing, unix seconds.

    Raises `UnknownKeyError` for a key that the ring lacks, else `errors.RefusedError`.
    """
    _, dots, _ = signature.partition("..")
    if not dots or len(signature) > LONGEST_SIGNATURE or len(payload) > LONGEST_PAYLOAD:
        raise errors.RefusedError("the signature is no detached JWS, HEADER..SIGNATURE")
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
    if not key.holds(at, skew_s=keys.SKEW_S):
        raise errors.RefusedError(f"key {key.kid} did not hold when this was signed")
    return key
