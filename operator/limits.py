"""What a namespace or class allows: ResourceQuotas, LimitRanges and PriorityClasses, read."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tiphys.models.domain import amounts

Object = Mapping[str, Any]
TIGHT = 0.8
"""Share of a quota from which on gated pods would keep better ones from existing."""
POD_RESOURCES = frozenset({"cpu", "memory", "pods", "count/pods", "limits.cpu", "limits.memory"})
"""Names in a ResourceQuota that a pod is charged for, beside `requests.…`."""
CLAIMED = "requests.storage"
"""The one of those that claims for volumes are charged for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A ResourceQuota: what may be asked for in a namespace, and what is."""

    namespace: str
    name: str
    hard: tuple[tuple[str, int], ...]
    """Resource (`requests.cpu` in millicores, the rest in bytes or a count), sorted."""
    used: tuple[tuple[str, int], ...]
    scoped: bool = False
    """Whether it counts some pods only (scopes or scopeSelector)."""

    @property
    def tight(self) -> bool:
        """Say whether one of its resources is used by `TIGHT` or more."""
        used = dict(self.used)
        return any(
            most > 0 and used.get(name, 0) >= TIGHT * most
            for name, most in self.hard
            if name in POD_RESOURCES or (name.startswith("requests.") and name != CLAIMED)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """A LimitRange's rules for containers and pods."""

    namespace: str
    name: str
    container_least: amounts.Amounts = amounts.NOTHING
    container_most: amounts.Amounts | None = None
    """A resource of 0 is not limited; also of pods."""
    container_ratio: tuple[tuple[str, float], ...] = ()
    """Most that limit / request may be, by resource."""
    pod_least: amounts.Amounts = amounts.NOTHING
    pod_most: amounts.Amounts | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A PriorityClass."""

    name: str
    value: int
    preempts: bool = True
    default: bool = False


def quota(obj: Object) -> Quota:
    """Read a ResourceQuota; counts of object kinds come along as counts."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return Quota(
        namespace=obj["metadata"]["namespace"],
        name=obj["metadata"]["name"],
        hard=_quantities(status.get("hard") or spec.get("hard")),
        used=_quantities(status.get("used")),
        scoped=bool(spec.get("scopes") or spec.get("scopeSelector")),
    )


def limit_range(obj: Object) -> LimitRange:
    """Read a LimitRange; of several items of one type the strictest counts."""
    least = {"Container": amounts.NOTHING, "Pod": amounts.NOTHING}
    most: dict[str, amounts.Amounts | None] = {"Container": None, "Pod": None}
    ratio: dict[str, float] = {}
    for item in (obj.get("spec") or {}).get("limits") or ():
        kind = item.get("type")
        if kind not in least:
            continue
        least[kind] = least[kind].most(amounts.Amounts.read(item.get("min"), where="min"))
        if item.get("max"):
            most[kind] = _least(most[kind], amounts.Amounts.read(item["max"], where="max"))
        if kind == "Container":
            ratios = amounts.Amounts.read(item.get("maxLimitRequestRatio"), where="ratio")
            for name, found in (
                (amounts.CPU, ratios.cpu_m / 1000),
                (amounts.MEMORY, float(ratios.memory_bytes)),
            ):
                if found:
                    ratio[name] = min(found, ratio.get(name, found))
    return LimitRange(
        namespace=obj["metadata"]["namespace"],
        name=obj["metadata"]["name"],
        container_least=least["Container"],
        container_most=most["Container"],
        container_ratio=tuple(sorted(ratio.items())),
        pod_least=least["Pod"],
        pod_most=most["Pod"],
    )


def _least(one: amounts.Amounts | None, other: amounts.Amounts) -> amounts.Amounts:
    """Return the smaller limit of each resource that either has."""
    if one is None:
        return other
    mine, theirs = dict(one.others), dict(other.others)
    others = {name: min(mine.get(name, amount), amount) for name, amount in theirs.items()}
    return amounts.Amounts(
        min(one.cpu_m or other.cpu_m, other.cpu_m or one.cpu_m),
        min(one.memory_bytes or other.memory_bytes, other.memory_bytes or one.memory_bytes),
        tuple(sorted({**mine, **others}.items())),
    )


def priority_class(obj: Object) -> PriorityClass:
    """Read a PriorityClass."""
    return PriorityClass(
        name=obj["metadata"]["name"],
        value=int(obj.get("value", 0)),
        preempts=obj.get("preemptionPolicy") != "Never",
        default=bool(obj.get("globalDefault")),
    )


def _quantities(listed: Mapping[str, str] | None) -> tuple[tuple[str, int], ...]:
    """Return a quota's list with CPU in millicores and the rest whole."""
    cpu = {
        name: amounts.Amounts.read({amounts.CPU: text}, where=name).cpu_m
        for name, text in (listed or {}).items()
        if name.rpartition(".")[2] == amounts.CPU
    }
    rest = {
        name: amounts.Amounts.read({amounts.MEMORY: text}, where=name).memory_bytes
        for name, text in (listed or {}).items()
        if name not in cpu
    }
    return tuple(sorted({**cpu, **rest}.items()))
