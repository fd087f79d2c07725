"""The operator against a real control plane: caches, leaders, CRDs, keys, decisions.

Over 400 lines, since all of it shares the helpers at its end.
"""

import asyncio
import base64
import copy
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lab import apis, homes
from lab.controlplane import controls
from tests.lab import operators
from tiphys.models.domain import decisions, settings
from tiphys.operator import certificates

VERSIONS = "/apis/tiphys.dev/v1alpha1/policyversions"
POLICIES = "/apis/tiphys.dev/v1alpha1/schedulingpolicies"
ARGO = "/apis/argoproj.io/v1alpha1"
SHA = "0" * 64
AGE = "tiphys_operator_cache_age_seconds"
OBJECTS = "tiphys_operator_cache_objects"
EVENTS = "tiphys_operator_watch_events_total"


@pytest.fixture
async def crds(api: apis.Api) -> None:
    """Install the chart's CRDs in the shared lab."""
    await operators.install(api)


def a_policy(**spec: Any) -> dict[str, Any]:
    """Return a SchedulingPolicy."""
    return {
        "apiVersion": "tiphys.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "tried"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"gate": {"maxHold": "10m", "maxTotal": "5m"}},
            "gate.maxTotal is shorter than gate.maxHold",
        ),
        ({"scheduleInterval": "10s"}, "must lie between 500ms and 5s"),
        ({"mode": "On"}, "supported values"),
        ({"gate": {"maxHold": "soon"}}, "should match"),
        (
            {"rules": [{"name": "a", "use": [{"what": "rack", "key": "x", "must": ["a"]}]}]},
            "key names the label or taint",
        ),
        ({"rules": [{"name": "a", "use": [{"what": "rack"}]}]}, "it has no effect"),
        ({"placement": {"topologyKeys": []}}, "should have at least 1 items"),
    ],
)
async def test_a_policy_that_means_nothing_is_refused(
    api: apis.Api, crds: None, spec: dict[str, Any], said: str
) -> None:
    """By schema and CEL, in a sentence that names the field."""
    with pytest.raises(apis.ApiError, match=said):
        await api.call("POST", POLICIES, body=a_policy(**spec), params={"dryRun": "All"})


async def test_an_empty_policy_is_the_documented_default(api: apis.Api, crds: None) -> None:
    """The API server writes the defaults that the code has."""
    made = await api.call("POST", POLICIES, body=a_policy(), params={"dryRun": "All"})
    assert settings.PolicySettings(name="tried") == settings.read(made["spec"], name="tried")


async def test_a_policy_version_never_changes(api: apis.Api, crds: None) -> None:
    """Another spec under the same name is refused; so are names that lie."""
    bundle = {"uri": "file:///a", "sha256": SHA}
    version = {
        "apiVersion": "tiphys.dev/v1alpha1",
        "kind": "PolicyVersion",
        "metadata": {"name": "genomics-v1"},
        "spec": {"bundle": bundle},
    }
    await api.create(VERSIONS, version)
    try:
        with pytest.raises(apis.ApiError, match="never changes; create another one"):
            changed = {"spec": {"bundle": {**bundle, "uri": "file:///b"}}}
            await api.patch(f"{VERSIONS}/genomics-v1", changed)
        for name, spec, said in (
            ("other", {"builtin": "builtin-fifo-v1"}, "carries the name of its rule"),
            ("builtin-x-v1", {"bundle": bundle}, "belong to built-in versions"),
            ("both", {}, "write either builtin or bundle"),
        ):
            lie = {**version, "metadata": {"name": name}, "spec": spec}
            with pytest.raises(apis.ApiError, match=said):
                await api.create(VERSIONS, lie)
    finally:
        await api.delete(f"{VERSIONS}/genomics-v1")


async def test_every_field_explains_itself(api: apis.Api, crds: None) -> None:
    """`kubectl explain` has a sentence for each."""
    for name in ("schedulingpolicies", "policyversions"):
        crd = await api.get(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.tiphys.dev"
        )
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            assert [] == silent(schema["properties"][part], part)


def silent(schema: dict[str, Any], where: str) -> list[str]:
    """Return the fields below `schema` that say nothing."""
    found = [] if schema.get("description") else [where]
    for name, field in schema.get("properties", {}).items():
        found += silent(field, f"{where}.{name}")
    items = schema.get("items", {})
    for name, field in items.get("properties", {}).items():
        found += silent(field, f"{where}[].{name}")
    return found


async def test_it_comes_up_with_versions_keys_and_certificates(
    lab: homes.Home, tmp_path: Path
) -> None:
    """Built-in versions are Ready; a policy gets its conditions; the webhooks get our roots."""
    async with operators.operators(lab, tmp_path) as (api, _):
        webhook = {
            "name": "pods.tiphys.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Ignore",
            "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
            "rules": [],
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "tiphys"},
            "webhooks": [webhook],
        }
        hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        await api.create(POLICIES, a_policy(stable="builtin-edf-v1"))
        await api.create(hooks, configuration)
        try:
            active = await until(
                api, f"{POLICIES}/tried", lambda o: (o.get("status") or {}).get("activeVersion")
            )
            assert "builtin-edf-v1" == active
            for name in ("builtin-fifo-v1", "builtin-srwf-wait-v1", "builtin-heft-v1"):
                phase = await until(
                    api, f"{VERSIONS}/{name}", lambda o: (o.get("status") or {}).get("phase")
                )
                assert "Ready" == phase
            # The configuration came after the first look; the next one is a minute later.
            bundle = await until(
                api,
                f"{hooks}/tiphys",
                lambda o: o["webhooks"][0]["clientConfig"].get("caBundle"),
                within_s=75.0,
            )
            ca = (await operators.data(api, "tiphys-ca"))[certificates.CA]
            assert ca == base64.b64decode(bundle)
            await api.patch(f"{POLICIES}/tried", {"spec": {"stable": "nothing-v1"}})
            verdict = await until(
                api,
                f"{POLICIES}/tried",
                lambda o: next(
                    (
                        c["message"]
                        for c in o["status"]["conditions"]
                        if c["type"] == "Ready" and c["status"] == "False"
                    ),
                    None,
                ),
            )
            assert "there is no PolicyVersion nothing-v1" in verdict
        finally:
            await api.delete(f"{hooks}/tiphys")
            await api.delete(f"{POLICIES}/tried")


async def test_what_people_break_is_told_and_mended(
    lab: homes.Home, namespace: str, tmp_path: Path
) -> None:
    """A wrong annotation, a spec that cannot be used over a restart, a ring that was deleted."""
    secret = f"/api/v1/namespaces/{operators.NAMESPACE}/secrets/tiphys-keys"
    policy = f"{POLICIES}/tried"
    async with operators.operators(lab, tmp_path) as (api, (replica,)):
        annotated = {"metadata": {"annotations": {"tiphys.dev/enabled": "yes"}}}
        await api.patch(f"/api/v1/namespaces/{namespace}", annotated)
        told = await until(
            api,
            f"/api/v1/namespaces/{namespace}/events",
            lambda o: next(
                (each for each in o["items"] if each["reason"] == "AnnotationUnreadable"), None
            ),
        )
        assert ("Warning", "Namespace", namespace) == (
            told["type"],
            told["involvedObject"]["kind"],
            told["involvedObject"]["name"],
        )
        assert 'write "true" or "false", not \'yes\'' in told["message"]
        assert 1.0 <= await replica.metric(
            "tiphys_operator_unreadable_annotations", kind="namespaces"
        )
        await api.create(POLICIES, a_policy(mode="Shadow"))
        try:
            await until(api, policy, lambda o: (o.get("status") or {}).get("acceptedSpec"))
            before = await api.get(secret)
            await api.delete(secret)
            limit = {"what": "rack", "must": ["r1"]}
            rule = {"name": "x", "when": {"tempalte": ["a"]}, "use": [limit]}
            await api.patch(policy, {"spec": {"mode": "Enforce", "rules": [rule]}})
            await until(api, policy, refused)
            after = await until(api, secret, lambda o: o if o.get("data") else None, within_s=80.0)
            assert before["data"] == after["data"]
            await replica.end()
            await replica.start()
            await replica.ready()
            kept = await until(api, policy, lambda o: o if refused(o) else None)
            assert "The last spec that could be used holds meanwhile" in refused(kept)
            assert '"mode":"Shadow"' in kept["status"]["acceptedSpec"]
        finally:
            await api.delete(policy)


def refused(policy: dict[str, Any]) -> str:
    """Return why a policy's spec is not accepted; empty if it is."""
    conditions = (policy.get("status") or {}).get("conditions") or ()
    found = (c for c in conditions if c["type"] == "Accepted" and c["status"] == "False")
    return next((str(each["message"]) for each in found), "")


async def test_a_killed_leader_is_replaced_and_one_that_ends_hands_over(
    lab: homes.Home, tmp_path: Path
) -> None:
    """SIGKILL: within 15 s. SIGTERM: within 5 s, and its Leases are gone."""
    async with operators.operators(lab, tmp_path, count=2) as (api, replicas):
        first = await until(api, f"{operators.LEASES}/tiphys-operator", holder)
        leader = next(each for each in replicas if each.name == first)
        other = next(each for each in replicas if each.name != first)
        await reached(leader, "tiphys_operator_leader", lambda value: value == 1.0, within_s=2.0)
        assert 0.0 == await other.metric("tiphys_operator_leader")
        began = time.monotonic()
        await leader.end(signal.SIGKILL)
        await until(api, f"{operators.LEASES}/tiphys-operator", lambda o: holder(o) == other.name)
        assert time.monotonic() - began <= 15.0
        await leader.start()
        await leader.ready()
        began = time.monotonic()
        ending = asyncio.ensure_future(other.end())
        await until(api, f"{operators.LEASES}/tiphys-operator", lambda o: holder(o) == leader.name)
        assert time.monotonic() - began <= 5.0
        assert await ending <= 10.0
        with pytest.raises(apis.ApiError, match="404"):
            await api.get(f"{operators.LEASES}/{other.name}")


async def test_caches_survive_a_restart_of_the_api_server(make_lab: Any, tmp_path: Path) -> None:
    """Age grows while it is away, everything is current after, and what happened since is known."""
    home = make_lab("cut", speed=60.0)
    async with operators.operators(home, tmp_path) as (api, (replica,)):
        before = await replica.metric(OBJECTS, kind="namespaces")
        await asyncio.to_thread(controls.send, home, "stop", "kube-apiserver")
        await reached(replica, AGE, lambda age: age > 2.0, kind="pods")
        await asyncio.to_thread(controls.send, home, "start", "kube-apiserver")
        await reached(replica, AGE, lambda age: age == 0.0, kind="pods")
        await api.create("/api/v1/namespaces", {"metadata": {"name": "after"}})
        await reached(replica, OBJECTS, lambda count: count == before + 1, kind="namespaces")
        # A server that has just started remembers no older version: a real 410.
        gone = [
            await replica.metric(EVENTS, kind=kind, event="gone")
            for kind in ("pods", "nodes", "namespaces")
        ]
        assert sum(gone) > 0
        await replica.ready()


async def test_a_kind_that_comes_after_the_operator_is_followed_all_the_same(
    make_lab: Any, tmp_path: Path
) -> None:
    """Argo installed after Tiphys: kopf would never hear of a CRD that it did not find at first."""
    home = make_lab("late", speed=60.0)
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cronworkflows.argoproj.io"
    async with apis.Api(home.kubeconfig) as api:
        kept = await api.get(crd)
        await api.delete(crd)
        await until(api, crd.rpartition("/")[0], lambda o: absent(o, "cronworkflows"))
    async with operators.operators(home, tmp_path) as (api, (replica,)):
        await asyncio.sleep(3.0)
        await api.apply(crd, {**kept, "metadata": {"name": kept["metadata"]["name"]}, "status": {}})
        path = f"{ARGO}/namespaces/default/cronworkflows"
        await operators.served(api, path)
        await api.create(path, a_cron_workflow("first"))
        await reached(replica, OBJECTS, lambda n: n == 1, kind="cron_workflows", within_s=120.0)
        await until_logged(replica, "a kind came after kopf had started")
        # Listed by the audit so far; from here on it is followed.
        await reached(replica, AGE, lambda age: age == 0.0, kind="cron_workflows", within_s=60.0)
        await api.create(path, a_cron_workflow("second"))
        await reached(replica, OBJECTS, lambda n: n == 2, kind="cron_workflows", within_s=8.0)


def absent(listed: dict[str, Any], plural: str) -> bool:
    """Say whether there is no CRD of that plural."""
    return all(each["spec"]["names"]["plural"] != plural for each in listed["items"])


async def until_logged(replica: operators.Operator, words: str) -> None:
    """Wait until a replica's log has some words."""
    for _ in range(300):
        if words in replica.log.read_text():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{replica.name} never said: {words}")


def a_cron_workflow(name: str) -> dict[str, Any]:
    """Return a CronWorkflow that runs once a year."""
    container = {"image": "busybox", "command": ["true"]}
    spec = {"entrypoint": "work", "templates": [{"name": "work", "container": container}]}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": name},
        "spec": {"schedules": ["0 0 1 1 *"], "workflowSpec": spec},
    }


async def test_real_pods_of_genomics_get_the_decision_that_fits(
    lab: homes.Home, api: apis.Api, namespace: str, tmp_path: Path
) -> None:
    """Argo's own pods, asked again as at admission: placed when there is room, gated when not."""
    async with operators.operators(lab, tmp_path) as (_, (replica,)):
        await api.create(f"{ARGO}/namespaces/{namespace}/workflows", a_workflow(namespace, 6))
        pods = await pods_of(api, namespace, 6)
        webhook = await operators.as_webhook(api, replica)
        try:
            stranger = await webhook.ask(pods[0], namespace)
            assert "not opted in" == stranger.decision.reason
            annotation = {"metadata": {"annotations": {"tiphys.dev/enabled": "true"}}}
            await api.patch(f"/api/v1/namespaces/{namespace}", annotation)
            await asyncio.sleep(0.5)
            placed = [await webhook.ask(pod, namespace) for pod in pods]
            assert {decisions.Verdict.PLACE} == {each.decision.verdict for each in placed}
            assert all("builtin-srwf-wait-v1" == each.decision.policy for each in placed)
            large = copy.deepcopy(pods[0])
            large["metadata"]["name"] += "-large"
            main = next(c for c in large["spec"]["containers"] if c["name"] == "main")
            verdicts = set()
            for place in range(60):
                large["metadata"]["name"] = f"{pods[0]['metadata']['name']}-{place}"
                main["resources"] = {"requests": {"cpu": "14"}}
                answer = await webhook.ask(large, namespace)
                verdicts.add(answer.decision.verdict)
                if answer.decision.verdict is decisions.Verdict.GATE:
                    break
            assert decisions.Verdict.GATE in verdicts
            fake = copy.deepcopy(pods[0])
            fake["metadata"]["ownerReferences"][0]["uid"] = "11111111-1111-1111-1111-111111111111"
            forged = await webhook.ask(fake, namespace)
            assert decisions.Verdict.PASS == forged.decision.verdict
            workflow = await api.get(f"{ARGO}/namespaces/{namespace}/workflows/exome")
            about = workflow["metadata"]
            writers = {each["manager"] for each in about["managedFields"]}
            assert {"workflow-controller"} <= writers
            assert not [each for each in writers if "tiphys" in each or "kopf" in each]
            assert "finalizers" not in about
            assert not [name for name in about.get("annotations", {}) if "kopf" in name]
        finally:
            await webhook.close()


async def test_what_ran_is_remembered_and_followers_have_the_estimates(
    lab: homes.Home, api: apis.Api, namespace: str, tmp_path: Path
) -> None:
    """The leader writes a row for each task; the other replica pulls what it learned."""
    async with operators.operators(lab, tmp_path, count=2) as (_, replicas):
        await api.create(f"{ARGO}/namespaces/{namespace}/workflows", a_workflow(namespace, 4))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            rows = [
                await each.metric("tiphys_operator_history_rows_total", outcome="succeeded")
                for each in replicas
            ]
            if sorted(rows)[-1] >= 4:
                break
            await asyncio.sleep(0.5)
        assert 4 <= sorted(rows)[-1]
        assert 0 == sorted(rows)[0]
        follower = replicas[rows.index(0)]
        for _ in range(100):
            if '"pulled estimates"' in follower.log.read_text():
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the follower pulled nothing")


def a_workflow(namespace: str, width: int) -> dict[str, Any]:
    """Return a workflow that aligns `width` samples side by side."""
    container = {
        "image": "bwa:1",
        "command": ["sleep", "60"],
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
    }
    task = {"name": "align", "template": "align", "withSequence": {"count": str(width)}}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "exome", "namespace": namespace},
        "spec": {
            "entrypoint": "main",
            "templates": [
                {"name": "main", "dag": {"tasks": [task]}},
                {"name": "align", "container": container},
            ],
        },
    }


async def reached(
    replica: operators.Operator, name: str, holds: Any, *, within_s: float = 40.0, **labels: str
) -> None:
    """Wait until a metric of a replica is as it should."""
    end = time.monotonic() + within_s
    value = float("nan")
    while time.monotonic() < end:
        value = await replica.metric(name, **labels)
        if holds(value):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name}{labels} is {value} after {within_s} s")


async def pods_of(api: apis.Api, namespace: str, count: int) -> list[dict[str, Any]]:
    """Return the pods that Argo made, as they were at their creation."""
    found: list[dict[str, Any]] = []
    for _ in range(300):
        listed = await api.get(f"/api/v1/namespaces/{namespace}/pods")
        found = listed["items"]
        if len(found) >= count:
            break
        await asyncio.sleep(0.1)
    for pod in found:
        pod.pop("status", None)
        pod["spec"].pop("nodeName", None)
        for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            pod["metadata"].pop(key, None)
    return found


def holder(lease: dict[str, Any]) -> str:
    """Return who holds a Lease."""
    return str(lease["spec"].get("holderIdentity") or "")


async def until(api: apis.Api, path: str, look: Any, *, within_s: float = 30.0) -> Any:
    """Return what `look` finds in an object, once it finds something."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if found := look(await api.get(path)):
                return found
        except (apis.ApiError, KeyError):
            pass
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} never came to it within {within_s} s")
