"""What a pod asks for as kube-scheduler counts it (KEP-753 sidecars, KEP-2837 pod level, overhead).

Source: k8s.io/component-helpers/resource/helpers.go (`PodRequests`, `AggregateContainerRequests`).
"""

import functools
from collections.abc import Collection, Iterable, Mapping

from tiphys.argo import documents
from tiphys.models.domain import amounts, errors, pods, quantities

HUGE_PAGES = "hugepages-"
NONE_RESIZED: Mapping[str, amounts.Amounts] = {}
ONE_POD = amounts.Amounts(others=((amounts.PODS, 1),))
MEMORISED_LISTS = 4096
"""Distinct resource lists whose amounts are kept; a cluster has few."""
_LONGEST_LIST = 16
_LONGEST_NAME = 256
"""What is longer is read each time, so that nobody can fill the memory through a cache."""


def amounts_at(parent: documents.Document, key: str, where: str) -> amounts.Amounts:
    """Read the ResourceList at `key`.  Raises `InputError`."""
    listed = documents.mapping(parent, key, where)
    if not listed:
        return amounts.NOTHING
    try:
        if len(listed) <= _LONGEST_LIST and all(
            type(text) is str
            and len(text) <= quantities.LONGEST_TEXT
            and len(name) <= _LONGEST_NAME
            for name, text in listed.items()
        ):
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


def in_place(
    containers: tuple[pods.Container, ...], status: documents.Document, key: str
) -> dict[str, amounts.Amounts]:
    """Return by name what containers count for that are or were resized in place (KEP-1287).

    That is the most of what is asked for, allocated and in force; if the kubelet can never do it,
    what is asked for does not count.  `key` is the field of `status` that tells.
    """
    found: dict[str, amounts.Amounts] = {}
    infeasible: bool | None = None
    init = key == "initContainerStatuses"
    for state in documents.mappings(status, key, "status"):
        if state.get("resources") is None:
            continue
        name = documents.text(state, "name", f"status.{key}")
        in_force = documents.mapping(state, "resources", f"status.{key}")
        actual = _most(
            amounts_at(in_force, "requests", f"status.{key}.resources"),
            amounts_at(state, "allocatedResources", f"status.{key}"),
        )
        for each in containers:
            if each.name == name and each.requests != actual and (each.restartable or not init):
                infeasible = _infeasible(status) if infeasible is None else infeasible
                found[name] = actual if infeasible else _most(each.requests, actual)
    return found


def _infeasible(status: documents.Document) -> bool:
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in documents.mappings(status, "conditions", "status")
    )


def of_pod(
    containers: Iterable[pods.Container],
    init_containers: Iterable[pods.Container],
    *,
    resized: Mapping[str, amounts.Amounts] = NONE_RESIZED,
    overhead: amounts.Amounts = amounts.NOTHING,
    pod_level: amounts.Amounts = amounts.NOTHING,
    pod_level_names: Iterable[str] = (),
) -> amounts.Amounts:
    """Return what the scheduler counts for a pod, the pod itself included.

    Containers run together, with the native sidecars; init containers run one after another, each
    with the sidecars before it.  `resized` holds by name what counts in place of a container's
    requests.  `pod_level` replaces what the containers come to in those of `pod_level_names` that
    may be asked for at pod level.
    """
    total = highest = sidecars = amounts.NOTHING
    for container in containers:
        total = _sum(total, resized.get(container.name, container.requests))
    for container in init_containers:
        asked = resized.get(container.name, container.requests)
        step = _sum(sidecars, asked)
        if container.restartable:
            sidecars = step
            total = _sum(total, asked)
        highest = _most(highest, step)
    total = _most(total, highest)
    names = [
        name
        for name in pod_level_names
        if name in (amounts.CPU, amounts.MEMORY) or name.startswith(HUGE_PAGES)
    ]
    if names:
        total = _replaced(total, pod_level, names)
    return _sum(total, overhead) + ONE_POD


def _most(left: amounts.Amounts, right: amounts.Amounts) -> amounts.Amounts:
    """Return the larger of both; they are often one and the same object, or nothing."""
    if right is left or right is amounts.NOTHING:
        return left
    return right if left is amounts.NOTHING else left.most(right)


def _sum(left: amounts.Amounts, right: amounts.Amounts) -> amounts.Amounts:
    """Return the sum; most containers ask for nothing."""
    if right is amounts.NOTHING:
        return left
    return right if left is amounts.NOTHING else left + right


def _replaced(
    total: amounts.Amounts, pod_level: amounts.Amounts, names: Collection[str]
) -> amounts.Amounts:
    others = dict(total.others)
    others.update((name, pod_level.other(name)) for name in names if name.startswith(HUGE_PAGES))
    return amounts.Amounts(
        pod_level.cpu_m if amounts.CPU in names else total.cpu_m,
        pod_level.memory_bytes if amounts.MEMORY in names else total.memory_bytes,
        tuple(sorted((name, amount) for name, amount in others.items() if amount)),
    )
