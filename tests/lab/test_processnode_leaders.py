"""Replicas on the process node that elect a leader by a Lease, and what a killed one costs."""

import asyncio
import os
import signal
import textwrap
from pathlib import Path

import pytest

from lab import apis
from tests.lab import process_pods
from tests.lab.process_pods import Pods, a_template, state, until

pytestmark = pytest.mark.timeout(180)

LEASE_S = 2
CANDIDATE = textwrap.dedent(
    """
    import asyncio, datetime, os, pathlib, ssl, uuid
    from aiohttp import ClientSession

    ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
    ME = os.environ["POD_NAME"] + "_" + str(os.getpid()) + "_" + uuid.uuid4().hex[:4]

    async def main():
        tls = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
        host, port = (os.environ["KUBERNETES_SERVICE_" + part] for part in ("HOST", "PORT"))
        path = ("/apis/coordination.k8s.io/v1/namespaces/"
                + (ACCOUNT / "namespace").read_text() + "/leases")
        seen, seen_at = None, 0.0
        headers = {"Authorization": "Bearer " + (ACCOUNT / "token").read_text()}
        async with ClientSession(f"https://{host}:{port}", headers=headers) as session:
            while True:
                now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                spec = {"holderIdentity": ME, "leaseDurationSeconds": 2, "renewTime": now}
                async with session.get(path + "/leader", ssl=tls) as answer:
                    lease = await answer.json() if answer.status == 200 else None
                if lease is None:
                    body = {"metadata": {"name": "leader"}, "spec": spec}
                    await session.post(path, json=body, ssl=tls)
                else:
                    if lease["spec"] != seen:
                        seen, seen_at = lease["spec"], asyncio.get_running_loop().time()
                    old = asyncio.get_running_loop().time() - seen_at > 2
                    if lease["spec"]["holderIdentity"] == ME or old:
                        # A version that is not the latest is refused, so one of several wins.
                        lease["spec"] = spec
                        await session.put(path + "/leader", json=lease, ssl=tls)
                await asyncio.sleep(0.3)

    asyncio.run(main())
    """
)


@pytest.fixture
def pods(api: apis.Api, namespace: str) -> Pods:
    """Return the pods of a fresh namespace of the shared lab."""
    return Pods(api, namespace)


async def account(pods: Pods, name: str) -> None:
    """Make a ServiceAccount that may elect a leader in its namespace, and nothing else."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{pods.namespace}"
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    }
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": pods.namespace}
    named = {"metadata": {"name": name}}
    await pods.api.create(f"{pods.path}/serviceaccounts", named)
    await pods.api.create(f"{rbac}/roles", {**named, "rules": [rule]})
    await pods.api.create(f"{rbac}/rolebindings", {**named, "roleRef": role, "subjects": [subject]})


async def holder(pods: Pods) -> str:
    """Return who holds the lease, `POD_PID_RANDOM`; empty while nobody does."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{pods.namespace}/leases/leader"
    try:
        return str((await pods.api.get(path))["spec"]["holderIdentity"])
    except apis.ApiError:
        return ""


async def test_a_leader_that_is_killed_is_restarted_and_the_lease_goes_on(pods: Pods) -> None:
    """`kill -9` of its process: the same pod runs again, and someone alive holds the Lease."""
    await account(pods, "elector")
    container = process_pods.a_container(
        command=["python", "-c", CANDIDATE], env=[process_pods.OWN_NAME]
    )
    template = a_template(container, serviceAccountName="elector")
    await pods.api.create(
        f"/apis/apps/v1/namespaces/{pods.namespace}/deployments",
        process_pods.a_deployment("elector", template, replicas=2),
    )
    first = await until(lambda: holder(pods), bool)
    before = await until(lambda: pods.listed("app=elector"), _all_run)
    await asyncio.sleep(2 * LEASE_S)
    assert first == await holder(pods), "a leader that lives keeps its Lease"

    pod, pid, _ = first.split("_")
    os.kill(int(pid), signal.SIGKILL)

    killed = await until(lambda: pods.read(pod), lambda found: state(found)["restartCount"] == 1)
    ended = state(killed)["lastState"]["terminated"]
    assert (137, "Error") == (ended["exitCode"], ended["reason"])
    second = await until(lambda: holder(pods), lambda name: name != first)
    assert Path(f"/proc/{second.split('_')[1]}").exists()
    after = await until(lambda: pods.listed("app=elector"), _all_run)
    assert {_identity(item) for item in before} == {_identity(item) for item in after}
    assert [0, 1] == sorted(state(item)["restartCount"] for item in after)


def _all_run(found: list[apis.Object]) -> bool:
    return len(found) == 2 and all("running" in state(item).get("state", {}) for item in found)


def _identity(pod: apis.Object) -> str:
    return str(pod["metadata"]["uid"])
