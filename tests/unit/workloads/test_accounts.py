"""Pods created against pods ended: every difference is named."""

import json
from pathlib import Path
from typing import Any

import msgspec

from lab import homes, journals
from lab.workloads import accounts

POD = ("n", "w-step-1")


def test_each_pod_that_ended_once_is_accounted_for() -> None:
    """Nothing to say."""
    account = accounts.compared({POD: 1}, {POD: ["a"]}, bound={POD})
    assert accounts.Account(created=1, ended=1, unaccounted=()) == account


def test_a_pod_that_never_ended_is_named() -> None:
    """Created, bound, and no end of it."""
    account = accounts.compared({POD: 1}, {}, bound={POD})
    assert ("n/w-step-1: created 1 times, ended 0 times",) == account.unaccounted


def test_a_pod_that_ended_twice_is_named() -> None:
    """Two records of one uid."""
    account = accounts.compared({POD: 1}, {POD: ["a", "a"]}, bound={POD})
    assert ("n/w-step-1: ended 2 times in the kubelet's journal",) == account.unaccounted
    assert 1 == account.ended


def test_an_end_without_creation_is_named() -> None:
    """The audit log is not complete."""
    account = accounts.compared({}, {POD: ["a"]})
    assert ("n/w-step-1: ended 1 times, but the audit log has 0 creations",) == account.unaccounted


def test_a_pod_that_came_again_must_end_again() -> None:
    """Argo makes a deleted pod again under the same name."""
    assert () == accounts.compared({POD: 2}, {POD: ["a", "b"]}, bound={POD}).unaccounted
    assert 1 == len(accounts.compared({POD: 2}, {POD: ["a"]}, bound={POD}).unaccounted)


def test_a_pod_deleted_before_it_had_a_node_has_ended() -> None:
    """The kubelet never saw it; the audit log has its deletion."""
    account = accounts.compared({POD: 1}, {}, deleted={POD: 1})
    assert accounts.Account(created=1, ended=1, unaccounted=()) == account


def test_files_of_a_lab_are_joined(tmp_path: Path) -> None:
    """Pods of other workflows, earlier calls and refused ones do not count."""
    home = homes.Home(name="l", root=tmp_path)
    calls = [
        _call("create", "pods", "w-step-1", at=20),
        _call("create", "pods", "w-step-2", at=20, code=409),
        _call("create", "pods", "other-step-1", at=20),
        _call("create", "pods", "w-step-0", at=5),
        _call("create", "pods", "w-step-1", at=20, subresource="binding"),
    ]
    home.audit_log.write_text("".join(json.dumps(call) + "\n" for call in calls))
    records = [_record("w", "w-step-1", at=30.0), _record("other", "other-step-1", at=30.0)]
    home.journal.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    account = accounts.account(home, [("n", "w")], since=10.0)
    assert accounts.Account(created=1, ended=1, unaccounted=()) == account


def _call(
    verb: str, resource: str, name: str, *, at: int, code: int = 201, subresource: str = ""
) -> dict[str, Any]:
    moment = f"1970-01-01T00:00:{at:02d}.000000Z"
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "requestReceivedTimestamp": moment,
        "stageTimestamp": moment,
        "objectRef": {
            "resource": resource,
            "subresource": subresource,
            "namespace": "n",
            "name": name,
        },
        "responseStatus": {"code": code},
    }


def _record(workflow: str, name: str, *, at: float) -> journals.PodRecord:
    return journals.PodRecord(
        uid=f"uid-{name}",
        namespace="n",
        name=name,
        workflow=workflow,
        node="node-0",
        group="node",
        seen_at=at,
        ended_at=at,
        reason="Completed",
    )
