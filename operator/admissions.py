"""The latest decisions at admission, whole, as this replica made them: the memory of `explain`.

On the pod stands at most a stamp, and nothing where Tiphys let it pass or only watches (Shadow):
what it saw, whom it masked and what it would have done is told from here. Each replica remembers
its own; who asks for a pod asks all of them (operator/commands/views.py).
"""

import collections

from tiphys.models.domain import decisions, pods

MOST = 3_000
"""Decisions that are remembered, each of some kilobytes; the oldest go first."""


class Admissions:
    """Decisions by pod and run: a pod that is being created has no uid yet."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._known: collections.OrderedDict[tuple[str, str], decisions.Decision] = (
            collections.OrderedDict()
        )

    def note(self, decision: decisions.Decision) -> None:
        """Remember a decision; a later one about a pod of that name and run replaces it."""
        key = (decision.pod, decision.workflow_uid)
        self._known.pop(key, None)
        self._known[key] = decision
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def of(self, pod: pods.Pod) -> decisions.Decision | None:
        """Return what was decided when a pod was created; None where that is not known here."""
        return self._known.get((pod.key, pod.workflow_uid))
