"""`tiphys explain pod|workflow NAME`: why it is where it is, or why it waits and for what.

The leader tells most (what it saw, candidates, masks). Whoever may not ask it is answered by what
stands in their own namespace: the signed decisions on the pod, its condition and its Events.
"""

import datetime
import json
from pathlib import Path
from typing import Any

import click

from tiphys.models.domain import decisions, durations, errors
from tiphys.operator.commands import groupings, patchings, sessions, views

MOST_ROWS = 20
"""Rows of a table of waiting or open pods; `-o json` has all of them."""
UNSTEERED = (decisions.Verdict.PASS, decisions.Verdict.SHADOW)
LAST = 10**9
"""Where a pod without a rank stands."""


@click.command(epilog=sessions.EXIT_CODES)
@click.argument("kind", metavar="pod|workflow", type=click.Choice(["pod", "workflow", "po", "wf"]))
@click.argument("name", metavar="NAME|NAMESPACE/NAME")
@click.option("--operator", default="", help="Ask at this address (a forwarded metrics port).")
@click.option(
    "--audit",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File of whole decisions, one JSON object a line.",
)
@sessions.options
def explain(kind: str, name: str, operator: str, audit: Path | None, **shared: Any) -> int:
    """Say why a pod or workflow is where it is, or why it waits and for what.

    `-o yaml` adds the patches that its decisions made and the pod that came of them.
    """

    async def work(session: sessions.Session) -> int:
        pods = kind in ("pod", "po")
        found = await (views.pod if pods else views.workflow)(session, name)
        uid = found["metadata"]["uid"]
        answer = await (views.direct(operator, uid) if operator else views.leader(session, uid))
        if not pods:
            return await _workflow(session, found, answer)
        namespace = found["metadata"]["namespace"]
        known = {
            **_on_pod(found),
            **(answer.found or {"optIn": await _own_optin(session, found)}),
            "told": [
                {"reason": item.get("reason"), "message": item.get("message")}
                for item in await views.events(session, namespace, uid)
            ],
        }
        await _date(session, known, [known])
        if audit is not None:
            known["audit"] = _audited(audit, found)
        if answer.why:
            known["incomplete"] = answer.why
        if session.output != "table":
            sessions.show({**known, **_patches(found)}, session.output)
        else:
            _print(known)
        return sessions.YES

    return sessions.run(work, **shared)


def main(arguments: list[str]) -> int:
    """Run the subcommand; return its exit code."""
    return sessions.main(explain, "explain", arguments)


def _on_pod(found: sessions.Json) -> sessions.Json:
    """Return what the pod itself tells."""
    at_creation = views.stamp(found, decisions.ANNOTATION)
    at_release = views.stamp(found, decisions.RELEASE_ANNOTATION)
    known: sessions.Json = {
        "kind": "Pod",
        "pod": f"{found['metadata']['namespace']}/{found['metadata']['name']}",
        "uid": found["metadata"]["uid"],
        "createdAt": sessions.text(found, "metadata", "creationTimestamp"),
        "node": sessions.text(found, "spec", "nodeName"),
        "phase": sessions.text(found, "status", "phase"),
        "gated": views.gated(found),
        "ours": views.ours(found),
        "foreignGates": [g for g in views.gates(found) if not g.startswith("tiphys.dev/")],
        "condition": views.waits(found),
    }
    for name, stamp in (("created", at_creation), ("released", at_release)):
        if stamp is not None:
            known[name] = {
                "decision": stamp.id,
                "verdict": str(stamp.verdict),
                "version": stamp.policy,
                "arm": str(stamp.arm),
                "group": stamp.placement.group,
                "bind": stamp.placement.bind if stamp.placement.selector else "",
                "rank": stamp.rank,
                "reason": stamp.reason,
                "snapshot": {"version": stamp.snapshot_version, "ageS": stamp.snapshot_age_s},
                "at": _time(stamp.issued_at),
            }
    return known


def _patches(found: sessions.Json) -> sessions.Json:
    """Return the patches of the decisions on a pod, and the pod that came of them."""
    made: dict[str, object] = {}
    for name, annotation, patch in (
        ("create", decisions.ANNOTATION, patchings.created),
        ("release", decisions.RELEASE_ANNOTATION, patchings.released),
    ):
        stamp = views.stamp(found, annotation)
        if stamp is None:
            continue
        try:
            made[name] = patch(found, stamp)
        except errors.TiphysError as error:
            made[name] = f"cannot be made again: {error}"
    shown = {
        **found,
        "metadata": {k: v for k, v in found["metadata"].items() if k != "managedFields"},
    }
    return {"patches": made, "object": shown}


def _audited(path: Path, found: sessions.Json) -> list[object]:
    """Return the decisions about a pod in a file of decisions."""
    uid = found["metadata"]["uid"]
    key = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    lines = []
    for line in path.read_text().splitlines():
        try:
            each = json.loads(line)
        except ValueError:
            continue
        decision = each.get("decision") if isinstance(each.get("decision"), dict) else each
        if decision.get("podUid") == uid or decision.get("pod") == key:
            lines.append(decision)
    return lines


def _print(known: sessions.Json) -> None:
    hold, saw = known.get("hold") or {}, known.get("saw") or {}
    admission = known.get("admission") or {}
    shadow = admission if admission.get("verdict") == decisions.Verdict.SHADOW else {}
    decision = groupings.decided(known)
    if known["gated"] and not known["ours"]:
        state = "waits at a gate that Tiphys did not set"
    elif known["gated"]:
        state = f"waits, {_nth(hold.get('rank') or 0)} in order" if hold else "waits at its gate"
    elif known["node"]:
        state = f"on {known['node']} ({known['phase']})"
    else:
        steered = decision and decision.get("verdict") not in UNSTEERED
        state = "released" if steered else "only watched" if shadow else "not steered"
        state += ", kube-scheduler places it"
    why = hold.get("reason") or known["condition"].removeprefix(decisions.SPOKEN)
    if why == views.UNTOLD and not known.get("incomplete"):
        why = views.UNPLANNED
    if not known["gated"] and not shadow:
        why = groupings.opening(known) or why
    others = [each for each in hold.get("blockers") or () if each != hold["blocker"]]
    candidates = known.get("candidates") or decision.get("candidates") or []
    masked = known.get("masked") or decision.get("masked") or []
    sessions.facts(
        [
            ("pod", known["pod"]),
            ("state", state),
            ("why", why),
            ("opened by", groupings.opener(known)),
            ("waits for", hold.get("blocker") or ""),
            ("and for", sessions.some(others, most=groupings.NAMED)),
            ("expected", _time(hold.get("until"))),
            ("opens by", _time(hold.get("mustOpenBy"))),
            ("held though it fits", _length(hold.get("heldS"))),
            ("other gates", ", ".join(known.get("foreignGates") or ())),
            ("kube-scheduler", _unbound(known) if known["condition"] != why else ""),
            ("steering", groupings.unsteered(known)),
            ("policy", _policy(known, decision)),
            ("shadow mode", _shadow(known, shadow)),
            ("would go to" if shadow else "went to", groupings.group(decision)),
            ("by default", known.get("default") or decision.get("default") or ""),
            ("expects to run", _duration(saw)),
            ("its workflow", _left(saw)),
            ("snapshot", _snapshot(known.get("snapshot") or decision.get("snapshot") or {})),
        ]
    )
    if candidates:
        rows = [(c["group"], c.get("why") or "") for c in candidates]
        sessions.listed("\nGroups that may take it", ("GROUP", "WHY"), rows)
    if masked:
        rows = [(m["group"], m["why"]) for m in masked]
        sessions.listed("\nGroups that may not", ("GROUP", "WHY"), rows)
    if known["told"]:
        rows = [(t["reason"] or "", t["message"] or "") for t in known["told"][-5:]]
        sessions.listed("\nTold so far", ("REASON", "MESSAGE"), rows)
    if known.get("incomplete"):
        sessions.screen().print(
            f"\nWithout what the leader knows: {known['incomplete']}.", style="dim"
        )


def _unbound(known: sessions.Json) -> str:
    """Return what kube-scheduler says of a pod that is open and on no node yet."""
    return str(known["condition"]) if groupings.unbound(known) else ""


def _shadow(known: sessions.Json, shadow: sessions.Json) -> str:
    """Return what Tiphys would have done with a pod of a namespace that it only watches."""
    if shadow:
        return f"Tiphys {shadow['reason']}"
    optin = known.get("optIn") or {}
    if known.get("mode") != "Shadow" or not optin.get("enabled") or known.get("admission"):
        return ""
    return (
        "nothing is changed; what Tiphys would have done is not remembered any more, the line "
        "`decided` in an operator's log tells it"
    )


async def _workflow(session: sessions.Session, found: sessions.Json, answer: views.Answer) -> int:
    namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
    listed = await _pods_of(session, namespace, name, needed=answer.found is None)
    if answer.found is None:
        known: sessions.Json = {
            "kind": "Workflow",
            "workflow": f"{namespace}/{name}",
            "pods": [_on_pod(item) for item in listed],
            "optIn": groupings.written(found),
            "incomplete": answer.why,
        }
    else:
        on_pods = {item["metadata"]["uid"]: _on_pod(item) for item in listed}
        told = {pod["uid"]: pod for pod in answer.found["pods"]}
        pods = [{**on_pods.get(uid, {}), **told.get(uid, {})} for uid in {**told, **on_pods}]
        await _date(session, answer.found, pods)
        known = {**answer.found, "pods": pods}
    known["told"] = [
        {"reason": item.get("reason"), "message": item.get("message")}
        for item in await views.events(session, namespace, found["metadata"]["uid"])
    ]
    if session.output != "table":
        sessions.show(known, session.output)
        return sessions.YES
    pods = known["pods"]
    waiting = sorted(
        (pod for pod in pods if pod["gated"]),
        key=lambda pod: groupings.rank(pod) or LAST,
    )
    running = sum(1 for pod in pods if pod["phase"] == "Running")
    ended = sum(1 for pod in pods if pod["phase"] in ("Succeeded", "Failed"))
    in_all = max(known.get("podsInAll") or 0, len(pods))
    missed = [pod for pod in pods if groupings.missed(pod)]
    counted = f"{len(waiting)} wait, {running} run, {ended} ended, {in_all} in all"
    sessions.facts(
        [
            ("workflow", known["workflow"]),
            ("pods", f"{counted}; {len(missed)} not steered" if missed else counted),
            ("policy", _policy(known, {})),
            ("opted in by", groupings.steered(known)),
            ("steering", groupings.unsteered(known)),
            ("priority", sessions.text(known, "priority")),
            ("not visible yet", "; ".join(known.get("unknowns") or ())),
        ]
    )
    if waiting:
        _listed(
            "Waiting, in order", ("RANK", "POD", "WAITS FOR", "WHY"), groupings.waiting(waiting)
        )
    if missed:
        _listed("Not steered", ("POD", "WHY"), groupings.passed(missed))
    unbound = [pod for pod in pods if groupings.unbound(pod) and not groupings.missed(pod)]
    if unbound:
        _listed("Open, on no node yet", ("POD", "WENT TO", "WHY"), groupings.opened(unbound))
    watched = [pod for pod in pods if groupings.shadowed(pod)]
    if watched:
        _listed("Watched only (shadow mode)", ("POD", "TIPHYS"), groupings.shadows(watched))
    if known.get("incomplete"):
        sessions.screen().print(
            f"\nWithout what the leader knows: {known['incomplete']}.", style="dim"
        )
    return sessions.YES


def _listed(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table of pods, its first rows where there are many."""
    sessions.listed(f"\n{title}", columns, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        sessions.screen().print(f"and {len(rows) - MOST_ROWS} rows more: `-o json` has all of them")


async def _pods_of(
    session: sessions.Session, namespace: str, name: str, *, needed: bool
) -> list[sessions.Json]:
    """Return a workflow's pods; none where they may not be read and are not needed."""
    try:
        listed = await session.api.get(
            f"/api/v1/namespaces/{namespace}/pods",
            params={"labelSelector": f"workflows.argoproj.io/workflow={name}"},
        )
    except errors.TiphysError:
        if needed:
            raise
        return []
    return list(listed.get("items") or ())


async def _own_optin(session: sessions.Session, pod: sessions.Json) -> sessions.Json:
    """Return what a pod's Workflow itself says of steering; nothing where it cannot be read."""
    name = sessions.text(pod, "metadata", "labels", "workflows.argoproj.io/workflow")
    if not name:
        return {}
    try:
        return groupings.written(
            await views.workflow(session, f"{pod['metadata']['namespace']}/{name}")
        )
    except errors.TiphysError:
        return {}


async def _date(session: sessions.Session, known: sessions.Json, pods: list[sessions.Json]) -> None:
    """Note on pods without a decision since when they would have got one: some may be older."""
    undecided = [pod for pod in pods if groupings.opening(pod) == groupings.UNDECIDED]
    source = groupings.steered(known)
    if undecided and source:
        since = await views.opted_in_at(session, source)
        for pod in undecided:
            pod["optedInAt"] = since


def _policy(known: sessions.Json, decision: sessions.Json) -> str:
    version = known.get("version") or decision.get("version") or decision.get("policy") or ""
    if not known.get("policy"):
        return str(version)
    note = f"; {known['note']}" if known.get("note") else ""
    return f"{known['policy']} ({known.get('mode')}), version {version}{note}"


def _duration(saw: sessions.Json) -> str:
    duration = saw.get("duration")
    if not duration:
        return ""
    runs, basis = duration["runs"], duration["basis"]
    of = f"{runs} runs" if basis == "history" else f"a guess by {basis}"
    spread = f" ± {durations.words(duration['spreadS'])}" if duration["spreadS"] else ""
    return f"{durations.words(duration['centreS'])}{spread} at speed 1 ({of})"


def _left(saw: sessions.Json) -> str:
    if "remainingWorkCoreS" not in saw:
        return ""
    hours = saw["remainingWorkCoreS"] / 3600
    path = durations.words(saw["remainingPathS"])
    return f"needs {hours:.2f} core hours more, {path} on its longest path from here"


def _snapshot(found: sessions.Json) -> str:
    if not found:
        return ""
    return f"version {found.get('version')}, {found.get('ageS', 0):.1f} s old when it was decided"


def _nth(rank: int) -> str:
    return "next" if rank == 1 else f"number {rank}"


def _length(length_s: float | None) -> str:
    return durations.words(length_s) if length_s else ""


def _time(at: float | None) -> str:
    if not at:
        return ""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
