"""`tiphys status`: who leads, what steers whom, and how many pods wait, as far as one may see."""

import asyncio
import datetime
import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import click

from tiphys.models.domain import decisions, errors, optins
from tiphys.models.wire import keys
from tiphys.operator import apis, elections, trusts
from tiphys.operator.commands import (
    annotations,
    groupings,
    installations,
    overviews,
    sessions,
    verifications,
    views,
)

FRESH_S = 12.0
"""A Lease that was renewed longer ago is not counted as living (clocks may differ a little)."""
ELSEWHERE = "pods of all namespaces"
GATED = "fieldSelector=status.phase%3DPending,spec.nodeName%3D"
"""Gated pods are among those; a gate that somebody set by hand stands without our label."""
STARTING = "starting pods"
"""Name of the question for marked pods that are on a node and have not started."""
BOUND = (
    f"labelSelector={decisions.LABEL.replace('/', '%2F')}%3Dtrue"
    "&fieldSelector=status.phase%3DPending,spec.nodeName!%3D"
)
MOST_NAMED = 5
"""Pods that a warning names."""
MOST_ASKED = 20
"""Pods that the leader is asked about."""
OPENING = "its gate is being opened"


@click.command(epilog=sessions.EXIT_CODES)
@click.option("-A", "--all-namespaces", is_flag=True, help="Waiting pods of all namespaces.")
@sessions.options
def status(all_namespaces: bool, **shared: Any) -> int:
    """Show operators, policies, opted-in namespaces and waiting pods.

    What you may not see is named and left out. Exit code 1: no operator leads, or no pod reaches
    the webhook.
    """

    async def work(session: sessions.Session) -> int:
        found, hidden = await _look(session, all_namespaces)
        if session.output != "table":
            sessions.show({**found, "hidden": hidden}, session.output)
        else:
            overviews.show(found, hidden)
        return _verdict(found)

    return sessions.run(work, **shared)


def main(arguments: list[str]) -> int:
    """Run the subcommand; return its exit code."""
    return sessions.main(status, "status", arguments)


async def _look(
    session: sessions.Session, everywhere: bool
) -> tuple[sessions.Json, dict[str, str]]:
    """Return all that may be seen, and what may not with the reason."""
    scope = "" if everywhere else f"/namespaces/{session.namespace}"
    questions = {
        "leases": f"/apis/coordination.k8s.io/v1/namespaces/{session.system}/leases",
        "policies": "/apis/tiphys.dev/v1alpha1/schedulingpolicies",
        "versions": "/apis/tiphys.dev/v1alpha1/policyversions",
        "namespaces": "/api/v1/namespaces",
        "pods": f"/api/v1{scope}/pods?{GATED}",
        "keys": f"/api/v1/namespaces/{session.system}/configmaps/{trusts.PUBLIC}",
        installations.ENDPOINTS: (
            f"/apis/discovery.k8s.io/v1/namespaces/{session.system}/{installations.ENDPOINTS}"
        ),
        STARTING: f"/api/v1{scope}/pods?{BOUND}",
        **installations.QUESTIONS,
        **annotations.questions(scope),
    }
    if not everywhere:
        # Asked beside the own namespace: who may not read them all is told of the own one.
        questions[ELSEWHERE] = f"/api/v1/pods?{GATED}"
    answers = await asyncio.gather(
        *(_asked(session, name, path) for name, path in questions.items()), return_exceptions=True
    )
    seen: dict[str, sessions.Json] = {}
    hidden: dict[str, str] = {}
    missing: set[str] = set()
    silent: list[Exception] = []
    for name, answer in zip(questions, answers, strict=True):
        if isinstance(answer, apis.ForbiddenError):
            hidden[name] = "you may not read them"
        elif isinstance(answer, apis.NotFoundError):
            missing.add(name)
            hidden[name] = "not there: is Tiphys installed?"
        elif isinstance(answer, errors.TiphysError):
            hidden[name] = str(answer)
            silent.append(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            seen[name] = answer
    if len(silent) == len(questions):
        raise silent[0]
    for name in (
        *trusts.CONFIGURATIONS,
        *annotations.questions(scope),
        ELSEWHERE,
        installations.ENDPOINTS,
    ):
        if name in missing or name == ELSEWHERE:
            hidden.pop(name, None)
    if "deployments" in seen:
        # They tell as well whether a webhook is ready.
        hidden.pop(installations.ENDPOINTS, None)
    found: sessions.Json = installations.of(seen, frozenset(missing))
    found["installed"] = not installations.absent(seen, frozenset(missing))
    if not found["installed"]:
        hidden = {name: why for name, why in hidden.items() if name not in missing}
    if "leases" in seen:
        found |= _operators(seen["leases"])
    if "keys" in seen:
        found["keys"] = _keys(seen["keys"])
    if "policies" in seen:
        found["policies"] = [_policy(item) for item in seen["policies"]["items"]]
    if "versions" in seen:
        found["versions"] = [item["metadata"]["name"] for item in seen["versions"]["items"]]
    if "namespaces" in seen:
        found["optedIn"] = sorted(
            item["metadata"]["name"]
            for item in seen["namespaces"]["items"]
            if sessions.text(item, "metadata", "annotations", optins.ENABLED) == "true"
        )
    if "pods" in seen:
        found["waiting"] = _waiting(seen["pods"])
        leader = str(found.get("leader") or "")
        found["leaderUnasked"] = await _tell(session, found["waiting"], leader)
        found["lookedAt"] = "" if everywhere else session.namespace
        if {annotations.MARKED, STARTING} <= seen.keys():
            found["counts"] = _counts(seen)
    if ELSEWHERE in seen:
        found["waitingElsewhere"] = {
            row["namespace"]: row["pods"]
            for row in _waiting(seen[ELSEWHERE])
            if row["namespace"] != session.namespace
        }
    found["warnings"] = [
        *filter(None, [installations.switched_off(found)]),
        *(installations.unfit(found) if found["installed"] else ()),
        *installations.unguarded(found),
        *_unselected(seen),
        *_nowhere(seen, "" if everywhere else session.namespace),
        *_foreign(seen.get("pods") or {}),
        *annotations.warnings(seen),
    ]
    return found, hidden


async def _asked(session: sessions.Session, name: str, path: str) -> sessions.Json:
    slim = name == STARTING or name in annotations.questions("")
    accept = annotations.METADATA if slim else apis.JSON
    return await session.api.call("GET", path, accept=accept)


def _nowhere(seen: Mapping[str, sessions.Json], namespace: str) -> list[str]:
    """Return in a sentence that a namespace is not there; none where that cannot be seen."""
    names = {item["metadata"]["name"] for item in (seen.get("namespaces") or {}).get("items") or ()}
    if not namespace or not names or namespace in names:
        return []
    return [f"there is no namespace {namespace} in this cluster"]


def _unselected(seen: Mapping[str, sessions.Json]) -> list[str]:
    """Return in a sentence which namespaces opted in and have no policy; none as a rule."""
    if not (seen.get("policies") or {}).get("items") or "namespaces" not in seen:
        return []
    selectors = [
        ((item["spec"].get("selector") or {}).get("namespaceLabels") or {}).items()
        for item in seen["policies"]["items"]
    ]
    lonely = [
        item["metadata"]["name"]
        for item in seen["namespaces"]["items"]
        if sessions.text(item, "metadata", "annotations", optins.ENABLED) == "true"
        and not any(
            selector <= (item["metadata"].get("labels") or {}).items() for selector in selectors
        )
    ]
    if not lonely:
        return []
    return [
        f"opted in, but no SchedulingPolicy selects them, so they are not steered: "
        f"{', '.join(sorted(lonely))}; add their labels to a policy's selector.namespaceLabels, "
        "or make a policy without a selector"
    ]


def _verdict(found: sessions.Json) -> int:
    """Return the exit code; what may not be seen is no reason for a no."""
    led = "operators" not in found or bool(found["leader"])
    return sessions.YES if led and not installations.unfit(found) else sessions.NO


def _operators(leases: sessions.Json) -> sessions.Json:
    """Return the leader and the replicas by their Leases."""
    now = time.time()
    leader, rows = "", []
    for item in leases["items"]:
        name = item["metadata"]["name"]
        if not name.startswith(elections.LEADER):
            continue
        holder = sessions.text(item, "spec", "holderIdentity")
        renewed = views.unix(sessions.text(item, "spec", "renewTime"))
        age_s = now - renewed if renewed else None
        fresh = bool(holder) and age_s is not None and age_s < FRESH_S
        if name == elections.LEADER:
            leader = holder if fresh else ""
        else:
            rows.append({"name": holder or name, "alive": fresh, "silentS": age_s})
    return {"leader": leader, "operators": rows}


def _keys(config: sessions.Json) -> list[sessions.Json]:
    found: list[sessions.Json] = []
    for field in (keys.OPERATOR_FIELD, keys.WEBHOOK_FIELD):
        try:
            held = {"data": {keys.OPERATOR_FIELD: config["data"][field]}}
            ring = verifications.read_ring(json.dumps(held), trusts.PUBLIC)
        except (errors.InputError, KeyError) as error:
            found.append({"ring": field, "problem": str(error)})
            continue
        ends = max((key.not_after for key in ring.keys), default=0.0)
        found.append({"ring": field, "keys": len(ring.keys), "honouredUntil": _time(ends)})
    return found


def _policy(item: Mapping[str, Any]) -> sessions.Json:
    ready: Mapping[str, Any] = next(
        (
            each
            for each in (item.get("status") or {}).get("conditions") or ()
            if each.get("type") == "Ready"
        ),
        {},
    )
    return {
        "name": item["metadata"]["name"],
        "mode": sessions.text(item, "spec", "mode") or "Enforce",
        "stable": sessions.text(item, "status", "activeVersion")
        or sessions.text(item, "spec", "stable"),
        "ready": str(ready.get("status") or "Unknown"),
        "message": str(ready.get("message") or ""),
    }


def _waiting(pods: sessions.Json) -> list[sessions.Json]:
    now = time.time()
    of_namespace: dict[str, list[sessions.Json]] = defaultdict(list)
    for item in pods["items"]:
        if views.gated(item) and views.ours(item):
            of_namespace[item["metadata"]["namespace"]].append(item)
    rows = []
    for namespace, held in sorted(of_namespace.items()):
        oldest = min(held, key=lambda item: str(item["metadata"]["creationTimestamp"]))
        since = views.unix(oldest["metadata"]["creationTimestamp"])
        rows.append(
            {
                "namespace": namespace,
                "pods": len(held),
                "oldest": oldest["metadata"]["name"],
                "uid": oldest["metadata"]["uid"],
                "waitsS": round(now - since, 1) if since else None,
                "why": views.waits(oldest).removeprefix(decisions.SPOKEN),
                "writtenS": views.written_s(oldest),
            }
        )
    return rows


def _counts(seen: Mapping[str, sessions.Json]) -> list[sessions.Json]:
    """Return how many pods that are marked for steering wait, are open, bound and run.

    A namespace is left out in which there is none.
    """
    stages: dict[str, tuple[str, str]] = {}
    for item in seen[annotations.MARKED].get("items") or ():
        stages[item["metadata"]["uid"]] = (item["metadata"]["namespace"], "running")
    for item in seen[STARTING].get("items") or ():
        stages[item["metadata"]["uid"]] = (item["metadata"]["namespace"], "starting")
    for item in seen["pods"]["items"]:
        if views.ours(item):
            stage = "waiting" if views.gated(item) else "open"
            stages[item["metadata"]["uid"]] = (item["metadata"]["namespace"], stage)
    counted = Counter(stages.values())
    return [
        {"namespace": space, **{stage: counted[space, stage] for stage in overviews.STAGES}}
        for space in sorted({namespace for namespace, _ in counted})
    ]


async def _tell(session: sessions.Session, rows: list[sessions.Json], leader: str) -> str:
    """Fill in what the leader says now of why pods wait; return why it could not be asked.

    What is written on a pod is renewed only now and then, so where it has to do it has an age.
    """
    asked = rows[:MOST_ASKED] if leader else []
    answers = await asyncio.gather(*(views.replica(session, leader, row["uid"]) for row in asked))
    unasked = ""
    for row, answer in zip(asked, answers, strict=True):
        found = answer.found
        if found is None:
            unasked = answer.why
            continue
        said = groupings.reason(found)
        if found.get("gated") is False:
            said = OPENING
        elif not said and row["why"] == views.UNTOLD:
            said = views.UNPLANNED
        if said:
            row |= {"why": said, "writtenS": None}
    for row in rows:
        if row["why"] == views.UNTOLD:
            row["why"] += "; `tiphys explain pod` asks the leader"
    return unasked


def _foreign(pods: sessions.Json) -> list[str]:
    """Return in a sentence which gates nobody of Tiphys set or will open; none as a rule."""
    named = sorted(
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in pods.get("items") or ()
        if views.gated(item) and not views.ours(item)
    )
    if not named:
        return []
    return [
        "gates that Tiphys did not set and will not open: "
        f"{sessions.some(named, most=MOST_NAMED)}; "
        "take them out of what the pods are made from, or open each with `tiphys release`"
    ]


def _time(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
