"""Pods as scheduling sees them: whose they are, what each container is for, what they may use."""

import dataclasses
import enum

from tiphys.models.domain import amounts

STEERING_GATE = "tiphys.dev/steer"
"""The only scheduling gate that is ours."""


class PodRole(enum.StrEnum):
    """What a pod is for in its workflow; only a task is ever gated."""

    TASK = "task"
    EXIT_HANDLER = "exit-handler"
    AGENT = "agent"
    ARTIFACT_GC = "artifact-gc"
    FOREIGN = "foreign"
    """No pod of a Workflow."""


class ContainerRole(enum.StrEnum):
    """What a container is for; Argo fixes the names (docs of Argo: init-less pods, executor)."""

    INIT = "init"
    WAIT = "wait"
    SUPERVISOR = "supervisor"
    MAIN = "main"
    SIDECAR = "sidecar"
    """A sidecar of the template, or one that another webhook put in."""
    USER_INIT = "user-init"
    """An init container of the template."""
    MEMBER = "member"
    """One of a container set."""
    ARTIFACT_PLUGIN = "artifact-plugin"
    AGENT = "agent"
    ARTIFACT_GC = "artifact-gc"


class Phase(enum.StrEnum):
    """A pod's `status.phase`."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container, its role and its resources."""

    name: str
    role: ContainerRole
    image: str
    requests: amounts.Amounts = amounts.NOTHING
    limits: amounts.Amounts = amounts.NOTHING
    restartable: bool = False
    """An init container with restartPolicy Always: a native sidecar."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One requirement on a node's label (or, with `on_field`, on its name)."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: tuple[str, ...] = ()
    on_field: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """One toleration; an empty `key` with Exists tolerates everything, an empty effect all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Where its author lets a pod run."""

    node_selector: tuple[tuple[str, str], ...] = ()
    """Sorted; every label must match."""
    required: tuple[tuple[Expression, ...], ...] = ()
    """Terms of the required node affinity: one term must hold, with all its expressions."""
    tolerations: tuple[Toleration, ...] = ()
    unmodelled: tuple[str, ...] = ()
    """Field paths of constraints that Tiphys does not model: such a pod gets an order, no place."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of the cluster, ours to steer or not."""

    namespace: str
    name: str
    uid: str
    """Empty at admission."""
    role: PodRole = PodRole.FOREIGN
    workflow: str = ""
    """Name of the Workflow that controls it; empty for foreign pods."""
    workflow_uid: str = ""
    node_id: str = ""
    """Argo's id of the task in the workflow's status."""
    task: str = ""
    """Argo's display path, as `wf(0).align(1)`."""
    template: str = ""
    attempt: int = 0
    """0 for the first attempt of a retried task."""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    requests: amounts.Amounts = amounts.NOTHING
    """What the scheduler counts: the larger of the sum of containers and each init step, with
    native sidecars and overhead (KEP-753); one pod is in `others` as `pods`."""
    constraints: Constraints = Constraints()
    priority: int = 0
    preempts: bool = True
    """Whether kube-scheduler may end pods of lower priority for it (preemptionPolicy)."""
    gates: tuple[str, ...] = ()
    node: str = ""
    phase: Phase = Phase.PENDING
    created_at: float = 0.0
    """Unix seconds, as the rest."""
    bound_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    deleting: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def gated(self) -> bool:
        """Say whether our gate is on it."""
        return STEERING_GATE in self.gates

    @property
    def active(self) -> bool:
        """Say whether it takes room where it is bound."""
        return self.phase in (Phase.PENDING, Phase.RUNNING, Phase.UNKNOWN)
