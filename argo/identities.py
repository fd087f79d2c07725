"""What makes two tasks the same over runs, so that one's history tells something of the other."""

from tiphys.models.domain import pods, workflows


def of(pod: pods.Pod, workflow: workflows.Workflow | None) -> workflows.Identity | None:
    """Return the identity of a pod's task; None for pods that are no task.

    The workflow knows best: a template may come from somewhere else than the workflow itself.
    Without it (not seen yet) the source stays empty, which no history matches.
    """
    if pod.role not in (pods.PodRole.TASK, pods.PodRole.EXIT_HANDLER):
        return None
    if workflow is not None:
        for task in workflow.tasks:
            if task.id == pod.node_id and task.identity is not None:
                return task.identity
    source = workflow.source if workflow is not None else ""
    return workflows.Identity(source=source, template=pod.template, image=image(pod))


def image(pod: pods.Pod) -> str:
    """Return the image that does a pod's work: of `main`, else of the set's first member."""
    worker = ""
    for container in pod.containers:
        if container.role is pods.ContainerRole.MAIN:
            return container.image
        if container.role is pods.ContainerRole.MEMBER:
            if container.name == "main":
                return container.image
            worker = worker or container.image
    return worker
