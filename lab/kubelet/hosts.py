"""What the kubelet offers to a pod's behaviour: computing, sleeping, interim statuses.

Everything that takes time is remembered by its order, so that a behaviour that runs again after a
restart of the kubelet finds its past as it was: a sleep ends when it would have ended, and what was
computed is not computed again.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from lab import apis, clocks
from lab.kubelet import computations, pods
from lab.kubelet.behaviours import contracts
from lab.truths import Truth
from tiphys.models.physics import tasks

if TYPE_CHECKING:
    from lab.kubelet import lifecycles

EVICTED_MESSAGE = (
    "The node was low on resource: memory. Container {name} was using {used}Ki, request is "
    "{request}Ki, has larger consumption of memory. "
)


class PodHost:
    """The host of one run of one pod's containers."""

    def __init__(
        self,
        life: "lifecycles.Lifecycle",
        *,
        api: apis.Api,
        clock: clocks.SimClock,
        artifacts: Path,
        computing: computations.Computations,
    ) -> None:
        self.api = api
        self.clock = clock
        self.artifacts = artifacts
        self.pod = life.item
        """The pod as last seen."""
        self.address = life.memory.address or ""
        self._life = life
        self._computing = computing
        self._sleeps = 0
        self._computes = 0

    async def sleep(self, sim_s: float) -> None:
        """Sleep simulated seconds; after a restart of the kubelet, what was left of them."""
        ends, index = self._life.memory.sleeps, self._sleeps
        self._sleeps += 1
        if index == len(ends):
            ends.append(self.clock.now_s() + sim_s)
        await asyncio.sleep(max(0.0, self.clock.wall_duration(ends[index] - self.clock.now_s())))

    async def compute(self, truth: Truth) -> contracts.Outcome:
        """Run the physics of a task to its end and return how the pod's main container ended."""
        life, index = self._life, self._computes
        memory = life.memory
        self._computes += 1
        if index == len(memory.computes):
            memory.computes.append(None)
        end = memory.computes[index]
        if end is None:
            key = f"{life.pod.uid}/{memory.restarts}/{index}"
            attempt = life.found.attempt if life.found else memory.restarts
            run = life.found.run if life.found else ""
            work = _task(truth, life.pod, key=key, attempt=attempt, run=run, gpus=memory.gpus)
            try:
                end = await self._computing.run(work, node=life.pod.node)
            except asyncio.CancelledError:
                memory.used += self._computing.stop(key)
                raise
            memory.computes[index] = end
            memory.used += end.usage
        return outcome(end, truth, life.pod, attempt=life.found.attempt if life.found else 0)

    async def containers_changed(
        self, *, ready: dict[str, bool], ended: dict[str, contracts.ContainerEnd]
    ) -> None:
        """Publish readiness by name, and containers that ended already."""
        self._life.containers_changed(ready=ready, ended=ended)

    def warn(self, reason: str, message: str) -> None:
        """Have a warning about the pod written as an Event."""
        self._life.warn(reason, message)


def _task(
    truth: Truth, pod: pods.Pod, *, key: str, attempt: int, run: str, gpus: tuple[int, ...]
) -> tasks.Task:
    """Return a truth as the physics takes it, held to what the pod's main container asks for."""
    return computations.task(
        truth,
        key=key,
        scope=f"{truth.namespace}/{truth.workflow}",
        bounds=bounds(pod),
        attempt=attempt,
        run=run,
        gpus=gpus,
    )


def bounds(pod: pods.Pod) -> computations.Bounds:
    """Return what the task of a pod asks for and is held to: its main container's."""
    main = pod.main
    return computations.Bounds(
        cpu_m=main.requests.cpu_m,
        cpu_limit_m=main.limit_cpu_m,
        memory_bytes=main.requests.memory_bytes,
        memory_limit_bytes=main.limit_memory_bytes,
    )


def outcome(
    end: computations.End, truth: Truth, pod: pods.Pod, *, attempt: int
) -> contracts.Outcome:
    """Return how the pod ended, as a kubelet would report it."""
    name = pod.main.name
    match end.reason:
        case "OOMKilled":
            killed = contracts.ContainerEnd(exit_code=137, reason="OOMKilled")
            return contracts.Outcome(phase="Failed", containers={name: killed})
        case "Evicted":
            ended = contracts.ContainerEnd(exit_code=137, reason="Error")
            message = EVICTED_MESSAGE.format(
                name=name,
                used=int(end.usage.memory_peak_bytes) // 1024,
                request=pod.main.requests.memory_bytes // 1024,
            )
            return contracts.Outcome(
                phase="Failed",
                containers={item.name: ended for item in pod.containers},
                reason="Evicted",
                message=message,
            )
    code = truth.exit_codes[attempt] if attempt < len(truth.exit_codes) else 0
    if code:
        failed = contracts.ContainerEnd(exit_code=code, reason="Error")
        return contracts.Outcome(phase="Failed", containers={name: failed})
    return contracts.Outcome(phase="Succeeded")
