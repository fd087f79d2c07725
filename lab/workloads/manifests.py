"""From a plan to the Argo Workflow that a person would submit; nothing of the truth is known here.

Pure: the same plan and speed give the same object. Wall time enters in one place, the annotation
`tiphys.dev/deadline`, which divides the plan's simulated seconds by `speed`.
"""

import json

from lab.apis import Object
from lab.workloads import plans, shapes
from tiphys.models.domain import quantities

API_VERSION = "argoproj.io/v1alpha1"
RUN_LABEL = "tiphys.dev/run"
DEADLINE = "tiphys.dev/deadline"
LIST_FILE = "/data/out/items.json"


def workflow(plan: plans.WorkflowPlan, *, run: str = "", speed: float = 1.0) -> Object:
    """Return the Workflow object; `run` becomes its label."""
    family = shapes.slug(plan.family)
    labels = {"app.kubernetes.io/name": family, "app.kubernetes.io/part-of": plan.namespace}
    if run:
        labels[RUN_LABEL] = run
    spec: Object = {
        "entrypoint": plan.entrypoint,
        "podGC": {"strategy": plan.pod_gc},
        "templates": [
            *(_graph(graph, uses_depends=plan.uses_depends) for graph in plan.graphs),
            *(_program(program) for program in plan.programs),
        ],
    }
    if plan.priority:
        spec["priority"] = plan.priority
    return {
        "apiVersion": API_VERSION,
        "kind": "Workflow",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": labels,
            "annotations": {
                DEADLINE: duration(plan.deadline_s / speed),
                "workflows.argoproj.io/title": f"{plan.family} for {plan.namespace}",
            },
        },
        "spec": spec,
    }


def duration(seconds: float) -> str:
    """Return a duration as Go and people write it, in whole seconds: `1h30m`, `45s`."""
    left = max(1, round(seconds))
    parts = []
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _graph(graph: plans.Graph, *, uses_depends: bool) -> Object:
    template: Object = {"name": graph.name}
    if graph.parameters:
        template["inputs"] = {"parameters": [{"name": name} for name in graph.parameters]}
    template["dag"] = {"tasks": [_step(step, uses_depends=uses_depends) for step in graph.steps]}
    return template


def _step(step: plans.Step, *, uses_depends: bool) -> Object:
    task: Object = {"name": step.name, "template": step.template}
    if step.dependencies and uses_depends:
        task["depends"] = " && ".join(step.dependencies)
    elif step.dependencies:
        task["dependencies"] = list(step.dependencies)
    if step.arguments:
        task["arguments"] = {
            "parameters": [{"name": name, "value": value} for name, value in step.arguments]
        }
    if step.items_from:
        source, parameter = step.items_from
        task["withParam"] = f"{{{{tasks.{source}.outputs.parameters.{parameter}}}}}"
    elif step.items:
        task["withItems"] = list(step.items)
    return task


def _program(program: plans.Program) -> Object:
    template: Object = {"name": program.name}
    if program.parameters:
        template["inputs"] = {"parameters": [{"name": name} for name in program.parameters]}
    container: Object = {"image": program.image, "command": list(program.command)}
    if program.args:
        container["args"] = list(program.args)
    container["resources"] = _resources(program.requests)
    template["container"] = container
    if program.output_parameters:
        template["outputs"] = {
            "parameters": [
                {"name": name, "valueFrom": {"path": LIST_FILE}}
                for name in program.output_parameters
            ]
        }
    if program.retries:
        template["retryStrategy"] = {"limit": str(program.retries), "retryPolicy": "OnFailure"}
    if program.grows_on_retry:
        template["podSpecPatch"] = _growing(program.requests)
    return template


def _resources(requests: plans.Requests) -> Object:
    requested = {
        "cpu": quantities.format_cpu_m(requests.cpu_m),
        "memory": quantities.format_bytes(requests.memory_bytes),
    }
    limits = {}
    if requests.cpu_limit_m is not None:
        limits["cpu"] = quantities.format_cpu_m(requests.cpu_limit_m)
    if requests.memory_limit_bytes is not None:
        limits["memory"] = quantities.format_bytes(requests.memory_limit_bytes)
    if requests.gpus:
        requested["nvidia.com/gpu"] = limits["nvidia.com/gpu"] = str(requests.gpus)
    return {"requests": requested, **({"limits": limits} if limits else {})}


def _growing(requests: plans.Requests) -> str:
    """Return the patch of people whose task was OOM-killed: n times the memory on attempt n."""
    memory = f"{{{{=(sprig.int(retries)+1)*{requests.memory_bytes // 2**20}}}}}Mi"
    resources = {"requests": {"memory": memory}, "limits": {"memory": memory}}
    return json.dumps({"containers": [{"name": "main", "resources": resources}]})
