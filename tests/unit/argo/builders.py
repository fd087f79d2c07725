"""Small pods and Workflows as Argo would have them."""

import json
from typing import Any

Object = dict[str, Any]
CREATED = "2026-11-30T08:00:00Z"
CREATED_AT = 1_796_025_600.0
WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "name": "wf",
    "uid": "u-wf",
    "controller": True,
}

ENDED = {
    "phase": "Succeeded",
    "startTime": "2026-11-30T08:00:02Z",
    "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-30T08:00:01Z"}
    ],
    "containerStatuses": [
        {
            "name": name,
            "resources": {"requests": {"cpu": "1"}},
            "allocatedResources": {"cpu": "1"},
            "state": {"terminated": {"startedAt": start, "finishedAt": end}},
        }
        for name, start, end in (
            ("wait", "2026-11-30T08:00:05Z", "2026-11-30T08:00:21Z"),
            ("main", "2026-11-30T08:00:06Z", "2026-11-30T08:00:20Z"),
        )
    ],
}
"""The status of a pod whose main ran from second 6 to second 20."""


def a_container(name: str, **fields: object) -> Object:
    """Return a container; `template` becomes ARGO_TEMPLATE, `deadline` ARGO_DEADLINE."""
    env = []
    if "template" in fields:
        written = fields.pop("template")
        text = written if isinstance(written, str) else json.dumps(written, separators=(",", ":"))
        env.append({"name": "ARGO_TEMPLATE", "value": text})
    if "deadline" in fields:
        env.append({"name": "ARGO_DEADLINE", "value": fields.pop("deadline")})
    return {"name": name, "image": f"image-of-{name}", **({"env": env} if env else {}), **fields}


def a_pod(
    *containers: Object,
    init: tuple[Object, ...] = (),
    labels: Object | None = None,
    node: str = "wf.align",
    owner: Object | None = None,
    status: Object | None = None,
    **spec: object,
) -> Object:
    """Return a pod of the Workflow `wf`, by default one of the task `align`."""
    return {
        "metadata": {
            "name": "wf-align-1234",
            "namespace": "genomics",
            "uid": "u-pod",
            "creationTimestamp": CREATED,
            "labels": {"workflows.argoproj.io/workflow": "wf", **(labels or {})},
            "annotations": {
                "workflows.argoproj.io/node-id": "wf-1234",
                "workflows.argoproj.io/node-name": node,
            },
            "ownerReferences": [WORKFLOW if owner is None else owner],
        },
        "spec": {
            "containers": list(containers),
            **({"initContainers": list(init)} if init else {}),
            **spec,
        },
        **({"status": status} if status else {}),
    }


def a_template(name: str, **fields: object) -> Object:
    """Return a template: a container that asks for 500m, unless `fields` say what it is."""
    if any(kind in fields for kind in ("steps", "dag", "suspend", "http", "resource", "script")):
        return {"name": name, **fields}
    container = {"image": f"image-of-{name}", "resources": {"requests": {"cpu": "500m"}}}
    return {"name": name, "container": container, **fields}


def a_task(name: str, after: list[str] | str = "", **fields: object) -> Object:
    """Return a task of a DAG that runs the template `work`; `after` as text is `depends`."""
    waits = {"depends": after} if isinstance(after, str) else {"dependencies": after}
    runs = {} if {"inline", "templateRef"} & fields.keys() else {"template": "work"}
    return {"name": name, **(waits if after else {}), **runs, **fields}


def a_step(name: str, **fields: object) -> Object:
    """Return a step that runs the template `work`."""
    return {"name": name, **({} if "templateRef" in fields else {"template": "work"}), **fields}


def a_workflow(*templates: Object, status: Object | None = None, **spec: object) -> Object:
    """Return the Workflow `wf`; its entry point is the first template, and `work` is there."""
    listed = list(templates)
    if all(template["name"] != "work" for template in listed):
        listed.append(a_template("work"))
    return {
        "metadata": {
            "name": "wf",
            "namespace": "genomics",
            "uid": "u-wf",
            "creationTimestamp": CREATED,
        },
        "spec": {"entrypoint": listed[0]["name"], "templates": listed, **spec},
        **({"status": status} if status else {}),
    }


def a_dag(*tasks: Object, **fields: object) -> Object:
    """Return the template `main`, a DAG."""
    return {"name": "main", "dag": {"tasks": list(tasks), **fields}}


def the_steps(*groups: list[Object], **fields: object) -> Object:
    """Return the template `main`, steps."""
    return {"name": "main", "steps": list(groups), **fields}


def a_status(*nodes: Object, phase: str = "Running", **fields: object) -> Object:
    """Return the status of `wf` with nodes by id."""
    return {
        "phase": phase,
        "startedAt": CREATED,
        "nodes": {node["id"]: node for node in nodes},
        **fields,
    }


def a_node(name: str, phase: str = "Running", type: str = "Pod", **fields: object) -> Object:
    """Return a node; its id is made of its name."""
    return {
        "id": name if name == "wf" else f"id:{name}",
        "name": name,
        "type": type,
        "phase": phase,
        "startedAt": CREATED,
        **fields,
    }
