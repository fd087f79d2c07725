"""Certificate authorities and leaves for tests, as PEM, in a few milliseconds each."""

import dataclasses
import datetime
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

OPERATOR = "tiphys-operator.tiphys-system.svc"
WEBHOOK = "tiphys-webhook.tiphys-system.svc"
NAMES = {"O": NameOID.ORGANIZATION_NAME, "CN": NameOID.COMMON_NAME}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A certificate and its key."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs leaves."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, issuer=self._name, key=self._key, life_s=3600.0)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    def leaf(self, subject: str, *, names: Sequence[str] = (), life_s: float = 3600.0) -> Leaf:
        """Sign a leaf for server and client use; `subject` is `O=…,CN=…`; below zero = expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        pairs = [part.partition("=") for part in subject.split(",")]
        about = x509.Name([x509.NameAttribute(NAMES[kind], text) for kind, _, text in pairs])
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(about, issuer=self._name, key=key, life_s=life_s).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_name(name) for name in names]), critical=False
            )
        return Leaf(
            certificate=builder.sign(self._key, hashes.SHA256()).public_bytes(
                serialization.Encoding.PEM
            ),
            key=key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life_s: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(seconds=life_s))
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
