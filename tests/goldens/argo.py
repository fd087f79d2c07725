"""Goldens of `tiphys.argo`: Argo's examples as they are written, and what the lab made of them.

`argo/inputs.json.xz` holds objects: all examples, the pods that Argo created from them (one of each
shape), and their Workflows half way and at the end. `argo/*.txt` is how they read, one line a pod
or task. `python -m tests.goldens write` rewrites the texts; CI only compares.
"""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.corpus import examples
from tests.goldens import recordings
from tiphys.argo import pods, templates, workflows
from tiphys.models.domain import amounts
from tiphys.models.domain import pods as domain_pods
from tiphys.models.domain import workflows as domain_workflows

FOLDER = Path(__file__).with_name("argo")
INPUTS = FOLDER / "inputs.json.xz"
MOST_BYTES = 400_000
NAMESPACE = "argo"
TEMPLATES = ("WorkflowTemplate", "ClusterWorkflowTemplate")
Object = dict[str, Any]

POD_ANNOTATIONS = ("workflows.argoproj.io/node-id", "workflows.argoproj.io/node-name")
POD_FIELDS = (
    "affinity",
    "nodeSelector",
    "overhead",
    "priority",
    "resourceClaims",
    "resources",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
CONTAINER_FIELDS = ("name", "image", "resources", "restartPolicy", "ports")
VARIABLES = ("ARGO_TEMPLATE", "ARGO_DEADLINE")
NODE_FIELDS = (
    "id",
    "name",
    "type",
    "templateName",
    "phase",
    "startedAt",
    "finishedAt",
    "outputs",
    "memoizationStatus",
    "synchronizationStatus",
)
STATUS_FIELDS = (
    "phase",
    "startedAt",
    "storedTemplates",
    "storedWorkflowTemplateSpec",
    "synchronization",
    "outputs",
)


def load() -> dict[str, Any]:
    """Return the inputs: `examples`, `pods`, `halfway`, `ended`."""
    found: dict[str, Any] = json.loads(lzma.decompress(INPUTS.read_bytes()))
    return found


def texts(inputs: dict[str, Any]) -> dict[str, str]:
    """Return the golden texts by file name."""
    objects = by_key(inputs["examples"].values())
    return {
        "examples.txt": "".join(
            _workflow(f"{name} ({obj['kind']})", submitted(obj), objects)
            for name, obj in inputs["examples"].items()
            if submitted(obj)
        ),
        "pods.txt": "".join(_pod(pod) for pod in inputs["pods"]),
        **{
            f"{key}.txt": "".join(
                _workflow(obj["metadata"]["name"], obj, {}) for obj in inputs[key]
            )
            for key in ("halfway", "ended")
        },
    }


def by_key(objects: Any) -> dict[str, Object]:
    """Return the templates among some objects as `argo.workflows.read` takes them."""
    return {templates.key(obj): obj for obj in objects if obj["kind"] in TEMPLATES}


def submitted(obj: Object) -> Object:
    """Return the Workflow that an example is or leads to; empty if there is none."""
    spec: Object = obj.get("spec") or {}
    if obj["kind"] == "Workflow":
        return obj
    metadata = {"name": obj["metadata"].get("name", ""), "namespace": NAMESPACE}
    if obj["kind"] == "CronWorkflow":
        return {"metadata": metadata, "spec": spec["workflowSpec"]}
    if obj["kind"] in TEMPLATES and spec.get("entrypoint"):
        reference = {
            "name": obj["metadata"]["name"],
            "clusterScope": obj["kind"] == "ClusterWorkflowTemplate",
        }
        return {"metadata": metadata, "spec": {"workflowTemplateRef": reference}}
    return {}


def _workflow(title: str, obj: Object, objects: dict[str, Object]) -> str:
    workflow = workflows.read(obj, templates=objects)
    names = {task.id: task.name for task in workflow.tasks}
    lines = [f"\n{title} {workflow.source}"]
    lines += [_task(task, names) for task in workflow.tasks]
    lines += [f"  ? {unknown}" for unknown in workflow.unknowns]
    return "\n".join(lines) + "\n"


def _task(task: domain_workflows.Task, names: dict[str, str]) -> str:
    marks = [
        *([f"x{'?' if task.count is None else task.count}"] if task.count != 1 else []),
        *(["conditional"] if task.conditional else []),
        *(["exit"] if task.exit_handler else []),
        *(["daemon"] if task.daemon else []),
        *([f"{task.cpu_m}m"] if task.cpu_m else []),
        *([f"{task.memory_bytes}B"] if task.memory_bytes else []),
        *([f"reads {task.input_bytes}B"] if task.input_bytes is not None else []),
    ]
    parents = [names[parent] for parent in task.parents]
    shown = parents if len(parents) <= 3 else [*parents[:2], f"{len(parents) - 2} more"]
    after = f" after {' & '.join(shown)}" if shown else ""
    image = task.identity.image if task.identity else "-"
    kind = "" if task.kind is domain_workflows.TaskKind.POD else f" {task.kind}"
    return f"  {task.name}: {task.template}@{image}{kind} {task.state} {' '.join(marks)}{after}"


def _pod(obj: Object) -> str:
    pod = pods.read(obj)
    constraints = pod.constraints
    lines = [
        f"\n{pod.name}: {pod.role} {pod.task} of {pod.workflow}, template {pod.template}, "
        f"attempt {pod.attempt}, {_asked(pod.requests)}",
        *(_container("init", each) for each in pod.init_containers),
        *(_container("with", each) for each in pod.containers),
        *([f"  only on {constraints.node_selector}"] if constraints.node_selector else []),
        *([f"  only on {constraints.required}"] if constraints.required else []),
        *(f"  not modelled {path}" for path in constraints.unmodelled),
    ]
    return "\n".join(lines) + "\n"


def _container(how: str, each: domain_pods.Container) -> str:
    return f"  {how} {each.role} {each.name}@{each.image} {_asked(each.requests)}"


def _asked(asked: amounts.Amounts) -> str:
    others = "".join(f" {name}={amount}" for name, amount in asked.others)
    return f"{asked.cpu_m}m {asked.memory_bytes}B{others}"


def inputs(folder: Path, recording: Path) -> dict[str, Any]:
    """Return the inputs from Argo's examples and a recording of `lab corpus`."""
    shipped = {name: example.body for name, example in examples.load(folder).items()}
    for obj in shipped.values():
        obj["metadata"].setdefault("namespace", NAMESPACE)
    states: dict[str, list[Object]] = {}
    created: dict[str, Object] = {}
    seen: set[str] = set()
    for kind, event, obj in recordings.states(recording):
        if event == "DELETED":
            continue
        if kind == "workflows":
            states.setdefault(obj["metadata"]["uid"], []).append(_slim_workflow(obj))
        elif obj["metadata"]["uid"] not in seen:
            seen.add(obj["metadata"]["uid"])
            slim = _slim_pod(obj)
            created.setdefault(_shape(slim), slim)
    runs = sorted(states.values(), key=lambda run: str(run[0]["metadata"]["name"]))
    return {
        "examples": shipped,
        "pods": sorted(created.values(), key=lambda pod: str(pod["metadata"]["name"])),
        "halfway": [found for run in runs if (found := _halfway(run))],
        "ended": [run[-1] for run in runs],
    }


def _halfway(run: list[Object]) -> Object | None:
    """Return the state in which most runs and something is still to come."""

    def running(obj: Object) -> int:
        found = (obj["status"].get("nodes") or {}).values()
        return sum(node.get("phase") in ("Running", "Pending") for node in found)

    busiest = max(run, key=running)
    return busiest if running(busiest) else None


def _slim_workflow(obj: Object) -> Object:
    metadata, status = obj["metadata"], obj.get("status") or {}
    kept = {key: status[key] for key in STATUS_FIELDS if status.get(key)}
    found = (status.get("nodes") or {}).items()
    kept["nodes"] = {
        key: {field: node[field] for field in NODE_FIELDS if node.get(field)} for key, node in found
    }
    return {
        "metadata": {
            key: metadata[key]
            for key in ("name", "namespace", "uid", "creationTimestamp")
            if key in metadata
        },
        "spec": obj["spec"],
        "status": kept,
    }


def _slim_pod(obj: Object) -> Object:
    metadata, spec = obj["metadata"], obj["spec"]
    kept = {field: spec[field] for field in POD_FIELDS if spec.get(field)}
    for field in ("initContainers", "containers"):
        kept[field] = [_slim_container(each) for each in spec.get(field) or ()]
    kept["volumes"] = [
        {key: value if key == "name" else {} for key, value in volume.items()}
        for volume in spec.get("volumes") or ()
    ]
    annotations = metadata.get("annotations") or {}
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": metadata["labels"],
            "annotations": {k: annotations[k] for k in POD_ANNOTATIONS if k in annotations},
            "ownerReferences": metadata.get("ownerReferences") or [],
        },
        "spec": kept,
    }


def _slim_container(container: Object) -> Object:
    slim = {field: container[field] for field in CONTAINER_FIELDS if container.get(field)}
    env = [each for each in container.get("env") or () if each["name"] in VARIABLES]
    return {**slim, "env": env} if env else slim


def _shape(pod: Object) -> str:
    """Return what makes a pod one of its kind: all but names, times and what a template says."""
    spec = {
        **pod["spec"],
        **{
            field: [
                {key: value for key, value in each.items() if key != "env"}
                for each in pod["spec"][field]
            ]
            for field in ("initContainers", "containers")
        },
        "volumes": sorted({key for volume in pod["spec"]["volumes"] for key in volume}),
    }
    name = pod["metadata"]["annotations"].get(POD_ANNOTATIONS[1], "")
    marks = [name.endswith(")") and ":" not in name.rpartition("(")[2], *pod["metadata"]["labels"]]
    return json.dumps([spec, marks], sort_keys=True)


def files() -> Iterator[Path]:
    """Return the golden texts."""
    yield from sorted(FOLDER.glob("*.txt"))
