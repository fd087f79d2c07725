"""Fewer parallel branches, the same shape: a large trace cut down to what a lab run can carry.

Tasks of one program at one depth are a group. Each group keeps the same share of its members, at
least one; a member whose parents were all kept goes first, so chains through parallel branches stay
whole. Whoever depended on a dropped task depends on a kept one of its group instead.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from lab.workloads import traces

Group = tuple[str, str, int]


def group_count(trace: traces.Trace) -> int:
    """Return how many tasks are left at least."""
    return len(_groups(trace.tasks))


def pruned(trace: traces.Trace, *, most_tasks: int) -> traces.Trace:
    """Return the trace with `most_tasks` tasks at most, but one of each group at least."""
    if len(trace.tasks) <= most_tasks:
        return trace
    groups = _groups(trace.tasks)
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        if sum(_kept(len(members), middle) for members in groups.values()) <= most_tasks:
            low = middle
        else:
            high = middle
    return _cut(trace, groups, share=low)


def _kept(members: int, share: float) -> int:
    return max(1, math.floor(members * share))


def _groups(tasks: Sequence[traces.TraceTask]) -> dict[Group, list[int]]:
    """Return the groups, shallow ones first, members by index."""
    levels = traces.levels_of([task.parents for task in tasks])
    groups: defaultdict[Group, list[int]] = defaultdict(list)
    for index, task in enumerate(tasks):
        groups[(task.program, task.part, levels[index])].append(index)
    return dict(sorted(groups.items(), key=lambda item: (item[0][2], item[1][0])))


def _cut(trace: traces.Trace, groups: dict[Group, list[int]], *, share: float) -> traces.Trace:
    stands_for: dict[int, int] = {}
    for members in groups.values():
        whole_first = sorted(
            members,
            key=lambda index: (
                any(stands_for[parent] != parent for parent in trace.tasks[index].parents),
                index,
            ),
        )
        kept = sorted(whole_first[: _kept(len(members), share)])
        for place, index in enumerate(members):
            stands_for[index] = index if index in kept else kept[place % len(kept)]
    kept_indices = [index for index in range(len(trace.tasks)) if stands_for[index] == index]
    place_of = {old: new for new, old in enumerate(kept_indices)}
    tasks = [
        replace(
            trace.tasks[old],
            parents=tuple(
                sorted({place_of[stands_for[parent]] for parent in trace.tasks[old].parents})
            ),
        )
        for old in kept_indices
    ]
    return replace(trace, tasks=tuple(tasks))
