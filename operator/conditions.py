"""Tells people why a pod waits: as condition PodScheduled=False on the pod, which Argo shows.

Reason `Unschedulable` is the only one that Argo's UI and CLI print. Cluster autoscalers read it as
demand for a node, so where one is at work only pods for which no node has room are marked. One
write for a pod and change of reason, and so many a second at most; what a busy leader skips, the
next plan offers again.
"""

import collections
import dataclasses
import datetime
from collections.abc import Callable, Sequence

import structlog

from tiphys.models.domain import decisions, errors, settings, snapshots
from tiphys.models.planner import plans
from tiphys.operator import apis, caches, clocks, events, policies, tallies

STRATEGIC_PATCH = "application/strategic-merge-patch+json"
LONGEST = 600
AGAIN_S = 120.0
"""The same reason is written again, with new numbers, only after so long."""
SETTLED_S = 10.0
"""A reason that changes is written at most so often."""
AUTOSCALERS = ("cluster-autoscaler", "karpenter")
KARPENTER = "karpenter.sh/nodepool"

log = structlog.get_logger()


@dataclasses.dataclass(frozen=True, slots=True)
class _Told:
    uid: str
    about: tuple[str, str]
    at_s: float


class Writer:
    """Takes the reasons of each plan and writes what is new."""

    def __init__(
        self,
        api: apis.Api,
        cached: caches.Caches,
        *,
        fence: Callable[[], None],
        clock: clocks.Clock,
        counted: tallies.Tallies,
        recorder: events.Recorder,
        per_second: float,
    ) -> None:
        self._api = api
        self._caches = cached
        self._fence = fence
        self._clock = clock
        self._counted = counted
        self._events = recorder
        self._per_second = per_second
        self._told: dict[str, _Told] = {}
        self._offered: Sequence[tuple[snapshots.Waiting, plans.Hold]] = ()
        self._elastic = False

    def offer(self, long: Sequence[tuple[snapshots.Waiting, plans.Hold]], *, elastic: bool) -> None:
        """Take the pods that wait long, with the reasons of the last plan."""
        self._offered, self._elastic = long, elastic

    async def run(self) -> None:
        """Write until cancelled or fenced."""
        while True:
            await self._clock.sleep(1.0)
            try:
                await self._once()
            except errors.StaleError:
                return
            except errors.TiphysError as error:
                self._counted.conditions.labels("failed").inc()
                log.info("reason was not written", error=str(error))

    async def _once(self) -> None:
        offered, left = self._offered, round(self._per_second)
        alive = {waiting.pod.key for waiting, _ in offered}
        self._told = {key: told for key, told in self._told.items() if key in alive}
        self._sums(offered)
        for waiting, hold in offered:
            if left <= 0:
                return
            if self._new(waiting, hold):
                left -= 1
                await self._write(waiting, hold)

    def _new(self, waiting: snapshots.Waiting, hold: plans.Hold) -> bool:
        told = self._told.get(waiting.pod.key)
        if told is None or told.uid != hold.uid:
            return True
        age_s = self._clock.monotonic() - told.at_s
        return age_s > (AGAIN_S if told.about == _about(hold) else SETTLED_S)

    async def _write(self, waiting: snapshots.Waiting, hold: plans.Hold) -> None:
        pod, now = waiting.pod, self._clock.now()
        self._told[pod.key] = _Told(hold.uid, _about(hold), self._clock.monotonic())
        self._events.note(
            events.of_pod(pod),
            "Waiting",
            hold.reason,
        )
        if self._elastic and (hold.kind is not plans.HoldKind.ROOM or hold.fits):
            self._counted.conditions.labels("elastic").inc()
            return
        seen = self._caches.pods.get(pod.key)
        if seen is None or seen.pod.uid != pod.uid or not seen.pod.gated:
            return
        stamp = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f"{decisions.SPOKEN}{hold.reason}"[:LONGEST],
            "lastTransitionTime": stamp,
        }
        self._fence()
        try:
            await self._api.call(
                "PATCH",
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status",
                body={"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}},
                content_type=STRATEGIC_PATCH,
                attempts=1,
            )
        except (apis.NotFoundError, apis.ConflictError, apis.InvalidError):
            self._counted.conditions.labels("vanished").inc()
        else:
            self._counted.conditions.labels("written").inc()

    def _sums(self, offered: Sequence[tuple[snapshots.Waiting, plans.Hold]]) -> None:
        """Note one sentence for each workflow whose pods wait long."""
        of_workflow: dict[str, list[tuple[snapshots.Waiting, plans.Hold]]] = {}
        for waiting, hold in offered:
            of_workflow.setdefault(waiting.pod.workflow_uid, []).append((waiting, hold))
        for uid, held in list(of_workflow.items())[:50]:
            pod = held[0][0].pod
            kinds = collections.Counter(hold.kind.value for _, hold in held)
            listed = ", ".join(f"{count} for {kind}" for kind, count in sorted(kinds.items()))
            first = min(held, key=lambda each: each[1].rank)[1]
            noun = "pod waits" if len(held) == 1 else "pods wait"
            self._events.note(
                events.About(kind="Workflow", namespace=pod.namespace, name=pod.workflow, uid=uid),
                "Waiting",
                f"{len(held)} {noun} ({listed}). The next in order: {first.reason}",
            )


def elastic(known: policies.Policies, cached: caches.Caches) -> bool:
    """Say whether an autoscaler adds nodes for pods that are unschedulable."""
    wanted = known.general.placement.elastic
    if wanted is not settings.Elastic.AUTO:
        return wanted is settings.Elastic.YES
    return any(node.label(KARPENTER) is not None for node in cached.nodes.values()) or any(
        seen.pod.active and seen.pod.name.startswith(AUTOSCALERS)
        for seen in cached.pods.values()
        if not seen.pod.workflow_uid
    )


def _about(hold: plans.Hold) -> tuple[str, str]:
    """Return what makes two reasons the same although their numbers differ."""
    return hold.kind.value, hold.blocker
