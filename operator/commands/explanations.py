"""`tiphys explain pod|workflow NAME`: why it is where it is, or why it waits and for what.

The leader tells most (what it saw, candidates, masks). Whoever may not ask it is answered by what
stands in their own namespace: the signed decisions on the pod, its condition and its Events.
"""

import json
from pathlib import Path
from typing import Any

import click

from tiphys.models.domain import decisions, errors
from tiphys.operator.commands import groupings, patchings, sessions, sheets, views

HELP = {
    "pod": (
        "Say why one pod is where it is, or why it waits.",
        "Behind the gate: its place in the order, what it waits for and until about when, what is "
        "known of its run time and of what its workflow still needs, which groups of nodes may "
        "take it, and which may not and why. After that: what was decided at its release, what "
        "kube-scheduler says, and where it runs. Of what is not steered: why not.",
    ),
    "workflow": (
        "Say what becomes of the pods of one Workflow.",
        "Who opted in or why it is not steered, how many pods wait, run and have ended; those "
        "that wait in order, with what each waits for and why; those that carry no decision; and "
        "those whose gate is open and that are on no node yet.",
    ),
}
IN_FULL = "`-o json` and `-o yaml` have all of it; of a pod also the patches of its decisions."


class Explained(click.Command):
    """Its help says more of the kind that was typed beside `--help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the kind before `--help` ends the parsing."""
        ctx.obj = next(filter(None, (_kind(each.partition("/")[0]) for each in args)), "")
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what follows the program in the line `Usage`."""
        if not ctx.obj:
            return super().collect_usage_pieces(ctx)
        return [ctx.obj, "[OPTIONS]", "NAME|NAMESPACE/NAME"]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command, or the command for one kind, is for."""
        if not ctx.obj:
            super().format_help_text(ctx, formatter)
            return
        for paragraph in (*HELP[ctx.obj], IN_FULL):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(paragraph)


@click.command(cls=Explained, epilog=sessions.EXIT_CODES)
@click.argument("named", metavar="pod|workflow NAME|NAMESPACE/NAME", nargs=-1)
@click.option("--operator", default="", help="Ask at this address (a forwarded metrics port).")
@click.option(
    "--audit",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File of whole decisions, one JSON object a line; of a pod.",
)
@sessions.options
def explain(named: tuple[str, ...], operator: str, audit: Path | None, **shared: Any) -> int:
    """Say why a pod or workflow is where it is, or why it waits and for what.

    `explain pod --help` and `explain workflow --help` tell what is shown of each. `pod/NAME` and
    `workflow/NAME`, as `kubectl get -o name` writes them, are understood too.
    """
    kind, name = _asked(named)

    async def work(session: sessions.Session) -> int:
        pods = kind == "pod"
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
            sheets.pod(known)
        return sessions.YES

    return sessions.run(work, **shared)


def main(arguments: list[str]) -> int:
    """Run the subcommand; return its exit code."""
    return sessions.main(explain, "explain", arguments)


def _kind(word: str) -> str:
    """Return `pod` or `workflow` for what kubectl takes for these; empty for any other word."""
    return next((kind for kind, words in views.KINDS.items() if word in words), "")


def _asked(named: tuple[str, ...]) -> tuple[str, str]:
    """Return the kind and the name of what is asked about.  Raises `UsageError`."""
    first, *rest = named or ("",)
    if not rest and (kind := _kind(first.rpartition("/")[0])):
        return kind, first
    if len(rest) != 1 or not (kind := _kind(first)):
        raise click.UsageError(
            "write `explain pod NAME` or `explain workflow NAME`",
            ctx=click.get_current_context(silent=True),
        )
    return kind, rest[0]


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
        "writtenS": views.written_s(found),
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
                "at": sheets.clock(stamp.issued_at),
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
    sheets.workflow(known)
    return sessions.YES


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
