"""Many pods of one workflow in few rows, and why a workflow is not steered, in words."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tiphys.models.domain import decisions, optins
from tiphys.models.domain import pods as domain_pods
from tiphys.operator.commands import sessions

NAMED = 3
"""Pods of a row that are named; of the others the number is said."""
OPENED = "its gate was opened without a decision: by hand, or by the releaser"
LATE = (
    "it passed as it came: an operator's answer reached the webhook too late, or could not be used"
)
UNDECIDED = (
    "not steered: it carries no decision; the webhook got no answer in time or was not asked when "
    "it was created"
)
EARLIER = "not steered: it was created before the opt-in by"
STAMPED = (
    f"{UNDECIDED} (it was marked for steering then: its namespace had opted in, or a workflow in "
    "it)"
)
UNLOOKED = "it has not looked at it yet"
UNASKED = (
    "it carries no decision: the webhook got no answer in time or was not asked when it was "
    "created, or Tiphys only watches it or let it pass, which the leader knows"
)
"""What is left to say where the leader may not be asked."""
BASES = {
    "default": "no history yet: assumed",
    "siblings": "no history of its own yet: taken from tasks that are like it",
}
"""What an estimate rests on that no run of the very task stands behind."""
BEFORE = "those before"
"""What a pod waits for that only comes after others which wait for the same."""
ENDED = frozenset({"Running", "Succeeded", "Failed"})
_BEFORE = re.compile(r" (1 goes before it:|\d+ go before it, the last of them) \S+\.$")
"""The end of the planner's sentence on who goes first, which differs from pod to pod."""
_PROBLEM = re.compile(r"(?P<object>\S+ \S+): annotation (?P<key>\S+): (?P<what>.*)", re.DOTALL)


def written(workflow: Mapping[str, Any]) -> sessions.Json:
    """Return what a Workflow's own annotations say, for whoever may not ask the leader.

    What its templates and namespace say is not known here: only errors and a plain no are told.
    """
    about = workflow["metadata"]
    layer = optins.Layer(
        kind=optins.Kind.WORKFLOW,
        name=f"{about['namespace']}/{about['name']}",
        annotations=about.get("annotations") or {},
    )
    found = optins.resolve([layer])
    if not found.errors and not found.source:
        return {}
    return {"enabled": found.enabled, "source": found.source, "errors": list(found.errors)}


def steered(known: Mapping[str, Any]) -> str:
    """Return whose annotation opted in; empty when it is not steered."""
    optin = known.get("optIn") or {}
    return str(optin.get("source") or "") if optin.get("enabled") else ""


def unsteered(known: Mapping[str, Any]) -> str:
    """Return in words why something is not steered; empty when it is, or when that is unknown."""
    optin = known.get("optIn") or {}
    if not optin or optin.get("enabled"):
        return ""
    problems = [_problem(str(each)) for each in optin.get("errors") or ()]
    if problems:
        return f"not steered: {'; '.join(problems)}"
    if optin.get("source"):
        return f"not steered: opted out by {optin['source']}"
    return f'not steered: nobody opted in (annotation {optins.ENABLED}: "true")'


def _problem(text: str) -> str:
    """Put the annotation first: it is what has to be looked for."""
    found = _PROBLEM.fullmatch(text)
    return f"annotation {found['key']} on {found['object']}: {found['what']}" if found else text


def decided(pod: Mapping[str, Any]) -> sessions.Json:
    """Return the latest decision about a pod that is known, the whole one before its stamp."""
    names = ["decision", "released", "admission", "created"]
    if unapplied(pod):
        names.remove("admission")
    return next(filter(None, map(pod.get, names)), {})


def unapplied(pod: Mapping[str, Any]) -> bool:
    """Say whether an operator's answer never came onto the pod: the webhook had waited long enough.

    Not where the pod itself could not be read: then nobody knows.
    """
    admission = pod.get("admission") or {}
    written = admission.get("verdict") in (decisions.Verdict.GATE, decisions.Verdict.PLACE)
    return (
        written and "ours" in pod and sessions.text(pod, "created", "decision") != admission["id"]
    )


def opening(pod: Mapping[str, Any]) -> str:
    """Return in words why a pod is not behind our gate; empty where nobody steers it."""
    decision = decided(pod)
    if decision.get("verdict") == decisions.Verdict.GATE:
        return OPENED
    if decision:
        return str(decision.get("reason") or "")
    if unapplied(pod):
        return LATE
    if "mode" not in pod:
        # Stamped by the API server itself, so that somebody had opted in when it was created.
        return UNASKED if pod.get("ours") else ""
    enforced = pod["mode"] == "Enforce" and (pod.get("optIn") or {}).get("enabled")
    if not enforced or not pod.get("workflow") or "ours" not in pod:
        return ""
    if pod.get("role", domain_pods.PodRole.TASK) != domain_pods.PodRole.TASK:
        return f"a pod of role {pod['role']} is never gated"
    if pod["ours"]:
        return STAMPED
    since = str(pod.get("optedInAt") or "")
    if str(pod.get("createdAt") or since) < since:
        return f"{EARLIER} {pod['optIn']['source']} ({since})"
    return UNDECIDED


def missed(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod of a workflow that is steered is not, since no decision came onto it."""
    why = opening(pod)
    return not pod["gated"] and (
        why in (UNDECIDED, STAMPED, UNASKED, LATE) or why.startswith(EARLIER)
    )


def opener(pod: Mapping[str, Any]) -> str:
    """Return who opened a pod's gate with a decision; empty where nobody did (see `opening`)."""
    release = sessions.text(pod, "released", "decision")
    if pod["gated"] or not release:
        return ""
    return f"the operator, by release {release} (`tiphys verify` checks its signature)"


def group(decision: Mapping[str, Any]) -> str:
    """Return where a decision sent its pod; empty = anywhere."""
    return str(decision.get("group") or sessions.text(decision, "placement", "group"))


def rank(pod: Mapping[str, Any]) -> int:
    """Return a waiting pod's place in the order; 0 where it is unknown."""
    return int((pod.get("hold") or {}).get("rank") or 0)


def unbound(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod's gate is open and it is on no node yet."""
    return not pod["gated"] and not pod["node"] and pod["phase"] not in ENDED


def reason(pod: Mapping[str, Any]) -> str:
    """Return why the leader holds a pod; what it only assumes is called so.  Empty: not known."""
    said = sessions.text(pod, "hold", "reason")
    return said + assumed(pod) if said else ""


def assumed(pod: Mapping[str, Any]) -> str:
    """Return what to add to a time that rests on no run of its task."""
    known = sessions.text(pod, "hold", "untilRestsOn")
    return f" ({BASES[known]})" if known in BASES else ""


def waiting(pods: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return rows of rank, pod, blocker and reason; pods of one reason share a row.

    Those that wait for one another share one as well, where the reason is the same but for who goes
    before: in a wide stage each waits for the one before it.
    """
    shared: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for pod in pods:
        whole = sessions.text(pod, "hold", "reason") or _condition(pod)
        why = _BEFORE.sub("", whole)
        blocker = sessions.text(pod, "hold", "blocker") if why == whole else BEFORE
        why += assumed(pod)
        shared.setdefault((blocker, why), []).append(pod)
    rows: list[tuple[str, ...]] = []
    for (blocker, why), alike in shared.items():
        if blocker == BEFORE and len(alike) == 1:
            blocker, why = sessions.text(alike[0], "hold", "blocker"), reason(alike[0])
        rows.append((_ranks([rank(pod) for pod in alike]), _names(alike), blocker, why))
    return rows


def shadowed(pod: Mapping[str, Any]) -> bool:
    """Say whether Tiphys only noted what it would have done with a pod."""
    return sessions.text(pod, "admission", "verdict") == decisions.Verdict.SHADOW


def shadows(pods: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return rows of pod and what Tiphys would have done with it; equal ones share a row."""
    shared: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        shared.setdefault(sessions.text(pod, "admission", "reason"), []).append(pod)
    return [(_names(alike), would) for would, alike in shared.items()]


def passed(pods: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return rows of pod and why no decision stands on it; equal ones share a row."""
    shared: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        shared.setdefault(opening(pod), []).append(pod)
    return [(_names(alike), why.removeprefix("not steered: ")) for why, alike in shared.items()]


def opened(pods: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return rows of pod, where it was sent, why it is open and why not bound; equal ones share."""
    shared: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for pod in pods:
        shared.setdefault(_opened(pod), []).append(pod)
    return [(_names(alike), *row) for row, alike in shared.items()]


def _opened(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    decision = {} if shadowed(pod) else decided(pod)
    why = unsteered(pod) or ("only watched" if shadowed(pod) else opening(pod))
    return group(decision), why, scheduler(pod)


def sent(pod: Mapping[str, Any]) -> bool:
    """Say whether a decision let a pod go, at once or from behind its gate."""
    return not pod["gated"] and decided(pod).get("verdict") in (
        decisions.Verdict.RELEASE,
        decisions.Verdict.PLACE,
    )


def scheduler(pod: Mapping[str, Any]) -> str:
    """Return what kube-scheduler says of a pod that is open and on no node yet."""
    return (_condition(pod) or UNLOOKED) if unbound(pod) else ""


def _condition(pod: Mapping[str, Any]) -> str:
    return sessions.text(pod, "condition").removeprefix(decisions.SPOKEN)


def _names(pods: Sequence[Mapping[str, Any]]) -> str:
    return sessions.some([pod["pod"].rpartition("/")[2] for pod in pods], most=NAMED)


def _ranks(ranks: Sequence[int]) -> str:
    known = sorted(each for each in ranks if each)
    if not known:
        return ""
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"
