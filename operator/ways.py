"""Who decides for a gated pod: a policy in turn, nobody any more, or it is too early to say."""

import dataclasses
from collections.abc import Callable

from tiphys.models.domain import pods, settings
from tiphys.operator import caches, objects, optins, policies

EARLY_S = 10.0
"""A pod may be seen before its Workflow, whose annotations may opt it in."""
OPTING = frozenset(
    {
        caches.Kind.NAMESPACES,
        caches.Kind.TEMPLATES,
        caches.Kind.CLUSTER_TEMPLATES,
        caches.Kind.CRON_WORKFLOWS,
        caches.Kind.POLICIES,
        caches.Kind.POLICY_VERSIONS,
    }
)
"""Kinds whose change may change who decides for anybody."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What becomes of a gated pod."""

    chosen: policies.Chosen | None = None
    """In turn, by this policy."""
    opens: str = ""
    """In words, why its gate opens whatever a policy would say; empty = it does not."""


EARLY = Way()
"""Nothing is decided yet."""


class Ways:
    """Answers for each workflow, kept until something that they rest on changes."""

    def __init__(
        self,
        cached: caches.Caches,
        known: policies.Policies,
        *,
        now: Callable[[], float],
        disabled: bool = False,
    ) -> None:
        self._caches = cached
        self._policies = known
        self._now = now
        self._disabled = disabled
        self._kept: dict[tuple[str, str], Way] = {}

    def of(self, pod: pods.Pod) -> Way:
        """Return what becomes of a gated pod."""
        if self._disabled:
            return Way(opens="Tiphys is switched off (TIPHYS_DISABLED=1)")
        if pod.role is not pods.PodRole.TASK:
            return Way(opens=f"a pod with the role {pod.role} is never held")
        key = (pod.namespace, pod.workflow_uid)
        known = self._kept.get(key)
        if known is None:
            known = self._found(pod)
            if known is not EARLY:
                self._kept[key] = known
        return known

    def changed(self, change: caches.Change) -> bool:
        """Take a change of the caches; say whether it may change an answer."""
        if change.kind in OPTING:
            self._kept.clear()
            return True
        if change.kind is not caches.Kind.WORKFLOWS:
            return False
        before, after = change.before, change.after
        if (
            isinstance(before, objects.Run)
            and isinstance(after, objects.Run)
            and before.annotations == after.annotations
            and before.workflow.uid == after.workflow.uid
        ):
            return False
        for run in (before, after):
            if isinstance(run, objects.Run):
                self._kept.pop((run.workflow.namespace, run.workflow.uid), None)
        return True

    def _found(self, pod: pods.Pod) -> Way:
        run = self._caches.workflows.of_uid(pod.workflow_uid)
        # Either way: a clock that is behind the API server's must not make it early for long.
        if run is None and abs(self._now() - pod.created_at) < EARLY_S:
            return EARLY
        optin = optins.of(self._caches, pod.namespace, run)
        if optin.errors:
            return Way(opens=f"not opted in: {'; '.join(optin.errors)}")
        if not optin.enabled:
            return Way(opens=f"opted out by {optin.source}" if optin.source else "not opted in")
        chosen = self._policies.choose(pod.namespace, optin)
        if chosen.mode is settings.Mode.ENFORCE:
            return Way(chosen=chosen)
        name = chosen.choices.name
        return Way(
            opens=f"policy {name} says {chosen.mode}" if name else "no policy is for its namespace"
        )
