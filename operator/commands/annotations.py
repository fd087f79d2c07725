"""What annotations of a cluster cannot be read or name nothing, and which pods carry no decision.

Metadata alone is asked for: of thousands of Workflows the rest is most.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tiphys.argo import names
from tiphys.argo import pods as argo_pods
from tiphys.models.domain import decisions, errors, optins, pods
from tiphys.operator.commands import sessions

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PREFIX = "tiphys.dev/"
MARKED = "steered pods"
"""Name of the question for the pods that have not ended and do not wait behind our gate."""
MOST_NAMED = 5
"""Objects that a warning names."""
KINDS = {
    "namespaces": optins.Kind.NAMESPACE,
    "clusterworkflowtemplates": optins.Kind.CLUSTER_WORKFLOW_TEMPLATE,
    "workflowtemplates": optins.Kind.WORKFLOW_TEMPLATE,
    "cronworkflows": optins.Kind.CRON_WORKFLOW,
    "workflows": optins.Kind.WORKFLOW,
}
"""Whose annotations are looked at, by the name of the question."""
OPTED_IN = {optins.ENABLED: "true"}
"""What is taken for granted of the namespace of a marked pod where namespaces may not be read."""
Layers = Mapping[tuple[optins.Kind, str], optins.Layer]
"""What objects say of steering, by their kind and key."""


def questions(scope: str) -> dict[str, str]:
    """Return what is asked of the API server, by name; `scope` is a path to a namespace, or ""."""
    argo = "/apis/argoproj.io/v1alpha1"
    open_only = f"{decisions.LABEL}%3Dtrue,{decisions.GATED_LABEL}!%3Dtrue"
    return {
        "clusterworkflowtemplates": f"{argo}/clusterworkflowtemplates",
        "workflowtemplates": f"{argo}{scope}/workflowtemplates",
        "cronworkflows": f"{argo}{scope}/cronworkflows",
        "workflows": (
            f"{argo}{scope}/workflows?labelSelector=workflows.argoproj.io%2Fcompleted!%3Dtrue"
        ),
        MARKED: (
            f"/api/v1{scope}/pods?labelSelector={open_only.replace('/', '%2F')}"
            "&fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed"
        ),
    }


def warnings(seen: Mapping[str, sessions.Json]) -> Iterator[str]:
    """Yield in sentences what people should know of annotations; nothing as a rule."""
    layers = list(_layers(seen))
    wrong = list(filter(None, map(_unreadable, layers)))
    if wrong:
        said = sessions.some(wrong, most=MOST_NAMED, between="; ")
        yield f"annotations that Tiphys cannot read: {said}"
    versions = {item["metadata"]["name"] for item in _items(seen, "versions")}
    lost = [
        f"{layer} ({wanted})"
        for layer in layers
        if versions and (wanted := optins.resolve([layer]).policy) and wanted not in versions
    ]
    if lost:
        yield (
            f"{optins.POLICY} names no PolicyVersion that is there, so the policy's own version "
            f"decides: {sessions.some(lost, most=MOST_NAMED)}"
        )
    yield from _undecided(seen)


def _layers(seen: Mapping[str, sessions.Json]) -> Iterator[optins.Layer]:
    for question, kind in KINDS.items():
        for item in _items(seen, question):
            about = item["metadata"]
            written = {
                name: value
                for name, value in (about.get("annotations") or {}).items()
                if name.startswith(PREFIX)
            }
            if written:
                space = about.get("namespace")
                key = f"{space}/{about['name']}" if space else about["name"]
                yield optins.Layer(kind=kind, name=key, annotations=written)


def _unreadable(layer: optins.Layer) -> str:
    """Return what is wrong with the annotations of one object; empty when nothing is."""
    problems = list(optins.resolve([layer]).errors)
    unknown = optins.unread(layer.annotations)
    if unknown:
        problems.append(f"{layer}: nobody reads {', '.join(unknown)}")
    return "; ".join(problems)


def _undecided(seen: Mapping[str, sessions.Json]) -> Iterator[str]:
    """Yield how many pods should carry a decision, as far as objects tell, and carry none.

    Every pod of a namespace is marked in which anybody opted in; many are let pass on purpose.
    """
    layers = {(layer.kind, layer.name): layer for layer in _layers(seen)}
    runs = {item["metadata"]["uid"]: item for item in _items(seen, "workflows")}
    marked = [item for item in _items(seen, MARKED) if _meant(seen, layers, runs, item)]
    bare = [
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in marked
        if decisions.ANNOTATION not in (item["metadata"].get("annotations") or {})
    ]
    if bare:
        yield (
            f"{len(bare)} of {len(marked)} pending or running pods that were to be steered "
            "carry no decision: the webhook got no answer in time, or Tiphys let them pass "
            "(`tiphys explain pod` tells): "
            f"{sessions.some(sorted(bare), most=MOST_NAMED)}"
        )


def _meant(
    seen: Mapping[str, sessions.Json],
    layers: Layers,
    runs: Mapping[str, sessions.Json],
    item: sessions.Json,
) -> bool:
    """Say whether a marked pod was to be steered, as its metadata and what stands around it tell.

    `runs` holds the Workflows by uid. Which template one is of stands in its spec, which is not
    asked for: where one that it may be of says otherwise, nobody is sure.
    """
    try:
        pod = argo_pods.read({"metadata": item["metadata"]})
    except errors.InputError:
        return False
    if pod.role is not pods.PodRole.TASK or not _enforced(seen, pod.namespace):
        return False
    around = [layers.get((optins.Kind.NAMESPACE, pod.namespace))]
    if "namespaces" not in seen:
        around = [optins.Layer(kind=optins.Kind.NAMESPACE, name="", annotations=OPTED_IN)]
    run = runs.get(pod.workflow_uid)
    if run is not None:
        cron = sessions.text(run, "metadata", "labels", names.LABEL_CRON_WORKFLOW)
        around += [
            layers.get((optins.Kind.WORKFLOW, f"{pod.namespace}/{pod.workflow}")),
            layers.get((optins.Kind.CRON_WORKFLOW, f"{pod.namespace}/{cron}")),
        ]
    elif "workflows" in seen:
        return False  # it has ended
    perhaps = [
        layer
        for (kind, name), layer in layers.items()
        if kind is optins.Kind.CLUSTER_WORKFLOW_TEMPLATE
        or (kind is optins.Kind.WORKFLOW_TEMPLATE and name.startswith(f"{pod.namespace}/"))
    ]
    sure = list(filter(None, around))
    return all(_steers(optins.resolve([*sure, *extra])) for extra in ([], *([p] for p in perhaps)))


def _steers(optin: optins.OptIn) -> bool:
    return optin.enabled and optin.mode in (None, optins.Mode.ENFORCE)


def _enforced(seen: Mapping[str, sessions.Json], namespace: str) -> bool:
    """Say whether the policy for a namespace acts, as far as one may see."""
    space: Mapping[str, Any] = next(
        (
            item["metadata"]
            for item in _items(seen, "namespaces")
            if item["metadata"]["name"] == namespace
        ),
        {},
    )
    labels = (space.get("labels") or {}).items()
    chosen = [
        (-len(wanted), item["metadata"]["name"], sessions.text(item, "spec", "mode") or "Enforce")
        for item in _items(seen, "policies")
        if (wanted := _selector(item)).items() <= labels
    ]
    return not _items(seen, "policies") or (bool(chosen) and min(chosen)[2] == "Enforce")


def _selector(policy: Mapping[str, Any]) -> Mapping[str, str]:
    return (policy["spec"].get("selector") or {}).get("namespaceLabels") or {}


def _items(seen: Mapping[str, sessions.Json], name: str) -> list[sessions.Json]:
    return list((seen.get(name) or {}).get("items") or ())
