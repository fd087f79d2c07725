"""What tasks of a DAG wait for: `dependencies` and `depends`, in an order with parents first.

Source: workflow/common/ancestry.go of Argo.
"""

import re
from collections.abc import Mapping

_NAMES = re.compile(r"([a-zA-Z0-9][-a-zA-Z0-9]*?)\.([A-Z][a-zA-Z]+)|([a-zA-Z0-9][-a-zA-Z0-9]*)")
_ORDINARY = frozenset({"Succeeded", ""})
"""Results that a task has when nothing goes wrong."""


def read(depends: str) -> tuple[tuple[str, ...], bool]:
    """Return the tasks that a `depends` names, each once, and whether it may leave its task out.

    `a && b.Succeeded` only waits; `a.Failed`, `a || b` and `!a` also choose.
    """
    found: dict[str, None] = {}
    conditional = "|" in depends or "!" in depends
    for match in _NAMES.finditer(depends):
        found[match[1] or match[3]] = None
        conditional = conditional or (match[2] or "") not in _ORDINARY
    return tuple(found), conditional


def ordered(
    parents: Mapping[str, tuple[str, ...]],
) -> tuple[list[tuple[str, tuple[str, ...]]], tuple[str, ...]]:
    """Return tasks with their parents, parents first, else in the order given; and those on cycles.

    Of tasks that wait for one another only the waiting that closes no cycle is kept, so that what
    is returned is always a DAG.
    """
    left = dict(parents)
    done: set[str] = set()
    order: list[tuple[str, tuple[str, ...]]] = []
    cyclic: list[str] = []
    children: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    for name, needs in parents.items():
        missing[name] = len(needs)
        for need in needs:
            children.setdefault(need, []).append(name)
    place = {name: at for at, name in enumerate(parents)}
    ready = [name for name, count in missing.items() if not count]
    while left:
        if not ready:
            name = next(iter(left))
            cyclic.append(name)
            ready.append(name)
        for name in sorted(ready, key=place.__getitem__):
            order.append((name, tuple(need for need in left.pop(name) if need in done)))
            done.add(name)
        following: list[str] = []
        for name in ready:
            for child in children.get(name, ()):
                missing[child] -= 1
                if not missing[child] and child in left:
                    following.append(child)
        ready = following
    return order, tuple(cyclic)
