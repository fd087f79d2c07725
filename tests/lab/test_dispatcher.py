"""Gates open in order, within what there is, and for whoever must not wait any longer."""

import asyncio
import base64
import json
import time

from lab import apis, homes
from lab.controlplane import manifests
from tests.lab import gates, polls
from tiphys.models.domain import decisions
from tiphys.models.wire import keys, signatures, stamps

FAST = (("node.kubernetes.io/instance-type", "fast-4"),)


COUNTS_S = 9.0
"""An opening counts for ten seconds; one is left to clocks."""


def _let_go_at(pod: apis.Object) -> float:
    """Return when a pod was released, unix seconds."""
    return stamps.decode(pod["metadata"]["annotations"][decisions.RELEASE_ANNOTATION]).issued_at


async def _make(api: apis.Api, namespace: str, pods: list[apis.Object]) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    await asyncio.gather(*(api.create(path, pod) for pod in pods))


async def _delete(api: apis.Api, namespace: str, name: str) -> None:
    await api.call(
        "DELETE",
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        params={"gracePeriodSeconds": "0"},
    )


async def _open(api: apis.Api, namespace: str, count: int, *, within_s: float) -> set[str]:
    """Wait until so many gates are open and return whose."""

    async def enough() -> set[str]:
        found = await gates.open_pods(api, namespace)
        return found if len(found) >= count else set()

    return await polls.until(enough, within_s=within_s)


async def test_a_more_important_pod_goes_first_and_nobody_is_released_without_room(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Sixteen cores take four pods of four; freed room goes to the higher PriorityClass."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in (("t-high", 1000), ("t-low", 10)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "value": value,
            "metadata": {"name": name},
            "preemptionPolicy": "Never",
        }
        await tiny_api.apply(f"{classes}/{name}", body)
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        first = [gates.a_gated_pod(f"first-{n}", "wf", uid) for n in range(4)]
        await _make(tiny_api, space, first)
        await _open(tiny_api, space, 4, within_s=20)
        low = [
            gates.a_gated_pod(f"low-{n}", "wf", uid, priorityClassName="t-low") for n in range(3)
        ]
        await _make(tiny_api, space, low)
        await _make(
            tiny_api, space, [gates.a_gated_pod("high", "wf", uid, priorityClassName="t-high")]
        )
        await asyncio.sleep(1.5)
        assert {f"first-{n}" for n in range(4)} == await gates.open_pods(tiny_api, space)
        await _delete(tiny_api, space, "first-2")
        found = await _open(tiny_api, space, 4, within_s=10)
        assert "high" in found
        pods = await gates.pods_of(tiny_api, space)
        stamp = stamps.decode(pods["high"]["metadata"]["annotations"][decisions.RELEASE_ANNOTATION])
        assert decisions.Verdict.RELEASE is stamp.verdict
        assert pods["high"]["metadata"]["uid"] == stamp.pod_uid
        assert decisions.GATED_LABEL not in pods["high"]["metadata"]["labels"]


async def test_a_pod_that_vanishes_is_dropped_and_the_others_go_on(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Half of the pods are deleted while gates open; the other half all come through."""
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        names = [f"p{n:02}" for n in range(24)]
        making = asyncio.ensure_future(
            _make(
                tiny_api,
                space,
                [gates.a_gated_pod(name, "wf", uid, cpu="1", seconds=2) for name in names],
            )
        )
        await making
        await asyncio.gather(*(_delete(tiny_api, space, name) for name in names[::2]))

        async def through() -> bool:
            found = await gates.pods_of(tiny_api, space)
            return bool(found) and not any(gates.gated(pod) for pod in found.values())

        await polls.until(through, within_s=40)
        assert names[1::2] == sorted(await gates.pods_of(tiny_api, space))


async def test_a_policy_that_is_switched_off_opens_its_gates_some_at_a_time(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """With openBurst 4 no more than four pods of the last seconds have no node yet."""
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    policy = {
        "apiVersion": "tiphys.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "all"},
        "spec": {"mode": "Enforce", "gate": {"openBurst": 4}},
    }
    await tiny_api.create(gates.POLICIES, policy)
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        pods = [gates.a_gated_pod(f"p{n:02}", "wf", uid, seconds=1) for n in range(16)]
        await _make(tiny_api, space, pods)
        await _open(tiny_api, space, 4, within_s=20)
        await tiny_api.patch(f"{gates.POLICIES}/all", {"spec": {"mode": "Off"}})
        most = 0
        end = time.monotonic() + 60
        while True:
            found = await gates.pods_of(tiny_api, space)
            loose = [
                p
                for p in found.values()
                if not gates.gated(p)
                and not p["spec"].get("nodeName")
                and p["status"]["phase"] == "Pending"
                and time.time() - _let_go_at(p) < COUNTS_S
            ]
            most = max(most, len(loose))
            if not any(gates.gated(p) for p in found.values()):
                break
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
        assert most <= 5, "four, and one that may have been opened in turn just before"


async def test_who_opts_out_waits_no_longer(tiny: homes.Home, tiny_api: apis.Api) -> None:
    """Without the annotation on the namespace all of its gates open."""
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        pods = [gates.a_gated_pod(f"p{n}", "wf", uid) for n in range(8)]
        await _make(tiny_api, space, pods)
        await _open(tiny_api, space, 4, within_s=20)
        change = {"metadata": {"annotations": {"tiphys.dev/enabled": "false"}}}
        await tiny_api.patch(f"/api/v1/namespaces/{space}", change)
        await _open(tiny_api, space, 8, within_s=10)


async def test_words_that_anybody_wrote_onto_pods_keep_no_room(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Idle pods of a namespace that never opted in claim to be released, in a year from now."""
    other = await gates.a_namespace(tiny_api, **{"tiphys.dev/enabled": "false"})
    stamp = stamps.encode(
        decisions.Decision(
            id="d-aaaaaaaaaaaaaaaaaaaa",
            verdict=decisions.Verdict.RELEASE,
            pod="any",
            issued_at=time.time() + 365 * 24 * 3600,
        )
    ).decode()
    idle = []
    for n in range(8):
        pod = gates.a_gated_pod(f"idle-{n}", "none", "none", schedulerName="nobody")
        del pod["spec"]["schedulingGates"], pod["metadata"]["ownerReferences"]
        pod["metadata"]["annotations"] = {decisions.RELEASE_ANNOTATION: stamp}
        idle.append(pod)
    await _make(tiny_api, other, idle)
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        await _make(tiny_api, space, [gates.a_gated_pod(f"p{n}", "wf", uid) for n in range(4)])
        await _open(tiny_api, space, 4, within_s=15)


async def test_openings_that_can_never_bind_do_not_keep_the_others_shut(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """With openBurst 2 and two such pods the third opens 10 s later, not never."""
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    policy = {
        "apiVersion": "tiphys.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "all"},
        "spec": {"mode": "Off", "gate": {"openBurst": 2}},
    }
    await tiny_api.create(gates.POLICIES, policy)
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        pods = [
            gates.a_gated_pod(f"lost-{n}", "wf", uid, nodeSelector={"nobody": "has-this"})
            for n in range(2)
        ]
        await _make(tiny_api, space, pods)
        await _open(tiny_api, space, 2, within_s=20)
        began = time.monotonic()
        await _make(tiny_api, space, [gates.a_gated_pod("late", "wf", uid)])
        await _open(tiny_api, space, 3, within_s=20)
        assert time.monotonic() - began >= 5, "the burst is kept meanwhile"


async def test_a_pod_that_no_node_can_take_is_not_held(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Forty cores fit nowhere: kube-scheduler may say so itself."""
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        await _make(tiny_api, space, [gates.a_gated_pod("huge", "wf", uid, cpu="40")])
        await _open(tiny_api, space, 1, within_s=10)
        said = [
            json.loads(line)
            for line in running.log.read_text().splitlines()
            if '"released"' in line
        ]
        assert ["never"] == [each["how"] for each in said]


async def test_a_pod_that_waits_is_told_why_on_itself_and_in_events(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Condition PodScheduled says Unschedulable with the reason, an Event says it too."""
    space = await gates.a_namespace(tiny_api)
    uid = await gates.a_workflow(tiny_api, space, "wf")
    with gates.operator(tiny) as running:
        await gates.dispatching(running)
        pods = [gates.a_gated_pod(f"p{n}", "wf", uid) for n in range(5)]
        await _make(tiny_api, space, pods)

        async def told() -> apis.Object | None:
            found = await gates.pods_of(tiny_api, space)
            for pod in found.values():
                for condition in pod["status"].get("conditions", ()):
                    if condition.get("message", "").startswith("Tiphys: "):
                        assert "Unschedulable" == condition["reason"]
                        return pod
            return None

        waiting = await polls.until(told, within_s=30)
        assert gates.gated(waiting)

        async def noted() -> set[str]:
            found = await tiny_api.get(f"/api/v1/namespaces/{space}/events")
            kinds = {
                (item["involvedObject"]["kind"], item["reason"])
                for item in found["items"]
                if item["source"].get("component") == "tiphys-operator"
            }
            return kinds if ("Workflow", "Waiting") in kinds and len(kinds) >= 3 else set()

        kinds = await polls.until(noted, within_s=30)
        assert {("Pod", "Waiting"), ("Pod", "Released"), ("Workflow", "Waiting")} <= kinds


async def test_a_pod_that_our_selector_keeps_unbound_is_given_back_twice_and_then_left_alone(
    tiny: homes.Home, tiny_api: apis.Api
) -> None:
    """Argo makes it again under its name; the group of the selector is full, the other has room.

    Another with the same words, signed by nobody, is never touched. The next leader counts on.
    """
    space = await gates.a_namespace(tiny_api)
    await manifests.accounts_exist(tiny_api, [space])
    for n in range(2):
        blocker = gates.a_gated_pod(f"busy-{n}", "none", "none", nodeSelector=dict(FAST))
        del blocker["spec"]["schedulingGates"], blocker["metadata"]["ownerReferences"]
        await tiny_api.create(f"/api/v1/namespaces/{space}/pods", blocker)
    container = {"image": "busybox", "command": ["sleep", "1"]}
    container["resources"] = {"requests": {"cpu": "2", "memory": "64Mi"}}
    template = {"name": "work", "nodeSelector": dict(FAST), "container": container}
    # The words bind to the Workflow's uid: it starts once they are in its template.
    spec = {
        "entrypoint": "work",
        "serviceAccountName": "default",
        "suspend": True,
        "templates": [template],
    }
    path = gates.WORKFLOWS.format(space)
    uids: dict[str, list[str]] = {"lost": [], "forged": []}
    with gates.operator(tiny, recoverAfter="1s", recoverMost=2) as running:
        await gates.dispatching(running)
        secret = await polls.until(lambda: _secret(tiny_api), within_s=20)
        ring = keys.read(secret)
        for name in uids:
            body = {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Workflow",
                "metadata": {"name": name},
                "spec": spec,
            }
            uid = (await tiny_api.create(path, body))["metadata"]["uid"]
            stamp = _misplaced(f"{space}/{name}", uid)
            words = {decisions.ANNOTATION: stamp.decode()}
            if name == "lost":
                words[decisions.SIGNATURE] = signatures.sign(ring, stamp, time.time())
            spoken = {"annotations": words, "labels": {decisions.LABEL: "true"}}
            change = {"suspend": False, "templates": [{**template, "metadata": spoken}]}
            await tiny_api.patch(f"{path}/{name}", {"spec": change})
        await _watch(tiny_api, space, uids, for_s=45.0)
    assert {"lost": 3, "forged": 1} == {name: len(seen) for name, seen in uids.items()}
    with gates.operator(tiny, recoverAfter="1s", recoverMost=2) as running:
        await gates.dispatching(running)
        await _watch(tiny_api, space, uids, for_s=12.0)
    assert {"lost": 3, "forged": 1} == {name: len(seen) for name, seen in uids.items()}


async def _watch(api: apis.Api, space: str, uids: dict[str, list[str]], *, for_s: float) -> None:
    """Note each uid that pods of these names have."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        found = await gates.pods_of(api, space)
        for name, seen in uids.items():
            if name in found and found[name]["metadata"]["uid"] not in seen:
                seen.append(found[name]["metadata"]["uid"])
        await asyncio.sleep(0.2)


def _misplaced(pod: str, workflow_uid: str) -> bytes:
    """Return a decision that sent a pod to the group that is full."""
    return stamps.encode(
        decisions.Decision(
            id="d-aaaaaaaaaaaaaaaaaaaa",
            verdict=decisions.Verdict.PLACE,
            pod=pod,
            workflow_uid=workflow_uid,
            placement=decisions.Placement(group="fast", selector=FAST, bind="require"),
            issued_at=time.time(),
        )
    )


async def _secret(api: apis.Api) -> bytes:
    """Return the operator's ring, nothing before it is there."""
    try:
        found = await api.get(f"/api/v1/namespaces/{gates.SYSTEM}/secrets/tiphys-keys")
    except apis.ApiError:
        return b""
    return base64.b64decode(found["data"][keys.RING_FIELD])
