"""What a stolen token is worth: the fields of a pod that each account may change, and no other."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lab import apis, homes
from lab.installs import charts
from tests.lab import chart_objects
from tests.lab.chart_objects import (
    DECISION,
    GATE,
    GATED,
    RELEASE,
    SIGNATURE,
    STEERED,
    Accounts,
    a_gated_task,
    a_task,
    opening,
    refusal,
)

pytestmark = pytest.mark.timeout(180)

OPERATOR = (charts.NAMESPACE, "tiphys-operator")
WEBHOOK = (charts.NAMESPACE, "tiphys-webhook")
RELEASER = (charts.RELEASER_NAMESPACE, "tiphys-releaser")
TENANT = ("", "tenant")
OURS = (OPERATOR, RELEASER)

IMAGE = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]
FORGED = {"metadata": {"annotations": {DECISION: '{"id":"d-2"}'}}}
FORGED_SIGNATURE = {"metadata": {"annotations": {SIGNATURE: "theirs"}}}
UNGATED_LABEL = {"metadata": {"labels": {GATED: None}}}
TOLERATION = [
    {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}}
]
PLACED = [
    {"op": "add", "path": "/spec/nodeSelector/rack", "value": "r1"},
    {"op": "add", "path": "/metadata/annotations/tiphys.dev~1release", "value": "{}"},
    {"op": "remove", "path": "/metadata/labels/tiphys.dev~1gated"},
]
WAITS = {
    "status": {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "second in line",
            }
        ]
    }
}


@pytest.fixture(scope="module", autouse=True)
def chart(lab: homes.Home) -> Iterator[None]:
    """Install the chart without its processes."""
    with chart_objects.installed(lab):
        yield


@pytest.fixture
async def opted_in(lab: homes.Home, api: apis.Api) -> AsyncIterator[str]:
    """Return a namespace that opted in."""
    name = await chart_objects.a_namespace(api, f"in-{uuid.uuid4().hex[:6]}", enabled="true")
    await chart_objects.active(api, lab, name)
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")


class Trial:
    """One pod behind our gate, and whoever tries to change it."""

    def __init__(self, accounts: Accounts, api: apis.Api, namespace: str) -> None:
        self.accounts = accounts
        self.api = api
        self.namespace = namespace

    async def pod(self, pod: apis.Object | None = None) -> str:
        """Create the pod and return its path."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        made = await self.api.create(path, pod or a_gated_task())
        return f"{path}/{made['metadata']['name']}"

    async def tried(
        self,
        who: tuple[str, str],
        patch: object,
        *,
        at: str = "",
        kind: str = "",
        pod: apis.Object | None = None,
    ) -> str:
        """Return why a patch by an account was refused; empty if it was not."""
        path = await self.pod(pod)
        try:
            chosen = kind or (apis.JSON_PATCH if isinstance(patch, list) else apis.MERGE_PATCH)
            async with self.accounts.of(who[0] or self.namespace, who[1]) as client:
                return await refusal(client.patch(path + at, patch, content_type=chosen))
        finally:
            await self.api.delete(path, params={"gracePeriodSeconds": "0"})


@pytest.fixture
async def trial(lab: homes.Home, api: apis.Api, opted_in: str, tmp_path: Path) -> Trial:
    """Return a trial in a namespace that opted in, with a tenant who may edit everything."""
    accounts = Accounts(lab, api, tmp_path)
    await accounts.tenant(opted_in)
    return Trial(accounts, api, opted_in)


async def test_the_operator_releases_places_resizes_and_explains(trial: Trial) -> None:
    """All that its work needs passes: one patch for the release, sizes and reasons before it."""
    small = {"name": "main", "resources": {"requests": {"cpu": "50m"}}}

    assert "" == await trial.tried(OPERATOR, opening(*PLACED))
    assert "" == await trial.tried(
        OPERATOR,
        {"spec": {"containers": [small]}},
        at="/resize",
        kind=apis.STRATEGIC_PATCH,
        pod=_sized(a_gated_task()),
    )
    assert "" == await trial.tried(OPERATOR, WAITS, at="/status", kind=apis.STRATEGIC_PATCH)
    assert "" == await trial.tried(OPERATOR, {"metadata": {"annotations": {"tiphys.dev/x": "1"}}})


def _sized(pod: apis.Object) -> apis.Object:
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    return pod


async def test_the_operator_prefers_a_group_by_affinity(trial: Trial) -> None:
    """The preferred form of a placement passes as the required one does."""
    term = {
        "weight": 100,
        "preference": {
            "matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}],
        },
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    preferred = {"op": "add", "path": "/spec/affinity", "value": affinity}

    assert "" == await trial.tried(OPERATOR, opening(preferred))
    assert "only the operator places pods" in await trial.tried(RELEASER, opening(preferred))


async def test_the_releaser_opens_gates_and_places_nothing(trial: Trial) -> None:
    """It needs one patch; a nodeSelector in it is refused."""
    assert "" == await trial.tried(RELEASER, opening(PLACED[2]))
    assert "only the operator places pods" in await trial.tried(RELEASER, opening(*PLACED))


@pytest.mark.parametrize("who", OURS, ids=lambda who: who[1])
async def test_no_account_of_ours_changes_an_image(trial: Trial, who: tuple[str, str]) -> None:
    """Neither with the release nor by itself."""
    assert "Tiphys changes no container" in await trial.tried(who, IMAGE)
    assert "Tiphys changes no container" in await trial.tried(who, opening(*IMAGE))


@pytest.mark.parametrize("who", OURS, ids=lambda who: who[1])
async def test_no_account_of_ours_opens_a_foreign_gate(trial: Trial, who: tuple[str, str]) -> None:
    """Somebody else holds the pod as well, and goes on holding it."""
    both = a_gated_task(gates=[GATE, "kueue.x-k8s.io/admission"])
    foreign = opening(index=1, gate="kueue.x-k8s.io/admission")

    assert "its own gate only" in await trial.tried(who, foreign, pod=both)
    assert "" == await trial.tried(who, opening(), pod=both)


@pytest.mark.parametrize("who", OURS, ids=lambda who: who[1])
async def test_no_account_of_ours_touches_a_pod_that_never_was_steered(
    trial: Trial, namespace: str, who: tuple[str, str]
) -> None:
    """A pod in a namespace that did not opt in is none of its business, label or not."""
    there = Trial(trial.accounts, trial.api, namespace)
    annotated = {"metadata": {"annotations": {"tiphys.dev/x": "1"}}}
    forged = a_task(labels={STEERED: "true"})

    assert "not steered" in await there.tried(who, annotated, pod=a_task())
    if chart_objects.stamps(trial.accounts.home):
        assert "not steered" in await there.tried(who, annotated, pod=forged)


@pytest.mark.parametrize("who", OURS, ids=lambda who: who[1])
async def test_accounts_of_ours_write_no_word_but_their_own(
    trial: Trial, who: tuple[str, str]
) -> None:
    """Labels, annotations, owners, finalizers and tolerations stay as they were."""
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
    for metadata in (
        {"annotations": {"theirs": "changed"}},
        {"annotations": {"theirs": None}},
        {"annotations": {"new": "1"}},
        {"labels": {"workflows.argoproj.io/completed": "true"}},
        {"labels": {"new": "1"}},
        {"finalizers": ["a.b/c"]},
        {"ownerReferences": [owned]},
    ):
        said = await trial.tried(who, {"metadata": metadata})
        assert "its own annotations and labels only" in said, metadata
    assert "no toleration" in await trial.tried(who, TOLERATION)


async def test_nobody_alters_a_decision(trial: Trial) -> None:
    """Through no resource by which a pod's annotations can be reached, not even as admin."""
    for at in ("", "/status"):
        for who in (OPERATOR, TENANT) if at == "" else (OPERATOR,):
            for forged in (FORGED, FORGED_SIGNATURE):
                said = await trial.tried(who, forged, at=at)
                assert "decision" in said or "its own annotations" in said, (who, at)
    path = await trial.pod()
    for at in ("", "/status", "/resize"):
        for forged in (FORGED, FORGED_SIGNATURE):
            await refusal(trial.api.patch(path + at, forged))
            left = (await trial.api.get(path))["metadata"]["annotations"]
            assert ('{"id":"d-1"}', "ours") == (left[DECISION], left[SIGNATURE])
    for label in (STEERED, GATED):
        changed = {"metadata": {"labels": {label: "false"}}}
        assert label in await refusal(trial.api.patch(path, changed))


async def test_a_binding_carries_no_decision(trial: Trial) -> None:
    """A Binding's annotations become the pod's: here they may not be ours."""
    path = await trial.pod(a_task())
    name = path.rpartition("/")[2]
    nodes = (await trial.api.get("/api/v1/nodes"))["items"]
    binding = {
        "metadata": {"name": name, "annotations": {DECISION: "{}"}},
        "target": {"kind": "Node", "name": nodes[0]["metadata"]["name"]},
    }

    said = await refusal(trial.api.create(f"{path}/binding", binding))

    assert "a binding carries no word of Tiphys" in said


async def test_a_tenant_who_may_edit_everything_opens_no_gate(trial: Trial) -> None:
    """Opening needs a permission of its own; with it, the record of the release comes too."""
    said = await trial.tried(TENANT, opening())
    assert 'needs the verb "release" on "gates"' in said
    assert "comes and goes with the gate" in await trial.tried(TENANT, UNGATED_LABEL)

    role = "tiphys-gate-opener"
    await chart_objects.bind(trial.api, trial.namespace, role=role, account="tenant")

    record = {"op": "add", "path": "/metadata/annotations/tiphys.dev~1release", "value": "by hand"}
    assert "" == await trial.tried(TENANT, opening(record, PLACED[2]))
    assert "written by whoever opens" in await trial.tried(
        TENANT, {"metadata": {"annotations": {RELEASE: "{}"}}}
    )


async def test_the_webhook_has_no_rights_on_pods(trial: Trial) -> None:
    """Nor can it read them."""
    for patch in (IMAGE, opening(), FORGED):
        assert "cannot patch resource" in await trial.tried(WEBHOOK, patch)
    async with trial.accounts.of(*WEBHOOK) as client:
        path = f"/api/v1/namespaces/{trial.namespace}/pods"
        assert "cannot list resource" in await refusal(client.get(path))


async def test_of_a_status_only_the_reason_of_waiting_can_be_written(trial: Trial) -> None:
    """No phase, no other condition, no end of the waiting; and by the operator alone."""
    for status in (
        {"phase": "Succeeded"},
        {"message": "gone"},
        {"podIPs": [{"ip": "10.0.0.1"}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    ):
        said = await trial.tried(
            OPERATOR, {"status": status}, at="/status", kind=apis.STRATEGIC_PATCH
        )
        assert "PodScheduled=False, only" in said, status
    for who in (RELEASER, TENANT):
        said = await trial.tried(who, WAITS, at="/status", kind=apis.STRATEGIC_PATCH)
        assert "cannot patch resource" in said


async def test_only_pods_that_never_ran_are_deleted_for_recovery(trial: Trial) -> None:
    """A bound one, a kept one and a foreign one stay; the webhook and the releaser delete none."""
    kept = a_gated_task("kept")
    kept["metadata"]["finalizers"] = ["lab.tiphys.dev/kept"]
    bound = a_gated_task("bound", gates=())
    bound["spec"]["nodeName"] = "no-such-node"
    del bound["spec"]["nodeSelector"]
    async with trial.accounts.of(*OPERATOR) as operator:
        for pod in (kept, bound):
            path = await trial.pod(pod)
            said = await refusal(operator.call("DELETE", path))
            assert "Tiphys deletes no pod" in said
            await trial.api.patch(path, {"metadata": {"finalizers": None}})
            await trial.api.delete(path, params={"gracePeriodSeconds": "0"})
        path = await trial.pod()
        assert "" == await refusal(operator.call("DELETE", path))
    for who in (RELEASER, WEBHOOK):
        async with trial.accounts.of(*who) as client:
            assert "cannot delete resource" in await refusal(client.call("DELETE", path))


async def test_the_operator_makes_secrets_of_its_own_names_only(trial: Trial) -> None:
    """A token of another account cannot be had by making a Secret for it."""
    path = f"/api/v1/namespaces/{charts.NAMESPACE}/secrets"
    stolen = {
        "metadata": {
            "name": "tiphys-ca",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    async with trial.accounts.of(*OPERATOR) as operator:
        other = {"metadata": {"name": "other"}}
        assert "its own Secrets" in await refusal(operator.create(path, other))
        assert "its own Secrets" in await refusal(operator.create(path, stolen))
        assert "" == await refusal(operator.create(path, {"metadata": {"name": "tiphys-ca"}}))
    await trial.api.delete(f"{path}/tiphys-ca")
