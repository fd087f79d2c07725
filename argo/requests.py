"""What a pod asks for as kube-scheduler counts it (KEP-753 sidecars, KEP-2837 pod level, overhead).

Source: k8s.io/component-helpers/resource/helpers.go (`PodRequests`, `AggregateContainerRequests`).
"""

import functools
from collections.abc import Iterable

from tiphys.argo import documents
from tiphys.models.domain import amounts, errors, pods, quantities

ONE_POD = amounts.Amounts(others=((amounts.PODS, 1),))
MEMORISED_LISTS = 4096
"""Distinct resource lists whose amounts are kept; a cluster has few."""
_LONGEST_MEMORISED = 16


def amounts_at(parent: documents.Document, key: str, where: str) -> amounts.Amounts:
    """Read the ResourceList at `key`.  Raises `InputError`."""
    listed = documents.mapping(parent, key, where)
    if not listed:
        return amounts.NOTHING
    try:
        if len(listed) <= _LONGEST_MEMORISED and all(type(text) is str for text in listed.values()):
            return _memorised(tuple(listed.items()))
        return amounts.Amounts.read(listed)
    except quantities.QuantityError as error:
        raise errors.InputError(f"{where}.{key}{error}") from None


@functools.lru_cache(maxsize=MEMORISED_LISTS)
def _memorised(listed: tuple[tuple[str, str], ...]) -> amounts.Amounts:
    return amounts.Amounts.read(dict(listed))


def of_container(
    container: documents.Document, where: str
) -> tuple[amounts.Amounts, amounts.Amounts]:
    """Return requests and limits; a limit without a request is one, as the API server defaults."""
    resources = documents.mapping(container, "resources", where)
    if not resources:
        return amounts.NOTHING, amounts.NOTHING
    place = f"{where}.resources"
    limits = amounts_at(resources, "limits", place)
    asked = documents.mapping(resources, "requests", place)
    if not limits:
        return amounts_at(resources, "requests", place), limits
    missing = documents.mapping(resources, "limits", place).keys() - asked.keys()
    if not missing:
        return amounts_at(resources, "requests", place), limits
    both = {**documents.mapping(resources, "limits", place), **asked}
    return amounts_at({"requests": both}, "requests", place), limits


def of_pod(
    containers: Iterable[pods.Container],
    init_containers: Iterable[pods.Container],
    *,
    overhead: amounts.Amounts = amounts.NOTHING,
    pod_level: amounts.Amounts | None = None,
    pod_level_names: Iterable[str] = (),
) -> amounts.Amounts:
    """Return what the scheduler counts for a pod, the pod itself included.

    Containers run together, with the native sidecars; init containers run one after another, each
    with the sidecars before it.  `pod_level` replaces what the containers come to in the resources
    of `pod_level_names`.
    """
    together = amounts.NOTHING
    for container in containers:
        together += container.requests
    sidecars = highest = amounts.NOTHING
    for container in init_containers:
        if container.restartable:
            sidecars += container.requests
            highest = highest.most(sidecars)
        else:
            highest = highest.most(sidecars + container.requests)
    total = (together + sidecars).most(highest)
    if pod_level is not None:
        total = _replaced(total, pod_level, frozenset(pod_level_names))
    return total + overhead + ONE_POD


def _replaced(
    total: amounts.Amounts, pod_level: amounts.Amounts, names: frozenset[str]
) -> amounts.Amounts:
    others = {**dict(total.others), **{n: pod_level.other(n) for n in names}}
    others.pop(amounts.CPU, None)
    others.pop(amounts.MEMORY, None)
    return amounts.Amounts(
        pod_level.cpu_m if amounts.CPU in names else total.cpu_m,
        pod_level.memory_bytes if amounts.MEMORY in names else total.memory_bytes,
        tuple(sorted((name, amount) for name, amount in others.items() if amount)),
    )
