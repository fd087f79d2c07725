"""The webhook between the real API server, scheduler and Argo, and a decider of the tests.

Over 400 lines, since all of it shares one lab, one webhook and the helpers here.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lab import apis, homes
from tests.fakes import authorities, webhooks
from tests.lab import hooked_pods, polls
from tests.lab.hooked_pods import a_task, pods
from tiphys.argo import patches
from tiphys.models.domain import decisions
from tiphys.models.wire import keys, signatures, stamps

pytestmark = pytest.mark.timeout(240)

FAST = decisions.Placement(group="fast", selector=(("node.kubernetes.io/instance-type", "m6-16"),))
GATE = {"name": "tiphys.dev/steer"}
DEADLINE_S = 2.0
"""timeoutSeconds of the configurations."""


@pytest.fixture
async def world(lab: homes.Home, tmp_path: Path) -> AsyncIterator[webhooks.World]:
    """Run a webhook that trusts the lab's API server."""
    authority = hooked_pods.client_authority(lab)
    async with webhooks.running(tmp_path, client_authority=authority, deadline_s=1.5) as found:
        yield found


@pytest.fixture
async def owner(api: apis.Api, namespace: str) -> apis.Object:
    """Return a Workflow that may own pods."""
    return await hooked_pods.an_owner(api, namespace)


@pytest.fixture
async def hooked(
    world: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> AsyncIterator[webhooks.World]:
    """Register the webhook for the namespace and wait until it is called."""
    async with hooked_pods.configured(api, namespace, url=world.url, authority=world.authority.pem):
        await hooked_pods.reached(api, namespace, owner)
        world.decider.asked.clear()
        yield world


async def test_a_pod_is_gated_released_and_bound_where_the_decision_says(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """With the label, two signed decisions, and one patch for the release."""
    made = await api.create(pods(namespace), a_task(owner, "one"))
    assert [GATE] == made["spec"]["schedulingGates"]
    assert made["metadata"]["labels"]["tiphys.dev/gated"] == "true"
    text = made["metadata"]["annotations"]["tiphys.dev/decision"]
    signature = made["metadata"]["annotations"]["tiphys.dev/signature"]
    signatures.verify(hooked.ring.public(), text.encode(), signature, time.time())
    assert f"{namespace}/one" == stamps.decode(text).pod

    now = time.time()
    decision = decisions.Decision(
        id="d-release",
        verdict=decisions.Verdict.RELEASE,
        pod=f"{namespace}/one",
        pod_uid=made["metadata"]["uid"],
        placement=FAST,
        issued_at=now,
        expires_at=now + 30,
    )
    stamp = stamps.encode(decision)
    patch = patches.release(
        made,
        decision,
        stamp=stamp.decode(),
        signature=signatures.sign(hooked.ring, stamp, now),
    )
    path = f"{pods(namespace)}/one"
    opened = await api.patch(path, patch, content_type=apis.JSON_PATCH)
    assert "schedulingGates" not in opened["spec"]
    assert "tiphys.dev/gated" not in opened["metadata"]["labels"]
    assert [] == patches.release(opened, decision, stamp=stamp.decode(), signature="")
    bound = await polls.until(lambda: _bound(api, path), within_s=30)
    node = await api.get(f"/api/v1/nodes/{bound}")
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m6-16"

    with pytest.raises(apis.ApiError) as caught:
        await api.patch(path, patch, content_type=apis.JSON_PATCH)
    assert 422 == caught.value.status


async def _bound(api: apis.Api, path: str) -> str:
    node: str = (await api.get(path))["spec"].get("nodeName", "")
    return node


async def test_a_pod_is_placed_at_once(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """No gate; the preference stands beside the author's own terms, and the pod is bound."""
    hooked.decider.verdict, hooked.decider.placement = decisions.Verdict.PLACE, FAST
    pod = a_task(owner, "placed")
    own = {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    pod["spec"]["affinity"] = {"nodeAffinity": {patches.PREFERRED: [own]}}
    made = await api.create(pods(namespace), pod)
    terms = made["spec"]["affinity"]["nodeAffinity"][patches.PREFERRED]
    assert [1, 100] == [term["weight"] for term in terms]
    assert "schedulingGates" not in made["spec"]
    bound = await polls.until(lambda: _bound(api, f"{pods(namespace)}/placed"), within_s=30)
    assert bound.startswith("fast-")


async def test_a_size_is_written_and_quota_counts_it(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """Quota is charged last, so a pod that would not fit as asked is created smaller."""
    hooked.decider.sizings = (
        decisions.Sizing(
            container="main",
            cpu_m=50,
            memory_bytes=32 * 2**20,
            original_cpu_m=100,
            original_memory_bytes=64 * 2**20,
        ),
    )
    await api.create(
        f"/api/v1/namespaces/{namespace}/resourcequotas",
        {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "60m"}}},
    )
    made = await polls.until(lambda: _created(api, namespace, a_task(owner, "small")), within_s=20)
    requests = made["spec"]["containers"][0]["resources"]["requests"]
    assert {"cpu": "50m", "memory": "32Mi"} == requests


async def _created(api: apis.Api, namespace: str, pod: apis.Object) -> apis.Object:
    with contextlib.suppress(apis.ApiError):
        return await api.create(pods(namespace), pod)
    return {}


@pytest.mark.parametrize("theirs", ["a-sidecar", "z-sidecar"])
@pytest.mark.parametrize("verdict", [decisions.Verdict.GATE, decisions.Verdict.PLACE])
async def test_it_works_beside_a_webhook_that_adds_a_sidecar(
    hooked: webhooks.World,
    api: apis.Api,
    namespace: str,
    owner: apis.Object,
    theirs: str,
    verdict: decisions.Verdict,
) -> None:
    """Before ours and after it: one decision, written once, and validated as ours."""
    hooked.decider.verdict, hooked.decider.placement = verdict, FAST
    leaf = hooked.authority.leaf("CN=mesh", names=["127.0.0.1"])
    async with (
        hooked_pods.injecting(leaf) as url,
        hooked_pods.configured(
            api,
            namespace,
            url=url,
            authority=hooked.authority.pem,
            paths=["/mutate"],
            name=theirs,
        ),
    ):
        await polls.until(lambda: _injected(api, namespace, owner), within_s=20)
        hooked.decider.asked.clear()
        before = hooked.metric("tiphys_webhook_mutations_total", outcome="reinvoked")
        made = await api.create(pods(namespace), a_task(owner, "beside"))
        after = hooked.metric("tiphys_webhook_mutations_total", outcome="reinvoked")
    assert ["main", "proxy"] == [c["name"] for c in made["spec"]["containers"]]
    assert 1 == len(hooked.decider.asked)
    assert after - before >= (1 if theirs == "z-sidecar" else 0)
    if verdict is decisions.Verdict.GATE:
        assert [GATE] == made["spec"]["schedulingGates"]
    else:
        assert 1 == len(made["spec"]["affinity"]["nodeAffinity"][patches.PREFERRED])


@pytest.mark.parametrize("theirs", ["a-affinity", "z-affinity"])
async def test_a_webhook_that_overwrites_what_we_wrote_costs_no_pod(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object, theirs: str
) -> None:
    """Whoever is called last, and both called again: its word holds, and the pod is created."""
    hooked.decider.verdict, hooked.decider.placement = decisions.Verdict.PLACE, FAST
    leaf = hooked.authority.leaf("CN=other", names=["127.0.0.1"])
    async with (
        hooked_pods.injecting(leaf, hooked_pods.own_affinity) as url,
        hooked_pods.configured(
            api,
            namespace,
            url=url,
            authority=hooked.authority.pem,
            paths=["/mutate"],
            name=theirs,
        ),
    ):

        async def overwritten() -> bool:
            made = await api.call(
                "POST", pods(namespace), body=a_task(owner), params={"dryRun": "All"}
            )
            return made["spec"].get("affinity") == {"nodeAffinity": {}}

        await polls.until(overwritten, within_s=20)
        made = await api.create(pods(namespace), a_task(owner, "overwritten"))
    assert {"nodeAffinity": {}} == made["spec"]["affinity"]
    assert "tiphys.dev/decision" not in made["metadata"].get("annotations", {})
    assert 0 < hooked.metric("tiphys_webhook_decision_failures_total", kind="overwritten")


async def _injected(api: apis.Api, namespace: str, owner: apis.Object) -> bool:
    made = await api.call("POST", pods(namespace), body=a_task(owner), params={"dryRun": "All"})
    return len(made["spec"]["containers"]) == 2


async def test_a_pod_that_may_have_no_gate_is_created_without(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """The author chose its node, or filled its annotations: a gate or a word more is refused."""
    bound = a_task(owner, "bound")
    bound["spec"]["nodeName"] = "no-such-node"
    full = a_task(owner, "full", annotations={"large": "x" * (256 * 1024 - 100)})
    for pod in (bound, full):
        made = await api.create(pods(namespace), pod)
        assert "schedulingGates" not in made["spec"]
    gated = a_task(owner, "refused")
    gated["spec"] |= {"nodeName": "no-such-node", "schedulingGates": [GATE]}
    with pytest.raises(apis.ApiError, match="nodeName"):
        await api.create(pods(namespace), gated | {"metadata": {"name": "refused"}})


async def test_a_dry_run_is_told_and_nothing_is_stored(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """The API server passes it on."""
    pod = a_task(owner, "trial")
    made = await api.call("POST", pods(namespace), body=pod, params={"dryRun": "All"})
    assert [GATE] == made["spec"]["schedulingGates"]
    assert [True] == [asked.dry_run for asked in hooked.decider.asked]


async def test_a_forged_decision_is_stripped_by_the_one_and_refused_by_the_other(
    world: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """With the validating webhook alone each fault is refused by its name."""
    text = '{"v":1}'
    forged: dict[str, dict[str, str]] = {
        "unsigned": {"tiphys.dev/decision": text},
        "altered": {"tiphys.dev/decision": text, "tiphys.dev/signature": "a..b"},
    }
    foreign = _decided(f"{namespace}/foreign", owner, _other_ring())
    replayed = _decided(f"{namespace}/another", owner, world.ring)
    cases = {**forged, "foreign": foreign, "replayed": replayed}
    ca = world.authority.pem
    async with hooked_pods.configured(
        api, namespace, url=world.url, authority=ca, paths=["/validate"]
    ):
        for fault, annotations in cases.items():
            pod = a_task(owner, fault, annotations=annotations)

            async def refused(pod: apis.Object = pod) -> str:
                try:
                    await api.call("POST", pods(namespace), body=pod, params={"dryRun": "All"})
                except apis.ApiError as error:
                    assert 403 == error.status
                    return str(error)
                return ""

            said = await polls.until(refused, within_s=20)
            assert f"tiphys: {fault} decision" in said
    async with hooked_pods.configured(api, namespace, url=world.url, authority=ca):
        await hooked_pods.reached(api, namespace, owner)
        made = await api.create(
            pods(namespace), a_task(owner, "forged", annotations=forged["altered"])
        )
        stamp = stamps.decode(made["metadata"]["annotations"]["tiphys.dev/decision"])
        assert f"{namespace}/forged" == stamp.pod


def _other_ring() -> keys.Ring:
    now = time.time()
    return keys.Ring(keys=(keys.generate(not_before=now - 60, not_after=now + 600),))


def _decided(pod: str, owner: apis.Object, ring: keys.Ring) -> dict[str, str]:
    now = time.time()
    decision = decisions.Decision(
        id="d-forged",
        verdict=decisions.Verdict.GATE,
        pod=pod,
        workflow_uid=owner["uid"],
        issued_at=now,
        expires_at=now + 60,
    )
    text = stamps.encode(decision)
    return {
        "tiphys.dev/decision": text.decode(),
        "tiphys.dev/signature": signatures.sign(ring, text, now),
    }


async def test_certificates_rotate_while_the_api_server_calls(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """Sixty creates and six new leaves: every pod has its decision, no call failed."""
    before = await hooked_pods.failed_open(api)
    made: list[apis.Object] = []

    async def create(number: int) -> None:
        pod = a_task(owner, f"rotated-{number}")
        made.append(await api.create(pods(namespace), pod))

    for batch in range(6):
        hooked.write_webhook(hooked.own_leaf())
        await asyncio.gather(*(create(10 * batch + number) for number in range(10)))
    assert 60 == sum("tiphys.dev/decision" in pod["metadata"]["annotations"] for pod in made)
    assert before == await hooked_pods.failed_open(api)
    assert hooked.metric("tiphys_webhook_reloads_total") > 4


async def _took(api: apis.Api, namespace: str, pod: apis.Object) -> tuple[float, dict[str, Any]]:
    began = time.monotonic()
    made = await api.create(pods(namespace), pod)
    return time.monotonic() - began, made["metadata"].get("annotations") or {}


async def test_pods_pass_untouched_when_nobody_decides(
    hooked: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """An operator that hangs, one that lies, one that refuses: created, ungated, in time."""
    failed = await hooked_pods.failed_open(api)
    for behaviour in ("hung", "foreign-key", "fails", "closes", "garbage", "expired"):
        hooked.decider.behaviour = behaviour
        took_s, annotations = await _took(api, namespace, a_task(owner, f"passed-{behaviour}"))
        assert "tiphys.dev/decision" not in annotations
        assert took_s < 2 * DEADLINE_S
    assert failed == await hooked_pods.failed_open(api)


async def test_switched_off_it_changes_nothing_and_refuses_nobody(
    lab: homes.Home, api: apis.Api, namespace: str, owner: apis.Object, tmp_path: Path
) -> None:
    """`TIPHYS_DISABLED=1`: it is called, and pods are created as they are, forged ones too."""
    authority = hooked_pods.client_authority(lab)
    async with (
        webhooks.running(
            tmp_path, client_authority=authority, environ={"TIPHYS_DISABLED": "1"}
        ) as world,
        hooked_pods.configured(api, namespace, url=world.url, authority=world.authority.pem),
    ):

        async def called() -> bool:
            await api.call("POST", pods(namespace), body=a_task(owner), params={"dryRun": "All"})
            return all(
                world.metric(f"tiphys_webhook_{name}", **{label: "disabled"}) > 0
                for name, label in (
                    ("mutations_total", "outcome"),
                    ("validations_total", "verdict"),
                )
            )

        await polls.until(called, within_s=20)
        forged = {"tiphys.dev/decision": '{"v":1}'}
        for name, annotations in (("plain", {}), ("forged", forged)):
            made = await api.create(pods(namespace), a_task(owner, name, annotations=annotations))
            assert annotations == made["metadata"].get("annotations", {})
            assert "schedulingGates" not in made["spec"]
        assert [] == world.decider.asked


async def test_pods_pass_when_the_webhook_is_dead_hung_or_a_stranger(
    world: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """`failurePolicy: Ignore`: each way ends in a created pod, and the API server counts it."""
    sockets: list[asyncio.StreamWriter] = []

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sockets.append(writer)
        await asyncio.sleep(60)

    hung = await asyncio.start_server(hang, "127.0.0.1", 0)
    ca, other = world.authority.pem, authorities.Authority().pem
    ways = {
        "dead": ("https://127.0.0.1:1", ca),
        "hung": (f"https://127.0.0.1:{hung.sockets[0].getsockname()[1]}", ca),
        "stranger": (world.url, other),
    }
    try:
        for way, (url, authority) in ways.items():
            async with hooked_pods.configured(
                api, namespace, url=url, authority=authority, timeout_s=1
            ):
                before = await hooked_pods.failed_open(api)

                async def counted(before: float = before) -> bool:
                    trial = {"dryRun": "All"}
                    await api.call("POST", pods(namespace), body=a_task(owner), params=trial)
                    return await hooked_pods.failed_open(api) >= before + 1

                await polls.until(counted, within_s=30)
                _, annotations = await _took(api, namespace, a_task(owner, way))
                assert "tiphys.dev/decision" not in annotations
    finally:
        hung.close()
        for writer in sockets:
            writer.close()


async def test_it_does_not_trust_another_client(
    world: webhooks.World, api: apis.Api, namespace: str, owner: apis.Object
) -> None:
    """With another client authority the API server's calls end in the handshake, and pods pass."""
    world.write(clients__crt=authorities.Authority().pem)
    await webhooks.until(lambda: world.metric("tiphys_webhook_reloads_total") > 1)
    async with hooked_pods.configured(api, namespace, url=world.url, authority=world.authority.pem):
        before = await hooked_pods.failed_open(api)

        async def counted() -> bool:
            await api.call("POST", pods(namespace), body=a_task(owner), params={"dryRun": "All"})
            return await hooked_pods.failed_open(api) > before

        await polls.until(counted, within_s=20)
    assert [] == world.decider.asked


async def test_a_workflow_of_argo_runs_through_gates(
    hooked: webhooks.World, api: apis.Api, namespace: str
) -> None:
    """Argo makes the pods, ours gates them, releases open them, the workflow Succeeds."""
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
    steps = [[{"name": name, "template": "work"}] for name in ("first", "second")]
    await api.create(
        path,
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": "steered"},
            "spec": {
                "entrypoint": "main",
                "podMetadata": {"labels": {"tiphys.dev/steered": "true"}},
                "templates": [
                    {"name": "main", "steps": steps},
                    {"name": "work", "container": {"image": "busybox:1", "command": ["true"]}},
                ],
            },
        },
    )
    opened: set[str] = set()

    async def succeeded() -> bool:
        for pod in (await api.get(pods(namespace)))["items"]:
            name = pod["metadata"]["name"]
            if patch := patches.opening(pod):
                await api.patch(f"{pods(namespace)}/{name}", patch, content_type=apis.JSON_PATCH)
                opened.add(name)
        phase = (await api.get(f"{path}/steered")).get("status", {}).get("phase")
        assert phase not in ("Failed", "Error")
        return bool(phase == "Succeeded")

    await polls.until(succeeded, within_s=120)
    assert 2 == len(opened)
    assert {"steered"} == {
        asked.pod["metadata"]["labels"]["workflows.argoproj.io/workflow"]  # type: ignore[index,call-overload]
        for asked in hooked.decider.asked
    }
