"""Gates open in order, within what there is, and for whoever must not wait any longer."""

import asyncio
import base64
import contextlib
import dataclasses
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A namespace with one Workflow that no controller looks after."""

    api: apis.Api
    name: str
    uid: str
    """Of the Workflow."""

    def a_pod(self, name: str, **spec: Any) -> apis.Object:
        """Return a gated pod of the Workflow; keyword arguments as of `gates.a_gated_pod`."""
        return gates.a_gated_pod(name, "wf", self.uid, **spec)

    async def make(self, *pods: apis.Object) -> None:
        """Create pods, all at once."""
        path = f"/api/v1/namespaces/{self.name}/pods"
        await asyncio.gather(*(self.api.create(path, pod) for pod in pods))

    async def delete(self, *names: str) -> None:
        """Delete pods without grace, all at once."""
        path = f"/api/v1/namespaces/{self.name}/pods"
        params = {"gracePeriodSeconds": "0"}
        await asyncio.gather(
            *(self.api.call("DELETE", f"{path}/{name}", params=params) for name in names)
        )

    async def pods(self) -> dict[str, apis.Object]:
        """Return all pods by name."""
        return await gates.pods_of(self.api, self.name)

    async def open(self) -> set[str]:
        """Return the names of the pods whose gate is open."""
        return await gates.open_pods(self.api, self.name)

    async def opened(self, count: int, *, within_s: float) -> set[str]:
        """Wait until so many gates are open and return whose."""

        async def enough() -> set[str]:
            found = await self.open()
            return found if len(found) >= count else set()

        return await polls.until(enough, within_s=within_s)


@pytest.fixture
async def space(tiny_api: apis.Api) -> Space:
    """Return a namespace that opted in, with a Workflow; `tiny_api` deletes it."""
    name = await gates.a_namespace(tiny_api)
    return Space(api=tiny_api, name=name, uid=await gates.a_workflow(tiny_api, name, "wf"))


async def _a_policy(api: apis.Api, *, mode: str, burst: int) -> None:
    """Create a policy for all that opens so many gates at a time when it does not steer."""
    policy = {
        "apiVersion": "tiphys.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "all"},
        "spec": {"mode": mode, "gate": {"openBurst": burst}},
    }
    await api.create(gates.POLICIES, policy)


@contextlib.asynccontextmanager
async def _dispatching(home: homes.Home, **dispatch: object) -> AsyncIterator[gates.Operator]:
    """Run one replica that leads and dispatches; settings of `dispatch` as in its file."""
    with gates.operator(home, **dispatch) as running:
        await gates.dispatching(running)
        yield running


async def test_a_more_important_pod_goes_first_and_nobody_is_released_without_room(
    tiny: homes.Home, tiny_api: apis.Api, space: Space
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
    async with _dispatching(tiny):
        await space.make(*(space.a_pod(f"first-{n}") for n in range(4)))
        await space.opened(4, within_s=20)
        await space.make(*(space.a_pod(f"low-{n}", priorityClassName="t-low") for n in range(3)))
        await space.make(space.a_pod("high", priorityClassName="t-high"))
        await asyncio.sleep(1.5)
        assert {f"first-{n}" for n in range(4)} == await space.open()
        await space.delete("first-2")
        found = await space.opened(4, within_s=10)
        assert "high" in found
        pods = await space.pods()
        stamp = stamps.decode(pods["high"]["metadata"]["annotations"][decisions.RELEASE_ANNOTATION])
        assert decisions.Verdict.RELEASE is stamp.verdict
        assert pods["high"]["metadata"]["uid"] == stamp.pod_uid
        assert decisions.GATED_LABEL not in pods["high"]["metadata"]["labels"]


async def test_a_pod_that_vanishes_is_dropped_and_the_others_go_on(
    tiny: homes.Home, space: Space
) -> None:
    """Half of the pods are deleted while gates open; the other half all come through."""
    async with _dispatching(tiny):
        names = [f"p{n:02}" for n in range(24)]
        await space.make(*(space.a_pod(name, cpu="1", seconds=2) for name in names))
        await space.delete(*names[::2])

        async def through() -> bool:
            found = await space.pods()
            return bool(found) and not any(gates.gated(pod) for pod in found.values())

        await polls.until(through, within_s=40)
        assert names[1::2] == sorted(await space.pods())


async def test_a_policy_that_is_switched_off_opens_its_gates_some_at_a_time(
    tiny: homes.Home, tiny_api: apis.Api, space: Space
) -> None:
    """With openBurst 4 no more than four pods of the last seconds have no node yet."""
    await _a_policy(tiny_api, mode="Enforce", burst=4)
    async with _dispatching(tiny):
        await space.make(*(space.a_pod(f"p{n:02}", seconds=1) for n in range(16)))
        await space.opened(4, within_s=20)
        await tiny_api.patch(f"{gates.POLICIES}/all", {"spec": {"mode": "Off"}})
        most = 0
        end = time.monotonic() + 60
        while True:
            found = await space.pods()
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


async def test_who_opts_out_waits_no_longer(
    tiny: homes.Home, tiny_api: apis.Api, space: Space
) -> None:
    """Without the annotation on the namespace all of its gates open."""
    async with _dispatching(tiny):
        await space.make(*(space.a_pod(f"p{n}") for n in range(8)))
        await space.opened(4, within_s=20)
        change = {"metadata": {"annotations": {"tiphys.dev/enabled": "false"}}}
        await tiny_api.patch(f"/api/v1/namespaces/{space.name}", change)
        await space.opened(8, within_s=10)


async def test_words_that_anybody_wrote_onto_pods_keep_no_room(
    tiny: homes.Home, tiny_api: apis.Api, space: Space
) -> None:
    """Idle pods of a namespace that never opted in claim to be released, in a year from now."""
    silent = await gates.a_namespace(tiny_api, **{"tiphys.dev/enabled": "false"})
    other = Space(api=tiny_api, name=silent, uid="none")
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
        pod = other.a_pod(f"idle-{n}", schedulerName="nobody")
        del pod["spec"]["schedulingGates"], pod["metadata"]["ownerReferences"]
        pod["metadata"]["annotations"] = {decisions.RELEASE_ANNOTATION: stamp}
        idle.append(pod)
    await other.make(*idle)
    async with _dispatching(tiny):
        await space.make(*(space.a_pod(f"p{n}") for n in range(4)))
        await space.opened(4, within_s=15)


async def test_openings_that_can_never_bind_do_not_keep_the_others_shut(
    tiny: homes.Home, tiny_api: apis.Api, space: Space
) -> None:
    """With openBurst 2 and two such pods the third opens 10 s later, not never."""
    await _a_policy(tiny_api, mode="Off", burst=2)
    async with _dispatching(tiny):
        nowhere = {"nobody": "has-this"}
        await space.make(*(space.a_pod(f"lost-{n}", nodeSelector=nowhere) for n in range(2)))
        await space.opened(2, within_s=20)
        began = time.monotonic()
        await space.make(space.a_pod("late"))
        await space.opened(3, within_s=20)
        assert time.monotonic() - began >= 5, "the burst is kept meanwhile"


async def test_a_pod_that_no_node_can_take_is_not_held(tiny: homes.Home, space: Space) -> None:
    """Forty cores fit nowhere: kube-scheduler may say so itself."""
    async with _dispatching(tiny) as running:
        await space.make(space.a_pod("huge", cpu="40"))
        await space.opened(1, within_s=10)
        said = [
            json.loads(line)
            for line in running.log.read_text().splitlines()
            if '"released"' in line
        ]
        assert ["never"] == [each["how"] for each in said]


async def test_a_pod_that_waits_is_told_why_on_itself_and_in_events(
    tiny: homes.Home, tiny_api: apis.Api, space: Space
) -> None:
    """Condition PodScheduled says Unschedulable with the reason, an Event says it too."""
    async with _dispatching(tiny):
        await space.make(*(space.a_pod(f"p{n}") for n in range(5)))

        async def told() -> apis.Object | None:
            found = await space.pods()
            for pod in found.values():
                for condition in pod["status"].get("conditions", ()):
                    if condition.get("message", "").startswith("Tiphys: "):
                        assert "Unschedulable" == condition["reason"]
                        return pod
            return None

        waiting = await polls.until(told, within_s=30)
        assert gates.gated(waiting)

        async def noted() -> set[str]:
            found = await tiny_api.get(f"/api/v1/namespaces/{space.name}/events")
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
    namespace = await gates.a_namespace(tiny_api)
    await manifests.accounts_exist(tiny_api, [namespace])
    for n in range(2):
        blocker = gates.a_gated_pod(f"busy-{n}", "none", "none", nodeSelector=dict(FAST))
        del blocker["spec"]["schedulingGates"], blocker["metadata"]["ownerReferences"]
        await tiny_api.create(f"/api/v1/namespaces/{namespace}/pods", blocker)
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
    path = gates.WORKFLOWS.format(namespace)
    uids: dict[str, list[str]] = {"lost": [], "forged": []}
    async with _dispatching(tiny, recoverAfter="1s", recoverMost=2):
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
            stamp = _misplaced(f"{namespace}/{name}", uid)
            words = {decisions.ANNOTATION: stamp.decode()}
            if name == "lost":
                words[decisions.SIGNATURE] = signatures.sign(ring, stamp, time.time())
            spoken = {"annotations": words, "labels": {decisions.LABEL: "true"}}
            change = {"suspend": False, "templates": [{**template, "metadata": spoken}]}
            await tiny_api.patch(f"{path}/{name}", {"spec": change})
        await _watch(tiny_api, namespace, uids, for_s=45.0)
    assert {"lost": 3, "forged": 1} == {name: len(seen) for name, seen in uids.items()}
    async with _dispatching(tiny, recoverAfter="1s", recoverMost=2):
        await _watch(tiny_api, namespace, uids, for_s=12.0)
    assert {"lost": 3, "forged": 1} == {name: len(seen) for name, seen in uids.items()}


async def _watch(
    api: apis.Api, namespace: str, uids: dict[str, list[str]], *, for_s: float
) -> None:
    """Note each uid that pods of these names have."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        found = await gates.pods_of(api, namespace)
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
