"""What `explain` prints: one sheet for a pod, one for a Workflow."""

import datetime

from tiphys.models.domain import decisions, durations
from tiphys.operator.commands import groupings, sessions, views

MOST_ROWS = 20
"""Rows of a table of waiting or open pods; `-o json` has all of them."""
UNSTEERED = (decisions.Verdict.PASS, decisions.Verdict.SHADOW)
LAST = 10**9
"""Where a pod without a rank stands."""


def pod(known: sessions.Json) -> None:
    """Print what is known of one pod."""
    hold, saw = known.get("hold") or {}, known.get("saw") or {}
    admission = known.get("admission") or {}
    shadow = admission if admission.get("verdict") == decisions.Verdict.SHADOW else {}
    decision = groupings.decided(known)
    others_gate = ", ".join(known.get("foreignGates") or ())
    if known["gated"] and not known["ours"]:
        state = "waits at a gate that Tiphys did not set"
    elif known["gated"]:
        state = f"waits, {_nth(hold.get('rank') or 0)} in order" if hold else "waits at its gate"
    elif known["node"]:
        group = known.get("nodeGroup")
        state = f"on {known['node']}{f' of {group}' if group else ''} ({known['phase']})"
    else:
        steered = decision and decision.get("verdict") not in UNSTEERED
        released = decision.get("verdict") == decisions.Verdict.RELEASE
        opened = "released" if released else "open"
        state = opened if steered else "only watched" if shadow else "not steered"
        state += ", behind other gates" if others_gate else ", on no node yet"
    others = [each for each in hold.get("blockers") or () if each != hold["blocker"]]
    candidates = known.get("candidates") or decision.get("candidates") or []
    masked = known.get("masked") or decision.get("masked") or []
    sessions.facts(
        [
            ("pod", known["pod"]),
            ("state", state),
            ("why", _why(known, shadow)),
            ("decided", _told(known, decision)),
            ("opened by", groupings.opener(known)),
            ("would go to" if shadow else "sent to", _group(decision)),
            ("kube-scheduler says", "" if others_gate else groupings.scheduler(known)),
            ("waits for", hold.get("blocker") or ""),
            ("and for", sessions.some(others, most=groupings.NAMED)),
            ("expected", clock(hold.get("until")) + groupings.assumed(known)),
            ("opens by", clock(hold.get("mustOpenBy"))),
            ("held though it fits", _length(hold.get("heldS"))),
            ("other gates", others_gate),
            ("policy", "" if groupings.unsteered(known) else _policy(known, decision)),
            ("shadow mode", _shadow(known, shadow)),
            ("by default", _default(known, decision)),
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


def _why(known: sessions.Json, shadow: sessions.Json) -> str:
    """Return why a pod waits at a gate, or why it was let pass; empty for one that was sent."""
    if not known["gated"]:
        if groupings.sent(known):
            return ""
        return groupings.unsteered(known) or ("" if shadow else groupings.opening(known))
    said = sessions.text(known, "hold", "reason")
    if said:
        return said
    why = str(known["condition"]).removeprefix(decisions.SPOKEN)
    if why == views.UNTOLD and not known.get("incomplete"):
        return views.UNPLANNED
    if known.get("writtenS") is None:
        return why
    return f"{why} (as of {durations.words(known['writtenS'])} ago)"


def _told(known: sessions.Json, decision: sessions.Json) -> str:
    """Return what was decided of a pod that was sent on its way, and when."""
    if not groupings.sent(known):
        return ""
    released = decision.get("verdict") == decisions.Verdict.RELEASE
    at = sessions.text(known, "released" if released else "created", "at")
    when = "at its release" if released else "when it was created"
    return f"{when}{f', {at}' if at else ''}: {decision.get('reason') or 'no reason is written'}"


def _group(decision: sessions.Json) -> str:
    """Return where a pod was sent, and whether kube-scheduler may take another place."""
    group = groupings.group(decision)
    bind = decision.get("bind") or sessions.text(decision, "placement", "bind")
    return f"{group}, if that has room for it" if group and bind == "prefer" else group


def _default(known: sessions.Json, decision: sessions.Json) -> str:
    """Return what kube-scheduler alone would do, or would have done.

    In shadow mode it does just that, and what it would do with a pod behind the gate is no news of
    one that is open.
    """
    if known["gated"]:
        return str(known.get("default") or decision.get("default") or "")
    passed = decision.get("verdict") in (decisions.Verdict.SHADOW, decisions.Verdict.GATE)
    return "" if passed else str(decision.get("default") or "")


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


def workflow(known: sessions.Json) -> None:
    """Print what is known of one Workflow."""
    pods = known["pods"]
    waiting = sorted(
        (pod for pod in pods if pod["gated"]),
        key=lambda pod: groupings.rank(pod) or LAST,
    )
    running = sum(1 for pod in pods if pod["phase"] == "Running")
    ended = sum(1 for pod in pods if pod["phase"] in ("Succeeded", "Failed"))
    in_all = max(known.get("podsInAll") or 0, len(pods))
    missed = [pod for pod in pods if groupings.missed(pod)]
    unsteered = groupings.unsteered(known)
    counted = f"{len(waiting)} wait, {running} run, {ended} ended, {in_all} in all"
    sessions.facts(
        [
            ("workflow", known["workflow"]),
            ("steering", unsteered),
            ("opted in by", groupings.steered(known)),
            ("pods", f"{counted}; {len(missed)} not steered" if missed else counted),
            ("policy", "" if unsteered else _policy(known, {})),
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
        columns = ("POD", "SENT TO", "WHY IT IS OPEN", "KUBE-SCHEDULER SAYS")
        _listed("Open, on no node yet", columns, groupings.opened(unbound))
    watched = [pod for pod in pods if groupings.shadowed(pod)]
    if watched:
        _listed("Watched only (shadow mode)", ("POD", "TIPHYS"), groupings.shadows(watched))
    if known.get("incomplete"):
        sessions.screen().print(
            f"\nWithout what the leader knows: {known['incomplete']}.", style="dim"
        )


def _listed(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table of pods, its first rows where there are many."""
    sessions.listed(f"\n{title}", columns, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        sessions.screen().print(f"and {len(rows) - MOST_ROWS} rows more: `-o json` has all of them")


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
    of = groupings.BASES.get(basis) or f"{runs} {'run' if runs == 1 else 'runs'}"
    spread = f" ± {durations.words(duration['spreadS'])}" if duration["spreadS"] else ""
    return f"{durations.words(duration['centreS'])}{spread} on a node of usual speed ({of})"


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


def clock(at: float | None) -> str:
    """Return a time for people; empty for none."""
    if not at:
        return ""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
