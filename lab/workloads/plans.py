"""A workflow as it will be submitted, and the truth about each of its pods, kept apart.

A `WorkflowPlan` holds what a person would write: templates, dependencies, requests, a deadline.
What the tasks really do is a `lab.truths.Truth` each; the two meet only in the node names that Argo
gives to pods. Units: millicores, bytes, seconds of simulated time.
"""

from dataclasses import dataclass

from lab.truths import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What one program asks for, in every workflow of one tenant."""

    cpu_m: int
    memory_bytes: int
    cpu_limit_m: int | None = None
    memory_limit_bytes: int | None = None
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A container template."""

    name: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """Input parameters."""
    output_parameters: tuple[str, ...] = ()
    """Output parameters, each read from a file."""
    requests: Requests
    retries: int = 0
    grows_on_retry: bool = False
    """Each attempt asks for as much memory again as the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A task of a DAG template."""

    name: str
    template: str
    dependencies: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()
    items: tuple[str, ...] = ()
    """One pod (or nested DAG) for each; the argument `{{item}}` names it."""
    items_from: tuple[str, str] | None = None
    """(step, output parameter) that lists the items, in place of writing them down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A DAG template."""

    name: str
    steps: tuple[Step, ...]
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod that the plan leads to, under the name of its node in Argo."""

    task: str
    """Node name without the workflow's: `align(3:s04)`, `lane(0:s01).sort`."""
    template: str
    parents: tuple[str, ...] = ()
    """Nodes that must have ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPlan:
    """One workflow of a workload."""

    name: str
    namespace: str
    family: str
    source: str
    entrypoint: str
    programs: tuple[Program, ...]
    graphs: tuple[Graph, ...]
    pods: tuple[Pod, ...]
    arrival_s: float
    deadline_s: float
    """From arrival."""
    priority: int = 0
    uses_depends: bool = False
    """Whether its author writes `depends: a && b` or `dependencies: [a, b]`."""
    pod_gc: str = "OnPodCompletion"
    critical_path_s: float = 0.0
    depth: int = 0

    def requests_of(self, template: str) -> Requests:
        """Return what pods of a template ask for."""
        return next(program.requests for program in self.programs if program.name == template)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything that one `lab run` submits."""

    mix: str
    seed: int
    workflows: tuple[WorkflowPlan, ...]
    """By arrival."""
    truths: tuple[Truth, ...]
    window_s: float
    held_out: bool = False
    sample: bool = False
