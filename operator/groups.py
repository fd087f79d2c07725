"""Node groups: distinct tuples of the values of the policy's topology keys, 32 at most."""

import dataclasses
from collections.abc import Iterable, Mapping

from tiphys.models.domain import clusters

MOST_GROUPS = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Grouping:
    """The groups, and each node's."""

    groups: tuple[clusters.Group, ...]
    of_node: Mapping[str, str]


def of(nodes: Iterable[clusters.Node], keys: tuple[str, ...], most: int = MOST_GROUPS) -> Grouping:
    """Group `nodes` by `keys`.

    Keys that no node has are left out. More than `most` groups: the last key is dropped, again and
    again; with one key left the smallest merge into `other`. Nodes without a key's label are in
    `other`, which has no selector, so nothing is placed there.
    """
    nodes = sorted(nodes, key=lambda node: node.name)
    labels = {node.name: dict(node.labels) for node in nodes}
    used = [key for key in keys if any(key in of_node for of_node in labels.values())]
    while True:
        members: dict[tuple[str, ...], list[str]] = {}
        others: list[str] = []
        for node in nodes:
            of_node = labels[node.name]
            if used and all(key in of_node for key in used):
                members.setdefault(tuple(of_node[key] for key in used), []).append(node.name)
            else:
                others.append(node.name)
        if len(members) + bool(others) <= most:
            break
        if len(used) > 1:
            used.pop()
            continue
        kept = sorted(members, key=lambda values: (-len(members[values]), values))[: most - 1]
        for values in members.keys() - set(kept):
            others.extend(members.pop(values))
        break
    groups = [
        clusters.Group(
            name="/".join(values),
            selector=tuple(sorted(zip(used, values, strict=True))),
            nodes=tuple(names),
        )
        for values, names in sorted(members.items())
    ]
    if others:
        groups.append(clusters.Group(name=clusters.OTHER, nodes=tuple(sorted(others))))
    return Grouping(
        groups=tuple(groups),
        of_node={name: group.name for group in groups for name in group.nodes},
    )
