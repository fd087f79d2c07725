"""What a person can see of pods and operators: objects, stamps, and the leader's answer."""

import contextlib
import dataclasses
import datetime
import ipaddress
import time
from collections.abc import Mapping
from typing import Any

from tiphys.argo import patches
from tiphys.models.domain import decisions, errors, optins, pods
from tiphys.models.wire import stamps
from tiphys.operator import apis, elections
from tiphys.operator.commands import refusals, sessions

PATHS = {
    "pod": "/api/v1/namespaces/{}/pods/{}",
    "workflow": "/apis/argoproj.io/v1alpha1/namespaces/{}/workflows/{}",
}
KINDS = {
    "pod": frozenset({"pod", "pods", "po"}),
    "workflow": frozenset(
        {"workflow", "workflows", "wf", "workflow.argoproj.io", "workflows.argoproj.io"}
    ),
}
"""How kubectl writes what an object is, as in `kubectl get -o name`: `pod/NAME`."""
METRICS_PORT = 9080
UNTOLD = "no reason is written on it yet"
"""The leader knows it from its first plan, and writes it onto pods that wait long, where no
autoscaler would misread it (operator/conditions.py)."""
UNPLANNED = "the leader has made no plan with it yet"
NOT_OURS = (
    "its gate was not set by Tiphys, which opens only gates of pods that it steered when they were "
    "created; take it out of what the pod is made from; `tiphys release` opens it now"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an operator said, or why it could not be asked."""

    found: sessions.Json | None = None
    why: str = ""


async def pod(session: sessions.Session, name: str) -> sessions.Json:
    """Read a pod, `NAME`, `NAMESPACE/NAME` or `pod/NAME`; raises as the client does."""
    return await _read(session, name, "pod")


async def workflow(session: sessions.Session, name: str) -> sessions.Json:
    """Read a Workflow, named as pods are or as `workflow.argoproj.io/NAME`."""
    return await _read(session, name, "workflow")


async def _read(session: sessions.Session, name: str, kind: str) -> sessions.Json:
    namespace, own = _named(session, name, kind)
    try:
        return await session.api.get(PATHS[kind].format(namespace, own))
    except apis.NotFoundError as error:
        raise await _absent(session, error, kind, namespace, own) from error


async def _absent(
    session: sessions.Session, error: apis.NotFoundError, kind: str, namespace: str, own: str
) -> apis.NotFoundError:
    """Return an error that says what is not there: the object, its namespace, or its kind."""
    if not error.reason:  # a path that the API server does not know at all
        return apis.NotFoundError(f"this cluster knows no {kind}s: Argo Workflows is not in it")
    try:
        await session.api.get(f"/api/v1/namespaces/{namespace}")
    except apis.NotFoundError:
        return apis.NotFoundError(f"there is no namespace {namespace} in this cluster")
    except errors.TiphysError:
        pass  # who may not read namespaces has the next sentence
    return apis.NotFoundError(
        f"there is no {kind} {own} in namespace {namespace}; name another namespace with -n"
    )


def _named(session: sessions.Session, name: str, kind: str) -> tuple[str, str]:
    """Return namespace and name.  Raises `InputError` for what cannot be one."""
    before, slash, own = name.rpartition("/")
    meant = next((each for each, words in KINDS.items() if before in words), kind)
    if meant != kind:
        raise errors.InputError(f"{name} names a {meant}, and a {kind} is asked for")
    if before in KINDS[kind]:
        before = slash = ""
    for part in (own, before) if slash else (own,):
        if not sessions.NAME.fullmatch(part):
            raise errors.InputError(f"{name!r} names no object: write NAME or NAMESPACE/NAME")
    return before or session.namespace, own


async def leader(session: sessions.Session, uid: str) -> Answer:
    """Ask the leader about an object, and for what others decided at its creation those too."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{session.system}/leases"
    try:
        lease = await session.api.get(f"{leases}/{elections.LEADER}")
        holder = sessions.text(lease, "spec", "holderIdentity")
        if not holder:
            return Answer(why="no operator leads just now")
        answer = await replica(session, holder, uid)
    except apis.ForbiddenError:
        return Answer(why="you may not ask the operator (pods/proxy in its namespace)")
    except apis.NotFoundError:
        return Answer(why="the operator does not know it, or is not there")
    except errors.TiphysError as error:
        return Answer(why=f"the operator does not answer ({error})")
    if answer.found is None or not _lacking(answer.found):
        return answer
    try:
        listed = await session.api.get(leases)
    except errors.TiphysError:
        return answer  # what the leader said is most
    names = {
        sessions.text(item, "spec", "holderIdentity")
        for item in listed.get("items") or ()
        if item["metadata"]["name"].startswith(f"{elections.LEADER}-")
    }
    for name in sorted(names - {holder, ""}):
        other = await replica(session, name, uid)
        if other.found is not None:
            _complete(answer.found, other.found)
    return answer


def _lacking(found: sessions.Json) -> list[sessions.Json]:
    """Return the pods of an answer whose decision at creation the replica does not know."""
    return [
        pod for pod in found.get("pods", [found]) if pod.get("workflow") and "admission" not in pod
    ]


def _complete(found: sessions.Json, other: sessions.Json) -> None:
    """Take over what another replica decided when pods were created."""
    known = {
        pod["uid"]: pod["admission"] for pod in other.get("pods", [other]) if "admission" in pod
    }
    for pod in _lacking(found):
        if pod["uid"] in known:
            pod["admission"] = known[pod["uid"]]


async def replica(session: sessions.Session, holder: str, uid: str) -> Answer:
    """Ask one replica about an object, by the name of its pod, through the API server's proxy."""
    try:
        path = f"/api/v1/namespaces/{session.system}/pods/{holder}"
        held = await session.api.get(path)
        port, address = _port(held), sessions.text(held, "status", "podIP")
        if address and ipaddress.ip_address(address).is_loopback:
            # The API server proxies to no loopback address; there it is this machine's (the lab).
            return await direct(f"http://{address}:{port}", uid)
        found = await session.api.get(f"{path}:{port}/proxy/v1/explanations/{uid}")
    except apis.ForbiddenError:
        return Answer(why="you may not ask the operator (pods/proxy in its namespace)")
    except apis.NotFoundError:
        return Answer(why="the operator does not know it, or is not there")
    except errors.TiphysError as error:
        return Answer(why=f"the operator does not answer ({error})")
    return Answer(found=found)


async def opted_in_at(session: sessions.Session, source: str) -> str:
    """Return when the annotation of `source`, as `Namespace red`, was last written (RFC 3339).

    The API server notes the time for whoever wrote a field; a later change by the same writer moves
    it.  Empty where nobody may read it.
    """
    kind, _, key = source.partition(" ")
    space, _, name = key.rpartition("/")
    root = "/api/v1" if kind == optins.Kind.NAMESPACE.word else "/apis/argoproj.io/v1alpha1"
    inside = f"/namespaces/{space}" if space else ""
    try:
        found = await session.api.get(f"{root}{inside}/{kind.lower()}s/{name}")
    except errors.TiphysError:
        return ""
    times = [
        str(each.get("time") or "")
        for each in found["metadata"].get("managedFields") or ()
        if sessions.text(each, "fieldsV1", "f:metadata", "f:annotations", f"f:{optins.ENABLED}")
    ]
    return min(times, default="")


async def direct(url: str, uid: str) -> Answer:
    """Ask an operator at an address, such as a forwarded port: `http://127.0.0.1:9080`."""
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as client,
            client.get(f"{url.rstrip('/')}/v1/explanations/{uid}") as response,
        ):
            if response.status == 200:
                return Answer(found=await response.json())
            return Answer(why=f"the operator at {url} answered {response.status}")
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        return Answer(why=f"the operator at {url} does not answer ({refusals.silence(error)})")


async def events(session: sessions.Session, namespace: str, uid: str) -> list[sessions.Json]:
    """Return our Events about an object, the latest last; none where they may not be read."""
    with contextlib.suppress(errors.TiphysError):
        found = await session.api.get(
            f"/api/v1/namespaces/{namespace}/events",
            params={"fieldSelector": f"involvedObject.uid={uid}"},
        )
        ours = [
            item
            for item in found.get("items") or ()
            if sessions.text(item, "source", "component").startswith("tiphys")
        ]
        return sorted(ours, key=lambda item: str(item.get("lastTimestamp") or ""))
    return []


def stamp(found: Mapping[str, Any], annotation: str) -> decisions.Stamp | None:
    """Return a decision on a pod; None where there is none or it cannot be read."""
    text = sessions.text(found, "metadata", "annotations", annotation)
    if not text:
        return None
    with contextlib.suppress(errors.InputError):
        return stamps.decode(text)
    return None


def gates(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a pod's scheduling gates."""
    listed = (found.get("spec") or {}).get("schedulingGates") or ()
    return tuple(str(gate.get("name")) for gate in listed)


def gated(found: Mapping[str, Any]) -> bool:
    """Say whether our gate is on a pod."""
    return pods.STEERING_GATE in gates(found)


def ours(found: Mapping[str, Any]) -> bool:
    """Say whether a pod was steered when it was created, so that its gate is Tiphys' to open."""
    return patches.steered(found)


def waits(found: Mapping[str, Any]) -> str:
    """Return why a pod is not scheduled, as its condition says.

    Kubernetes' own sentence about gates, which says nothing of ours, is told in our words.
    """
    for condition in (found.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = str(condition.get("message") or "")
            if not gated(found) and message.startswith(decisions.SPOKEN):
                # Written while it waited; kube-scheduler has not looked at it since.
                return _untold(found) if gates(found) else ""
            return message if condition.get("reason") != "SchedulingGated" else _untold(found)
    return _untold(found) if gated(found) else ""


def written_s(found: Mapping[str, Any]) -> float | None:
    """Return how long ago the leader wrote onto a pod why it waits, seconds; None: it did not."""
    for condition in (found.get("status") or {}).get("conditions") or ():
        if str(condition.get("message") or "").startswith(decisions.SPOKEN):
            at = unix(str(condition.get("lastTransitionTime") or ""))
            return None if at is None else round(max(time.time() - at, 0.0), 1)
    return None


def unix(text: str) -> float | None:
    """Return the unix seconds of a time as Kubernetes writes it; None for what is none."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _untold(found: Mapping[str, Any]) -> str:
    if not gated(found):
        return f"waits for other gates: {', '.join(gates(found))}"
    if not ours(found):
        return NOT_OURS
    return UNTOLD


def _port(found: Mapping[str, Any]) -> int:
    for container in (found.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == "metrics":
                return int(port["containerPort"])
    return METRICS_PORT
