"""A pod's status out of the facts about its containers; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab import apis, clocks
from lab.processnode import pods

REPLACE = {"$patch": "replace"}
"""Strategic merge would add an address to those of an earlier life; this puts it in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One run of a container that is over; times are wall time (unix seconds)."""

    exit_code: int
    reason: str
    message: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    id: str = ""

    def shown(self) -> apis.Object:
        """Return the `terminated` state."""
        state: apis.Object = {"exitCode": self.exit_code, "reason": self.reason}
        if self.message:
            state["message"] = self.message
        state["startedAt"] = time_text(self.started_at)
        state["finishedAt"] = time_text(self.ended_at)
        if self.id:
            state["containerID"] = self.id
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one container now."""

    name: str
    image: str
    waiting: tuple[str, str] = ("PodInitializing", "")
    """Reason and message, where it neither runs nor has ended."""
    running_since: float | None = None
    ended: Ended | None = None
    last: Ended | None = None
    """The run before the one of now."""
    restarts: int = 0
    started: bool = False
    ready: bool = False
    id: str = ""

    def shown(self) -> apis.Object:
        """Return the container status."""
        if self.running_since is not None:
            state: apis.Object = {"running": {"startedAt": time_text(self.running_since)}}
        elif self.ended is not None:
            state = {"terminated": self.ended.shown()}
        else:
            reason, message = self.waiting
            state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "containerID": self.id,
            "state": state,
            "lastState": {} if self.last is None else {"terminated": self.last.shown()},
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What is known of the pod as a whole."""

    phase: str
    started_at: float | None
    pod_ip: str
    node_ip: str
    initialized: bool = False
    volumes_ready: bool = False
    reason: str = ""
    message: str = ""


def pod_status(
    pod: apis.Object,
    whole: Whole,
    *,
    init: Sequence[Facts],
    main: Sequence[Facts],
    conditions: Sequence[apis.Object],
    now: float,
) -> apis.Object:
    """Return the status as a strategic merge patch; times of `conditions` are kept."""
    return {
        "observedGeneration": pod["metadata"].get("generation", 0),
        "phase": whole.phase,
        # A null takes back what an earlier life of the node may have said.
        "reason": whole.reason or None,
        "message": whole.message or None,
        "hostIP": whole.node_ip,
        "hostIPs": [REPLACE, {"ip": whole.node_ip}],
        "podIP": whole.pod_ip,
        "podIPs": [REPLACE, {"ip": whole.pod_ip}],
        "startTime": time_text(whole.started_at),
        "initContainerStatuses": [_initial(facts) for facts in init] or None,
        "containerStatuses": [facts.shown() for facts in main],
        "conditions": _dated(_conditions(pod, whole, init=init, main=main), conditions, now=now),
    }


def _initial(facts: Facts) -> apis.Object:
    """Return the status of an init container, which is ready for good once it has ended well."""
    done = facts.ended is not None and facts.ended.exit_code == 0
    return facts.shown() | ({"ready": True} if done else {})


def phase(pod: apis.Object, *, main: Sequence[Facts], over: bool) -> str:
    """Return the phase of a pod whose init containers are done; `over`: nothing runs again."""
    if over:
        good = all(facts.ended is not None and facts.ended.exit_code == 0 for facts in main)
        return "Succeeded" if good else "Failed"
    begun = [facts for facts in main if facts.running_since is not None or _ran(facts)]
    return "Running" if len(begun) == len(main) else "Pending"


def _ran(facts: Facts) -> bool:
    return facts.ended is not None or facts.last is not None


def _conditions(
    pod: apis.Object, whole: Whole, *, init: Sequence[Facts], main: Sequence[Facts]
) -> list[apis.Object]:
    completed = whole.phase == "Succeeded"
    sidecars = {item["name"] for item in pods.init_containers(pod) if pods.is_sidecar(item)}
    counted = [*(facts for facts in init if facts.name in sidecars), *main]
    unready = [facts.name for facts in counted if not facts.ready]
    reason, message = "", ""
    if completed:
        reason = "PodCompleted"
    elif whole.phase == "Failed":
        reason = "PodFailed"
    elif unready:
        reason = "ContainersNotReady"
        message = f"containers with unready status: [{' '.join(unready)}]"
    all_ready = not reason
    gates = [item["conditionType"] for item in pod["spec"].get("readinessGates") or ()]
    held = {item["type"]: item["status"] for item in pod.get("status", {}).get("conditions") or ()}
    shut = [gate for gate in gates if held.get(gate) != "True"]
    pod_reason, pod_message = reason, message
    if all_ready and shut:
        pod_reason = "ReadinessGatesNotReady"
        pod_message = f"the status of pod readiness gate {shut[0]!r} is not True"
    waiting = [facts.name for facts in init if facts.ended is None and facts.name not in sidecars]
    return [
        _condition("PodReadyToStartContainers", whole.volumes_ready),
        _condition(
            "Initialized",
            whole.initialized or completed,
            reason="" if whole.initialized else "ContainersNotInitialized",
            message=""
            if whole.initialized
            else f"containers with incomplete status: [{' '.join(waiting)}]",
        ),
        _condition("ContainersReady", all_ready, reason=reason, message=message),
        _condition("Ready", not pod_reason, reason=pod_reason, message=pod_message),
    ]


def _condition(kind: str, holds: bool, *, reason: str = "", message: str = "") -> apis.Object:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason or None,
        "message": message or None,
    }


def _dated(
    conditions: list[apis.Object], before: Sequence[apis.Object], *, now: float
) -> list[apis.Object]:
    """Return conditions with the time since which each has its status."""
    known = {item["type"]: item for item in before}
    dated = []
    for item in conditions:
        old = known.get(item["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == item["status"] else None
        dated.append({**item, "lastTransitionTime": since or time_text(now)})
    return dated


def contradicts(pod: apis.Object, written: apis.Object) -> bool:
    """Whether a pod's object says otherwise of a condition than the status that we wrote last."""
    there = {item["type"]: item for item in pod.get("status", {}).get("conditions") or ()}
    return any(
        item["type"] in there and there[item["type"]]["status"] != item["status"]
        for item in written["conditions"]
    )


def earlier(pod: apis.Object, container: apis.Object) -> Facts:
    """Return the facts that a pod's object holds from an earlier life of the node.

    What ran then has died with it: how, nobody saw.
    """
    statuses: Mapping[str, apis.Object] = {
        item["name"]: item
        for kind in ("initContainerStatuses", "containerStatuses")
        for item in pod.get("status", {}).get(kind) or ()
    }
    facts = Facts(name=container["name"], image=str(container.get("image", "")))
    status = statuses.get(container["name"])
    if status is None:
        return facts
    state, last = status.get("state") or {}, status.get("lastState") or {}
    ended = _read_ended(state.get("terminated"))
    if running := state.get("running"):
        ended = Ended(
            exit_code=137,
            reason="ContainerStatusUnknown",
            message="the process node ended while the container ran",
            started_at=unix(running.get("startedAt")),
            ended_at=None,
            id=status.get("containerID", ""),
        )
    return Facts(
        name=facts.name,
        image=facts.image,
        ended=ended,
        last=_read_ended(last.get("terminated")),
        restarts=int(status.get("restartCount", 0)),
        id=status.get("containerID", ""),
    )


def _read_ended(terminated: apis.Object | None) -> Ended | None:
    if not terminated:
        return None
    return Ended(
        exit_code=int(terminated["exitCode"]),
        reason=terminated.get("reason", ""),
        message=terminated.get("message", ""),
        started_at=unix(terminated.get("startedAt")),
        ended_at=unix(terminated.get("finishedAt")),
        id=terminated.get("containerID", ""),
    )


def time_text(at: float | None) -> str | None:
    """Return wall time as Kubernetes writes it; None stays None."""
    return None if at is None else clocks.timestamp(at)


def unix(text: str | None) -> float | None:
    """Return the wall time (unix seconds) of a timestamp; None where there is none."""
    return None if not text else clocks.unix_s(text)
