"""Decisions to JSON patches (RFC 6902) on pods: at CREATE, at release, and what undoes neither.

All of it is pure and adds only what is missing, so that the same decision applied a second time
gives an empty patch. What the pod's author wrote is never changed: a decision that could only be
written over it is refused (`errors.InputError`), and the pod goes on without a patch. The facts
behind the shape of a release patch: a webhook's gate has no field manager, so that server-side
apply cannot remove it; while gated, labels may be added to the selector and never changed, and the
preferred node affinity is free.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NotRequired, Protocol, TypedDict

from tiphys.models.domain import decisions, errors, pods, quantities

PREFERENCE_WEIGHT = 100
"""Weight of our preferred node affinity; 100 is the most that Kubernetes takes."""
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Object = Mapping[str, object]


class Operation(TypedDict):
    """One step of a JSON patch; `remove` has no value."""

    op: str
    path: str
    value: NotRequired[object]


Patch = list[Operation]


class Decided(Protocol):
    """What of a decision goes onto the pod; `Decision` and `Stamp` both have it."""

    @property
    def verdict(self) -> decisions.Verdict:
        """What happens to the pod."""

    @property
    def pod_uid(self) -> str:
        """Uid of the pod; empty at admission."""

    @property
    def placement(self) -> decisions.Placement:
        """Where it should go."""

    @property
    def sizings(self) -> tuple[decisions.Sizing, ...]:
        """Requests by container."""


def create(pod: Object, decided: Decided, *, stamp: str, signature: str) -> Patch:
    """Return the patch for a pod that is being created.

    `stamp` and `signature` are the texts of the two annotations. GATE adds our gate and its label,
    PLACE the placement; both write sizes. PASS and SHADOW only take away what is not the pod's own.
    Raises `errors.InputError` where the decision contradicts the pod.
    """
    if decided.verdict in (decisions.Verdict.PASS, decisions.Verdict.SHADOW):
        return strip(pod)
    gate = decided.verdict is decisions.Verdict.GATE
    if not gate and decided.verdict is not decisions.Verdict.PLACE:
        raise errors.InputError(f"verdict {decided.verdict}: not one for a pod that is created")
    wanted = {decisions.ANNOTATION: stamp, decisions.SIGNATURE: signature}
    patch = _metadata(pod, "annotations", wanted, also_removed=decisions.WRITTEN)
    if gate:
        patch += _metadata(pod, "labels", {decisions.GATED_LABEL: "true"})
        patch += _gated(pod)
    else:
        patch += _metadata(pod, "labels", {}, also_removed=(decisions.GATED_LABEL,))
        patch += _opened(pod)
        patch += _placed(pod, decided.placement)
    return patch + _sized(pod, decided.sizings)


def strip(pod: Object) -> Patch:
    """Return the patch that takes away what only we write and a create brought along.

    A gate of ours without a decision of ours would wait for nobody.
    """
    return [
        *_metadata(pod, "annotations", {}, also_removed=decisions.WRITTEN),
        *_metadata(pod, "labels", {}, also_removed=(decisions.GATED_LABEL,)),
        *_opened(pod),
    ]


def release(pod: Object, decided: Decided, *, stamp: str, signature: str) -> Patch:
    """Return the patch that opens our gate and writes the placement; empty if it is open.

    It tests the pod's uid and the gate first, so that it never meets another pod of that name nor
    opens a foreign gate. Sizes are corrected before it, through the `resize` subresource.
    Raises `errors.InputError` where the decision contradicts the pod, `errors.StaleError` where it
    was made for another pod of that name.
    """
    if decided.verdict is not decisions.Verdict.RELEASE:
        raise errors.InputError(f"verdict {decided.verdict}: a release is needed")
    if _gate_place(pod) is None:
        return []
    wanted = {decisions.RELEASE_ANNOTATION: stamp, decisions.RELEASE_SIGNATURE: signature}
    return [
        *_same(pod, decided.pod_uid),
        *_opened(pod),
        *_metadata(pod, "labels", {}, also_removed=(decisions.GATED_LABEL,)),
        *_metadata(pod, "annotations", wanted),
        *_placed(pod, decided.placement),
    ]


def opening(pod: Object) -> Patch:
    """Return the patch that opens our gate and decides nothing; empty if it is open."""
    if _gate_place(pod) is None:
        return []
    return [
        *_same(pod, ""),
        *_opened(pod),
        *_metadata(pod, "labels", {}, also_removed=(decisions.GATED_LABEL,)),
    ]


def steered(pod: Object) -> bool:
    """Say whether a pod is Tiphys' to change: stamped when it was created, or decided then.

    A guard of the chart refuses our own accounts any other (charts/tiphys, guards.yaml).
    """
    about = _part(pod, "metadata")
    if _part(about, "labels").get(decisions.LABEL) == "true":
        return True
    return bool(_part(about, "annotations").get(decisions.ANNOTATION))


def differences(pod: Object, decided: Decided) -> tuple[str, ...]:
    """Return the paths of fields that we write at CREATE and that are not as decided.

    What others add, a sidecar or a label, is none of them.
    """
    found = []
    gate = decided.verdict is decisions.Verdict.GATE
    labels = _part(_part(pod, "metadata"), "labels")
    if (labels.get(decisions.GATED_LABEL) == "true") is not gate:
        found.append(f"metadata.labels[{decisions.GATED_LABEL}]")
    if (_gate_place(pod) is not None) is not gate:
        found.append(f"spec.schedulingGates[{pods.STEERING_GATE}]")
    if not gate and decided.placement.selector:
        spec = _part(pod, "spec")
        if decided.placement.bind == "require":
            selector = _part(spec, "nodeSelector")
            pairs = decided.placement.selector
            found += [f"spec.nodeSelector[{k}]" for k, v in pairs if selector.get(k) != v]
        elif _preference(decided.placement) not in _preferred(spec):
            found.append("spec.affinity.nodeAffinity.preferred")
    for sizing in decided.sizings:
        container = next((c for _, c in _containers(pod) if c.get("name") == sizing.container), {})
        for resource, _, wanted, now in _requests(container, sizing):
            if wanted and wanted != now:
                found.append(f"spec.containers[{sizing.container}].resources.requests.{resource}")
    return tuple(found)


def _same(pod: Object, uid: str) -> Patch:
    """Test that the patch meets the pod that was looked at, or the one that was decided on."""
    seen = _part(pod, "metadata").get("uid")
    if uid and seen and uid != seen:
        raise errors.StaleError(f"the decision is for the pod with uid {uid}, this is {seen}")
    return [{"op": "test", "path": "/metadata/uid", "value": uid or seen}] if uid or seen else []


def _metadata(
    pod: Object, field: str, wanted: Mapping[str, str], *, also_removed: Sequence[str] = ()
) -> Patch:
    """Write and remove entries of `metadata.labels` or `metadata.annotations`."""
    present = _part(_part(pod, "metadata"), field)
    path = f"/metadata/{field}"
    patch: Patch = [
        {"op": "remove", "path": f"{path}/{_escaped(name)}"}
        for name in also_removed
        if name in present and name not in wanted
    ]
    missing = {name: text for name, text in wanted.items() if present.get(name) != text}
    if missing and not present:
        return [*patch, {"op": "add", "path": path, "value": missing}]
    for name, text in missing.items():
        patch.append({"op": "add", "path": f"{path}/{_escaped(name)}", "value": text})
    return patch


def _gated(pod: Object) -> Patch:
    if _gate_place(pod) is not None:
        return []
    gate = {"name": pods.STEERING_GATE}
    if not _part_list(_part(pod, "spec"), "schedulingGates"):
        return [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]
    return [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]


def _opened(pod: Object) -> Patch:
    place = _gate_place(pod)
    if place is None:
        return []
    path = f"/spec/schedulingGates/{place}"
    gate = _part_list(_part(pod, "spec"), "schedulingGates")[place]
    return [{"op": "test", "path": path, "value": gate}, {"op": "remove", "path": path}]


def _gate_place(pod: Object) -> int | None:
    gates = _part_list(_part(pod, "spec"), "schedulingGates")
    names = [gate.get("name") if isinstance(gate, Mapping) else None for gate in gates]
    return names.index(pods.STEERING_GATE) if pods.STEERING_GATE in names else None


def _placed(pod: Object, placement: decisions.Placement) -> Patch:
    if not placement.selector:
        return []
    spec = _part(pod, "spec")
    if placement.bind != "require":
        return _preferring(spec, _preference(placement))
    selector = _part(spec, "nodeSelector")
    for name, value in placement.selector:
        if name in selector and selector[name] != value:
            raise errors.InputError(
                f"spec.nodeSelector[{name}]: the author wants {selector[name]!r}, the decision "
                f"{value!r}; only what is missing may be added"
            )
    missing = {name: value for name, value in placement.selector if name not in selector}
    if missing and not selector:
        return [{"op": "add", "path": "/spec/nodeSelector", "value": missing}]
    return [
        {"op": "add", "path": f"/spec/nodeSelector/{_escaped(name)}", "value": value}
        for name, value in missing.items()
    ]


def _preferring(spec: Object, term: Object) -> Patch:
    """Append our term to the preferred node affinity, with the parents that it lacks."""
    path, value = "/spec/affinity", PREFERRED
    affinity = _part(spec, "affinity")
    node = _part(affinity, "nodeAffinity")
    terms = _preferred(spec)
    if term in terms:
        return []
    if terms:
        return [{"op": "add", "path": f"{path}/nodeAffinity/{value}/-", "value": term}]
    if node:
        return [{"op": "add", "path": f"{path}/nodeAffinity/{value}", "value": [term]}]
    if affinity:
        return [{"op": "add", "path": f"{path}/nodeAffinity", "value": {value: [term]}}]
    return [{"op": "add", "path": path, "value": {"nodeAffinity": {value: [term]}}}]


def _preferred(spec: Object) -> Sequence[object]:
    node = _part(_part(spec, "affinity"), "nodeAffinity")
    return _part_list(node, PREFERRED)


def _preference(placement: decisions.Placement) -> Object:
    expressions = [
        {"key": name, "operator": "In", "values": [value]} for name, value in placement.selector
    ]
    return {"weight": PREFERENCE_WEIGHT, "preference": {"matchExpressions": expressions}}


def _sized(pod: Object, sizings: Sequence[decisions.Sizing]) -> Patch:
    patch: Patch = []
    places = {container["name"]: (path, container) for path, container in _containers(pod)}
    for sizing in sizings:
        if sizing.container not in places:
            raise errors.InputError(f"no container {sizing.container!r} for the decided size")
        path, container = places[sizing.container]
        missing = {}
        for resource, text, wanted, now in _requests(container, sizing):
            if not wanted or wanted == now:
                continue
            was = sizing.original_cpu_m if resource == "cpu" else sizing.original_memory_bytes
            if now != was:
                raise errors.InputError(
                    f"{path}: asks for {now} of {resource}, the decision was made for {was}"
                )
            missing[resource] = text
        patch += _requesting(path, container, missing)
    return patch


def _requesting(path: str, container: Object, missing: Mapping[str, str]) -> Patch:
    resources = _part(container, "resources")
    if not missing:
        return []
    if not resources:
        return [{"op": "add", "path": f"{path}/resources", "value": {"requests": missing}}]
    if not _part(resources, "requests"):
        return [{"op": "add", "path": f"{path}/resources/requests", "value": missing}]
    return [
        {"op": "add", "path": f"{path}/resources/requests/{name}", "value": text}
        for name, text in missing.items()
    ]


def _requests(
    container: Object, sizing: decisions.Sizing
) -> tuple[tuple[str, str, int, int], tuple[str, str, int, int]]:
    """Return (resource, decided text, decided, present) for CPU in millicores and memory."""
    requests = _part(_part(container, "resources"), "requests")
    cpu, memory = requests.get("cpu", 0), requests.get("memory", 0)
    if not isinstance(cpu, str | int | float) or not isinstance(memory, str | int | float):
        raise errors.InputError(f"{sizing.container}: requests that are no quantities")
    try:
        cpu_m, memory_bytes = quantities.cpu_m(cpu), quantities.memory_bytes(memory)
    except quantities.QuantityError as error:
        raise errors.InputError(f"{sizing.container}: {error}") from error
    return (
        ("cpu", quantities.format_cpu_m(sizing.cpu_m), sizing.cpu_m, cpu_m),
        (
            "memory",
            quantities.format_bytes(sizing.memory_bytes),
            sizing.memory_bytes,
            memory_bytes,
        ),
    )


def _containers(pod: Object) -> Iterator[tuple[str, Object]]:
    """Yield every container of the pod that has a name, with its JSON pointer."""
    spec = _part(pod, "spec")
    for field in ("containers", "initContainers"):
        for place, container in enumerate(_part_list(spec, field)):
            if isinstance(container, Mapping) and isinstance(container.get("name"), str):
                yield f"/spec/{field}/{place}", container


def _part(owner: Object, field: str) -> Object:
    """Return an object's field that is an object; absent or null is empty."""
    value = owner.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.InputError(f"{field}: expected an object")
    return value


def _part_list(owner: Object, field: str) -> Sequence[object]:
    value = owner.get(field)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise errors.InputError(f"{field}: expected a list")
    return value


def _escaped(name: str) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
