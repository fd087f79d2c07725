"""Between the kubelet's life cycle of a pod and what the pod does; both sides import only this.

The life cycle (`lab.kubelet`) sees a bound pod, waits for the node's start server, then calls, in
this order: `prepare` (init containers), `run` (everything until the pod is to end), `report` (what
Argo's executor would still write), and writes the pod's final status after `report` has returned.
While `run` is under way it may call `Host.containers_changed`. Deletion and node loss cancel the
task that runs the behaviour.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lab import apis, clocks
from lab.truths import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """How one container ended: `exit_code`, `reason` (`Completed`, `Error`, `OOMKilled`, …)."""

    exit_code: int = 0
    reason: str = "Completed"
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a pod ended: `Succeeded` iff every container (but stopped sidecars) exited 0."""

    phase: str
    containers: dict[str, ContainerEnd] = field(default_factory=dict)
    """By container name, init containers included; one that is absent ended `Completed`."""
    reason: str = ""
    message: str = ""


class Host(Protocol):
    """What the life cycle offers to a behaviour; one per pod."""

    api: apis.Api
    clock: clocks.SimClock
    artifacts: Path
    """Folder of the simulated object store of this lab."""
    pod: apis.Object
    """The pod as last seen; read-only."""
    address: str
    """The pod's IP, which its status may not show yet."""

    async def compute(self, truth: Truth) -> Outcome:
        """Run the physics of the pod's task to its end (done, OOM, eviction) and return it."""
        ...

    async def sleep(self, sim_s: float) -> None:
        """Sleep simulated seconds."""
        ...

    async def containers_changed(
        self, *, ready: dict[str, bool], ended: dict[str, ContainerEnd]
    ) -> None:
        """Write an interim container status: readiness by name, containers that ended already."""
        ...

    def warn(self, reason: str, message: str) -> None:
        """Have a warning about the pod written as an Event of the kubelet."""
        ...


class Behaviour(Protocol):
    """What one pod does; made by `behaviours.chooser.choose(host, truth)`."""

    async def prepare(self) -> ContainerEnd:
        """Do what the init containers do; an exit code that is not 0 fails the pod."""
        ...

    async def run(self) -> Outcome:
        """Run all containers to their end."""
        ...

    async def report(self, outcome: Outcome) -> Outcome:
        """Write results (WorkflowTaskResult, artifacts, …); may turn a success into a failure."""
        ...
