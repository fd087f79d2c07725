"""The pods that a kubelet knows, alive or over, and how they look from outside."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab import apis
from lab.kubelet import computations, lifecycles, pods, statuses
from lab.kubelet.exporters import observations
from tiphys.models.physics import engines


@dataclass(slots=True, kw_only=True)
class Known:
    """A pod whose object the API server has; `life` is None if it was over before we came."""

    pod: pods.Pod
    item: apis.Object
    life: lifecycles.Lifecycle | None = None
    confirmed: bool = False
    """Whether its deletion was confirmed."""

    @property
    def latest(self) -> apis.Object:
        """Its object as last heard of."""
        return self.item if self.life is None else self.life.item

    @property
    def _host_address(self) -> str:
        """Its node's address, as far as its status has it already."""
        return str(self.latest["status"].get("hostIP", ""))

    def observed(self, readings: Sequence[engines.Reading]) -> observations.Pod:
        """Return the pod as it is exported; `readings` are its computations under way."""
        if self.life is None:
            view = statuses.viewed(self.pod, self.item)
            return observations.Pod(
                pod=self.pod,
                view=view,
                host_address=self._host_address,
                usage=computations.Usage(),
            )
        usage = self.life.memory.used
        for reading in readings:
            usage += computations.usage(reading.usage)
        return observations.Pod(
            pod=self.pod,
            view=self.life.view,
            host_address=self._host_address,
            usage=usage,
            working_set_bytes=sum(item.memory_working_set_bytes for item in readings),
            cache_bytes=sum(
                item.memory_current_bytes - item.memory_working_set_bytes for item in readings
            ),
            oom_kills=self.life.oom_kills,
            running=self.life.view.phase == statuses.RUNNING,
        )
