"""Pods and admission reviews as Argo and the API server make them."""

import copy
import json
import uuid
from typing import Any

NAMESPACE = "genomics"
NAME = "exome-align-1"
WORKFLOW_UID = "5c7fb1f2-0c0e-4b0e-8a53-0e9a5d2f6a11"


def a_pod(**changes: Any) -> dict[str, Any]:
    """Return a task's pod at CREATE; `changes` are put at paths written with `__`."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {
                "workflows.argoproj.io/completed": "false",
                "workflows.argoproj.io/workflow": "exome",
                "tiphys.dev/steered": "true",
            },
            "annotations": {
                "workflows.argoproj.io/node-id": "exome-1",
                "workflows.argoproj.io/node-name": "exome.align",
            },
            "ownerReferences": [
                {
                    "apiVersion": "argoproj.io/v1alpha1",
                    "kind": "Workflow",
                    "name": "exome",
                    "uid": WORKFLOW_UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "wait", "image": "argoexec:v4"},
                {
                    "name": "main",
                    "image": "bwa:1",
                    "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
                },
            ],
            "initContainers": [{"name": "init", "image": "argoexec:v4"}],
        },
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        owner = pod
        for part in parents:
            owner = owner.setdefault(part, {})
        owner[last] = copy.deepcopy(value)
    return pod


def a_review(pod: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return the AdmissionReview of its creation; `changes` replace fields of `request`."""
    found = a_pod() if pod is None else pod
    request: dict[str, Any] = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": NAMESPACE,
        "name": found.get("metadata", {}).get("name", ""),
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:argo:argo"},
        "object": found,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **changes,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def a_body(pod: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """Return the review as the bytes of a call."""
    return json.dumps(a_review(pod, **changes)).encode()
