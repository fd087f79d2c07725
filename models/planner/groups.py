"""Node groups: nodes that share the values of the policy's topology keys (DESIGN 5.3)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tiphys.models.domain import clusters

MOST = 32
"""Most groups, `other` among them: what a policy's action space has places for."""

Values = tuple[str, ...]


def of(
    nodes: Sequence[clusters.Node], topology_keys: Sequence[str]
) -> tuple[tuple[clusters.Group, ...], dict[str, str]]:
    """Return the groups, sorted by name, and the name of each node's group.

    While there are more than `MOST`, the last key is dropped; with one key left the smallest
    groups (then the last by name) merge into `other`, where nodes without a label are as well.
    """
    for length in range(len(topology_keys), 0, -1):
        keys = tuple(topology_keys[:length])
        members = _members(nodes, keys)
        if len(members) <= MOST:
            break
    if len(members) > MOST:
        members = _merged(members)
    found = []
    group_of: dict[str, str] = {}
    for values, names in members.items():
        selector = tuple(sorted(zip(keys, values, strict=True))) if values else ()
        group = clusters.Group(
            name="/".join(values) if values else clusters.OTHER,
            selector=selector,
            nodes=tuple(sorted(names)),
        )
        found.append(group)
        for name in names:
            group_of[name] = group.name
    return tuple(sorted(found, key=lambda group: group.name)), group_of


def _members(nodes: Sequence[clusters.Node], keys: Values) -> Mapping[Values, list[str]]:
    members: defaultdict[Values, list[str]] = defaultdict(list)
    for node in nodes:
        labels = dict(node.labels)
        values = tuple(labels.get(key, "") for key in keys)
        members[values if all(values) else ()].append(node.name)
    return members


def _merged(members: Mapping[Values, list[str]]) -> Mapping[Values, list[str]]:
    largest = sorted((values for values in members if values), key=lambda v: (-len(members[v]), v))
    kept: dict[Values, list[str]] = {values: members[values] for values in largest[: MOST - 1]}
    kept[()] = [name for values, names in members.items() if values not in kept for name in names]
    return kept
