"""Pod statuses as a kubelet writes them: what is known about containers in, JSON out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab import apis, clocks
from lab.kubelet import nodes, pods, resizes
from lab.kubelet.behaviours import contracts

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
ENDED = frozenset({SUCCEEDED, FAILED})
EVICTED = "Evicted"

KILLED = contracts.ContainerEnd(exit_code=137, reason="Error")
UNKNOWN = contracts.ContainerEnd(
    exit_code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)
COMPLETED = contracts.ContainerEnd()
NEVER_RAN = contracts.ContainerEnd(exit_code=-1, reason="PodInitializing")
"""Of containers that wait for init containers which failed: they have no end of their own."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One container of one pod as it is now; times are wall time (unix seconds)."""

    name: str
    image: str
    sidecar: bool = False
    probed: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    end: contracts.ContainerEnd | None = None
    ready: bool = False
    restarts: int = 0
    last: apis.Object = field(default_factory=dict)
    """How the run before this one ended."""

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.started_at is not None and self.end is None

    def start(self, at: float, *, ready: bool) -> None:
        """Begin a run; the one before, if any, becomes the last state."""
        if self.end is not None:
            self.last = self.state()
            self.restarts += 1
        self.started_at, self.ended_at, self.end, self.ready = at, None, None, ready

    def stop(self, end: contracts.ContainerEnd, at: float) -> None:
        """End the run, unless it has ended; a container that never ran only gets the end."""
        if self.end is None:
            self.end, self.ended_at, self.ready = end, at, False

    def state(self) -> apis.Object:
        """Return how it runs or ended; empty while it has not started."""
        if self.end is not None:
            started = self.started_at if self.started_at is not None else self.ended_at
            ended: apis.Object = {
                "exitCode": self.end.exit_code,
                "reason": self.end.reason,
                "startedAt": clocks.timestamp(started or 0),
                "finishedAt": clocks.timestamp(self.ended_at or 0),
            }
            if self.end.message:
                ended["message"] = self.end.message
            return {"terminated": ended}
        if self.started_at is not None:
            return {"running": {"startedAt": clocks.timestamp(self.started_at)}}
        return {}


@dataclass(slots=True, kw_only=True)
class View:
    """One pod as it is now."""

    phase: str = PENDING
    reason: str = ""
    message: str = ""
    seen_at: float
    """Wall time; the pod's startTime."""
    address: str = ""
    backing_off: bool = False
    """Whether containers that ended wait for their restart."""
    resize: resizes.Hindrance | None = None
    """Why the pod does not have what its spec asks for by now."""
    init_runs: list[Run]
    runs: list[Run]

    @property
    def every_run(self) -> list[Run]:
        """Init containers first."""
        return [*self.init_runs, *self.runs]

    @property
    def initialized(self) -> bool:
        """Whether all init containers have ended, or go on running as they are meant to."""
        return all(run.end is not None or run.sidecar for run in self.init_runs)

    @property
    def ready(self) -> bool:
        """Whether all containers that stay are ready."""
        return self.phase == RUNNING and all(
            run.ready for run in (*self.runs, *(one for one in self.init_runs if one.sidecar))
        )

    def waits(self, run: Run) -> str:
        """Return why a container waits; empty for one that runs or has ended."""
        if run.end is not None:
            return "CrashLoopBackOff" if self.backing_off else ""
        if run.started_at is not None:
            return ""
        first = any(run is one for one in self.init_runs)
        return "ContainerCreating" if first or self.initialized else "PodInitializing"


def view(pod: pods.Pod, *, seen_at: float) -> View:
    """Return a pod of which nothing has happened."""

    def runs(containers: tuple[pods.Container, ...]) -> list[Run]:
        return [
            Run(
                name=item.name,
                image=item.image,
                sidecar=item.sidecar,
                probed=item.probe_s is not None,
            )
            for item in containers
        ]

    return View(seen_at=seen_at, init_runs=runs(pod.init_containers), runs=runs(pod.containers))


def viewed(pod: pods.Pod, item: apis.Object) -> View:
    """Return a pod as its object shows it, for one that ended before this kubelet began."""
    status = item["status"]
    now = view(pod, seen_at=_seconds(status.get("startTime")) or 0.0)
    now.phase, now.address = status.get("phase", PENDING), status.get("podIP", "")
    now.reason, now.message = status.get("reason", ""), status.get("message", "")
    shown = {
        raw["name"]: raw
        for key in ("initContainerStatuses", "containerStatuses")
        for raw in status.get(key) or ()
    }
    for run in now.every_run:
        raw = shown.get(run.name, {})
        run.restarts, run.last = raw.get("restartCount", 0), raw.get("lastState") or {}
        if ended := (raw.get("state") or {}).get("terminated"):
            run.started_at = _seconds(ended.get("startedAt"))
            run.end = contracts.ContainerEnd(
                exit_code=ended["exitCode"],
                reason=ended.get("reason", ""),
                message=ended.get("message", ""),
            )
            run.ended_at = _seconds(ended.get("finishedAt"))
    return now


def _seconds(timestamp: str | None) -> float | None:
    return None if timestamp is None else clocks.unix_s(timestamp)


def status(
    pod: pods.Pod,
    now: View,
    *,
    host_address: str,
    at: float,
    before: apis.Object,
    generation: int = 0,
) -> apis.Object:
    """Return the status to be written; conditions of others in `before` are kept as they are.

    `generation` is that of the spec that it is about; 0 where the API server counts none.
    """
    result: apis.Object = {
        "phase": now.phase,
        "startTime": clocks.timestamp(now.seen_at),
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "conditions": _conditions(now, at=at, before=before, generation=generation),
        "containerStatuses": [
            _container(pod, container, run, waits=now.waits(run))
            for container, run in zip(pod.containers, now.runs, strict=True)
        ],
    }
    if generation:
        result["observedGeneration"] = generation
    if now.init_runs:
        result["initContainerStatuses"] = [
            _container(pod, container, run, waits=now.waits(run))
            for container, run in zip(pod.init_containers, now.init_runs, strict=True)
        ]
    if now.address:
        result["podIP"] = now.address
        result["podIPs"] = [{"ip": now.address}]
    if now.reason:
        result["reason"] = now.reason
    if now.message:
        result["message"] = now.message
    return result


def container_id(pod: pods.Pod, run: Run) -> str:
    """Return what the container runtime calls the present run of a container."""
    return nodes.identity(pod.uid, run.name, str(run.restarts))


def rejected(now: View, *, before: apis.Object) -> apis.Object:
    """Return the status of a pod that the node refused: no container was ever made."""
    return {
        "phase": FAILED,
        "reason": now.reason,
        "message": now.message,
        "startTime": clocks.timestamp(now.seen_at),
        "conditions": list(before.get("conditions") or ()),
    }


def _container(pod: pods.Pod, container: pods.Container, run: Run, *, waits: str) -> apis.Object:
    known = run.started_at is not None
    result: apis.Object = {
        "name": run.name,
        "image": run.image,
        "imageID": run.image if known else "",
        "restartCount": run.restarts,
        "ready": run.ready,
        "started": run.running,
        "state": {"waiting": {"reason": waits}} if waits else run.state(),
    }
    if known:
        result["containerID"] = f"simulated://{container_id(pod, run)}"
    # Between two runs the one that ended is the last already.
    if last := run.state() if waits else run.last:
        result["lastState"] = last
    if run.running and container.resources:
        result["resources"] = container.resources
        if requests := container.resources.get("requests"):
            result["allocatedResources"] = requests
    return result


def _conditions(now: View, *, at: float, before: apis.Object, generation: int) -> list[apis.Object]:
    """Return all conditions: those of the kubelet as they are now, those of others unchanged."""
    ended = {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}.get(now.phase, "")
    unready = [run.name for run in now.runs if not run.ready]
    not_ready = {
        "reason": ended or "ContainersNotReady",
        "message": "" if ended else f"containers with unready status: [{' '.join(unready)}]",
    }
    ready: Mapping[str, str] = {} if now.ready else not_ready
    waiting = [run.name for run in now.init_runs if run.end is None and not run.sidecar]
    incomplete = {
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(waiting)}]",
    }
    ours: dict[str, tuple[bool, Mapping[str, str]]] = {
        "PodReadyToStartContainers": (bool(now.address) and not ended, {}),
        "Initialized": (
            now.initialized,
            incomplete
            if not now.initialized
            else ({"reason": ended} if now.phase == SUCCEEDED else {}),
        ),
        "Ready": (now.ready, ready),
        "ContainersReady": (now.ready, ready),
    }
    if now.reason == EVICTED:
        told = {"reason": "TerminationByKubelet", "message": now.message}
        ours["DisruptionTarget"] = (True, told)
    if now.resize is not None:
        told = {"reason": now.resize.reason, "message": now.resize.message}
        ours[now.resize.kind] = (True, told)
    earlier = {item["type"]: item for item in before.get("conditions") or ()}
    result = [
        item
        for kind, item in earlier.items()
        if kind not in ours and kind not in resizes.CONDITIONS
    ]
    for kind, (holds, words) in ours.items():
        status = "True" if holds else "False"
        known = earlier.get(kind, {})
        since = clocks.timestamp(at)
        if known.get("status") == status and known.get("lastTransitionTime"):
            since = known["lastTransitionTime"]
        item: apis.Object = {"type": kind, "status": status, "lastTransitionTime": since}
        if generation:
            item["observedGeneration"] = generation
        result.append(item | {key: text for key, text in words.items() if text})
    return result
