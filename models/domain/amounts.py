"""Amounts of resources, asked for or had: CPU in millicores, memory in bytes, the rest whole."""

import dataclasses
from collections.abc import Mapping

from tiphys.models.domain import quantities

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"


@dataclasses.dataclass(frozen=True, slots=True)
class Amounts:
    """A resource list; sums, differences and comparisons are resource by resource."""

    cpu_m: int = 0
    memory_bytes: int = 0
    others: tuple[tuple[str, int], ...] = ()
    """Every other resource by name, sorted, without zeros: bytes for storage, else a count."""

    @classmethod
    def read(cls, listed: Mapping[str, object] | None, *, where: str = "") -> "Amounts":
        """Read a Kubernetes ResourceList.  Raises `quantities.QuantityError`."""
        cpu_m = memory_bytes = 0
        others: dict[str, int] = {}
        for name, text in (listed or {}).items():
            if not isinstance(text, str | int | float):
                raise quantities.QuantityError(
                    f"{where}.{name}: expected a quantity such as 500m or 2Gi, got {text!r}"
                )
            if name == CPU:
                cpu_m = quantities.cpu_m(text, where=f"{where}.{name}")
            elif name == MEMORY:
                memory_bytes = quantities.memory_bytes(text, where=f"{where}.{name}")
            else:
                others[name] = quantities.memory_bytes(text, where=f"{where}.{name}")
        return cls(cpu_m, memory_bytes, _packed(others))

    def other(self, name: str) -> int:
        """Return the amount of a resource that is neither CPU nor memory; 0 when not named."""
        return dict(self.others).get(name, 0)

    def __add__(self, more: "Amounts") -> "Amounts":
        return Amounts(
            self.cpu_m + more.cpu_m,
            self.memory_bytes + more.memory_bytes,
            _merged(self.others, more.others, 1),
        )

    def __sub__(self, less: "Amounts") -> "Amounts":
        """Subtract; a result may be below zero (a node that is over-committed)."""
        return Amounts(
            self.cpu_m - less.cpu_m,
            self.memory_bytes - less.memory_bytes,
            _merged(self.others, less.others, -1),
        )

    def most(self, other: "Amounts") -> "Amounts":
        """Return the larger of both, resource by resource."""
        if not self.others and not other.others:
            return Amounts(max(self.cpu_m, other.cpu_m), max(self.memory_bytes, other.memory_bytes))
        mine, theirs = dict(self.others), dict(other.others)
        return Amounts(
            max(self.cpu_m, other.cpu_m),
            max(self.memory_bytes, other.memory_bytes),
            _packed({n: max(mine.get(n, 0), theirs.get(n, 0)) for n in {*mine, *theirs}}),
        )

    def fits(self, free: "Amounts") -> bool:
        """Say whether `free` holds these; what is not asked for may be over-committed."""
        if self.cpu_m > max(free.cpu_m, 0) or self.memory_bytes > max(free.memory_bytes, 0):
            return False
        if not self.others:
            return True
        have = dict(free.others)
        return all(amount <= max(have.get(name, 0), 0) for name, amount in self.others)

    def lacking(self, free: "Amounts") -> tuple[str, ...]:
        """Return the names of the resources of which `free` holds too little."""
        names = [CPU] if self.cpu_m > max(free.cpu_m, 0) else []
        if self.memory_bytes > max(free.memory_bytes, 0):
            names.append(MEMORY)
        have = dict(free.others)
        return (*names, *(n for n, amount in self.others if amount > max(have.get(n, 0), 0)))


NOTHING = Amounts()


def _packed(others: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, amount) for name, amount in others.items() if amount))


def _merged(
    left: tuple[tuple[str, int], ...], right: tuple[tuple[str, int], ...], sign: int
) -> tuple[tuple[str, int], ...]:
    if not right:
        return left
    total = dict(left)
    for name, amount in right:
        total[name] = total.get(name, 0) + sign * amount
    return _packed(total)
