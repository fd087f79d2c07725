"""Waits until what the chart started is ready, and says of what is not how its log ends."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab import apis, errors, homes
from lab.controlplane import children
from lab.installs import charts

LOOK_EVERY_S = 0.2
READY_WITHIN_S = 90.0
TRUSTED_WITHIN_S = 30.0
WORKLOADS = (
    (charts.NAMESPACE, "operator"),
    (charts.NAMESPACE, "webhook"),
    (charts.RELEASER_NAMESPACE, "releaser"),
)
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """How far a Deployment is."""

    wanted: int
    """Replicas that it shall have."""
    ready: int
    """Of the newest template, ready."""
    left: int
    """Of an older template, not gone yet."""

    @property
    def complete(self) -> bool:
        """Say whether every replica is new and ready."""
        return self.ready >= self.wanted and not self.left


async def wait(api: apis.Api, home: homes.Home, *, show: Show = lambda line: None) -> None:
    """Return when every workload is ready and the API server trusts the webhook.

    `show` is told once of each. Raises `StartError` for what is not ready within its limit.
    """
    for namespace, role in WORKLOADS:
        began = time.monotonic()
        rollout = await _ready(api, home, namespace, role)
        took_s = time.monotonic() - began
        show(f"{role:24} {rollout.ready} of {rollout.wanted} ready after {took_s:4.1f} s")
    began = time.monotonic()
    await _trusted(api, home)
    show(f"{'trust of the API server':24} set after {time.monotonic() - began:4.1f} s")


async def _ready(api: apis.Api, home: homes.Home, namespace: str, role: str) -> Rollout:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/tiphys-{role}"
    until = time.monotonic() + READY_WITHIN_S
    while True:
        rollout = read(await api.get(path))
        if rollout is not None and rollout.complete:
            return rollout
        if time.monotonic() > until:
            counted = f"{rollout.ready} of {rollout.wanted}" if rollout else "none"
            raise await _failure(
                api,
                home,
                namespace,
                role,
                f"{counted} of {namespace}/tiphys-{role} ready within {READY_WITHIN_S:.0f} s",
            )
        await asyncio.sleep(LOOK_EVERY_S)


async def _trusted(api: apis.Api, home: homes.Home) -> None:
    """Wait for the caBundle that the leader sets."""
    until = time.monotonic() + TRUSTED_WITHIN_S
    while True:
        found = [
            webhook["clientConfig"].get("caBundle")
            for kind in CONFIGURATIONS
            for webhook in (await api.get(f"/apis/admissionregistration.k8s.io/v1/{kind}/tiphys"))[
                "webhooks"
            ]
        ]
        if all(found):
            return
        if time.monotonic() > until:
            problem = f"no operator set caBundle within {TRUSTED_WITHIN_S:.0f} s"
            raise await _failure(api, home, charts.NAMESPACE, "operator", problem)
        await asyncio.sleep(LOOK_EVERY_S)


def read(deployment: apis.Object) -> Rollout | None:
    """Return how far a Deployment is; None while its controller has not looked at it."""
    status = deployment.get("status") or {}
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return None
    wanted = deployment["spec"]["replicas"]
    updated = min(status.get("updatedReplicas", 0), status.get("readyReplicas", 0))
    return Rollout(
        wanted=wanted,
        ready=updated,
        left=max(0, status.get("replicas", 0) - status.get("updatedReplicas", 0)),
    )


async def _failure(
    api: apis.Api, home: homes.Home, namespace: str, role: str, problem: str
) -> errors.StartError:
    """Return the error with the reason and the log of the pod that is not ready."""
    params = {"labelSelector": f"app.kubernetes.io/name=tiphys,app.kubernetes.io/component={role}"}
    listed = await api.get(f"/api/v1/namespaces/{namespace}/pods", params=params)
    for pod in listed["items"]:
        name = pod["metadata"]["name"]
        for status in pod.get("status", {}).get("containerStatuses") or ():
            if status.get("ready"):
                continue
            state = status.get("state") or {}
            waiting = state.get("waiting") or {}
            reason = waiting.get("reason") or "running, but its readiness probe fails"
            log = log_of(home, namespace, name, status["name"])
            return errors.StartError(
                f"{problem}: {name} is {reason} {waiting.get('message', '')}".rstrip(),
                log=log,
                tail=children.tail(log),
            )
    return errors.StartError(f"{problem}: see `kubectl -n {namespace} get events`")


def log_of(home: homes.Home, namespace: str, pod: str, container: str) -> Path:
    """Return where the process node keeps the log of a container."""
    return home.logs / "pods" / f"{namespace}_{pod}" / f"{container}.log"
