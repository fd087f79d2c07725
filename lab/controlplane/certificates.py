"""The lab's certificates: four authorities, each of which opens exactly one door.

`ca` signs the API server and its clients, `etcd-ca` the only client that etcd lets in,
`front-proxy-ca` the identity with which the API server forwards to extension servers, and
`webhook-client-ca` the certificate that the API server shows to every admission webhook. Were they
one, a workload's client certificate would open etcd. Keys are written with mode 0600.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK_NAMES = ("127.0.0.1", "localhost")
API_SERVER_NAMES = (
    *LOOPBACK_NAMES,
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
LIFETIME = datetime.timedelta(days=365)
BACKDATED = datetime.timedelta(hours=1)
"""A clock that is set back a little must not make a fresh lab refuse its own certificates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who a client certificate says that its holder is."""

    file: str
    user: str
    groups: tuple[str, ...] = ()


CLIENTS = (
    Client(file="admin", user="tiphys-lab-admin", groups=("system:masters",)),
    Client(file="kube-controller-manager", user="system:kube-controller-manager"),
    Client(file="kube-scheduler", user="system:kube-scheduler"),
    # The names of Argo's own ServiceAccount: its manifests' RBAC then holds as it does in a pod.
    Client(
        file="workflow-controller",
        user="system:serviceaccount:argo:argo",
        groups=("system:serviceaccounts", "system:serviceaccounts:argo"),
    ),
    # One process stands for all nodes and for what runs in their pods, so it may do more than one
    # node (see manifests); `system:nodes` gives it the API server's queue for nodes.
    Client(file="kubelet", user="tiphys-lab-kubelet", groups=("system:nodes",)),
    Client(file="processnode", user="tiphys-lab-processnode", groups=("system:nodes",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority that can sign leaves."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def write_all(folder: Path, *, server_addresses: Sequence[str] = ()) -> None:
    """Make every key and certificate of a cluster in `folder` (created with mode 0700).

    `server_addresses` are those of the API server beside 127.0.0.1.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster = write_authority(folder / "ca", "tiphys-lab-ca")
    names = (*API_SERVER_NAMES, *server_addresses)
    write_server(folder / "apiserver", "kube-apiserver", authority=cluster, names=names)
    # With this one the API server asks the process node for logs; it opens nothing else.
    write_client(
        folder / "apiserver-kubelet-client", "kube-apiserver-kubelet-client", authority=cluster
    )
    write_server(folder / "component", "component", authority=cluster, names=LOOPBACK_NAMES)
    for client in CLIENTS:
        write_client(
            folder / client.file, client.user, authority=cluster, organisations=client.groups
        )
    etcd = write_authority(folder / "etcd-ca", "tiphys-lab-etcd-ca")
    write_server(folder / "etcd", "etcd", authority=etcd, names=LOOPBACK_NAMES, also_client=True)
    write_client(folder / "etcd-client", "kube-apiserver", authority=etcd)
    front = write_authority(folder / "front-proxy-ca", "tiphys-lab-front-proxy-ca")
    write_client(folder / "front-proxy-client", "front-proxy-client", authority=front)
    webhooks = write_authority(folder / "webhook-client-ca", "tiphys-lab-webhook-client-ca")
    write_client(
        folder / "webhook-client",
        "kube-apiserver",
        authority=webhooks,
        organisations=("system:apiserver",),
    )
    write_service_account_key(folder / "service-accounts")


def write_authority(stem: Path, name: str) -> Authority:
    """Make an authority and write `STEM.key` and `STEM.crt`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
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
        _builder(subject, issuer=subject, key=key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_pair(stem, key=key, certificate=certificate)
    return Authority(key=key, certificate=certificate)


def write_server(
    stem: Path,
    name: str,
    *,
    authority: Authority,
    names: Sequence[str],
    also_client: bool = False,
) -> None:
    """Write a server's key and certificate for the host names and addresses in `names`."""
    usages = [ExtendedKeyUsageOID.SERVER_AUTH]
    if also_client:
        usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    _write_leaf(stem, _subject(name), authority=authority, usages=usages, names=names)


def write_client(
    stem: Path, user: str, *, authority: Authority, organisations: Sequence[str] = ()
) -> None:
    """Write a client's key and certificate; Kubernetes reads CN as user and O as groups."""
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    _write_leaf(stem, _subject(user, organisations), authority=authority, usages=usages)


def write_service_account_key(stem: Path) -> None:
    """Write the key pair that signs and checks ServiceAccount tokens (`STEM.key`, `STEM.pub`)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_private(stem.with_name(stem.name + ".key"), _private_pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_private(stem.with_name(stem.name + ".pub"), public)


def _subject(name: str, organisations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, item) for item in organisations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _write_leaf(
    stem: Path,
    subject: x509.Name,
    *,
    authority: Authority,
    usages: Sequence[x509.ObjectIdentifier],
    names: Sequence[str] = (),
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key = authority.certificate.extensions.get_extension_for_class(
        x509.SubjectKeyIdentifier
    ).value
    builder = (
        _builder(subject, issuer=authority.certificate.subject, key=key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key),
            critical=False,
        )
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    _write_pair(stem, key=key, certificate=certificate)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_pair(
    stem: Path, *, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    _write_private(stem.with_name(stem.name + ".key"), _private_pem(key))
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    _write_private(stem.with_name(stem.name + ".crt"), pem)


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, never readable by others for an instant."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
