"""Rings of Ed25519 keys, their JSON, and which key signs or is honoured at a moment.

A ring as it lies in a Secret (private halves) or a ConfigMap (public halves only):

    {"keys": [{"kid": "4b7nPqzXqbYcBqZk", "notBefore": "2026-11-30T08:00:00Z",
               "notAfter": "2026-12-01T08:00:00Z", "private": "…", "public": "…"}]}

The halves are the raw 32 bytes (RFC 8032) in base64url without padding. A key's name is made from
its public half, so that two rings can never mean two keys by one name. The next key stands in the
ring before it is used and the last one stays until its `notAfter`: that is the overlap in which
rings may differ between processes. Where rings lie in the cluster is named here too, since the
operator writes what the webhook reads.
"""

import base64
import binascii
import dataclasses
import datetime
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping

from cryptography.hazmat.primitives.asymmetric import ed25519
from joserfc import jwk

from tiphys.models.domain import errors

LONGEST_LIFE_S = 24 * 3600.0
"""The most that lies between `notBefore` and `notAfter`; a key of a longer life is refused."""
SKEW_S = 30.0
"""How far two clocks may be apart."""
RING_FIELD = "ring.json"
"""Where a Secret (`tiphys-keys`, `tiphys-webhook-keys`) holds its private ring."""
OPERATOR_FIELD = "operator.json"
"""Where the ConfigMap `tiphys-public-keys` holds the public half of the operator's ring."""
WEBHOOK_FIELD = "webhook.json"
"""Where the ConfigMap `tiphys-public-keys` holds the public half of the webhook's ring."""
LONGEST_RING = 64 * 1024
MOST_KEYS = 64

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_KNOWN = {"kid", "notBefore", "notAfter", "private", "public"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key with the time in which it holds."""

    kid: str
    not_before: float
    """Unix seconds, whole."""
    not_after: float
    public: bytes
    """32 bytes."""
    private: bytes | None = dataclasses.field(default=None, repr=False)
    """32 bytes; None where only the public half is known."""

    def holds(self, at: float, *, skew_s: float = 0.0) -> bool:
        """Say whether the key may be used at `at`, unix seconds."""
        return self.not_before - skew_s <= at < self.not_after + skew_s


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Keys, sorted by the time from which they hold."""

    keys: tuple[Key, ...] = ()

    def signing(self, at: float) -> Key:
        """Return the newest key with a private half that holds at `at`, unix seconds.

        Raises `errors.UnavailableError` when there is none.
        """
        usable = [key for key in self.keys if key.private is not None and key.holds(at)]
        if not usable:
            raise errors.UnavailableError(
                f"no private key of this ring holds at {_text(at)}; "
                "the operator's leader renews rings: look whether one is alive"
            )
        return usable[-1]

    def named(self, kid: str) -> Key | None:
        """Return the key of that name, if it is here."""
        return next((key for key in self.keys if key.kid == kid), None)

    def honours(self, at: float) -> bool:
        """Say whether any key would be honoured at `at`, unix seconds."""
        return any(key.holds(at, skew_s=SKEW_S) for key in self.keys)

    def public(self) -> "Ring":
        """Return the same ring without private halves."""
        return Ring(keys=tuple(dataclasses.replace(key, private=None) for key in self.keys))

    def joined(self, other: "Ring") -> "Ring":
        """Return a ring of the keys of both; a private half is kept where either has it."""
        found = {key.kid: key for key in self.keys}
        for key in other.keys:
            if key.kid not in found or found[key.kid].private is None:
                found[key.kid] = key
        return Ring(keys=_sorted(found.values()))

    def without_expired(self, at: float) -> "Ring":
        """Return the ring without the keys that are honoured no more at `at`, unix seconds."""
        return Ring(keys=tuple(key for key in self.keys if at < key.not_after + SKEW_S))


def generate(*, not_before: float, not_after: float) -> Key:
    """Return a new key; times are unix seconds, rounded down to whole ones.

    Raises `errors.InputError` when its life would be longer than validation allows.
    """
    private = ed25519.Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    key = Key(
        kid=name(public),
        not_before=float(int(not_before)),
        not_after=float(int(not_after)),
        public=public,
        private=private.private_bytes_raw(),
    )
    _check_life(key, where="a new key")
    return key


def name(public: bytes) -> str:
    """Return the name of the key with this public half: 16 letters of base64url."""
    return _encode(hashlib.sha256(public).digest()[:12])


def read(text: str | bytes, *, where: str = "ring") -> Ring:
    """Read a ring's JSON; `where` names its place in errors.  Raises `errors.InputError`."""
    if len(text) > LONGEST_RING:
        raise errors.InputError(f"{where}: longer than {LONGEST_RING} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InputError(f"{where}: no JSON ({error})") from error
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list) or set(found) != {"keys"} or len(listed) > MOST_KEYS:
        raise errors.InputError(
            f'{where}: expected {{"keys": […]}} with at most {MOST_KEYS} keys and nothing else'
        )
    keys = [_key(entry, where=f"{where}.keys[{place}]") for place, entry in enumerate(listed)]
    if len({key.kid for key in keys}) < len(keys):
        raise errors.InputError(f"{where}: a key stands in it twice")
    return Ring(keys=_sorted(keys))


def write(ring: Ring) -> str:
    """Return the JSON of a ring, with the private halves that it has."""
    listed = []
    for key in ring.keys:
        entry = {
            "kid": key.kid,
            "notBefore": _text(key.not_before),
            "notAfter": _text(key.not_after),
        }
        if key.private is not None:
            entry["private"] = _encode(key.private)
        listed.append({**entry, "public": _encode(key.public)})
    return json.dumps({"keys": listed}, separators=(",", ":"))


@functools.lru_cache(maxsize=256)
def private(key: Key) -> ed25519.Ed25519PrivateKey:
    """Return the private half as `cryptography` takes it; the key has one."""
    assert key.private is not None
    return ed25519.Ed25519PrivateKey.from_private_bytes(key.private)


@functools.lru_cache(maxsize=256)
def public(key: Key) -> ed25519.Ed25519PublicKey:
    """Return the public half as `cryptography` takes it."""
    return ed25519.Ed25519PublicKey.from_public_bytes(key.public)


@functools.lru_cache(maxsize=256)
def jose(key: Key) -> jwk.OKPKey:
    """Return the key as the JOSE library takes it; kept, since making one is dear."""
    if key.private is not None:
        return jwk.OKPKey.import_key(ed25519.Ed25519PrivateKey.from_private_bytes(key.private))
    return jwk.OKPKey.import_key(ed25519.Ed25519PublicKey.from_public_bytes(key.public))


def _key(entry: object, *, where: str) -> Key:
    if not isinstance(entry, Mapping) or not _KNOWN - {"private"} <= set(entry) <= _KNOWN:
        raise errors.InputError(f"{where}: expected the fields {', '.join(sorted(_KNOWN))}")
    if not all(isinstance(value, str) for value in entry.values()):
        raise errors.InputError(f"{where}: every field is text")
    public = _decode(entry["public"], where=f"{where}.public")
    private = None
    if "private" in entry:
        private = _decode(entry["private"], where=f"{where}.private")
        half = ed25519.Ed25519PrivateKey.from_private_bytes(private).public_key()
        if half.public_bytes_raw() != public:
            raise errors.InputError(f"{where}: the private half belongs to another key")
    if entry["kid"] != name(public):
        raise errors.InputError(f"{where}.kid: expected {name(public)}, made from the public half")
    key = Key(
        kid=entry["kid"],
        not_before=_time(entry["notBefore"], where=f"{where}.notBefore"),
        not_after=_time(entry["notAfter"], where=f"{where}.notAfter"),
        public=public,
        private=private,
    )
    _check_life(key, where=where)
    return key


def _check_life(key: Key, *, where: str) -> None:
    if not 0 < key.not_after - key.not_before <= LONGEST_LIFE_S:
        raise errors.InputError(
            f"{where}: notAfter has to come after notBefore, by {LONGEST_LIFE_S:.0f} s at most"
        )


def _sorted(keys: Iterable[Key]) -> tuple[Key, ...]:
    return tuple(sorted(keys, key=lambda key: (key.not_before, key.kid)))


def _text(at: float) -> str:
    return datetime.datetime.fromtimestamp(int(at), datetime.UTC).strftime(_TIME)


def _time(text: str, *, where: str) -> float:
    try:
        found = datetime.datetime.strptime(text, _TIME)
    except ValueError as error:
        raise errors.InputError(
            f"{where}: expected a time such as 2026-11-30T08:00:00Z, got {text[:40]!r}"
        ) from error
    return found.replace(tzinfo=datetime.UTC).timestamp()


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str, *, where: str) -> bytes:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise errors.InputError(f"{where}: no base64url") from error
    if len(raw) != 32:
        raise errors.InputError(f"{where}: expected 32 bytes, got {len(raw)}")
    return raw
