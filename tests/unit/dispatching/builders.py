"""Gated pods as the API server holds them, an API that remembers, and a clock that is moved."""

import asyncio
import copy
import dataclasses
from typing import Any

from tests.fakes import pods as fake_pods
from tests.fakes.patching import TestFailedError, applied
from tiphys.models.domain import decisions, pods
from tiphys.operator import apis, objects

RELEASE = decisions.Decision(
    id="d-aaaaaaaaaaaaaaaaaaaa",
    verdict=decisions.Verdict.RELEASE,
    pod=f"{fake_pods.NAMESPACE}/{fake_pods.NAME}",
    pod_uid="uid-1",
    reason="Sent to fast: it is first.",
    issued_at=1_800_000_000.0,
    expires_at=1_800_000_060.0,
)
FAST = decisions.Placement(group="fast", selector=(("pool", "fast"),), bind="prefer")
ONLY_FAST = dataclasses.replace(FAST, bind="require")


def a_raw_pod(**changes: Any) -> dict[str, Any]:
    """A pod behind our gate; `changes` as in `fakes.pods.a_pod`."""
    return fake_pods.a_pod(
        **{
            "metadata__uid": "uid-1",
            "metadata__resourceVersion": "7",
            "metadata__creationTimestamp": "2026-11-30T09:00:00Z",
            "metadata__labels__tiphys.dev/gated": "true",
            "metadata__annotations__tiphys.dev/decision": "{}",
            "spec__schedulingGates": [{"name": pods.STEERING_GATE}],
            "status__phase": "Pending",
            **changes,
        }
    )


def a_seen(**changes: Any) -> objects.Seen:
    """The same as the cache keeps it."""
    return objects.pod(a_raw_pod(**changes))


class Clock:
    """Time that tests move."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        self.at = at
        self.slept: list[float] = []

    def now(self) -> float:
        """Return unix seconds."""
        return self.at

    def monotonic(self) -> float:
        """Return the same."""
        return self.at

    async def sleep(self, length_s: float) -> None:
        """Move on at once."""
        self.slept.append(length_s)
        self.at += length_s
        await asyncio.sleep(0)


class Api:
    """An API server with one pod; each call first takes the next of `refusals`, if any."""

    def __init__(self, pod: dict[str, Any] | None, *refusals: Exception | None) -> None:
        self.pod = pod
        self.refusals = list(refusals)
        self.calls: list[tuple[str, str, Any]] = []

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Answer as the API server would."""
        self.calls.append((method, path, options.get("body")))
        if method != "GET":
            refusal = self.refusals.pop(0) if self.refusals else None
            if refusal is not None:
                raise refusal
        if self.pod is None:
            raise apis.NotFoundError("gone", status=404)
        if method == "PATCH" and options["content_type"] == apis.JSON_PATCH:
            try:
                self.pod = applied(self.pod, options["body"])
            except (TestFailedError, KeyError) as error:
                raise apis.ConflictError("test failed", status=422) from error
        return copy.deepcopy(self.pod)

    async def delete(self, path: str, *, body: object | None = None) -> None:
        """Note a deletion."""
        await self.call("DELETE", path, body=body, content_type="")
