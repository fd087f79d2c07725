from pathlib import Path

import pytest
import yaml

from lab import apis, catalogs, homes
from lab.controlplane import certificates, configurations


@pytest.fixture
def home(tmp_path: Path) -> homes.Home:
    """Return a home with certificates and every file that does not depend on a port."""
    made = homes.Home(name="a", root=tmp_path)
    certificates.write_all(made.pki)
    configurations.write_all(made)
    return made


@pytest.mark.parametrize("client", [client.file for client in certificates.CLIENTS])
def test_each_client_has_a_kubeconfig_that_loads(home: homes.Home, client: str) -> None:
    """With absolute paths, so that it works from any folder; readable by its owner alone."""
    configurations.write_kubeconfigs(home, port=23456)
    path = configurations.client_kubeconfig(home, client)

    apis.Api(path)

    assert "https://127.0.0.1:23456" in path.read_text()
    assert str(home.pki / "ca.crt") in path.read_text()
    assert 0o600 == path.stat().st_mode & 0o777


def test_the_admins_kubeconfig_is_the_labs_own(home: homes.Home) -> None:
    """It is the one that a person gets; its context is the lab's name."""
    configurations.write_kubeconfigs(home, port=23456)

    assert "a" == yaml.safe_load(home.kubeconfig.read_text())["current-context"]


def test_the_api_server_shows_a_certificate_to_any_webhook(home: homes.Home) -> None:
    """Both plugins, and a user `*`, which Kubernetes takes for every host and port."""
    config = yaml.safe_load((home.root / "config" / "admission.yaml").read_text())
    files = {item["configuration"]["kubeConfigFile"] for item in config["plugins"]}
    (webhooks,) = (yaml.safe_load(Path(file).read_text()) for file in files)

    assert {"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} == {
        item["name"] for item in config["plugins"]
    }
    assert ["*"] == [user["name"] for user in webhooks["users"]]
    assert Path(webhooks["users"][0]["user"]["client-key"]).is_file()


def test_the_schedulers_backoff_is_as_short_as_it_can_be(home: homes.Home) -> None:
    """Unscaled back-off would flatter whoever competes with the queue."""
    config = configurations.scheduler(home)

    assert (1, 1) == (config["podInitialBackoffSeconds"], config["podMaxBackoffSeconds"])


def test_the_audit_policy_holds_the_life_of_pods_and_nothing_of_secrets() -> None:
    """Metadata of what reports read; all else is dropped."""
    rules = configurations.audit_policy()["rules"]

    assert {"level": "None"} == rules[-1]
    assert {"Metadata"} == {rule["level"] for rule in rules[:-1]}
    resources = [
        name for rule in rules[:-1] for item in rule["resources"] for name in item["resources"]
    ]
    assert {"pods", "pods/binding", "pods/eviction", "workflows"} <= set(resources)
    assert "secrets" not in resources


@pytest.mark.parametrize("name", catalogs.names())
def test_a_cluster_survives_the_way_into_the_home(name: str, tmp_path: Path) -> None:
    """The copy in the home describes the same nodes, with plain numbers."""
    copy = tmp_path / "cluster.yaml"
    copy.write_text(configurations.cluster(catalogs.load(name)))

    assert catalogs.load(name) == catalogs.load(str(copy))
