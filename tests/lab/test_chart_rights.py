"""What each account may do, as docs/rbac.md says it, asked of the API server itself."""

from collections.abc import Iterator

import pytest

from lab import apis, homes
from lab.installs import charts
from tests.lab import chart_objects

pytestmark = pytest.mark.timeout(180)

SYSTEM = charts.NAMESPACE
RELEASE = charts.RELEASER_NAMESPACE
ACCOUNTS = {
    "operator": (SYSTEM, "tiphys-operator"),
    "webhook": (SYSTEM, "tiphys-webhook"),
    "releaser": (RELEASE, "tiphys-releaser"),
}
READ = ("get", "list", "watch")
READ_BY_OPERATOR = (
    "pods",
    "nodes",
    "namespaces",
    "resourcequotas",
    "limitranges",
    "scheduling.k8s.io/priorityclasses",
    "argoproj.io/workflows",
    "argoproj.io/workflowtemplates",
    "argoproj.io/clusterworkflowtemplates",
    "argoproj.io/cronworkflows",
    "tiphys.dev/schedulingpolicies",
    "tiphys.dev/policyversions",
)
OWN_SECRETS = (
    "tiphys-keys",
    "tiphys-webhook-keys",
    "tiphys-ca",
    "tiphys-operator-tls",
    "tiphys-webhook-tls",
)
MAY = {
    # account: (verb, group/resource[/subresource], namespace, name)
    "operator": (
        *((verb, what, "any", "") for what in READ_BY_OPERATOR for verb in READ),
        ("patch", "pods", "any", ""),
        ("patch", "pods/status", "any", ""),
        ("patch", "pods/resize", "any", ""),
        ("delete", "pods", "any", ""),
        ("create", "events", "any", ""),
        ("release", "tiphys.dev/gates", "any", ""),
        ("create", "coordination.k8s.io/leases", SYSTEM, ""),
        ("update", "coordination.k8s.io/leases", SYSTEM, "tiphys-operator"),
        *((verb, "secrets", SYSTEM, name) for name in OWN_SECRETS for verb in (*READ, "patch")),
        ("create", "secrets", SYSTEM, ""),
        ("patch", "configmaps", SYSTEM, "tiphys-public-keys"),
        ("update", "tiphys.dev/steerednamespaces", SYSTEM, "tiphys"),
        (
            "patch",
            "admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "",
            "tiphys",
        ),
        (
            "patch",
            "admissionregistration.k8s.io/validatingwebhookconfigurations",
            "",
            "tiphys",
        ),
        ("patch", "tiphys.dev/schedulingpolicies/status", "", "any"),
    ),
    "webhook": (
        *((verb, "secrets", SYSTEM, "tiphys-webhook-keys") for verb in READ),
        *((verb, "secrets", SYSTEM, "tiphys-webhook-tls") for verb in READ),
        *((verb, "configmaps", SYSTEM, "tiphys-public-keys") for verb in READ),
    ),
    "releaser": (
        *((verb, "pods", "any", "") for verb in ("get", "list", "patch")),
        *((verb, "coordination.k8s.io/leases", SYSTEM, "") for verb in ("get", "list")),
        ("release", "tiphys.dev/gates", "any", ""),
    ),
}
MAY_NOT = {
    "operator": (
        ("create", "pods", "any", ""),
        ("update", "pods", "any", ""),
        ("deletecollection", "pods", "any", ""),
        ("create", "pods/binding", "any", ""),
        ("create", "pods/exec", "any", ""),
        ("create", "pods/eviction", "any", ""),
        ("patch", "pods/ephemeralcontainers", "any", ""),
        ("patch", "nodes", "", ""),
        ("patch", "namespaces", "", ""),
        ("patch", "argoproj.io/workflows", "any", ""),
        ("get", "secrets", "any", ""),
        ("list", "secrets", SYSTEM, ""),
        ("get", "secrets", SYSTEM, "foreign"),
        ("delete", "secrets", SYSTEM, "tiphys-keys"),
        # A lab lets every account get and update ConfigMaps, as executors of Argo's examples do.
        ("patch", "configmaps", "any", ""),
        ("create", "coordination.k8s.io/leases", "any", ""),
        (
            "patch",
            "admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "",
            "foreign",
        ),
        (
            "patch",
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "",
            "tiphys-pods",
        ),
        ("patch", "rbac.authorization.k8s.io/clusterroles", "", "tiphys-operator"),
        ("create", "serviceaccounts/token", SYSTEM, "tiphys-webhook"),
        ("patch", "tiphys.dev/schedulingpolicies", "", "any"),
        ("patch", "tiphys.dev/policyversions", "", "any"),
    ),
    "webhook": (
        *((verb, "pods", "any", "") for verb in (*READ, "patch", "create", "delete")),
        ("list", "secrets", SYSTEM, ""),
        ("get", "secrets", SYSTEM, "tiphys-keys"),
        ("get", "secrets", SYSTEM, "tiphys-ca"),
        ("get", "secrets", SYSTEM, "tiphys-operator-tls"),
        ("patch", "secrets", SYSTEM, "tiphys-webhook-keys"),
        ("patch", "configmaps", SYSTEM, "tiphys-public-keys"),
        ("update", "coordination.k8s.io/leases", SYSTEM, "tiphys-operator"),
        ("release", "tiphys.dev/gates", "any", ""),
        ("list", "argoproj.io/workflows", "any", ""),
    ),
    "releaser": (
        ("delete", "pods", "any", ""),
        ("patch", "pods/status", "any", ""),
        ("patch", "pods/resize", "any", ""),
        ("create", "pods", "any", ""),
        ("get", "secrets", SYSTEM, "tiphys-keys"),
        ("get", "secrets", RELEASE, ""),
        ("update", "coordination.k8s.io/leases", SYSTEM, "tiphys-operator"),
        ("create", "coordination.k8s.io/leases", SYSTEM, ""),
        ("patch", "nodes", "", ""),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def chart(lab: homes.Home) -> Iterator[None]:
    """Install the chart without its processes."""
    with chart_objects.installed(lab):
        yield


Question = tuple[str, str, str, str]


async def allowed(api: apis.Api, account: str, asked: Question) -> bool:
    """Ask the API server whether an account may do something."""
    verb, what, namespace, name = asked
    group, resource, subresource = _split(what)
    attributes = {
        "verb": verb,
        "group": group,
        "version": "*",
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    space, user = ACCOUNTS[account]
    review = {
        "spec": {
            "user": f"system:serviceaccount:{space}:{user}",
            "groups": [
                "system:authenticated",
                "system:serviceaccounts",
                f"system:serviceaccounts:{space}",
            ],
            "resourceAttributes": attributes,
        }
    }
    answer = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def _split(what: str) -> tuple[str, str, str]:
    """Return group, resource and subresource of `[GROUP/]RESOURCE[/SUBRESOURCE]`."""
    words = what.split("/")
    # Every group that is named here has a dot in it, and no resource has.
    group = words.pop(0) if "." in words[0] else ""
    return group, words[0], "/".join(words[1:])


@pytest.mark.parametrize("account", MAY)
async def test_each_account_may_do_its_work(api: apis.Api, account: str) -> None:
    """Everything that its process asks for is granted."""
    refused = [asked for asked in MAY[account] if not await allowed(api, account, asked)]
    assert [] == refused


@pytest.mark.parametrize("account", MAY_NOT)
async def test_no_account_may_do_more(api: apis.Api, account: str) -> None:
    """What would make a stolen token worth something is refused by RBAC alone."""
    granted = [asked for asked in MAY_NOT[account] if await allowed(api, account, asked)]
    assert [] == granted


async def test_no_rule_has_a_wildcard(api: apis.Api) -> None:
    """Neither in verbs nor in groups, resources or names; that would be rights nobody counted."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    params = {"labelSelector": "app.kubernetes.io/name=tiphys"}
    rules = [
        rule
        for kind in ("clusterroles", "roles")
        for role in (await api.get(f"{rbac}/{kind}", params=params))["items"]
        for rule in role["rules"]
    ]

    assert len(rules) > 10
    for rule in rules:
        assert "*" not in str(rule)
