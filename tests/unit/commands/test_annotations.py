"""What `status` warns of in annotations: values and names that nobody reads, pods undecided."""

from typing import Any

import pytest

from tiphys.operator.commands import annotations

ENABLED = "tiphys.dev/enabled"
ON_EXIT = "workflows.argoproj.io/on-exit"
COMPONENT = "workflows.argoproj.io/component"


def an_object(name: str, namespace: str = "red", **written: str) -> dict[str, Any]:
    """Return the metadata of an object; annotations are given without their prefix."""
    about: dict[str, Any] = {"name": name, "uid": f"u-{name}"}
    if namespace:
        about["namespace"] = namespace
    about["annotations"] = {f"tiphys.dev/{key}": value for key, value in written.items()}
    return {"metadata": about}


def a_pod(name: str, *, labels: dict[str, str] | None = None, **written: str) -> dict[str, Any]:
    """Return the metadata of a marked pod of Workflow red/x."""
    found = an_object(name, **written)
    about = found["metadata"]
    about["annotations"]["workflows.argoproj.io/node-id"] = "n"
    about["labels"] = labels or {}
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "x", "uid": "u-x"}
    about["ownerReferences"] = [{**owner, "controller": True}]
    return found


def a_run(labels: dict[str, str] | None = None, **written: str) -> dict[str, Any]:
    """Return the metadata of Workflow red/x."""
    found = an_object("x", **written)
    found["metadata"]["labels"] = labels or {}
    return found


def told(**lists: list[dict[str, Any]]) -> list[str]:
    """Return the warnings about lists by the name of their question."""
    return list(annotations.warnings({name: {"items": items} for name, items in lists.items()}))


def test_values_and_names_that_nobody_reads_are_told_with_their_objects() -> None:
    """What Tiphys writes itself and what is well is no warning; of many five are named."""
    (said,) = told(
        namespaces=[an_object("red", "", enabled="yes"), an_object("blue", "", enabled="true")],
        workflows=[an_object("x", enable="true"), an_object("y", decision="{}", mode="shadow")],
    )
    assert f'Namespace red: annotation {ENABLED}: write "true" or "false"' in said
    assert "Workflow red/x: nobody reads tiphys.dev/enable" in said
    assert "blue" not in said
    assert "red/y" not in said
    (said,) = told(cronworkflows=[an_object(f"c{n}", deadline="2 Tage") for n in range(7)])
    assert 5 == said.count("CronWorkflow red/c")
    assert said.endswith(" and 2 more")


def test_a_policy_version_that_is_not_there_is_named() -> None:
    """Only where the versions may be read: else nobody knows."""
    asked = [an_object("x", policy="nope"), an_object("y", policy="mine")]
    assert [] == told(workflows=asked)
    (said,) = told(workflows=asked, versions=[an_object("mine", "")])
    assert "tiphys.dev/policy names no PolicyVersion that is there" in said
    assert said.endswith("Workflow red/x (nope)")


@pytest.mark.parametrize(
    ("mode", "softened", "warned"),
    [("", {}, True), ("Enforce", {}, True), ("Shadow", {}, False), ("", {"mode": "shadow"}, False)],
)
def test_open_pods_without_a_decision_are_counted_where_tiphys_acts(
    mode: str, softened: dict[str, str], warned: bool
) -> None:
    """They were marked for steering; in Shadow mode no pod carries a decision."""
    pods = [a_pod("p0", decision="{}"), a_pod("p1"), a_pod("p2")]
    policies = [{"metadata": {"name": "p"}, "spec": {"mode": mode}}] if mode else []
    lists = {
        annotations.MARKED: pods,
        "policies": policies,
        "namespaces": [an_object("red", "", enabled="true", **softened)],
    }
    said = told(**lists)
    assert warned is bool(said)
    if warned:
        assert said[0].startswith("2 of 3 pending or running pods that were to be steered ")
        assert said[0].endswith(": red/p1, red/p2")


def test_a_policy_for_others_means_that_a_namespace_is_not_steered() -> None:
    """The most particular policy that selects it decides."""
    space = an_object("red", "", enabled="true")
    space["metadata"]["labels"] = {"team": "a"}
    general = {"metadata": {"name": "all"}, "spec": {"mode": "Shadow"}}
    own = {"metadata": {"name": "own"}, "spec": {"selector": {"namespaceLabels": {"team": "a"}}}}
    other = {"metadata": {"name": "b"}, "spec": {"selector": {"namespaceLabels": {"team": "b"}}}}
    lists = {annotations.MARKED: [a_pod("p1")], "namespaces": [space]}
    assert 1 == len(told(**lists, policies=[general, own]))
    assert [] == told(**lists, policies=[general, other])
    assert [] == told(**lists, policies=[other])


ON = {"enabled": "true"}
OFF = {"enabled": "false"}
CRON = {"workflows.argoproj.io/cron-workflow": "c"}


@pytest.mark.parametrize(
    ("lists", "warned"),
    [
        ({}, True),
        ({"workflows": [a_run(**OFF)]}, False),
        ({"workflows": [a_run(mode="shadow")]}, False),
        ({"workflows": [a_run(deadline="?")]}, False),
        ({"workflows": []}, False),
        ({"namespaces": [an_object("red", "")]}, False),
        ({"namespaces": [an_object("red", "")], "workflows": [a_run(**ON)]}, True),
        ({"workflows": [a_run(CRON)], "cronworkflows": [an_object("c", **OFF)]}, False),
        ({"cronworkflows": [an_object("c", **OFF)]}, True),
        ({"workflowtemplates": [an_object("t", **OFF)]}, False),
        ({"workflowtemplates": [an_object("t", **OFF)], "workflows": [a_run(**ON)]}, True),
        ({"workflowtemplates": [an_object("t", "blue", **OFF)]}, True),
        ({"clusterworkflowtemplates": [an_object("t", "", mode="off")]}, False),
        ({annotations.MARKED: [a_pod("p", labels={ON_EXIT: "true"})]}, False),
        ({annotations.MARKED: [a_pod("p", labels={COMPONENT: "agent"})]}, False),
        ({annotations.MARKED: [an_object("p")]}, False),
    ],
)
def test_pods_that_were_let_pass_on_purpose_are_not_counted(
    lists: dict[str, list[dict[str, Any]]], warned: bool
) -> None:
    """Opted out, watched only, of a role that is never gated, no workflow's, its workflow ended."""
    known = {
        annotations.MARKED: [a_pod("p")],
        "namespaces": [an_object("red", "", **ON)],
        "workflows": [a_run()],
    }
    said = [each for each in told(**{**known, **lists}) if "carry no decision" in each]
    assert warned is bool(said)


def test_whoever_may_read_neither_namespaces_nor_workflows_is_told_of_marked_pods() -> None:
    """The mark says that somebody in the namespace opted in, and nothing speaks against it."""
    assert 1 == len(told(**{annotations.MARKED: [a_pod("p")]}))
