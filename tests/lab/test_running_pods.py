"""What happens to pods while they run: resized in place, cut short, held up, and told in Events."""

from typing import Any

import pytest

from lab import apis, homes
from tests.lab import polls, simulated_pods
from tests.lab.simulated_pods import a_container, a_pod, a_truth

pytestmark = pytest.mark.timeout(240)


def pods_of(namespace: str) -> str:
    """The path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


async def told(api: apis.Api, namespace: str, *reasons: str) -> dict[str, apis.Object]:
    """Wait until events of these reasons are there; by reason."""

    async def look() -> dict[str, apis.Object]:
        listed = await api.get(f"/api/v1/namespaces/{namespace}/events")
        found = {event["reason"]: event for event in listed["items"]}
        return found if found.keys() >= set(reasons) else {}

    return await polls.until(look, within_s=30)


async def a_long_pod(lab: homes.Home, api: apis.Api, namespace: str) -> str:
    """Let a pod run that asks for one core and would go on for ever; its path."""
    simulated_pods.tell(lab, namespace, a_truth(namespace, "long", cpu_s=1e7, parallelism=4.0))
    container = a_container(resources={"requests": {"cpu": "1", "memory": "64Mi"}})
    await api.create(pods_of(namespace), a_pod("long", task="work", container=container))
    path = f"{pods_of(namespace)}/long"
    await simulated_pods.in_phase(api, path, "Running")
    return path


async def test_a_running_pod_is_resized_in_place(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """The status follows; what another pod holds is Deferred until that one is gone."""
    path = await a_long_pod(lab, api, namespace)

    async def resize(cpu: str) -> None:
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        await api.patch(
            f"{path}/resize",
            {"spec": {"containers": [container]}},
            content_type=apis.STRATEGIC_PATCH,
        )

    async def seen() -> apis.Object | None:
        pod = await api.get(path)
        observed = pod["status"].get("observedGeneration")
        return pod if observed == pod["metadata"]["generation"] else None

    def given(pod: apis.Object) -> tuple[Any, Any]:
        run = pod["status"]["containerStatuses"][0]
        return run["resources"]["requests"]["cpu"], run["allocatedResources"]["cpu"]

    await resize("2")
    pod = await polls.until(seen, within_s=20)
    assert pod is not None
    assert ("2", "2") == given(pod)
    big = a_container(resources={"requests": {"cpu": "12"}})
    node = pod["spec"]["nodeName"]
    simulated_pods.tell(lab, f"{namespace}-big", a_truth(namespace, "big", cpu_s=1e7))
    await api.create(pods_of(namespace), a_pod("big", task="work", container=big, nodeName=node))
    await simulated_pods.in_phase(api, f"{pods_of(namespace)}/big", "Running")
    await resize("10")
    pod = await polls.until(seen, within_s=20)
    assert pod is not None
    assert ("2", "2") == given(pod)
    (pending,) = [
        item for item in pod["status"]["conditions"] if item["type"] == "PodResizePending"
    ]
    assert "Deferred" == pending["reason"]
    await api.delete(f"{pods_of(namespace)}/big")

    async def ten() -> bool:
        return given(await api.get(path)) == ("10", "10")

    await polls.until(ten, within_s=30)
    conditions = (await api.get(path))["status"]["conditions"]
    assert "PodResizePending" not in [item["type"] for item in conditions]
    await api.delete(path)
    records = await simulated_pods.recorded(lab, namespace, 2)
    assert {10_000, 12_000} == {record.requested_cpu_m for record in records}


async def test_a_deleted_pod_is_told_to_be_killed(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """As `kubectl describe` shows it of a real kubelet."""
    path = await a_long_pod(lab, api, namespace)
    uid = (await api.get(path))["metadata"]["uid"]
    await api.delete(path)
    event = (await told(api, namespace, "Killing"))["Killing"]
    assert ("Normal", "Stopping container main", uid) == (
        event["type"],
        event["message"],
        event["involvedObject"]["uid"],
    )
    assert event["source"]["host"] == event["reportingInstance"]


async def test_a_deadline_that_is_set_on_a_running_pod_ends_it(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """The kubelet looks at the spec as it is now."""
    path = await a_long_pod(lab, api, namespace)
    await api.patch(path, {"spec": {"activeDeadlineSeconds": 1}})
    ended = await simulated_pods.in_phase(api, path, "Failed")
    assert "DeadlineExceeded" == ended["status"]["reason"]
    await told(api, namespace, "DeadlineExceeded", "Killing")


async def test_a_pod_waits_for_its_config_map_and_says_so(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """FailedMount, and on it goes when the ConfigMap is there."""
    volume = {"name": "settings", "configMap": {"name": "late"}}
    await api.create(pods_of(namespace), a_pod("held", volumes=[volume]))
    event = (await told(api, namespace, "FailedMount"))["FailedMount"]
    assert 'for volume "settings" : configmap "late" not found' in event["message"]
    late = {"metadata": {"name": "late"}, "data": {"a": "1"}}
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", late)
    await simulated_pods.in_phase(api, f"{pods_of(namespace)}/held", "Succeeded")
