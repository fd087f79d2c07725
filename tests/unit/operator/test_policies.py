"""Policies and settings: who is meant, what is refused, what the leader writes about them."""

import asyncio
import types
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import clocks, clusters
from tests.unit.operator import builders
from tiphys.models.domain import errors, optins, settings
from tiphys.models.policies import builtins
from tiphys.operator import apis, caches, elections, explanations, objects, policies, statuses
from tiphys.operator import optins as lookups
from tiphys.operator import settings as operator_settings

OPTED_IN = optins.OptIn(enabled=True)


def put(cached: caches.Caches, name: str, **spec: Any) -> None:
    """Put a SchedulingPolicy."""
    policy = objects.Policy(name=name, uid=name, generation=1, spec=spec, status={})
    cached.policies.put(name, policy)


def told(cached: caches.Caches, known: policies.Policies, name: str) -> dict[str, Any]:
    """Return what the leader writes into a policy's status, its conditions by type."""
    nothing: Any = None
    writer = statuses.Writer(
        nothing, nothing, cached, known, excluded=frozenset(), clock=clocks.Clock()
    )
    policy = cached.policies.get(name)
    assert policy is not None
    status: dict[str, Any] = writer._policy(policy)
    return {**status, "conditions": {each["type"]: each for each in status["conditions"]}}


def labelled(cached: caches.Caches, **labels: str) -> None:
    """Give the namespace genomics some labels."""
    layer = objects.Layer(name="genomics", uid="ns", labels=tuple(sorted(labels.items())))
    cached.namespaces.put("genomics", layer)


def test_without_any_policy_the_documented_default_holds() -> None:
    """Enforce, smallest remaining work with waits."""
    chosen = policies.Policies(builders.filled()).choose("genomics", OPTED_IN)
    assert (settings.Mode.ENFORCE, builtins.SRWF_WAIT) == (chosen.mode, chosen.ranker.name)


def test_the_most_particular_policy_is_taken() -> None:
    """By number of labels, then by name; with none that fits nobody is steered."""
    cached = builders.filled()
    known = policies.Policies(cached)
    put(cached, "b", selector={"namespaceLabels": {"team": "g"}})
    put(cached, "a", selector={"namespaceLabels": {"team": "g"}})
    put(cached, "c", selector={"namespaceLabels": {"team": "g", "tier": "1"}})
    assert settings.Mode.OFF == known.of_namespace("genomics").mode
    labelled(cached, team="g")
    assert "a" == known.of_namespace("genomics").name
    labelled(cached, team="g", tier="1")
    assert "c" == known.of_namespace("genomics").name
    put(cached, "all")
    labelled(cached)
    assert "all" == known.of_namespace("genomics").name
    assert "all" == known.general.name


@pytest.mark.parametrize(
    ("policy", "annotation", "expected"),
    [
        ("Enforce", optins.Mode.SHADOW, settings.Mode.SHADOW),
        ("Enforce", optins.Mode.OFF, settings.Mode.OFF),
        ("Shadow", optins.Mode.ENFORCE, settings.Mode.SHADOW),
        ("Off", optins.Mode.ENFORCE, settings.Mode.OFF),
        ("Off", optins.Mode.SHADOW, settings.Mode.OFF),
    ],
)
def test_an_annotation_only_softens(
    policy: str, annotation: optins.Mode, expected: settings.Mode
) -> None:
    """A tenant cannot make a policy bite that the platform switched off."""
    cached = builders.filled()
    put(cached, "p", mode=policy)
    optin = optins.OptIn(enabled=True, mode=annotation)
    assert expected == policies.Policies(cached).choose("genomics", optin).mode


def test_a_version_that_cannot_rank_falls_back_and_says_so() -> None:
    """First to the policy's own, then to the default."""
    cached = builders.filled()
    put(cached, "p", stable=builtins.EDF)
    known = policies.Policies(cached)
    chosen = known.choose("genomics", optins.OptIn(enabled=True, policy="genomics-v9"))
    assert (builtins.EDF, "there is no PolicyVersion genomics-v9") == (
        chosen.ranker.name,
        chosen.note,
    )
    put(cached, "p", stable="gone-v1")
    chosen = known.choose("genomics", OPTED_IN)
    assert (builtins.DEFAULT, "there is no PolicyVersion gone-v1") == (
        chosen.ranker.name,
        chosen.note,
    )


def test_a_spec_that_cannot_be_read_keeps_the_last_good_one() -> None:
    """And the problem is there for the status."""
    cached = builders.filled()
    known = policies.Policies(cached)
    put(cached, "p", mode="Shadow")
    put(cached, "p", mode="Sometimes")
    assert settings.Mode.SHADOW == known.of_namespace("genomics").mode
    assert "expected one of Off, Shadow, Enforce" in known.problems["p"]
    cached.policies.drop("p")
    assert {} == known.problems


def test_an_operator_that_starts_goes_on_with_the_last_spec_that_could_be_used() -> None:
    """The status remembers it: no default comes in its place when a later spec is refused."""
    cached = builders.filled()
    selector = {"namespaceLabels": {"team": "g"}}
    put(cached, "p", mode="Shadow", selector=selector)
    status = told(cached, policies.Policies(cached), "p")
    spoiled = objects.Policy(
        name="p", uid="p", generation=2, spec={"mode": "Sometimes"}, status=status
    )
    cached.policies.put("p", spoiled)
    labelled(cached, team="g")
    started = policies.Policies(cached)
    assert settings.Mode.SHADOW == started.of_namespace("genomics").mode
    said = told(cached, started, "p")
    assert policies.ACCEPTED_SPEC not in said, "the last good one stays there"
    assert "could be used holds meanwhile" in said["conditions"]["Accepted"]["message"]


@pytest.mark.parametrize(
    ("status", "spec", "labels"),
    [
        ({}, {"mode": "Sometimes"}, {}),
        ({policies.ACCEPTED_SPEC: "{"}, {"mode": "Sometimes"}, {}),
        ({}, {"selector": {"labels": {}}}, {}),
        ({}, {"mode": "x", "selector": {"namespaceLabels": {"team": "g"}}}, {"team": "g"}),
    ],
)
def test_where_nobody_knows_what_a_policy_was_it_is_off(
    status: dict[str, Any], spec: dict[str, Any], labels: dict[str, str]
) -> None:
    """For whom it selects, or everybody: pods pass untouched rather than steered by a default."""
    cached = builders.filled()
    labelled(cached, **labels)
    cached.policies.put(
        "p", objects.Policy(name="p", uid="p", generation=1, spec=spec, status=status)
    )
    known = policies.Policies(cached)
    assert (settings.Mode.OFF, "p") == (
        known.of_namespace("genomics").mode,
        known.of_namespace("genomics").name,
    )


async def test_nothing_is_decided_before_the_policies_are_read() -> None:
    """The default would steer whom a policy switched off."""
    cached = caches.Caches()
    for cache in cached.all:
        if cache is not cached.policies:
            cache.retain(())
    assert not cached.synced
    cached.policies.retain(())
    assert cached.synced


def test_a_policy_that_is_for_nobody_says_whom_it_leaves_out() -> None:
    """Its mere presence un-steers namespaces that opted in and have no other policy."""
    cached = builders.filled()
    known = policies.Policies(cached)
    put(cached, "p", selector={"namespaceLabels": {"team": "g"}})
    said = told(cached, known, "p")["conditions"]["Selecting"]
    assert ("False", "OthersLeftOut") == (said["status"], said["reason"])
    assert "is not steered: genomics opted in" in said["message"]
    put(cached, "all")
    assert "ForNobody" == told(cached, known, "p")["conditions"]["Selecting"]["reason"]
    said = told(cached, known, "all")["conditions"]["Selecting"]
    assert ("True", "It is for 1 namespace") == (said["status"], said["message"])


def test_a_rule_that_would_select_no_pod_is_not_accepted() -> None:
    """A label that no pod has is named with those that there are."""
    cached = builders.filled()
    known = policies.Policies(cached)
    limit = {"what": "rack", "must": ["r1"]}
    put(cached, "p", rules=[{"name": "x", "when": {"tempalte": ["a"]}, "use": [limit]}])
    status = told(cached, known, "p")
    said = status["conditions"]
    assert ("False", "False") == (said["Accepted"]["status"], said["Ready"]["status"])
    assert "No earlier spec is known, so whom it is for is not" in said["Accepted"]["message"]
    assert (
        "when.tempalte: no such field; there are image, namespace, role"
        in (said["Accepted"]["message"])
    )


def test_the_leader_tells_which_annotation_cannot_be_read() -> None:
    """Beside that it is not enabled; `tiphys explain` makes a sentence of it."""
    cached = builders.filled()
    annotations = (("tiphys.dev/deadline", "2 Tage"), ("tiphys.dev/enabled", "true"))
    run = builders.a_run("1", annotations=annotations)
    cached.workflows.put(run.workflow.key, run)
    nothing: Any = None
    desk = explanations.Desk(
        cached,
        nothing,
        policies.Policies(cached),
        nothing,
        nothing,
        election=types.SimpleNamespace(leading=True),  # type: ignore[arg-type]
        clock=clocks.Clock(),
    )
    found: Any = desk._who(run.workflow.namespace, run)
    assert not found["optIn"]["enabled"]
    assert "annotation tiphys.dev/deadline: write a time" in found["optIn"]["errors"][0]


def test_namespaces_are_listed_by_what_lives_in_them() -> None:
    """A Workflow or template that opts in lists its namespace; an excluded one never."""
    cached = builders.filled(opted_in=False)
    on = (("tiphys.dev/enabled", "true"),)
    excluded = frozenset({"kube-system"})
    assert () == lookups.listed(cached, excluded)
    cached.workflows.put("genomics/exome", builders.a_run("1", annotations=on))
    for space in ("imaging", "kube-system"):
        layer = objects.Layer(name="t", uid="t", annotations=on)
        template = objects.Template(layer=layer, written={}, version="1")
        cached.templates.put(f"{space}/t", template)
    assert ("genomics", "imaging") == lookups.listed(cached, excluded)
    assert () == lookups.annotated(cached, excluded)


async def test_the_leader_makes_built_in_versions_and_writes_what_differs() -> None:
    """Once; a second look writes nothing; a lying stable version is told in words."""
    clock, cached = clocks.Clock(), builders.filled()
    async with clusters.serving() as (cluster, api):
        election = elections.Election(
            api,
            namespace="tiphys-system",
            identity="a",
            chosen=operator_settings.Lease(),
            clock=clock,
        )
        leading = asyncio.ensure_future(election.run(asyncio.Event().wait))  # type: ignore[arg-type]
        await clock.advance(1.0)
        known = policies.Policies(cached)
        writer = statuses.Writer(api, election, cached, known, excluded=frozenset(), clock=clock)
        await writer.once()
        made = {path.rpartition("/")[2] for path in cluster.objects if "policyversions" in path}
        assert set(builtins.BUILTINS) == made
        put(cached, "p", stable="gone-v1")
        verdicts = writer._policy(next(iter(cached.policies.values())))
        assert builtins.DEFAULT == verdicts["activeVersion"]
        said = {each["type"]: each for each in verdicts["conditions"]}  # type: ignore[attr-defined]
        assert ("True", "False") == (said["Accepted"]["status"], said["Ready"]["status"])
        assert "there is no PolicyVersion gone-v1" in said["Ready"]["message"]
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)


async def test_a_status_that_is_not_taken_keeps_no_other_from_being_written() -> None:
    """Each is about an object of its own."""
    cached = builders.filled()
    for name in builtins.BUILTINS:
        version = objects.Version(name=name, uid=name, generation=1, spec={}, status={})
        cached.policy_versions.put(name, version)
    written: list[str] = []

    class Api:
        async def patch(self, path: str, body: object) -> None:
            if path.endswith(f"/{first}/status"):
                raise apis.InvalidError("status.message: too long", status=422)
            written.append(path.split("/")[-2])

    first, *rest = builtins.BUILTINS
    writer = statuses.Writer(
        Api(),  # type: ignore[arg-type]
        types.SimpleNamespace(fence=lambda: None),  # type: ignore[arg-type]
        cached,
        policies.Policies(cached),
        excluded=frozenset(),
        clock=clocks.Clock(),
    )
    await writer.once()
    assert rest == written


def test_settings_come_from_file_then_environment_then_defaults(tmp_path: Path) -> None:
    """Times as people write them."""
    path = tmp_path / "operator.yaml"
    path.write_text("lease: {duration: 16s, renew: 4s, fence: 12s}\nhistory: {publish: 1m}\n")
    found = operator_settings.load(path, {"POD_IP": "10.0.0.7", "POD_NAMESPACE": "steering"})
    assert (16.0, 60.0) == (found.lease.duration_s, found.history.publish_s)
    assert ("10.0.0.7", "steering") == (found.listen.host, found.namespace)
    assert "127.0.0.1" == operator_settings.load(None, {}).listen.host


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"leese": {}}, "settings.leese: no such field"),
        ({"lease": {"durations": "8s"}}, "settings.lease.durations: no such field"),
        ({"lease": {"fence": "9s"}}, "needs renew < fence < duration"),
        ({"keys": {"rotate": "24h"}}, "needs rotate"),
        ({"logLevel": "loud"}, "settings.logLevel: expected one of"),
        ({"decisions": {"deadline": "soon"}}, "settings.decisions.deadline: expected a time"),
        ({"decisions": {"deadline": "0s"}}, "settings.decisions.deadline: expected a time from"),
        ({"history": {"flush": 0}}, "settings.history.flush: expected a time from"),
        ({"listen": {"metricsPort": 9080.5}}, "expected a whole number from 0 to 65535"),
        ([], "settings: expected fields by name"),
    ],
)
def test_settings_that_mean_nothing_are_refused(written: object, said: str) -> None:
    """The sentence names the key."""
    with pytest.raises(errors.InputError, match=said.replace(".", r"\.")):
        operator_settings.read(written)
