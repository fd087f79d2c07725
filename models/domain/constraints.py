"""The rule table of a policy: what some pods may or must not use, whatever their author wrote.

A rule selects pods by their labels (`Waiting.labels`: role, template, image, namespace, workflow,
source) and says what the nodes for them must or must not have.  As written in a
SchedulingPolicy::

    rules:
      - name: archives stay off NVMe
        when: {template: ["archive-*"]}
        use:
          - {what: storage, mustNot: [nvme]}
          - {what: taint, key: spot, mustNot: ["*"]}
          - {what: gpuModel, must: [Tesla-T4, Tesla-V100]}

Rules only ever narrow; what a pod's author asked for holds as well.  A sensor that a node lacks is
not a reason to mask it: `mustNot` on an absent label holds, `must` does not.
"""

import dataclasses
import enum
import fnmatch
from collections.abc import Mapping

from tiphys.models.domain import clusters, errors, pods, readings


class Subject(enum.StrEnum):
    """What of a node a limit is about."""

    LABEL = "label"
    TAINT = "taint"
    GPU_MODEL = "gpuModel"
    STORAGE = "storage"
    RACK = "rack"
    ZONE = "zone"
    INSTANCE_TYPE = "instanceType"
    NODE = "node"


LABELS: dict[Subject, tuple[str, ...]] = {
    Subject.GPU_MODEL: ("nvidia.com/gpu.product", "amd.com/gpu.product-name"),
    Subject.STORAGE: ("tiphys.dev/storage", "lab.tiphys.dev/storage"),
    Subject.RACK: ("topology.kubernetes.io/rack",),
    Subject.ZONE: ("topology.kubernetes.io/zone",),
    Subject.INSTANCE_TYPE: ("node.kubernetes.io/instance-type",),
}
"""The labels that tell a subject's value; the first that a node has counts."""

SELECTABLE = ("image", "namespace", "role", "source", "template", "workflow")
"""The labels of a pod that `when` may name, those of `labels`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One demand on nodes; patterns are shell-like and `*` is any value."""

    what: Subject
    key: str = ""
    """Name of the label or taint; empty for the other subjects."""
    must: tuple[str, ...] = ()
    """The node's value must match one of these; empty = no demand."""
    must_not: tuple[str, ...] = ()
    """The node's value must match none of these."""

    def refusal(self, node: clusters.Node) -> str:
        """Return in words why the node will not do; empty when it will."""
        values = _values(self, node)
        name = self.key or self.what.value
        for value in values:
            if any(fnmatch.fnmatchcase(value, pattern) for pattern in self.must_not):
                return f"{name} {value or 'any'} is ruled out"
        if self.must and not any(
            fnmatch.fnmatchcase(value, pattern) for value in values for pattern in self.must
        ):
            has = f"has {values[0]}" if values else "has none"
            return f"{name} must be {' or '.join(self.must)}, the node {has}"
        return ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the table."""

    name: str
    """For people: it stands in the reason of every group that it masks."""
    when: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Label of the pod and patterns, sorted by label; all labels must match; empty = every pod."""
    use: tuple[Limit, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Say whether the rule is about a pod with these labels."""
        return all(
            key in labels and any(fnmatch.fnmatchcase(labels[key], each) for each in patterns)
            for key, patterns in self.when
        )

    def refusal(self, node: clusters.Node) -> str:
        """Return in words why the node will not do; empty when it will."""
        for limit in self.use:
            why = limit.refusal(node)
            if why:
                return f"rule '{self.name}': {why}"
        return ""


def read(listed: object, *, where: str = "rules") -> tuple[Rule, ...]:
    """Read `spec.rules`.  Raises `InputError` for anything unknown or without effect."""
    rules = tuple(
        _rule(each, f"{where}[{place}]")
        for place, each in enumerate(readings.items(listed, where=where))
    )
    names = [rule.name for rule in rules]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise errors.InputError(f"{where}[{place}].name: {name!r} is taken; give each its own")
    return rules


def _rule(written: object, where: str) -> Rule:
    fields = readings.mapping(written, where=where, keys=("name", "when", "use"))
    when = readings.mapping(fields.get("when"), where=f"{where}.when", keys=SELECTABLE)
    for key, patterns in when.items():
        if not readings.items(patterns, where=f"{where}.when.{key}"):
            raise errors.InputError(f"{where}.when.{key}: empty, so it selects no pod; name one")
    use = readings.items(fields.get("use"), where=f"{where}.use")
    if not use:
        raise errors.InputError(f"{where}.use: empty, so the rule has no effect; name a limit")
    return Rule(
        name=readings.text(fields.get("name"), where=f"{where}.name"),
        when=tuple(
            (key, readings.texts(patterns, where=f"{where}.when.{key}"))
            for key, patterns in sorted(when.items())
        ),
        use=tuple(_limit(each, f"{where}.use[{place}]") for place, each in enumerate(use)),
    )


def _limit(written: object, where: str) -> Limit:
    fields = readings.mapping(written, where=where, keys=("what", "key", "must", "mustNot"))
    what = Subject(readings.choice(fields.get("what"), where=f"{where}.what", among=[*Subject]))
    named = what in (Subject.LABEL, Subject.TAINT)
    if named != ("key" in fields):
        raise errors.InputError(
            f"{where}.key: "
            + (f"a {what} needs its name" if named else f"{what} has a fixed label; leave it out")
        )
    must = readings.texts(fields.get("must"), where=f"{where}.must")
    must_not = readings.texts(fields.get("mustNot"), where=f"{where}.mustNot")
    if not must and not must_not:
        raise errors.InputError(f"{where}: without must and mustNot it has no effect")
    return Limit(
        what=what,
        key=readings.text(fields["key"], where=f"{where}.key") if named else "",
        must=must,
        must_not=must_not,
    )


def _values(limit: Limit, node: clusters.Node) -> tuple[str, ...]:
    if limit.what is Subject.TAINT:
        return tuple(taint.value for taint in node.taints if taint.key == limit.key)
    if limit.what is Subject.NODE:
        return (node.name,)
    labels = dict(node.labels)
    keys = (limit.key,) if limit.what is Subject.LABEL else LABELS[limit.what]
    return tuple(labels[key] for key in keys if key in labels)[:1]


def labels(pod: pods.Pod, *, source: str = "") -> tuple[tuple[str, str], ...]:
    """Return what `when` may select on, sorted; `source` is that of its workflow's identity."""
    main = next((c for c in pod.containers if c.role is pods.ContainerRole.MAIN), None)
    found = {
        "role": pod.role.value,
        "template": pod.template,
        "workflow": pod.workflow,
        "source": source,
        "image": main.image if main is not None else "",
        "namespace": pod.namespace,
    }
    return tuple(sorted((name, value) for name, value in found.items() if value))
