"""Opens one gate: a signed decision, one JSON patch, and the right answer to each refusal.

The patch is made from what the cache holds and tests the resourceVersion that it was made for: one
call a pod where nothing else wrote, and where somebody did the pod is read again and judged anew.
"""

import base64
import dataclasses
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from tiphys.argo import patches
from tiphys.models.domain import decisions, errors
from tiphys.models.wire import keys, signatures, stamps
from tiphys.operator import apis, clocks, objects, tallies

TRIES = 4
"""Looks at one pod before it is left to the next tick."""
CALL_S = 5.0
PLACEHOLDER = "workflows.argoproj.io/node-id"
"""Every pod of Argo has it; so the patch never makes the map of annotations anew."""

log = structlog.get_logger()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One gate to open."""

    seen: objects.Seen
    decision: decisions.Decision
    how: tallies.How
    due_at: float
    """Monotonic second at which what makes it possible was seen."""


def new_id() -> str:
    """Return the id of a decision: `d-` and 20 letters of base 32, 100 random bits."""
    return "d-" + base64.b32encode(secrets.token_bytes(13)).decode().lower()[:20]


class Writer:
    """Opens gates by orders; several at a time may be under way."""

    def __init__(
        self,
        api: apis.Api,
        *,
        ring: Callable[[], keys.Ring],
        fence: Callable[[], None],
        clock: clocks.Clock,
    ) -> None:
        """`fence` raises `StaleError` where this replica may not act any more."""
        self._api = api
        self._ring = ring
        self._fence = fence
        self._clock = clock

    async def open(self, order: Order) -> tallies.Outcome:
        """Open a gate.  Raises `StaleError` only by the fence, `UnavailableError` without a key."""
        path = f"/api/v1/namespaces/{order.seen.pod.namespace}/pods/{order.seen.pod.name}"
        pod: Mapping[str, Any] = document(order.seen)
        first, decided = True, order.decision
        for _ in range(TRIES):
            try:
                patch = self._patch(pod, decided)
            except errors.StaleError:
                return tallies.Outcome.VANISHED
            except errors.InputError as error:
                if not decided.placement.selector:
                    return self._refused(order, error)
                decided = _unplaced(decided, str(error))
                continue
            if not patch:
                ours = _wrote(pod, decided)  # our own patch, which went through unheard
                return tallies.Outcome.OPENED if ours else tallies.Outcome.OVERTAKEN
            self._fence()
            try:
                await self._api.call(
                    "PATCH",
                    path,
                    body=patch,
                    content_type=apis.JSON_PATCH,
                    attempts=2,
                    timeout_s=CALL_S,
                )
            except apis.NotFoundError:
                return tallies.Outcome.VANISHED
            except apis.ConflictError:
                pass  # it changed: look again
            except apis.InvalidError as error:
                if not first and not decided.placement.selector:
                    return self._refused(order, error)
                if not first:
                    decided = _unplaced(decided, str(error))
            except apis.ForbiddenError as error:
                return self._refused(order, error)
            except errors.TiphysError as error:
                log.info("gate stays shut for now", pod=order.seen.pod.key, error=str(error))
                return tallies.Outcome.LATER
            else:
                placed = decided.placement == order.decision.placement
                return tallies.Outcome.OPENED if placed else tallies.Outcome.UNPLACED
            try:
                pod = await self._api.call("GET", path, attempts=2, timeout_s=CALL_S)
            except apis.NotFoundError:
                return tallies.Outcome.VANISHED
            except errors.TiphysError:
                return tallies.Outcome.LATER
            if pod["metadata"].get("deletionTimestamp"):
                return tallies.Outcome.VANISHED
            first = False
        return tallies.Outcome.LATER

    def _patch(self, pod: Mapping[str, Any], decided: decisions.Decision) -> patches.Patch:
        stamp = stamps.encode(decided)
        signature = signatures.sign(self._ring(), stamp, self._clock.now())
        patch = patches.release(pod, decided, stamp=stamp.decode(), signature=signature)
        version = pod["metadata"].get("resourceVersion")
        if patch and version:
            patch.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": version})
        return patch

    def _refused(self, order: Order, error: Exception) -> tallies.Outcome:
        log.error(
            "gate cannot be opened",
            pod=order.seen.pod.key,
            decision=order.decision.id,
            error=str(error),
        )
        return tallies.Outcome.REFUSED


def _wrote(pod: Mapping[str, Any], decided: decisions.Decision) -> bool:
    """Say whether a decision of ours stands on a pod as what let it go."""
    annotations = pod["metadata"].get("annotations") or {}
    try:
        return stamps.decode(annotations.get(decisions.RELEASE_ANNOTATION, "")).id == decided.id
    except errors.InputError:
        return False


def document(seen: objects.Seen) -> dict[str, Any]:
    """Return of a gated pod what `argo.patches.release` looks at, as of the cached version."""
    pod = seen.pod
    node: dict[str, Any] = {}
    if pod.constraints.required:
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {}
    if seen.preferred:
        node[patches.PREFERRED] = [{}]
    return {
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": seen.version,
            "labels": dict(seen.labels),
            "annotations": {**dict(seen.annotations), PLACEHOLDER: pod.node_id},
        },
        "spec": {
            "schedulingGates": [{"name": gate} for gate in pod.gates],
            "nodeSelector": dict(pod.constraints.node_selector),
            **({"affinity": {"nodeAffinity": node}} if node else {}),
        },
    }


def _unplaced(decided: decisions.Decision, why: str) -> decisions.Decision:
    return dataclasses.replace(
        decided,
        placement=decisions.Placement(),
        reason=f"{decided.reason} Without its place, which the pod does not take: {why}",
    )
