"""`explain` in words: who is not steered and why, who waits, and who is open but on no node.

Over 400 lines, since each sentence is tried against the same pods and the same API that answers.
"""

from typing import Any

import pytest

from tests.fakes import pods as fake_pods
from tiphys.models.domain import errors, pods
from tiphys.operator import apis
from tiphys.operator.commands import explanations, groupings, sessions, sheets, views

PROBLEM = (
    "Workflow red/x: annotation tiphys.dev/deadline: write a time above zero such as 90m or 2h, "
    "not '2 Tage'"
)
SAID = (
    "not steered: annotation tiphys.dev/deadline on Workflow red/x: write a time above zero such "
    "as 90m or 2h, not '2 Tage'"
)


class Api:
    """Answers each path with the first known beginning of it."""

    def __init__(self, **answers: object) -> None:
        self._answers = answers

    async def get(self, path: str, **_: object) -> Any:
        """Return pods or Events."""
        return {"items": self._answers.get(path.rpartition("/")[2], [])}


def a_session(**answers: object) -> sessions.Session:
    """Return a session whose API server knows these lists."""
    api: Any = Api(**answers)
    return sessions.Session(api=api, namespace="red", output="table", system="tiphys-system")


def a_workflow(**annotations: str) -> dict[str, Any]:
    """Return Workflow red/x with annotations, given without their prefix."""
    about = {f"tiphys.dev/{key}": value for key, value in annotations.items()}
    return {"metadata": {"namespace": "red", "name": "x", "uid": "w-1", "annotations": about}}


def a_pod(n: int, **more: object) -> dict[str, Any]:
    """Return what the leader says of a pod."""
    known = {"pod": f"red/p{n}", "uid": f"u{n}", "gated": False, "node": "", "phase": "Pending"}
    return {**known, **more}


@pytest.mark.parametrize(
    ("optin", "said"),
    [
        ({"enabled": False, "source": "Workflow red/x", "errors": [PROBLEM]}, SAID),
        (
            {"enabled": False, "source": "Workflow red/x", "errors": []},
            "not steered: opted out by Workflow red/x",
        ),
        (
            {"enabled": False, "source": ""},
            'not steered: nobody opted in (annotation tiphys.dev/enabled: "true")',
        ),
        ({"enabled": True, "source": "Namespace red"}, ""),
        ({}, ""),
    ],
)
def test_who_is_not_steered_is_told_why(optin: dict[str, object], said: str) -> None:
    """A value that cannot be read, a plain no, and nobody's word; nothing for who is steered."""
    assert said == groupings.unsteered({"optIn": optin})
    assert bool(optin.get("enabled")) == bool(groupings.steered({"optIn": optin}))


def test_without_the_leader_the_workflow_s_own_annotations_are_read() -> None:
    """The same sentence, from what stands on the Workflow."""
    found = groupings.written(a_workflow(enabled="true", deadline="2 Tage"))
    assert SAID == groupings.unsteered({"optIn": found})
    problems = groupings.unsteered({"optIn": groupings.written(a_workflow(enabled="ja"))})
    assert 'annotation tiphys.dev/enabled on Workflow red/x: write "true" or "false"' in problems
    assert {} == groupings.written(a_workflow())


async def test_a_workflow_that_opted_in_badly_is_not_called_opted_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Told by the leader that `enabled` is false, the source is not shown as who opted in."""
    optin = {"enabled": False, "source": "Namespace red", "errors": [PROBLEM]}
    answer = views.Answer(
        found={"kind": "Workflow", "workflow": "red/x", "pods": [], "optIn": optin}
    )
    assert 0 == await explanations._workflow(a_session(), a_workflow(), answer)
    said = " ".join(capsys.readouterr().out.split())
    assert SAID in said
    assert "opted in by" not in said


async def test_open_pods_without_a_node_are_told_of_and_equal_reasons_share_a_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The condition is from the pod, the decision from the leader; 32 waiting pods in one row."""
    hold = {"blocker": "red/big", "reason": "no node has room"}
    known = [a_pod(n, gated=True, hold={**hold, "rank": n}) for n in range(1, 33)]
    known += [a_pod(40, decision={"reason": "first of all", "placement": {"group": "fast"}})]
    found = {"kind": "Workflow", "workflow": "red/x", "pods": known}
    opened = fake_pods.a_pod()
    opened["metadata"] |= {"uid": "u40"}
    opened["status"] = {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
        ],
    }
    session = a_session(pods=[opened])
    await explanations._workflow(session, a_workflow(), views.Answer(found=found))
    said = capsys.readouterr().out
    assert 1 == said.count("no node has room")
    assert "1 to 32" in said
    assert "p1, p2, p3 and 29 more" in said
    row = next(line for line in said.splitlines() if line.startswith("p40"))
    assert "fast" in row
    assert ["p40", "fast", "first", "of", "all", "0/3", "nodes"] == row.split()[:7]


async def test_a_wide_stage_shares_a_row_although_each_waits_for_the_one_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only who goes before differs; the last of a kind keeps its own words; long tables are cut."""

    def held(n: int, reason: str) -> dict[str, Any]:
        goes = "1 goes before it:" if n == 2 else f"{n - 1} go before it, the last of them"
        tail = f" {goes} red/p{n - 1}."
        return a_pod(
            n, gated=True, hold={"rank": n, "blocker": f"red/p{n - 1}", "reason": reason + tail}
        )

    pods = [held(n, "No node has room.") for n in range(2, 200)]
    pods += [held(200, "No node has memory.")]
    pods += [held(n, f"Reason {n}.") for n in range(201, 230)]
    found = {"kind": "Workflow", "workflow": "red/x", "pods": pods, "podsInAll": 900}
    await explanations._workflow(a_session(), a_workflow(), views.Answer(found=found))
    said = capsys.readouterr().out
    assert "228 wait, 0 run, 0 ended, 900 in all" in said
    row = next(line for line in said.splitlines() if line.startswith("2 to 199"))
    assert "those before" in row
    assert row.rstrip().endswith("No node has room.")
    alone = next(line for line in said.splitlines() if line.startswith("200"))
    assert "red/p199" in alone
    assert "No node has memory. 199 go before it, the last of them red/p199." in " ".join(
        said.split()
    )
    assert "and 11 rows more: `-o json` has all of them" in said


SHADOW = {"id": "d-1", "verdict": "shadow", "reason": "would gate: no node has room"}


async def test_in_shadow_mode_it_is_said_what_tiphys_would_have_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a pod with what was masked, of a workflow in one row; forgotten decisions are no blank."""
    optin = {"enabled": True, "source": "Namespace red"}
    known = {
        **a_pod(1, ours=True, condition="", node="n1", phase="Running", told=[]),
        "policy": "default",
        "mode": "Shadow",
        "version": "v",
        "optIn": optin,
    }
    masked = [{"group": "old", "why": "its nodes are too small: memory"}]
    sheets.pod({**known, "admission": {**SHADOW, "masked": masked}})
    said = " ".join(capsys.readouterr().out.split())
    assert "shadow mode Tiphys would gate: no node has room" in said
    assert "old its nodes are too small: memory" in said
    sheets.pod(known)
    assert "is not remembered any more" in " ".join(capsys.readouterr().out.split())
    pods = [a_pod(n, admission=SHADOW) for n in range(5)]
    answer = views.Answer(found={"kind": "Workflow", "workflow": "red/x", "pods": pods})
    await explanations._workflow(a_session(), a_workflow(), answer)
    said = capsys.readouterr().out
    assert "p0, p1, p2 and 2 more  would gate: no node has room" in said


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"created": {"decision": "d-1", "verdict": "gate", "reason": "x"}}, groupings.OPENED),
        ({"created": {"decision": "d-1", "verdict": "place", "reason": "Sent."}}, "Sent."),
        ({"admission": {"id": "d-1", "verdict": "gate", "reason": "x"}}, groupings.LATE),
        (
            {"admission": {"id": "d-1", "verdict": "pass", "reason": "an agent pod"}},
            "an agent pod",
        ),
        ({}, groupings.STAMPED),
        ({"ours": False}, groupings.UNDECIDED),
        ({"role": "agent"}, "a pod of role agent is never gated"),
        ({"optIn": {}}, ""),
    ],
)
def test_an_open_pod_is_told_why_it_is_open(known: dict[str, Any], said: str) -> None:
    """A decision that never came onto the pod is no reason, nor is the gate's, once it is open."""
    pod = a_pod(1, ours=True, mode="Enforce", workflow="red/x", optIn={"enabled": True})
    assert said == groupings.opening({**pod, **known})


def test_whoever_may_not_ask_the_leader_is_told_of_missing_decisions_too() -> None:
    """Stamped and undecided is all that is known then; of an unmarked pod nothing is claimed."""
    assert groupings.UNASKED == groupings.opening(a_pod(1, ours=True))
    assert "" == groupings.opening(a_pod(1, ours=False))


def an_annotated(time: str, field: str = "f:tiphys.dev/enabled") -> dict[str, Any]:
    """Return an object one of whose annotations was written then, and its labels much later."""
    wrote = {"time": time, "fieldsV1": {"f:metadata": {"f:annotations": {field: {}}}}}
    labelled = {"time": "2026-12-24T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {}}}}
    return {"metadata": {"managedFields": [labelled, wrote]}}


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("Namespace red", "/api/v1/namespaces/red"),
        ("Workflow red/x", "/apis/argoproj.io/v1alpha1/namespaces/red/workflows/x"),
        ("ClusterWorkflowTemplate t", "/apis/argoproj.io/v1alpha1/clusterworkflowtemplates/t"),
    ],
)
@pytest.mark.parametrize(
    ("written", "earlier"),
    [
        (an_annotated("2026-11-30T10:00:01Z"), True),
        (an_annotated("2026-11-30T10:00:00Z"), False),
        (an_annotated("2026-11-30T10:00:01Z", "f:other"), False),
        (None, False),
    ],
)
async def test_a_pod_from_before_the_opt_in_is_told_just_that(
    source: str,
    path: str,
    written: dict[str, Any] | None,
    earlier: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where the time of the annotation may be read; else nobody knows why no decision is there."""

    class Annotated:
        async def get(self, asked: str, **_: object) -> Any:
            if asked != path:
                return {"items": []}
            if written is None:
                raise apis.ForbiddenError("you may not read it")
            return written

    api: Any = Annotated()
    session = sessions.Session(api=api, namespace="red", output="table", system="tiphys-system")
    optin = {"enabled": True, "source": source}
    known = {"mode": "Enforce", "workflow": "red/x", "optIn": optin}
    pod = a_pod(1, **known, ours=False, createdAt="2026-11-30T10:00:00Z", condition="", told=[])
    await explanations._date(session, pod, [pod])
    assert groupings.missed(pod)
    sheets.pod(pod)
    said = " ".join(capsys.readouterr().out.split())
    before = f"why not steered: it was created before the opt-in by {source} (2026-11-30T10:00:01Z)"
    assert earlier is (before in said)
    assert earlier is not (groupings.UNDECIDED in said)
    answer = views.Answer(found={"kind": "Workflow", "pods": [pod], **known})
    await explanations._workflow(session, a_workflow(), answer)
    said = " ".join(capsys.readouterr().out.split())
    assert earlier is ("created before the opt-in" in said)
    assert "1 in all; 1 not steered" in said


async def test_pods_that_failed_open_are_counted_and_not_listed_as_released(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither in `explain workflow` nor in `explain pod`, whether bound or not."""
    steered = {
        "mode": "Enforce",
        "workflow": "red/x",
        "optIn": {"enabled": True, "source": "Namespace red"},
    }
    left = [a_pod(n, **steered, ours=True) for n in range(3)]
    left += [a_pod(3, **{**steered, "node": "n1", "phase": "Running"}, ours=True)]
    decided = a_pod(4, **steered, ours=True, decision={"verdict": "release", "reason": "Goes."})
    answer = views.Answer(
        found={"kind": "Workflow", "workflow": "red/x", "pods": [*left, decided], **steered}
    )
    await explanations._workflow(a_session(), a_workflow(), answer)
    said = " ".join(capsys.readouterr().out.split())
    assert "0 wait, 1 run, 0 ended, 5 in all; 4 not steered" in said
    before, _, after = said.partition("Open, on no node yet")
    assert "p0, p1, p2 and 1 more" in before
    assert "the webhook got no answer in time or was not asked" in before
    assert "p4" in after
    assert "p0" not in after
    sheets.pod({**left[0], "condition": "", "told": []})
    said = " ".join(capsys.readouterr().out.split())
    assert "state not steered, on no node yet" in said
    assert "why not steered: it carries no decision; the webhook got no answer in time" in said


def test_an_opened_pod_is_told_who_opened_it_and_not_why_it_waited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The condition from its time behind the gate is old until kube-scheduler writes another."""
    pod = fake_pods.a_pod()
    pod["metadata"]["uid"] = "u1"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = "Tiphys: No node that it may use has room."
    pod["status"] = {"phase": "Pending", "conditions": [condition]}
    assert "" == views.waits(pod)
    pod["spec"]["schedulingGates"] = [{"name": "other.dev/gate"}]
    assert "waits for other gates: other.dev/gate" == views.waits(pod)
    pod["spec"]["schedulingGates"] = [{"name": pods.STEERING_GATE}]
    assert condition["message"] == views.waits(pod)
    about = {"ours": True, "condition": "", "told": []}
    gate = {"decision": "d-1", "verdict": "gate", "reason": "No node that it may use has room."}
    sheets.pod(a_pod(1, **about, created=gate))
    said = " ".join(capsys.readouterr().out.split())
    assert f"why {groupings.OPENED}" in said
    assert "has room" not in said
    release = {"decision": "d-2", "verdict": "release", "reason": "Goes next.", "at": "15:44 UTC"}
    sheets.pod(a_pod(1, **about, created=gate, released=release))
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "decided at its release, 15:44 UTC: Goes next. opened by the operator, by release" in said
    )


AGAIN = "kube-scheduler would try it again and again until a node has room"


@pytest.mark.parametrize(
    ("more", "said", "unsaid"),
    [
        (
            {"condition": "0/5 nodes are available"},
            "sent to fast, if that has room for it kube-scheduler says 0/5 nodes are available",
            "why",
        ),
        ({}, f"kube-scheduler says {groupings.UNLOOKED}", "0/5"),
        ({"node": "n1", "phase": "Running"}, "state on n1 (Running) decided at its", "by default"),
        (
            {"node": "n1", "phase": "Running", "nodeGroup": "slow"},
            "state on n1 of slow (Running) decided at its release, 15:44 UTC: Goes to fast.",
            "by default",
        ),
        (
            {"node": "n1", "phase": "Running", "decision": {"verdict": "release", "default": "D."}},
            "by default D.",
            AGAIN,
        ),
        ({"foreignGates": ["x.dev/y"]}, "state released, behind other gates", "kube-scheduler"),
        (
            {"gated": True, "admission": {"id": "d-1", "verdict": "gate", "default": AGAIN}},
            AGAIN,
            "decided",
        ),
        (
            {"gated": True, "condition": "Tiphys: No room.", "writtenS": 40.0, "incomplete": "x"},
            "why No room. (as of 40 s ago)",
            "decided",
        ),
    ],
)
def test_what_was_decided_what_is_and_what_would_be_are_told_apart(
    more: dict[str, Any], said: str, unsaid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod that was sent somewhere may find no room there; one that runs is past waiting."""
    release = {"decision": "d-2", "verdict": "release", "reason": "Goes to fast."}
    release |= {"at": "15:44 UTC", "group": "fast", "bind": "prefer"}
    created = {"decision": "d-1", "verdict": "gate"}
    about: dict[str, Any] = {"ours": True, "condition": "", "told": [], "created": created}
    waits = {} if more.get("gated") else {"released": release}
    sheets.pod(a_pod(1, **{**about, **waits, **more}))
    shown = " ".join(capsys.readouterr().out.split())
    assert said in shown
    assert unsaid not in shown


def test_what_is_not_steered_is_told_so_before_what_kube_scheduler_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No policy is named then, which would look as if it decided; in both sheets."""
    optin = {"enabled": False, "source": "Workflow red/x", "errors": [PROBLEM]}
    about = {"policy": "default", "mode": "Enforce", "optIn": optin}
    pod = a_pod(1, **about, ours=False, condition="0/3 nodes are available", told=[])
    sheets.pod(pod)
    said = " ".join(capsys.readouterr().out.split())
    assert f"why {SAID} kube-scheduler says 0/3 nodes" in said
    assert "policy" not in said
    sheets.workflow({"kind": "Workflow", "workflow": "red/x", "pods": [pod], **about})
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"workflow red/x steering {SAID} pods")
    assert "policy" not in said


@pytest.mark.parametrize(
    ("runs", "basis", "said"),
    [
        (0, "default", "1 min on a node of usual speed (no history yet: assumed)"),
        (9, "siblings", "(no history of its own yet: taken from tasks that are like it)"),
        (1, "history", "1 min on a node of usual speed (1 run)"),
        (12, "history", "(12 runs)"),
    ],
)
def test_an_estimate_says_what_it_rests_on(
    runs: int, basis: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A default is no knowledge, and is called assumed."""
    saw = {"duration": {"centreS": 60.0, "spreadS": 0.0, "runs": runs, "basis": basis}}
    hold = {"reason": "No room.", "blocker": "red/b", "until": 1.0, "untilRestsOn": basis}
    pod = a_pod(1, ours=True, condition="", told=[], gated=True, saw=saw, hold=hold)
    sheets.pod(pod)
    shown = " ".join(capsys.readouterr().out.split())
    assert said in shown
    suffix = f" ({groupings.BASES[basis]})" if runs == 0 or basis == "siblings" else ""
    assert f"expected 1970-01-01 00:00:01 UTC{suffix} expects to run" in shown
    assert [("", "p1", "red/b", f"No room.{suffix}")] == groupings.waiting([pod])


async def test_what_another_replica_decided_at_creation_is_asked_of_it() -> None:
    """The leader is asked first; the webhook may have asked any of them."""
    asked: list[str] = []

    class Replicas:
        async def get(self, path: str, **_: object) -> Any:
            asked.append(path)
            if path.endswith("/leases"):
                return {
                    "items": [
                        {
                            "metadata": {"name": f"tiphys-operator-{n}"},
                            "spec": {"holderIdentity": n},
                        }
                        for n in ("a", "b")
                    ]
                }
            if "/leases/" in path:
                return {"spec": {"holderIdentity": "a"}}
            if "/proxy/" not in path:
                return {"status": {"podIP": "10.0.0.1"}}
            pod = {"uid": "u1", "workflow": "red/x"}
            return {**pod, "admission": SHADOW} if "/b:" in path else {**pod, "mode": "Shadow"}

    api: Any = Replicas()
    session = sessions.Session(api=api, namespace="red", output="table", system="tiphys-system")
    answer = await views.leader(session, "u1")
    assert {"uid": "u1", "workflow": "red/x", "mode": "Shadow", "admission": SHADOW} == answer.found
    assert 2 == sum("/proxy/" in path for path in asked)


async def test_what_the_leader_says_is_told_also_where_replicas_may_not_be_listed() -> None:
    """Another's decision is more to know, and no reason to know less."""

    class Leader:
        async def get(self, path: str, **_: object) -> Any:
            if path.endswith("/leases"):
                raise apis.ForbiddenError("you may not list leases")
            if "/leases/" in path:
                return {"spec": {"holderIdentity": "a"}}
            return {"uid": "u1", "workflow": "red/x"} if "/proxy/" in path else {}

    api: Any = Leader()
    session = sessions.Session(api=api, namespace="red", output="table", system="tiphys-system")
    answer = await views.leader(session, "u1")
    assert {"uid": "u1", "workflow": "red/x"} == answer.found
    assert "" == answer.why


def test_a_gate_that_somebody_set_by_hand_is_called_that(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither stamped nor decided: Tiphys may not open it, and says who can."""
    pod = fake_pods.a_pod()
    pod["spec"]["schedulingGates"] = [{"name": pods.STEERING_GATE}]
    pod["metadata"]["uid"] = "u1"
    pod["metadata"]["labels"].pop("tiphys.dev/steered", None)
    sheets.pod({**explanations._on_pod(pod), "told": []})
    said = " ".join(capsys.readouterr().out.split())
    assert "state waits at a gate that Tiphys did not set" in said
    assert "`tiphys release` opens it now" in said


@pytest.mark.parametrize("name", ["", "red/", "/x", "red/x/y", "..", "red/../secrets", "x?y", "X"])
async def test_what_names_no_object_is_refused_before_anybody_is_asked(name: str) -> None:
    """`red/` once asked for the list of all pods, and what came was no pod."""
    for ask in (views.pod, views.workflow):
        with pytest.raises(errors.InputError, match="write NAME or NAMESPACE/NAME"):
            await ask(a_session(), name)


def test_what_kubernetes_says_of_gates_is_not_repeated() -> None:
    """No reason is written then; another's gate is named."""
    pod = fake_pods.a_pod()
    pod["metadata"]["labels"]["tiphys.dev/steered"] = "true"
    pod["spec"]["schedulingGates"] = [{"name": pods.STEERING_GATE}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod["status"] = {"conditions": [{**condition, "message": "non-empty scheduling gates"}]}
    assert views.UNTOLD == views.waits(pod)
    pod["spec"]["schedulingGates"] = [{"name": "other.dev/gate"}]
    assert "waits for other gates: other.dev/gate" == views.waits(pod)
