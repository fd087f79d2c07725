"""One pod at admission to one decision: who is meant, whether it is steered, gate or place.

Whatever is not certain ends in PASS with the reason in words: the pod goes to kube-scheduler as it
is. Gates are decided only while a leader lives that will open them and while the caches are fresh.
"""

import dataclasses
from collections.abc import Callable, Mapping

import structlog

from tiphys.argo import clocks as argo_clocks
from tiphys.argo import pods as argo_pods
from tiphys.models.domain import decisions, errors, pods, settings, snapshots
from tiphys.models.planner import planners, plans
from tiphys.operator import (
    apis,
    assumptions,
    caches,
    clocks,
    holds,
    objects,
    optins,
    policies,
    releases,
)
from tiphys.operator import (
    settings as operator_settings,
)
from tiphys.operator import snapshots as pictures

LEAST_SLACK_S = 5.0
"""A pod whose Argo clocks leave less is not gated."""
EXPIRES_S = 30.0
"""A decision that was not applied by then never is."""
UNGATED = {
    pods.PodRole.AGENT: "an agent pod serves its whole workflow and is never gated",
    pods.PodRole.ARTIFACT_GC: "a pod of artifact collection is never gated",
    pods.PodRole.EXIT_HANDLER: "an exit handler is never gated",
    pods.PodRole.FOREIGN: "no Workflow controls it",
}

log = structlog.get_logger()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about a pod that is being created."""

    admission_uid: str
    namespace: str
    pod: Mapping[str, object]
    """As the API server sent it."""
    dry_run: bool
    nonce: str
    asked_at: float
    """Monotonic second at which the question began."""


class Decider:
    """Answers questions; every replica has one."""

    def __init__(
        self,
        api: apis.Api,
        cached: caches.Caches,
        pictured: pictures.Snapshots,
        assumed: assumptions.Assumptions,
        chosen: policies.Policies,
        *,
        limits: operator_settings.Decisions,
        clock: clocks.Clock,
        led: Callable[[], bool],
        disabled: bool = False,
    ) -> None:
        """`led` says whether a leader lives."""
        self._api = api
        self._caches = cached
        self._pictured = pictured
        self._assumed = assumed
        self._policies = chosen
        self._limits = limits
        self._clock = clock
        self._led = led
        self._disabled = disabled
        self._planner = planners.Planner()

    async def decide(self, question: Question) -> decisions.Decision:
        """Return the decision for one pod.  Raises `InputError` for what is no pod."""
        pod = self._pod(question)
        blank = decisions.Decision(
            id=releases.new_id(),
            verdict=decisions.Verdict.PASS,
            pod=pod.key,
            admission_uid=question.admission_uid,
            workflow=f"{pod.namespace}/{pod.workflow}" if pod.workflow else "",
            workflow_uid=pod.workflow_uid,
            template=pod.template,
            task=pod.task,
            issued_at=self._clock.now(),
            expires_at=self._clock.now() + EXPIRES_S,
            nonce=question.nonce,
        )
        if self._disabled:
            return _passed(blank, "Tiphys is switched off (TIPHYS_DISABLED=1)")
        if pod.role in UNGATED:
            return _passed(blank, UNGATED[pod.role])
        if not self._caches.synced:
            return _passed(blank, "the operator has not read the cluster yet")
        run = await self._run(pod, question)
        if run is None:
            return _passed(blank, "no Workflow with the uid of its controller is known")
        return self._steered(blank, question, pod, run)

    def _pod(self, question: Question) -> pods.Pod:
        """Read the pod; at admission its namespace may stand in the request alone."""
        metadata = question.pod.get("metadata")
        if not isinstance(metadata, dict):
            raise errors.InputError("pod.metadata: missing")
        if metadata.get("namespace") not in (None, "", question.namespace):
            raise errors.InputError("pod.metadata.namespace: not the namespace of the request")
        return argo_pods.read(
            {**question.pod, "metadata": {**metadata, "namespace": question.namespace}}
        )

    async def _run(self, pod: pods.Pod, question: Question) -> objects.Run | None:
        """Return the pod's Workflow; one that is not cached yet is read, in the time that is left.

        Labels and owner references can be written by anybody: only the uid of a Workflow that there
        really is makes a pod one of its tasks.
        """
        known = self._caches.workflows.of_uid(pod.workflow_uid)
        if known is not None:
            return known if known.workflow.name == pod.workflow else None
        spent_s = self._clock.monotonic() - question.asked_at
        left_s = min(self._limits.lookup_s, self._limits.deadline_s * 0.8 - spent_s)
        if left_s <= 0:
            return None
        path = f"/apis/argoproj.io/v1alpha1/namespaces/{pod.namespace}/workflows/{pod.workflow}"
        try:
            read = await self._api.get(path, timeout_s=left_s)
            run = objects.run(read, self._caches.templates_by_name(pod.namespace))
        except (errors.TiphysError, KeyError, TypeError) as error:
            log.info("workflow was not found in time", workflow=pod.workflow, error=str(error))
            return None
        if run.workflow.uid != pod.workflow_uid:
            return None
        if self._caches.workflows.of_uid(pod.workflow_uid) is None:
            self._caches.workflows.put(run.workflow.key, run)
        return run

    def _steered(
        self,
        blank: decisions.Decision,
        question: Question,
        pod: pods.Pod,
        run: objects.Run,
    ) -> decisions.Decision:
        optin = optins.of(self._caches, pod.namespace, run)
        if optin.errors:
            return _passed(blank, f"not opted in: {'; '.join(optin.errors)}")
        if not optin.enabled:
            said = f" by {optin.source}" if optin.source else ""
            return _passed(blank, f"not opted in{said}")
        chosen = self._policies.choose(pod.namespace, optin)
        if chosen.mode is settings.Mode.OFF:
            name = chosen.choices.name
            off = f"policy {name} is Off" if name else "no policy is for this namespace"
            return _passed(blank, off)
        if not question.dry_run and self._caches.pods.get(pod.key) is None:
            # Promised to an earlier try to create it, which did not come through.
            self._assumed.forget(pod.key)
        picture = self._pictured.current()
        known = dataclasses.replace(
            blank,
            snapshot_version=picture.version,
            snapshot_age_s=picture.age_s,
            policy=chosen.ranker.name,
        )
        if picture.age_s > self._limits.stale_after_s:
            return _passed(known, f"what is known of the cluster is {picture.age_s:.0f} s old")
        seen = objects.Seen(
            # The planner tells pods apart by uid, which one that is being created has not yet.
            pod=dataclasses.replace(pod, uid=blank.id),
            version="",
            clocks=argo_clocks.of_pod(question.pod, at=blank.issued_at),
        )
        waiting = self._pictured.waiting(seen)
        answer = self._planner.admit(picture, waiting, chosen.ranker, chosen.choices)
        if isinstance(answer, plans.Release):
            decided = self._placed(known, question, pod, answer)
        else:
            decided = self._held(known, waiting, answer)
        if chosen.note:
            decided = dataclasses.replace(decided, reason=f"{decided.reason} ({chosen.note})")
        if chosen.mode is settings.Mode.SHADOW and decided.verdict is not decisions.Verdict.PASS:
            self._assumed.forget(pod.key)
            would = f"would {decided.verdict}: {decided.reason}"
            return dataclasses.replace(decided, verdict=decisions.Verdict.SHADOW, reason=would)
        return decided

    def _placed(
        self,
        known: decisions.Decision,
        question: Question,
        pod: pods.Pod,
        answer: plans.Release,
    ) -> decisions.Decision:
        if answer.node and not question.dry_run:
            self._assumed.assume(
                assumptions.Assumed(
                    pod=pod.key,
                    node=answer.node,
                    requests=pod.requests,
                    expires_at=self._clock.monotonic() + self._limits.assume_s,
                    ends_at=answer.ends_at,
                )
            )
        return dataclasses.replace(
            known,
            verdict=decisions.Verdict.PLACE,
            placement=answer.placement,
            rank=answer.rank,
            reason=answer.reason,
            candidates=answer.candidates,
            masked=answer.masked,
            default="kube-scheduler would have started it too, on the node that it scores best",
        )

    def _held(
        self, known: decisions.Decision, waiting: snapshots.Waiting, answer: plans.Hold
    ) -> decisions.Decision:
        held = dataclasses.replace(
            known, rank=answer.rank, reason=answer.reason, blocker=answer.blocker
        )
        if answer.kind in (plans.HoldKind.NEVER, plans.HoldKind.QUOTA):
            return _passed(held, answer.reason)
        if waiting.must_open_by is not None and waiting.must_open_by - known.issued_at < (
            LEAST_SLACK_S
        ):
            return _passed(held, "its Argo clocks leave no time to wait")
        if not self._led():
            return _passed(held, "no leader lives that would open its gate")
        return dataclasses.replace(
            held, verdict=decisions.Verdict.GATE, default=holds.default(answer.kind)
        )


def _passed(decision: decisions.Decision, reason: str) -> decisions.Decision:
    return dataclasses.replace(
        decision,
        verdict=decisions.Verdict.PASS,
        reason=reason,
        default="the same: kube-scheduler places it alone",
    )
