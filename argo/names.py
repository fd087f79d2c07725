"""The names that Argo Workflows writes on and in pods, and what is built from them.

Source: workflow/common/common.go and workflow/util/pod_name.go of Argo v4.0.5; v4.1.2 adds the
`supervisor` of its init-less layout (docs/initless-pod.md).
"""

import re

GROUP = "argoproj.io/"
KIND = "Workflow"
KIND_ARTIFACT_GC = "WorkflowArtifactGCTask"
"""What owns the pods that delete artifacts; only their label names the Workflow."""

LABEL_WORKFLOW = "workflows.argoproj.io/workflow"
LABEL_COMPLETED = "workflows.argoproj.io/completed"
LABEL_COMPONENT = "workflows.argoproj.io/component"
LABEL_ON_EXIT = "workflows.argoproj.io/on-exit"
LABEL_CRON_WORKFLOW = "workflows.argoproj.io/cron-workflow"
NODE_ID = "workflows.argoproj.io/node-id"
NODE_NAME = "workflows.argoproj.io/node-name"
COMPONENT_AGENT = "agent"

INIT = "init"
WAIT = "wait"
SUPERVISOR = "supervisor"
MAIN = "main"
PLUGIN_SIDECAR = "artifact-plugin-"
PLUGIN_INIT = "init-artifact-"
EXECUTORS = (INIT, SUPERVISOR, WAIT)
"""Containers of Argo's own that may hold the template, in the order to look in."""

ENV_TEMPLATE = "ARGO_TEMPLATE"
ENV_DEADLINE = "ARGO_DEADLINE"
OFFLOADED = "offloaded"
"""Value of `ARGO_TEMPLATE` where the template went to a ConfigMap, being above 128 KiB."""

_ATTEMPT = re.compile(r"\(([0-9]{1,9})\)")


def attempt(node_name: str) -> int:
    """Return which attempt a node is, 0 for the first: `wf.align(2)` is 2, `wf.fan(1:b)` is 0.

    Of nested retries the innermost counts.  Items carry a colon, so that `(2)` is always an
    attempt (Argo takes parentheses out of what an item says).
    """
    found = _ATTEMPT.findall(node_name)
    return int(found[-1]) if found else 0


def template_of_pod_name(pod: str, workflow: str) -> str:
    """Return the template in a pod's name `WORKFLOW-TEMPLATE-HASH`; empty if it is not there.

    Argo cuts the front of long names, and then nothing sure can be said.
    """
    front, _, digits = pod.rpartition("-")
    if not digits.isdigit() or not front.startswith(f"{workflow}-") or len(front) >= 242:
        return ""
    return front[len(workflow) + 1 :]
