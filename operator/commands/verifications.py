"""`tiphys verify POD|FILE`: were the decisions on a pod made by our operator, for this very pod?

Offline with the public ring alone (`--keys`); without it the ring is read from its ConfigMap.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from tiphys.argo import patches
from tiphys.models.domain import decisions, errors
from tiphys.models.wire import keys, signatures, stamps
from tiphys.operator import trusts
from tiphys.operator.commands import sessions, views

PAIRS = (
    ("created", decisions.ANNOTATION, decisions.SIGNATURE),
    ("released", decisions.RELEASE_ANNOTATION, decisions.RELEASE_SIGNATURE),
)

MANIFESTS = frozenset({".yaml", ".yml", ".json"})
"""What the name of a file ends with; Argo names no pod so."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one decision on a pod is worth."""

    which: str
    valid: bool
    decision: str = ""
    key: str = ""
    problems: tuple[str, ...] = ()


@click.command(epilog=sessions.EXIT_CODES)
@click.argument("name", metavar="POD|NAMESPACE/POD|FILE")
@click.option(
    "--keys",
    "ring_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Public keys: the ConfigMap tiphys-public-keys or the ring itself, as a file.",
)
@sessions.options
def verify(name: str, ring_file: Path | None, **shared: Any) -> int:
    """Check the signed decisions on a pod; FILE is a manifest (YAML or JSON), `-` standard input.

    With FILE and --keys nothing is asked of any cluster. Exit code 1: something does not hold.
    """
    local = name == "-" or Path(name).is_file()
    if not local and (Path(name).suffix in MANIFESTS or name.startswith((".", "/", "~"))):
        return sessions.failed(errors.InputError(f"{name}: there is no such file"))
    try:
        ring = read_ring(ring_file.read_text(), str(ring_file)) if ring_file else None
        pod = (
            read_pod(
                sys.stdin.read() if name == "-" else Path(name).read_text(),
                name,
            )
            if local
            else None
        )
    except (errors.InputError, OSError) as error:
        return sessions.failed(
            error if isinstance(error, errors.InputError) else errors.InputError(str(error))
        )
    if pod is not None and ring is not None:
        return _report(pod, ring, shared["output"])

    async def work(session: sessions.Session) -> int:
        known = ring
        if known is None:
            path = f"/api/v1/namespaces/{session.system}/configmaps/{trusts.PUBLIC}"
            held = await session.api.get(path)
            known = read_ring(json.dumps(held), f"ConfigMap {trusts.PUBLIC}")
        found = pod if pod is not None else await views.pod(session, name)
        return _report(found, known, session.output)

    return sessions.run(work, **shared)


def main(arguments: list[str]) -> int:
    """Run the subcommand; return its exit code."""
    return sessions.main(verify, "verify", arguments)


def read_ring(text: str, where: str) -> keys.Ring:
    """Read public keys from a ring's JSON or from the ConfigMap.  Raises `InputError`."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise errors.InputError(f"{where}: neither JSON nor YAML ({error})") from error
    if isinstance(found, Mapping) and isinstance(found.get("data"), Mapping):
        held = found["data"].get(keys.OPERATOR_FIELD)
        if not isinstance(held, str):
            raise errors.InputError(f"{where}: data.{keys.OPERATOR_FIELD} is missing")
        return keys.read(held, where=where)
    return keys.read(json.dumps(found), where=where)


def read_pod(text: str, where: str) -> sessions.Json:
    """Read a pod's manifest.  Raises `InputError`."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise errors.InputError(f"{where}: neither JSON nor YAML ({error})") from error
    if not isinstance(found, dict) or found.get("kind") not in (None, "Pod"):
        raise errors.InputError(f"{where}: no Pod")
    if not isinstance(found.get("metadata"), dict) or not isinstance(found.get("spec"), dict):
        raise errors.InputError(f"{where}: a Pod needs metadata and spec")
    return found


def check(pod: sessions.Json, ring: keys.Ring) -> list[Finding]:
    """Return what each decision on a pod is worth; none where there is no decision."""
    annotations = pod["metadata"].get("annotations") or {}
    return [
        _finding(pod, ring, which, annotations[stamp], annotations.get(signature) or "")
        for which, stamp, signature in PAIRS
        if stamp in annotations
    ]


def _finding(pod: sessions.Json, ring: keys.Ring, which: str, text: str, signature: str) -> Finding:
    try:
        stamp = stamps.decode(text)
    except errors.InputError as error:
        return Finding(which=which, valid=False, problems=(str(error),))
    problems = list(_misfits(pod, stamp, which))
    kid = ""
    try:
        if not signature:
            raise errors.RefusedError("it is not signed")
        kid = signatures.verify(ring, text.encode(), signature, stamp.issued_at).kid
    except errors.TiphysError as error:
        problems.insert(0, str(error))
    return Finding(
        which=which, valid=not problems, decision=stamp.id, key=kid, problems=tuple(problems)
    )


def _misfits(pod: sessions.Json, stamp: decisions.Stamp, which: str) -> list[str]:
    """Return in what a decision is not about this pod, or the pod not as decided."""
    about = pod["metadata"]
    found = []
    key = f"{about.get('namespace', '')}/{about.get('name', '')}"
    if stamp.pod != key:
        found.append(f"it is about pod {stamp.pod}, this is {key}")
    if stamp.pod_uid and about.get("uid") and stamp.pod_uid != about["uid"]:
        found.append("it is about an earlier pod of that name (another uid)")
    owners = [o.get("uid") for o in about.get("ownerReferences") or () if o.get("controller")]
    if stamp.workflow_uid and stamp.workflow_uid not in owners:
        found.append("it is about another run: its Workflow's uid is not the pod's controller")
    released = decisions.RELEASE_ANNOTATION in (about.get("annotations") or {})
    if which == "released":
        if stamp.verdict is not decisions.Verdict.RELEASE:
            found.append(f"its verdict is {stamp.verdict}, not release")
        placed = dataclasses.replace(stamp, verdict=decisions.Verdict.PLACE)
        found += [f"{path} is not as decided" for path in patches.differences(pod, placed)]
    else:
        found += [
            f"{path} is not as decided"
            for path in patches.differences(pod, stamp)
            # The gate and its label go when it is opened, by whoever may.
            if not (released or not views.gated(pod)) or "tiphys.dev/" not in path
        ]
    return found


def _report(pod: sessions.Json, ring: keys.Ring, output: str) -> int:
    findings = check(pod, ring)
    key = f"{pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}"
    good = bool(findings) and all(finding.valid for finding in findings)
    if output != "table":
        listed = [
            {**dataclasses.asdict(finding), "problems": [*finding.problems]} for finding in findings
        ]
        sessions.show({"pod": key, "valid": good, "decisions": listed}, output)
        return sessions.YES if good else sessions.NO
    if not findings:
        click.echo(f"{key}: no decision stands on it", err=True)
        return sessions.NO
    rows = [
        (
            finding.which,
            "valid" if finding.valid else "NOT VALID",
            finding.decision,
            finding.key,
            "; ".join(finding.problems),
        )
        for finding in findings
    ]
    sessions.listed("", ("DECISION", "VERDICT", "ID", "KEY", "WHY"), rows)
    return sessions.YES if good else sessions.NO
