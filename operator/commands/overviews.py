"""What `status` prints: warnings, operators, policies, and pods by namespace."""

from collections.abc import Mapping
from typing import Any

from tiphys.models.domain import durations, optins
from tiphys.operator.commands import installations, sessions

ABSENT = (
    "Tiphys is not installed in this cluster. Its Helm chart does that: charts/tiphys in its "
    "source, where docs/install.md says how; in a lab: `python -m lab install`."
)
NOBODY = f'none (annotation {optins.ENABLED}: "true"; a Workflow or template may opt in itself)'
STAGES = {
    "waiting": "BEHIND THE GATE",
    "open": "OPEN, NO NODE YET",
    "starting": "ON A NODE, NOT STARTED",
    "running": "RUNNING",
}
"""What a pod that has not ended goes through, with the heading of each."""


def show(found: sessions.Json, hidden: Mapping[str, str]) -> None:
    """Print what may be seen, and name what may not, with the reason."""
    if not found["installed"]:
        sessions.screen().print(ABSENT, style="bold")
    for warning in found["warnings"]:
        sessions.screen().print(f"WARNING: {warning}", style="bold", markup=False)
    gap = "\n" if found["warnings"] else ""
    if "operators" in found and found["installed"]:
        rows = [
            (
                each["name"],
                "leads" if each["name"] == found["leader"] else "follows",
                "yes" if each["alive"] else "NO",
                durations.words(each["silentS"]) if each["silentS"] is not None else "",
            )
            for each in found["operators"]
        ]
        if not found["leader"]:
            sessions.screen().print(f"{gap}{installations.unled(found)}")
            gap = "\n"
        sessions.listed(f"{gap}Operators", ("NAME", "ROLE", "ALIVE", "LAST SIGN"), rows)
    if "policies" in found and found["installed"]:
        policies = [
            (p["name"], p["mode"], p["stable"], p["ready"], p["message"]) for p in found["policies"]
        ] or [
            ("(default)", "Enforce", "builtin-srwf-wait-v1", "True", "no SchedulingPolicy exists")
        ]
        sessions.listed("\nPolicies", ("NAME", "MODE", "VERSION", "READY", "MESSAGE"), policies)
    if "optedIn" in found and (found["optedIn"] or found["installed"]):
        named = ", ".join(found["optedIn"]) or NOBODY
        sessions.screen().print(f"\nOpted-in namespaces: {named}", markup=False)
    if found.get("counts"):
        rows = [
            (each["namespace"], *(str(each[stage]) for stage in STAGES)) for each in found["counts"]
        ]
        columns = ("NAMESPACE", *STAGES.values())
        sessions.listed("\nPods marked for steering", columns, rows)
    if "waiting" in found:
        waiting = [
            (
                each["namespace"],
                str(each["pods"]),
                each["oldest"],
                durations.words(each["waitsS"]) if each["waitsS"] is not None else "",
                _dated(each),
            )
            for each in found["waiting"]
        ]
        if waiting:
            columns = ("NAMESPACE", "PODS", "OLDEST", "WAITS", "WHY")
            sessions.listed("\nBehind the gate", columns, waiting)
        elif found["installed"]:
            where = f" in namespace {found['lookedAt']}" if found["lookedAt"] else ""
            sessions.screen().print(f"\nNo pod waits behind the gate{where}.")
    if found.get("leaderUnasked") and any(each["writtenS"] for each in found["waiting"]):
        sessions.screen().print(
            f"Reasons are those written on the pods: {found['leaderUnasked']}.", style="dim"
        )
    elsewhere = found.get("waitingElsewhere") or {}
    if elsewhere:
        sessions.screen().print(
            f"In other namespaces wait {sum(elsewhere.values())}: `tiphys status -A` lists them."
        )
    for why in dict.fromkeys(hidden.values()):
        names = ", ".join(name for name, each in hidden.items() if each == why)
        sessions.screen().print(f"Not shown: {names} ({why}).", style="dim")


def _dated(row: Mapping[str, Any]) -> str:
    """Return why a pod waits, with its age where it was only read from the pod."""
    if row["writtenS"] is None:
        return str(row["why"])
    return f"{row['why']} (as of {durations.words(row['writtenS'])} ago)"
