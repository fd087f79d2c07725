"""A SchedulingPolicy's spec as frozen values: every field with its unit, default and meaning.

`read` takes the spec as the API server stores it (camelCase, times such as `5m`); unknown keys are
refused, as are values that contradict one another.  Without any policy object `PolicySettings()`
holds: Enforce for those who opted in, `builtin-srwf-wait-v1`, automatic placement.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TypeVar

from tiphys.models.domain import constraints, durations, errors, readings

T = TypeVar("T")
W = TypeVar("W", bound=enum.StrEnum)


class Mode(enum.StrEnum):
    """What a policy does with those who opted in."""

    OFF = "Off"
    """Nothing; gates that it holds are opened."""
    SHADOW = "Shadow"
    """Decide and record, change nothing."""
    ENFORCE = "Enforce"


class When(enum.StrEnum):
    """When a placement is decided."""

    AUTO = "auto"
    """At admission when the pod may start at once, else at release."""
    ADMISSION = "admission"
    """Never gate."""
    RELEASE = "release"
    """Always gate."""


class Bind(enum.StrEnum):
    """How a placement is written."""

    AUTO = "auto"
    """nodeSelector for what must hold, preferred affinity for what is only better."""
    REQUIRE = "require"
    PREFER = "prefer"


class Grain(enum.StrEnum):
    """How narrow a placement is."""

    GROUP = "group"
    NODE = "node"


class Elastic(enum.StrEnum):
    """Whether an autoscaler adds nodes for unschedulable pods."""

    AUTO = "auto"
    """As detected (cluster-autoscaler, Karpenter)."""
    YES = "yes"
    NO = "no"


INSTANCE_TYPE = "node.kubernetes.io/instance-type"
RACK = "topology.kubernetes.io/rack"
HOSTNAME = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where pods go."""

    when: When = When.AUTO
    bind: Bind = Bind.AUTO
    grain: Grain = Grain.GROUP
    elastic: Elastic = Elastic.AUTO
    topology_keys: tuple[str, ...] = (INSTANCE_TYPE, RACK)
    """Node labels whose values make a group, the most telling first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How long pods may be held."""

    max_hold_s: float = 300.0
    """Longest time, seconds, that a pod is held although it would have fitted."""
    max_total_s: float | None = None
    """Longest time behind the gate at all, seconds; None = as long as a leader lives and Argo's
    clocks allow: a queue that is cut short is first come, first served again."""
    open_burst: int = 100
    """Most visible unschedulable pods at a time in planned openings."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What counts as late."""

    default_factor: float | None = 4.0
    """Deadline of a workflow without `tiphys.dev/deadline`, as a multiple of its critical path,
    counted from its creation; None = it has none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """One SchedulingPolicy."""

    name: str = "default"
    mode: Mode = Mode.ENFORCE
    stable: str = "builtin-srwf-wait-v1"
    """Name of the PolicyVersion that ranks."""
    namespace_labels: tuple[tuple[str, str], ...] = ()
    """Labels, sorted, of the namespaces that the policy is for; empty = all that opted in."""
    placement: Placement = Placement()
    gate: Gate = Gate()
    slo: Slo = Slo()
    overdue_after_s: float = 600.0
    """Shortest wait, seconds, after which a pod goes first and room is kept for it; while the queue
    is longer, four times that in which all that waits could be done (`planner.overdues`)."""
    schedule_interval_s: float = 5.0
    """Seconds between two samples of the cluster, 0.5 to 5; decisions do not wait for it."""
    tenant_weights: tuple[tuple[str, float], ...] = ()
    """Namespace and weight, sorted; absent ones weigh 1."""
    rules: tuple[constraints.Rule, ...] = ()

    def weight(self, tenant: str) -> float:
        """Return the weight of a namespace."""
        return dict(self.tenant_weights).get(tenant, 1.0)


def read(spec: object, *, name: str = "default") -> PolicySettings:
    """Read a SchedulingPolicy's spec.  Raises `InputError` naming the field."""
    where = f"SchedulingPolicy {name}: spec"
    fields = readings.mapping(
        spec,
        where=where,
        keys=(
            "mode",
            "stable",
            "selector",
            "placement",
            "gate",
            "slo",
            "overdueAfter",
            "scheduleInterval",
            "tenants",
            "rules",
        ),
    )
    given = PolicySettings(name=name)
    return PolicySettings(
        name=name,
        mode=_choice(fields, "mode", where, Mode, given.mode),
        stable=_field(fields, "stable", where, _text, given.stable),
        namespace_labels=selector(fields.get("selector"), where=f"{where}.selector"),
        placement=_placement(fields.get("placement"), f"{where}.placement"),
        gate=_gate(fields.get("gate"), f"{where}.gate"),
        slo=_slo(fields.get("slo"), f"{where}.slo"),
        overdue_after_s=_field(fields, "overdueAfter", where, _time, given.overdue_after_s),
        schedule_interval_s=readings.number(
            _field(fields, "scheduleInterval", where, _time, given.schedule_interval_s),
            where=f"{where}.scheduleInterval",
            least=0.5,
            most=5.0,
        ),
        tenant_weights=_weights(fields.get("tenants"), f"{where}.tenants"),
        rules=constraints.read(fields.get("rules"), where=f"{where}.rules"),
    )


def _field(
    fields: Mapping[str, object],
    key: str,
    where: str,
    reader: Callable[[object, str], T],
    default: T,
) -> T:
    return reader(fields[key], f"{where}.{key}") if key in fields else default


def _choice(fields: Mapping[str, object], key: str, where: str, kind: type[W], default: W) -> W:
    if key not in fields:
        return default
    return kind(readings.choice(fields[key], where=f"{where}.{key}", among=[*kind]))


def _text(written: object, where: str) -> str:
    return readings.text(written, where=where)


def _time(written: object, where: str) -> float:
    return durations.read(written, where=where)


def _maybe_time(written: object, where: str) -> float | None:
    return None if written is None else durations.read(written, where=where)


def _count(written: object, where: str) -> int:
    return readings.whole(written, where=where, least=1, most=2**31)


def _factor(written: object, where: str) -> float | None:
    return None if written is None else readings.number(written, where=where, least=1)


def _placement(written: object, where: str) -> Placement:
    fields = readings.mapping(
        written, where=where, keys=("when", "bind", "grain", "elastic", "topologyKeys")
    )
    given = Placement()
    keys = _field(fields, "topologyKeys", where, _keys, given.topology_keys)
    return Placement(
        when=_choice(fields, "when", where, When, given.when),
        bind=_choice(fields, "bind", where, Bind, given.bind),
        grain=_choice(fields, "grain", where, Grain, given.grain),
        elastic=_choice(fields, "elastic", where, Elastic, given.elastic),
        topology_keys=keys,
    )


def _keys(written: object, where: str) -> tuple[str, ...]:
    keys = readings.texts(written, where=where)
    if not keys or len(set(keys)) != len(keys):
        raise errors.InputError(f"{where}: expected one or more labels, each once, got {written!r}")
    return keys


def _gate(written: object, where: str) -> Gate:
    fields = readings.mapping(written, where=where, keys=("maxHold", "maxTotal", "openBurst"))
    given = Gate()
    gate = Gate(
        max_hold_s=_field(fields, "maxHold", where, _time, given.max_hold_s),
        max_total_s=_field(fields, "maxTotal", where, _maybe_time, given.max_total_s),
        open_burst=_field(fields, "openBurst", where, _count, given.open_burst),
    )
    if gate.max_total_s is not None and gate.max_total_s < gate.max_hold_s:
        hold = f"{gate.max_hold_s:g}s"
        whose = f"maxHold ({hold})" if "maxHold" in fields else f"maxHold (not written, so {hold})"
        raise errors.InputError(
            f"{where}.maxTotal: shorter than {whose}; raise it, leave it out or write a shorter "
            "maxHold"
        )
    return gate


def _slo(written: object, where: str) -> Slo:
    fields = readings.mapping(written, where=where, keys=("default",))
    inner = readings.mapping(fields.get("default"), where=f"{where}.default", keys=("factor",))
    return Slo(
        default_factor=_field(inner, "factor", f"{where}.default", _factor, Slo().default_factor)
    )


def selector(written: object, *, where: str) -> tuple[tuple[str, str], ...]:
    """Read whom a policy is for: labels, sorted.  Raises `InputError` naming the field."""
    fields = readings.mapping(written, where=where, keys=("namespaceLabels",))
    labels = readings.mapping(fields.get("namespaceLabels"), where=f"{where}.namespaceLabels")
    return tuple(
        (key, readings.text(value, where=f"{where}.namespaceLabels.{key}"))
        for key, value in sorted(labels.items())
    )


def _weights(written: object, where: str) -> tuple[tuple[str, float], ...]:
    fields = readings.mapping(written, where=where, keys=("weights",))
    weights = readings.mapping(fields.get("weights"), where=f"{where}.weights")
    return tuple(
        (tenant, readings.number(weight, where=f"{where}.weights.{tenant}", least=0.01, most=1e6))
        for tenant, weight in sorted(weights.items())
    )
