import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from lab.controlplane import certificates


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make all certificates once."""
    folder = tmp_path_factory.mktemp("made") / "pki"
    certificates.write_all(folder)
    return folder


def _certificate(pki: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((pki / f"{name}.crt").read_bytes())


def _names(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(item.value) for item in certificate.subject.get_attributes_for_oid(oid)]


def test_nobody_but_the_owner_can_read_a_file_of_the_pki(pki: Path) -> None:
    """Keys and certificates have mode 0600, their folder 0700."""
    assert {0o600} == {path.stat().st_mode & 0o777 for path in pki.iterdir()}
    assert 0o700 == pki.stat().st_mode & 0o777


@pytest.mark.parametrize("name", ["apiserver", "component", "etcd"])
def test_a_server_is_trusted_on_loopback(pki: Path, name: str) -> None:
    """A strict verifier accepts each server certificate for 127.0.0.1."""
    authority = "etcd-ca" if name == "etcd" else "ca"
    verifier = (
        PolicyBuilder()
        .store(Store([_certificate(pki, authority)]))
        .build_server_verifier(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    )

    assert verifier.verify(_certificate(pki, name), [])


@pytest.mark.parametrize(
    ("name", "authority"),
    [
        *((client.file, "ca") for client in certificates.CLIENTS),
        ("etcd-client", "etcd-ca"),
        ("front-proxy-client", "front-proxy-ca"),
        ("webhook-client", "webhook-client-ca"),
    ],
)
def test_a_client_is_signed_by_the_authority_of_its_door_only(
    pki: Path, name: str, authority: str
) -> None:
    """Each client certificate verifies against its own authority and against no other."""
    client = _certificate(pki, name)
    for candidate in ("ca", "etcd-ca", "front-proxy-ca", "webhook-client-ca"):
        issuer = _certificate(pki, candidate)
        if candidate == authority:
            client.verify_directly_issued_by(issuer)
        else:
            with pytest.raises(ValueError, match="does not match"):
                client.verify_directly_issued_by(issuer)


def test_the_admin_is_in_the_group_that_may_do_all(pki: Path) -> None:
    """Kubernetes reads the groups of a client from its organisations."""
    assert ["system:masters"] == _names(_certificate(pki, "admin"), NameOID.ORGANIZATION_NAME)


def test_argo_has_the_name_of_its_own_service_account(pki: Path) -> None:
    """The RBAC of Argo's manifests then holds for it as it would in a pod."""
    argo = _certificate(pki, "workflow-controller")

    assert ["system:serviceaccount:argo:argo"] == _names(argo, NameOID.COMMON_NAME)


def test_no_client_can_play_a_server(pki: Path) -> None:
    """Client certificates carry the client usage alone."""
    for client in certificates.CLIENTS:
        usage = _certificate(pki, client.file).extensions.get_extension_for_class(
            x509.ExtendedKeyUsage
        )
        assert [ExtendedKeyUsageOID.CLIENT_AUTH] == list(usage.value)


def test_certificates_outlive_long_experiments_and_bear_a_clock_set_back(pki: Path) -> None:
    """They hold from an hour ago for about a year."""
    now = datetime.datetime.now(datetime.UTC)
    leaf = _certificate(pki, "apiserver")

    assert leaf.not_valid_before_utc < now - datetime.timedelta(minutes=50)
    assert leaf.not_valid_after_utc > now + datetime.timedelta(days=360)


def test_openssl_loads_each_pair(pki: Path) -> None:
    """Key and certificate of one name belong together."""
    for certificate in pki.glob("*.crt"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
