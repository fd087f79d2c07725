"""Where a pod may run at all: selectors, required affinity, taints, cordon and the rule table.

`refusal` is the rule for one pod and one node, in words; `Masks` gives the same answer for all
nodes at once and keeps it while the nodes stay as they are.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tiphys.models.domain import clusters, constraints, pods, snapshots

Bools = npt.NDArray[np.bool_]
_BLOCKING = ("NoSchedule", "NoExecute")


def refusal(asked: pods.Constraints, rules: Sequence[constraints.Rule], node: clusters.Node) -> str:
    """Return why the node will never take such a pod as it stands; empty when it may."""
    labels = dict(node.labels)
    for key, value in asked.node_selector:
        if labels.get(key) != value:
            return f"nodeSelector {key}={value}"
    if asked.required and not any(_holds(term, node, labels) for term in asked.required):
        return "required node affinity"
    for taint in node.taints:
        if taint.effect in _BLOCKING and not any(
            _tolerates(each, taint) for each in asked.tolerations
        ):
            return f"taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
    for rule in rules:
        why = rule.refusal(node)
        if why:
            return why
    return ""


def _holds(term: Sequence[pods.Expression], node: clusters.Node, labels: Mapping[str, str]) -> bool:
    return bool(term) and all(
        _matches(each, node.name if each.on_field else labels.get(each.key)) for each in term
    )


def _matches(expression: pods.Expression, value: str | None) -> bool:
    if expression.operator == "In":
        return value in expression.values
    if expression.operator == "NotIn":
        return value not in expression.values
    if expression.operator == "Exists":
        return value is not None
    if expression.operator == "DoesNotExist":
        return value is None
    try:
        have, bound = int(value or ""), int(expression.values[0])
    except (ValueError, IndexError):
        return False
    return have > bound if expression.operator == "Gt" else have < bound


def _tolerates(toleration: pods.Toleration, taint: clusters.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value


Signature = tuple[pods.Constraints, tuple[int, ...]]
"""What a pod's author asks for, and the places in the rule table that are about it."""


class Masks:
    """Answers for all nodes of a cluster; made anew when a node or the rule table changes."""

    def __init__(self, nodes: Sequence[clusters.Node], rules: Sequence[constraints.Rule]) -> None:
        self._nodes = nodes
        self._rules = rules
        self._kept: dict[Signature, Bools] = {}
        self._kinds, self._kind_of = _kinds(nodes)

    def forget(self) -> None:
        """Forget the answers, which are one for each way to ask."""
        self._kept.clear()

    def signature(self, waiting: snapshots.Waiting) -> Signature:
        """Return what decides where a pod may run."""
        if not self._rules:
            return waiting.pod.constraints, ()
        labels = dict(waiting.labels)
        about = tuple(n for n, rule in enumerate(self._rules) if rule.selects(labels))
        return waiting.pod.constraints, about

    def rules_of(self, signature: Signature) -> tuple[constraints.Rule, ...]:
        """Return the rules that are about such a pod."""
        return tuple(self._rules[place] for place in signature[1])

    def allowed(self, signature: Signature) -> Bools:
        """Return [N] whether each node may take such a pod, cordoned or not."""
        known = self._kept.get(signature)
        if known is None:
            rules = self.rules_of(signature)
            if _by_name(signature[0], rules):
                answers = [not refusal(signature[0], rules, node) for node in self._nodes]
                known = np.array(answers, dtype=np.bool_)
            else:
                by_kind = [not refusal(signature[0], rules, node) for node in self._kinds]
                known = np.array(by_kind, dtype=np.bool_)[self._kind_of]
            self._kept[signature] = known
        return known


_NAMING = frozenset({"kubernetes.io/hostname"})


def _by_name(asked: pods.Constraints, rules: Sequence[constraints.Rule]) -> bool:
    """Say whether single nodes are meant, so that nodes of one kind may differ."""
    return (
        any(key in _NAMING for key, _ in asked.node_selector)
        or any(each.on_field or each.key in _NAMING for term in asked.required for each in term)
        or any(
            limit.what is constraints.Subject.NODE or limit.key in _NAMING
            for rule in rules
            for limit in rule.use
        )
    )


def _kinds(nodes: Sequence[clusters.Node]) -> tuple[list[clusters.Node], npt.NDArray[np.int64]]:
    """Return one node of each kind (labels but the host's name, taints) and the kind of each."""
    places: dict[object, int] = {}
    kinds: list[clusters.Node] = []
    found = []
    for node in nodes:
        kind = (tuple(pair for pair in node.labels if pair[0] not in _NAMING), node.taints)
        place = places.setdefault(kind, len(kinds))
        if place == len(kinds):
            kinds.append(node)
        found.append(place)
    return kinds, np.array(found, dtype=np.int64)
