"""Keys and certificates as one frozen value, and the keeper that takes only what is whole.

Sources offer raw parts as they find them. A part that cannot be used, such as half of a file, is
refused and counted, and the last good one stays in use.
"""

import dataclasses
import os
import ssl
from collections.abc import Callable, Mapping

from cryptography import x509

from tiphys.models.domain import errors
from tiphys.models.wire import keys


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The webhook's own certificate and who signs the operator's; PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    authority: bytes
    expires_at: float
    """Unix seconds: the end of the leaf."""


NO_KEYS = keys.Ring()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """Everything that may be renewed while the process runs."""

    tls: Tls | None = None
    client_authority: bytes = b""
    """PEM: who signs the API server's client certificate."""
    ring: keys.Ring = NO_KEYS
    """The webhook's own."""
    operator_ring: keys.Ring = NO_KEYS
    """Public halves."""

    def serves(self, *, certified: bool) -> bool:
        """Say whether a TLS listener can be made of it, for callers with a certificate or not."""
        return self.tls is not None and (bool(self.client_authority) or not certified)

    def signs_and_checks(self, at: float) -> bool:
        """Say whether both rings have a key for `at`, unix seconds."""
        own = any(key.private is not None and key.holds(at) for key in self.ring.keys)
        return own and self.operator_ring.honours(at)


class Keeper:
    """The last good materials; tells `changed` about each change."""

    def __init__(self, changed: Callable[[Materials], None], refused: Callable[[str, str], None]):
        """`refused` is told the part's name and why."""
        self._changed = changed
        self._refused = refused
        self._seen: dict[str, Mapping[str, bytes]] = {}
        self.current = Materials()

    def offer(self, part: str, raw: Mapping[str, bytes]) -> None:
        """Take one part: `tls`, `clients`, `ring` or `operator_ring`; the same again is nothing."""
        if self._seen.get(part) == raw:
            return
        self._seen[part] = raw
        try:
            changed = _with(self.current, part, raw)
        except errors.InputError as error:
            self._refused(part, str(error))
            return
        if changed != self.current:
            self.current = changed
            self._changed(changed)


def server_context(materials: Materials, *, certified: bool) -> ssl.SSLContext:
    """Return what the listener uses, TLS 1.2 at least; `certified`: callers show a certificate."""
    assert materials.tls is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certified:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=materials.client_authority.decode("ascii"))
    # A resumed session would skip the check against an authority that was withdrawn since.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    context.set_alpn_protocols(["http/1.1"])
    _load(context, materials.tls)
    return context


def client_context(tls: Tls) -> ssl.SSLContext:
    """Return what calls to the operator use: its name is checked, our certificate shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=tls.authority.decode("ascii"))
    _load(context, tls)
    return context


def _with(held: Materials, part: str, raw: Mapping[str, bytes]) -> Materials:
    """Return the materials with one part read anew.  Raises `errors.InputError`."""
    if part == "ring":
        ring = keys.read(_field(raw, keys.RING_FIELD), where="ring")
        return dataclasses.replace(held, ring=ring)
    if part == "operator_ring":
        ring = keys.read(_field(raw, keys.OPERATOR_FIELD), where="operator's ring")
        return dataclasses.replace(held, operator_ring=ring.public())
    if part == "clients":
        authority = _field(raw, "ca.crt")
        _certificates(authority, where="the client authority")
        return dataclasses.replace(held, client_authority=authority)
    chain = _certificates(_field(raw, "tls.crt"), where="tls.crt")
    _certificates(_field(raw, "ca.crt"), where="ca.crt")
    tls = Tls(
        certificate=raw["tls.crt"],
        key=_field(raw, "tls.key"),
        authority=raw["ca.crt"],
        expires_at=chain[0].not_valid_after_utc.timestamp(),
    )
    try:
        client_context(tls)
    except (ssl.SSLError, OSError) as error:
        raise errors.InputError(f"tls.crt and tls.key: no pair ({error})") from error
    return dataclasses.replace(held, tls=tls)


def _field(raw: Mapping[str, bytes], name: str) -> bytes:
    if not raw.get(name):
        raise errors.InputError(f"{name}: missing or empty")
    return raw[name]


def _certificates(pem: bytes, *, where: str) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(pem)
        pem.decode("ascii")
    except ValueError as error:
        raise errors.InputError(f"{where}: no PEM certificate ({error})") from error
    if pem.count(b"-----BEGIN") != pem.count(b"-----END") or not pem.rstrip().endswith(b"-----"):
        raise errors.InputError(f"{where}: cut off")
    return found


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    """Load a pair; OpenSSL's loader takes files only, so it gets one that lies in memory alone."""
    with os.fdopen(os.memfd_create("tiphys-tls"), "wb") as file:
        file.write(tls.certificate + b"\n" + tls.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
