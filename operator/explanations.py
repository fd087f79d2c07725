"""`GET /v1/explanations/UID` on the leader: one pod or Workflow, with all that the plan knew.

Who knows the uid of an object may read it: 122 random bits that only its own namespace's readers
see. People come through the API server's proxy (docs/commands.md); whoever may not use that is
answered by the annotations, the condition and the Events of the pod itself.
"""

from collections.abc import Mapping

from aiohttp import web

from tiphys.models.domain import decisions, settings, snapshots
from tiphys.models.planner import masks, plans
from tiphys.models.wire import messages
from tiphys.operator import (
    admissions,
    caches,
    clocks,
    elections,
    holds,
    objects,
    optins,
    policies,
)
from tiphys.operator import snapshots as pictures

PATH = "/v1/explanations/"
MOST_PODS = 500
"""Pods of a Workflow that one answer lists: those that wait, in order, then the others."""
Json = dict[str, object]


class Desk:
    """Answers people's questions; every replica has one, the leader's knows most."""

    def __init__(
        self,
        cached: caches.Caches,
        pictured: pictures.Snapshots,
        known: policies.Policies,
        held: holds.Holds,
        admitted: admissions.Admissions,
        *,
        election: elections.Election,
        clock: clocks.Clock,
    ) -> None:
        self._caches = cached
        self._pictured = pictured
        self._policies = known
        self._holds = held
        self._admitted = admitted
        self._election = election
        self._clock = clock

    def mount(self, application: web.Application) -> None:
        """Add the route to an application."""
        application.router.add_get(PATH + "{uid}", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        found = self.of(request.match_info["uid"])
        if found is None:
            return web.json_response({"message": "no object with that uid is known"}, status=404)
        return web.json_response(found)

    def of(self, uid: str) -> Json | None:
        """Return the explanation of a pod or Workflow by its uid; None for one that is unknown."""
        run = self._caches.workflows.of_uid(uid)
        if run is not None:
            return self._of_workflow(run)
        seen = next((each for each in self._caches.pods.values() if each.pod.uid == uid), None)
        return self._of_pod(seen) if seen is not None else None

    def _of_workflow(self, run: objects.Run) -> Json:
        workflow = run.workflow
        seen = self._caches.pods.of_workflow(workflow.uid)
        return {
            "kind": "Workflow",
            "workflow": workflow.key,
            "uid": workflow.uid,
            **self._who(workflow.namespace, run),
            "priority": workflow.priority,
            "unknowns": list(workflow.unknowns),
            "podsInAll": len(seen),
            "pods": [self._of_pod(each) for each in sorted(seen, key=self._place)[:MOST_PODS]],
        }

    def _of_pod(self, seen: objects.Seen) -> Json:
        pod = seen.pod
        run = self._caches.workflows.of_uid(pod.workflow_uid)
        found: Json = {
            "kind": "Pod",
            "pod": pod.key,
            "uid": pod.uid,
            "workflow": f"{pod.namespace}/{pod.workflow}" if pod.workflow else "",
            "task": pod.task,
            "template": pod.template,
            "role": str(pod.role),
            "node": pod.node,
            "nodeGroup": self._pictured.group_of.get(pod.node, ""),
            "phase": str(pod.phase),
            "gated": pod.gated,
            **self._who(pod.namespace, run),
        }
        released = self._holds.released(pod.uid)
        if released is not None:
            found["decision"] = messages.encode_decision(released)
        admitted = self._admitted.of(pod)
        if admitted is not None:
            found["admission"] = messages.encode_decision(admitted)
        standing = self._holds.standing(pod.uid)
        if standing is not None and pod.gated:
            found |= self._held(standing)
        return found

    def _place(self, seen: objects.Seen) -> tuple[bool, float, str]:
        """Return what sorts pods: those that wait first, by rank."""
        standing = self._holds.standing(seen.pod.uid) if seen.pod.gated else None
        rank = float("inf") if standing is None else standing.hold.rank
        return not seen.pod.gated, rank, seen.pod.key

    def _who(self, namespace: str, run: objects.Run | None) -> Json:
        optin = optins.of(self._caches, namespace, run)
        chosen = self._policies.choose(namespace, optin)
        return {
            "answeredBy": "leader" if self._election.leading else "replica",
            "policy": chosen.choices.name,
            "version": chosen.ranker.name,
            "mode": str(chosen.mode),
            "note": chosen.note,
            "optIn": {
                "enabled": optin.enabled,
                "source": optin.source,
                "errors": list(optin.errors),
            },
        }

    def _held(self, standing: holds.Standing) -> Json:
        hold, waiting = standing.hold, standing.planned.waiting
        candidates, masked = _groups(
            waiting, self._pictured.current(), standing.planned.chosen.choices
        )
        return {
            "hold": {
                "kind": str(hold.kind),
                "reason": hold.reason,
                "blocker": hold.blocker,
                "blockers": list(hold.blockers),
                "rank": hold.rank,
                "fits": hold.fits,
                "until": hold.until,
                "untilRestsOn": self._basis(hold) if hold.until is not None else "",
                "heldS": round(self._holds.held_s(waiting.pod.key), 3),
                "mustOpenBy": waiting.must_open_by,
            },
            "saw": _saw(waiting),
            "candidates": [{"group": c.group, "why": c.why} for c in candidates],
            "masked": [{"group": m.group, "why": m.why} for m in masked],
            "default": holds.default(hold.kind),
            "snapshot": {
                "version": standing.snapshot_version,
                "ageS": standing.snapshot_age_s,
                "at": standing.at,
            },
        }

    def _basis(self, hold: plans.Hold) -> str:
        """Return what the end that a hold waits for rests on (`Estimate.basis`); "" = not known.

        The last of its blockers is the one that ends then.
        """
        seen = self._caches.pods.get(hold.blockers[-1] if hold.blockers else hold.blocker)
        run = self._caches.workflows.of_uid(seen.pod.workflow_uid) if seen is not None else None
        if seen is None or run is None:
            return ""
        tasks = run.workflow.tasks
        identity = next((task.identity for task in tasks if task.id == seen.pod.node_id), None)
        return self._pictured.estimates.book.estimate(identity, attempt=seen.pod.attempt).basis


def _saw(waiting: snapshots.Waiting) -> Json:
    return {
        "waitingSince": waiting.waiting_since,
        "duration": {
            "centreS": waiting.duration.centre_s,
            "spreadS": waiting.duration.spread_s,
            "runs": waiting.duration.count,
            "basis": waiting.duration.basis,
        },
        "remainingWorkCoreS": waiting.remaining_work,
        "remainingPathS": waiting.remaining_path_s,
        "deadlineAt": waiting.deadline_at,
        "priority": waiting.pod.priority,
        "workflowPriority": waiting.workflow_priority,
        "urgencyOf": list(waiting.urgency_of),
        "requests": {
            "cpuM": waiting.pod.requests.cpu_m,
            "memoryBytes": waiting.pod.requests.memory_bytes,
            **dict(waiting.pod.requests.others),
        },
        "unmodelled": list(waiting.pod.constraints.unmodelled),
    }


def _groups(
    waiting: snapshots.Waiting, picture: snapshots.Snapshot, choices: settings.PolicySettings
) -> tuple[list[decisions.Candidate], list[decisions.Masked]]:
    """Return the groups that may take the pod, with their room, and those that may not."""
    labels = dict(waiting.labels)
    rules = tuple(rule for rule in choices.rules if rule.selects(labels))
    asked = waiting.pod.constraints
    whys: dict[str, str] = {}
    may: dict[str, int] = {}
    free: dict[str, int] = {}
    for room in picture.rooms:
        why = masks.refusal(asked, rules, room.node)
        if not why and not waiting.pod.requests.fits(room.node.allocatable):
            lacking = waiting.pod.requests.lacking(room.node.allocatable)
            why = f"its nodes are too small: {', '.join(lacking)}"
        if not why and not room.node.schedulable:
            why = "cordoned or not ready"
        if why:
            whys.setdefault(room.group, why)
            continue
        may[room.group] = may.get(room.group, 0) + 1
        free[room.group] = free.get(room.group, 0) + waiting.pod.requests.fits(room.free)
    factors: Mapping[str, float] = {**dict(picture.group_factors), **dict(waiting.group_factors)}
    candidates = [
        decisions.Candidate(
            group=group,
            score=waiting.duration.centre_s * factors.get(group, 1.0),
            why=f"{free[group]} of {count} nodes have room now, "
            f"runs at {factors.get(group, 1.0):.2f} of its usual time",
        )
        for group, count in may.items()
    ]
    masked = [
        decisions.Masked(group=group, why=why)
        for group, why in sorted(whys.items())
        if group not in may
    ]
    return sorted(candidates, key=lambda each: (each.score, each.group)), masked
