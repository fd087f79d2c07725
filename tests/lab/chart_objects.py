"""What the tests of the chart share: the chart without its processes, accounts, Argo's pods."""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from lab import apis, homes
from lab.controlplane import manifests, states
from lab.installs import charts, helms
from tests.lab import polls

STEERED = "tiphys.dev/steered"
GATED = "tiphys.dev/gated"
GATE = "tiphys.dev/steer"
DECISION = "tiphys.dev/decision"
SIGNATURE = "tiphys.dev/signature"
RELEASE = "tiphys.dev/release"
ACTIVE_WITHIN_S = 15.0
NO_PROCESSES: apis.Object = {
    "operator": {"replicas": 0},
    "webhook": {"replicas": 0},
    "releaser": {"replicas": 0, "atUninstall": False, "floor": {"schedule": "0 0 29 2 *"}},
}
"""The chart's words alone: what the API server makes of them needs none of the processes."""


def stamps(home: homes.Home) -> bool:
    """Say whether this cluster has the admission policy that stamps pods."""
    return states.load(home).asked.kubernetes != "v1.34.4"


@contextlib.contextmanager
def installed(home: homes.Home, more: Mapping[str, object] = NO_PROCESSES) -> Iterator[None]:
    """Install the chart in a lab, and take it away again."""
    program = helms.find()
    try:
        charts.install(program, home, charts.values(home, more=more))
        yield
    finally:
        charts.uninstall(program, home)


class Accounts:
    """Makes clients of the API server that are somebody else, each with a token of its own."""

    def __init__(self, home: homes.Home, admin: apis.Api, folder: Path) -> None:
        self.home = home
        self.admin = admin
        self.folder = folder

    @contextlib.asynccontextmanager
    async def of(self, namespace: str, name: str) -> AsyncIterator[apis.Api]:
        """Yield a client with a fresh token of a ServiceAccount."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        made = await self.admin.create(path, {"spec": {"expirationSeconds": 600}})
        config = yaml.safe_load(self.home.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": made["status"]["token"]}
        kubeconfig = self.folder / f"{namespace}-{name}.kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        async with apis.Api(kubeconfig, attempts=3) as client:
            yield client

    async def tenant(self, namespace: str) -> str:
        """Make a ServiceAccount with the built-in role `edit` and return its name."""
        await self.admin.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "tenant"}}
        )
        await bind(self.admin, namespace, role="edit", account="tenant")
        return "tenant"


async def bind(api: apis.Api, namespace: str, *, role: str, account: str) -> None:
    """Bind a ClusterRole to a ServiceAccount in its namespace."""
    await api.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
        {
            "metadata": {"name": f"{account}-{role}"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )


def a_task(name: str = "task", *, gates: Sequence[str] = (), **metadata: Any) -> apis.Object:
    """Return a pod with the label of Argo's that are not over; it fits on no node."""
    labels = {"workflows.argoproj.io/completed": "false", **metadata.pop("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1", "command": ["true"]}],
            "nodeSelector": {"no-such-node": "true"},
            "schedulingGates": [{"name": gate} for gate in gates],
            "restartPolicy": "Never",
        },
    }


def a_gated_task(name: str = "task", *, gates: Sequence[str] = (GATE,)) -> apis.Object:
    """Return a pod as our webhook leaves it: stamped, decided, behind the gate."""
    return a_task(
        name,
        gates=gates,
        labels={STEERED: "true", GATED: "true"},
        annotations={DECISION: '{"id":"d-1"}', SIGNATURE: "ours", "theirs": "as it was"},
    )


def opening(*more: apis.Object, index: int = 0, gate: str = GATE) -> list[apis.Object]:
    """Return the JSON patch that opens a gate as the operator does it."""
    path = f"/spec/schedulingGates/{index}"
    return [
        {"op": "test", "path": path, "value": {"name": gate}},
        {"op": "remove", "path": path},
        *more,
    ]


async def a_namespace(api: apis.Api, name: str, **annotations: str) -> str:
    """Make a namespace that is ready for pods."""
    keyed = {f"tiphys.dev/{key}": value for key, value in annotations.items()}
    await api.create("/api/v1/namespaces", {"metadata": {"name": name, "annotations": keyed}})
    await manifests.accounts_exist(api, [name])
    return name


async def active(api: apis.Api, home: homes.Home, namespace: str) -> None:
    """Wait until the API server has learned of stamps and guards; `namespace` opted in."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    async def stamped() -> bool:
        trial = await api.call("POST", path, body=a_task("trial"), params={"dryRun": "All"})
        return STEERED in trial["metadata"]["labels"]

    async def guarded() -> bool:
        # Another value each time: before the guards hold, the change goes through.
        changed = {"metadata": {"labels": {STEERED: uuid.uuid4().hex}}}
        return "never changed" in await refusal(api.patch(f"{path}/trial", changed))

    if stamps(home):
        await polls.until(stamped, within_s=ACTIVE_WITHIN_S)
    await api.create(path, a_task("trial", labels={STEERED: "true"}))
    await polls.until(guarded, within_s=ACTIVE_WITHIN_S)
    await api.delete(f"{path}/trial", params={"gracePeriodSeconds": "0"})


async def refusal(call: Any) -> str:
    """Return what the API server said when it refused a call; empty if it did not."""
    try:
        await call
    except apis.ApiError as error:
        return str(error)
    return ""
