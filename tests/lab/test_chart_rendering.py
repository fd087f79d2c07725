"""The chart as Helm renders it: for both control planes, and what it refuses."""

import pytest

from lab import apis, errors
from lab.installs import charts, helms

VALUES: apis.Object = {"webhook": {"clientCA": "-----BEGIN CERTIFICATE-----\n"}}
NO_CERTIFICATE = {"clientCertificates": "none", "clientCA": ""}
TUNNEL = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "konnectivity-agent"}},
}
WORKLOADS = ("Deployment", "CronJob")


def rendered(*, policies: bool = True, **more: object) -> list[apis.Object]:
    """Return the chart's objects for a cluster with or without MutatingAdmissionPolicy."""
    version = "v1.36.3" if policies else "v1.34.4"
    chosen = charts.merged(VALUES, more)
    return charts.manifest(helms.find(), chosen, kubernetes=version, policies=policies)


def uncertified(**network: object) -> apis.Object:
    """Return values for an API server without a client certificate."""
    return {"webhook": NO_CERTIFICATE, "networkPolicy": network}


def of_kind(objects: list[apis.Object], *kinds: str) -> list[apis.Object]:
    """Return the objects of some kinds."""
    return [item for item in objects if item["kind"] in kinds]


def pod_specs(objects: list[apis.Object]) -> list[apis.Object]:
    """Return the pod specs of all workloads."""
    specs = [item["spec"]["template"]["spec"] for item in of_kind(objects, "Deployment")]
    for item in of_kind(objects, "CronJob"):
        specs.append(item["spec"]["jobTemplate"]["spec"]["template"]["spec"])
    return specs


def test_helm_finds_no_fault_with_the_chart() -> None:
    """`helm lint --strict` with what an installation has to say."""
    helms.run(helms.find(), ["lint", "--strict", str(charts.FOLDER)], values=VALUES)


def test_the_policy_stamps_where_the_cluster_has_it() -> None:
    """Then the webhook is asked for stamped pods; elsewhere for the namespaces of a list."""
    for policies in (True, False):
        objects = rendered(policies=policies)
        assert policies is bool(of_kind(objects, "MutatingAdmissionPolicy"))
        kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        hooks = [hook for item in of_kind(objects, *kinds) for hook in item["webhooks"]]
        assert 2 == len(hooks)
        for hook in hooks:
            stamped = "tiphys.dev/steered" in hook["objectSelector"]["matchLabels"]
            operators = {item["operator"] for item in hook["namespaceSelector"]["matchExpressions"]}
            assert policies is stamped
            assert operators == ({"NotIn"} if policies else {"NotIn", "In"})
            assert ("Ignore", 2, "NoneOnDryRun") == (
                hook["failurePolicy"],
                hook["timeoutSeconds"],
                hook["sideEffects"],
            )


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ({"apiServerCIDRs": ["10.0.0.0/28"]}, [{"ipBlock": {"cidr": "10.0.0.0/28"}}]),
        ({"apiServerFrom": [TUNNEL]}, [TUNNEL]),
    ],
)
def test_without_client_certificates_everything_that_stands_in_is_there(
    network: apis.Object, said: list[apis.Object]
) -> None:
    """The policy without its switch, no path for strangers to know, no right that is not needed."""
    objects = rendered(**uncertified(**network))
    (policy,) = of_kind(objects, "NetworkPolicy")
    assert "tiphys-webhook" == policy["metadata"]["name"]
    assert ["Ingress"] == policy["spec"]["policyTypes"]
    admission, metrics = policy["spec"]["ingress"]
    assert [{"port": "admission"}] == admission["ports"]
    assert said == admission["from"]
    assert [{"port": "metrics"}] == metrics["ports"]
    for item in of_kind(objects, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert "none" == item["metadata"]["annotations"]["tiphys.dev/client-certificates"]
        assert "path" not in item["webhooks"][0]["clientConfig"]["service"]
    written = str(objects)
    assert "tiphys-webhook-client-ca" not in written
    assert "certificates: none" in written


def test_with_client_certificates_nothing_of_that_is_there() -> None:
    """The network's policies only where they are switched on, and then for all processes."""
    assert [] == of_kind(rendered(), "NetworkPolicy")
    objects = rendered(networkPolicy={"enabled": True})
    names = [item["metadata"]["name"] for item in of_kind(objects, "NetworkPolicy")]
    assert ["tiphys-operator", "tiphys-releaser", "tiphys-webhook"] == sorted(names)
    for item in of_kind(objects, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert item["webhooks"][0]["clientConfig"]["service"]["path"] in ("/mutate", "/validate")


def test_the_network_lets_through_all_that_talk_to_one_another() -> None:
    """Webhook and operators to the decision API; scrapers and `tiphys explain` to the pages."""
    scrapers = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    servers = {"ipBlock": {"cidr": "10.0.0.0/28"}}
    network = {"apiServerCIDRs": ["10.0.0.0/28"], "metricsFrom": [scrapers]}
    policies = {
        item["metadata"]["name"]: item["spec"]["ingress"]
        for item in of_kind(rendered(networkPolicy={"enabled": True, **network}), "NetworkPolicy")
    }
    decisions, pages = policies["tiphys-operator"]
    assert [{"port": "decisions"}] == decisions["ports"]
    roles = [peer["podSelector"]["matchLabels"] for peer in decisions["from"]]
    assert ["webhook", "operator"] == [role["app.kubernetes.io/component"] for role in roles]
    assert [scrapers, servers] == pages["from"]
    admission, pages = policies["tiphys-webhook"]
    assert ([servers], [scrapers]) == (admission["from"], pages["from"])
    (pages,) = policies["tiphys-releaser"]
    assert ([{"port": "metrics"}], [scrapers]) == (pages["ports"], pages["from"])


def test_after_an_uninstall_gates_open_whoever_leads() -> None:
    """A leader that is being deleted may still renew its Lease, and nobody comes after it."""
    for disabled in (True, False):
        (job,) = of_kind(rendered(disabled=disabled), "Job")
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert ["tiphys", "release", "--once"] == container["command"][:3]
        said = [each["value"] for each in container["env"] if each["name"] == "TIPHYS_DISABLED"]
        assert ["1"] == said


def test_every_container_is_confined() -> None:
    """No privileges, no root, nothing to write to but what is mounted."""
    specs = pod_specs(rendered())
    assert 4 == len(specs)
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"]
        for container in spec["containers"]:
            confined = container["securityContext"]
            assert not confined["allowPrivilegeEscalation"]
            assert confined["readOnlyRootFilesystem"]
            assert ["ALL"] == confined["capabilities"]["drop"]
            assert container["resources"]["requests"]


def test_every_switch_reaches_every_container() -> None:
    """`disabled`, images by digest, annotations and what else goes for all pods."""
    digests = dict.fromkeys(("operator", "webhook", "releaser"), f"sha256:{'a' * 64}")
    more = {
        "disabled": True,
        "image": {"registry": "registry.example/x/", "digests": digests},
        "pods": {"annotations": {"a": "b"}, "nodeSelector": {"c": "d"}},
    }
    for spec in pod_specs(rendered(**more)):
        assert {"c": "d"} == spec["nodeSelector"]
        for container in spec["containers"]:
            assert {"name": "TIPHYS_DISABLED", "value": "1"} in container["env"]
            assert container["image"].startswith("registry.example/x/tiphys-")
            assert container["image"].endswith(f"@sha256:{'a' * 64}")


def test_nothing_is_in_a_namespace_that_the_chart_does_not_know() -> None:
    """Each namespaced object says where it belongs; nothing lands in `default`."""
    known = {charts.NAMESPACE, charts.RELEASER_NAMESPACE}
    cluster_wide = ("ClusterRole", "ClusterRoleBinding", "PriorityClass", "Namespace")
    for item in rendered():
        kind = item["kind"]
        if kind in cluster_wide or kind.endswith(("Configuration", "Policy", "Definition")):
            continue
        if kind.endswith("PolicyBinding"):
            continue
        assert item["metadata"]["namespace"] in known, item


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"webhok": {}}, "additional properties 'webhok' not allowed"),
        ({"webhook": {"port": 0}}, "minimum"),
        ({"steering": {"by": "label"}}, "steering"),
        ({"webhook": {"clientCA": ""}}, "give the PEM of the authority"),
        ({"image": {"digests": {"operator": "latest"}}}, "digests"),
        ({"webhook": {"clientCertificates": "no"}}, "must be one of 'required', 'none'"),
        ({"webhook": {"settings": {"clients": {"certificates": "none"}}}}, "clientCertificates"),
        ({"webhook": {"clientCertificates": "none"}}, "clientCA is given"),
        ({"webhook": NO_CERTIFICATE}, "the network has to keep strangers from the webhook"),
        (uncertified(apiServerCIDRs=["0.0.0.0/0"]), "0.0.0.0/0 is everybody"),
        (uncertified(apiServerCIDRs=["10.0.0.0/28", "::/0"]), "::/0 is everybody"),
        (uncertified(apiServerCIDRs=["10.0.0.1"]), "apiServerCIDRs"),
        (uncertified(apiServerFrom=[{"podSelector": {}}]), "apiServerFrom"),
        (uncertified(apiServerFrom=[{"ipBlock": {"cidr": "::/0"}}]), "apiServerFrom"),
    ],
)
def test_values_that_cannot_be_are_refused_with_the_reason(more: apis.Object, said: str) -> None:
    """Before anything is installed."""
    with pytest.raises(errors.UsageError, match=said):
        rendered(**more)
