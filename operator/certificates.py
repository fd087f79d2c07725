"""Our own authority and the leaves that it signs: made, renewed and judged here, nothing stored.

The Secret `tiphys-ca` holds `ca.crt` (all roots that are trusted), `tls.crt` and `tls.key` (the one
that signs) and, while a root is being replaced, `next.crt` and `next.key`: published first, trusted
by everybody for an overlap, and only then the one that signs. Leaves are Secrets of type
kubernetes.io/tls with the trusted roots in `ca.crt`.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tiphys.models.domain import errors
from tiphys.operator import settings

CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
NEXT = NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"
BACKDATED_S = 300.0
"""A clock that is behind must not refuse what was just made."""
ORGANISATION = "tiphys.dev"

Files = Mapping[str, bytes]
"""Decoded data of a Secret."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate with its key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def read(self) -> x509.Certificate:
        """The certificate as an object."""
        return x509.load_pem_x509_certificate(self.certificate)


def authority(files: Files, at: float, chosen: settings.Certificates) -> dict[str, bytes]:
    """Return what `tiphys-ca` shall hold at `at` (unix seconds); the same when nothing is due."""
    if CERTIFICATE not in files or ends_at(files[CERTIFICATE]) <= at:
        pair = _root(at, chosen)
        return {CA: pair.certificate, CERTIFICATE: pair.certificate, KEY: pair.key}
    _sign_with(files[CERTIFICATE], files.get(KEY, b""))
    found = dict(files)
    following = _following(files)
    if following is not None:
        if at >= _begins_at(following) + BACKDATED_S + chosen.overlap_s:
            found[CERTIFICATE], found[KEY] = following, files[NEXT_KEY]
            del found[NEXT_CERTIFICATE], found[NEXT_KEY]
    else:
        found = {name: each for name, each in found.items() if name not in NEXT}
    if following is None and due(files[CERTIFICATE], at, chosen):
        pair = _root(at, chosen)
        found[NEXT_CERTIFICATE], found[NEXT_KEY] = pair.certificate, pair.key
    roots = [found[CERTIFICATE], *_split(found.get(CA, b""))]
    if NEXT_CERTIFICATE in found:
        roots.insert(0, found[NEXT_CERTIFICATE])
    unique = dict.fromkeys(root.strip() + b"\n" for root in roots if ends_at(root) > at)
    found[CA] = b"".join(unique)
    return found


def leaf(
    files: Files,
    authority_files: Files,
    at: float,
    chosen: settings.Certificates,
    *,
    name: str,
    hosts: Sequence[str],
) -> dict[str, bytes]:
    """Return what a leaf's Secret shall hold; made anew when due, spoiled or of another root."""
    signer = x509.load_pem_x509_certificate(authority_files[CERTIFICATE])
    try:
        kept = (
            CERTIFICATE in files
            and not due(files[CERTIFICATE], at, chosen)
            and signed_by(files[CERTIFICATE], signer)
            and set(names(files[CERTIFICATE])) == set(hosts)
        )
    except (errors.InputError, x509.ExtensionNotFound):
        kept = False  # somebody spoiled it
    if kept:
        return {**files, CA: authority_files[CA]}
    pair = _leaf(authority_files, at, chosen, name=name, hosts=hosts)
    return {CA: authority_files[CA], CERTIFICATE: pair.certificate, KEY: pair.key}


def due(certificate: bytes, at: float, chosen: settings.Certificates) -> bool:
    """Say whether a certificate has used up its share of life."""
    began, ends = _begins_at(certificate), ends_at(certificate)
    return at >= began + (ends - began) * chosen.renew_at


def ends_at(certificate: bytes) -> float:
    """Return when the first certificate of a PEM text ends, unix seconds."""
    return _read(certificate).not_valid_after_utc.timestamp()


def names(certificate: bytes) -> list[str]:
    """Return the DNS names of a leaf."""
    extension = _read(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return extension.value.get_values_for_type(x509.DNSName)


def signed_by(certificate: bytes, signer: x509.Certificate) -> bool:
    """Say whether `signer` signed the certificate."""
    try:
        _read(certificate).verify_directly_issued_by(signer)
    except (ValueError, TypeError, errors.InputError, exceptions.InvalidSignature):
        return False
    return True


def hosts(service: str, namespace: str) -> tuple[str, ...]:
    """Return the names under which a Service is called."""
    return (
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc",
        f"{service}.{namespace}.svc.cluster.local",
    )


def _root(at: float, chosen: settings.Certificates) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    named = _named(f"tiphys-ca-{x509.random_serial_number() % 10**8:08d}")
    builder = _builder(named, named, key, at, chosen.authority_life_s)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return _signed(builder, key, key)


def _leaf(
    authority_files: Files,
    at: float,
    chosen: settings.Certificates,
    *,
    name: str,
    hosts: Sequence[str],
) -> Pair:
    signer = x509.load_pem_x509_certificate(authority_files[CERTIFICATE])
    signer_key = _sign_with(authority_files[CERTIFICATE], authority_files[KEY])
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_named(name), signer.subject, key, at, chosen.leaf_life_s)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    # Each process answers, and calls another one: the webhook the operator, followers the leader.
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False
    )
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key())
    builder = builder.add_extension(authority_key, critical=False)
    return _signed(builder, key, signer_key)


def _following(files: Files) -> bytes | None:
    """Return the root that is to sign next; None where it could not, so that another is made."""
    certificate = files.get(NEXT_CERTIFICATE)
    try:
        if certificate is not None:
            _sign_with(certificate, files.get(NEXT_KEY, b""))
    except errors.InputError:
        return None
    return certificate


def _sign_with(certificate: bytes, key: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the key of a root that signs.  Raises `InputError` for one that is not its own."""
    try:
        found = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm) as error:
        raise errors.InputError(
            f"Secret tiphys-ca: tls.key is no key: {error}; delete it"
        ) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise errors.InputError("Secret tiphys-ca: tls.key is no elliptic-curve key; delete it")
    if found.public_key() != _read(certificate).public_key():
        raise errors.InputError("Secret tiphys-ca: tls.key is not that of tls.crt; delete it")
    return found


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    at: float,
    life_s: float,
) -> x509.CertificateBuilder:
    began = datetime.datetime.fromtimestamp(at - BACKDATED_S, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(began + datetime.timedelta(seconds=life_s + BACKDATED_S))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signer_key: ec.EllipticCurvePrivateKey,
) -> Pair:
    certificate = builder.sign(signer_key, hashes.SHA256())
    return Pair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _named(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _begins_at(certificate: bytes) -> float:
    return _read(certificate).not_valid_before_utc.timestamp()


def _read(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise errors.InputError(f"no PEM certificate: {error}; delete the Secret") from error


def _split(bundle: bytes) -> list[bytes]:
    """Return the certificates of a PEM bundle."""
    mark = b"-----BEGIN CERTIFICATE-----"
    return [mark + part for part in bundle.split(mark)[1:]]
