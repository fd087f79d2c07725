"""Every pod of a run, counted by two that do not know one another.

The API server's audit log says which pods were created; the kubelet's journal says which ended. A
sound run has each created pod in the journal exactly once. Pods that were deleted before they had
a node never reach the kubelet; the audit log has their deletion.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from lab import homes, journals
from lab.reports import audits, sources

Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of the pods of one run."""

    created: int
    ended: int
    """Ends in the journal, each pod once, and deletions of pods that never had a node."""
    unaccounted: tuple[str, ...]
    """`NAMESPACE/NAME: why`, sorted."""


def account(home: homes.Home, workflows: Iterable[Name], *, since: float) -> Account:
    """Count the pods of the workflows; what happened before `since` (unix seconds) is left out."""
    wanted = frozenset(workflows)
    created: Counter[Name] = Counter()
    bound: set[Name] = set()
    deleted: Counter[Name] = Counter()
    for call in audits.read(home):
        pod = (call.namespace, call.name)
        if call.at < since or not call.accepted or not audits.workflow_of(pod, wanted):
            continue
        if (call.resource, call.verb) == ("pods", "create"):
            created[pod] += 1
        elif (call.resource, call.verb) == ("pods", "delete"):
            deleted[pod] += 1
        elif call.resource == "pods/binding":
            bound.add(pod)
    ended: defaultdict[Name, list[str]] = defaultdict(list)
    for record in sources.read_journal(home.journal):
        if isinstance(record, journals.PodRecord) and record.ended_at >= since:
            pod = (record.namespace, record.name)
            if (record.namespace, record.workflow) in wanted or audits.workflow_of(pod, wanted):
                ended[pod].append(record.uid)
    return compared(created, ended, bound=bound, deleted=deleted)


def compared(
    created: Mapping[Name, int],
    ended: Mapping[Name, list[str]],
    *,
    bound: Set[Name] = frozenset(),
    deleted: Mapping[Name, int] | None = None,
) -> Account:
    """Hold creations against ends; `ended` has the uids of the journal's records by pod."""
    deleted = deleted or {}
    unaccounted, count = [], 0
    for pod in sorted(created.keys() | ended.keys()):
        uids = ended.get(pod, [])
        made = created.get(pod, 0)
        never_bound = made - len(set(uids)) if pod not in bound or made > 1 else 0
        gone = min(max(0, never_bound), deleted.get(pod, 0))
        count += len(set(uids)) + gone
        if len(uids) > len(set(uids)):
            why = f"ended {len(uids)} times in the kubelet's journal"
        elif len(uids) + gone < made:
            why = f"created {made} times, ended {len(uids) + gone} times"
        elif len(uids) > made:
            why = f"ended {len(uids)} times, but the audit log has {made} creations"
        else:
            continue
        unaccounted.append(f"{pod[0]}/{pod[1]}: {why}")
    return Account(created=sum(created.values()), ended=count, unaccounted=tuple(unaccounted))
