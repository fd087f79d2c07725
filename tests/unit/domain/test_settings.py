"""SchedulingPolicy specs, their rule tables and times, as people write them."""

import dataclasses

import pytest

from tests.unit.planner import scenes
from tiphys.models.domain import clusters, constraints, durations, errors, pods, settings

SPEC = {
    "mode": "Shadow",
    "stable": "builtin-edf-v1",
    "selector": {"namespaceLabels": {"team": "genomics"}},
    "placement": {
        "when": "release",
        "bind": "prefer",
        "grain": "node",
        "elastic": "no",
        "topologyKeys": ["topology.kubernetes.io/zone"],
    },
    "gate": {"maxHold": "2m", "maxTotal": "1h30m", "openBurst": 20},
    "slo": {"default": {"factor": 2.5}},
    "overdueAfter": "15m",
    "scheduleInterval": "500ms",
    "tenants": {"weights": {"clinic": 3, "alpha": 0.5}},
    "rules": [
        {
            "name": "archives stay off NVMe",
            "when": {"template": ["archive-*"]},
            "use": [
                {"what": "storage", "mustNot": ["nvme"]},
                {"what": "taint", "key": "spot", "mustNot": ["*"]},
            ],
        }
    ],
}


def test_every_field_of_a_policy_is_read() -> None:
    """A spec that sets everything sets everything."""
    read = settings.read(SPEC, name="genomics")
    assert settings.Mode.SHADOW is read.mode
    assert read.stable == "builtin-edf-v1"
    assert read.namespace_labels == (("team", "genomics"),)
    assert read.placement == settings.Placement(
        when=settings.When.RELEASE,
        bind=settings.Bind.PREFER,
        grain=settings.Grain.NODE,
        elastic=settings.Elastic.NO,
        topology_keys=("topology.kubernetes.io/zone",),
    )
    assert read.gate == settings.Gate(max_hold_s=120.0, max_total_s=5400.0, open_burst=20)
    assert (2.5, 900.0, 0.5) == (
        read.slo.default_factor,
        read.overdue_after_s,
        read.schedule_interval_s,
    )
    assert (3.0, 0.5, 1.0) == tuple(read.weight(name) for name in ("clinic", "alpha", "other"))
    assert read.rules[0].selects({"template": "archive-old"})
    assert not read.rules[0].selects({"template": "align"})


def test_an_empty_spec_is_the_default() -> None:
    """Nothing written means what is documented for no policy at all."""
    assert settings.PolicySettings() == settings.read({})
    assert settings.PolicySettings() == settings.read(None)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"placment": {}}, "spec.placment"),
        ({"gate": {"maxhold": "5m"}}, "spec.gate.maxhold"),
        ({"mode": "On"}, "spec.mode"),
        ({"gate": {"maxHold": "5 apples"}}, "spec.gate.maxHold"),
        ({"gate": {"maxHold": "5m", "maxTotal": "1m"}}, "spec.gate.maxTotal"),
        ({"gate": {"openBurst": 1.5}}, "spec.gate.openBurst"),
        ({"scheduleInterval": "6s"}, "spec.scheduleInterval"),
        ({"slo": {"default": {"factor": 0.5}}}, "spec.slo.default.factor"),
        ({"placement": {"topologyKeys": []}}, "spec.placement.topologyKeys"),
        ({"tenants": {"weights": {"a": 0}}}, "spec.tenants.weights.a"),
        ({"rules": [{"name": "x", "use": []}]}, "spec.rules[0].use"),
        ({"rules": [{"name": "x", "use": [{"what": "disk"}]}]}, "spec.rules[0].use[0].what"),
        ({"rules": [{"name": "x", "use": [{"what": "rack"}]}]}, "spec.rules[0].use[0]"),
        (
            {"rules": [{"name": "x", "use": [{"what": "label", "must": ["a"]}]}]},
            "spec.rules[0].use[0].key",
        ),
        ({"rules": "none"}, "spec.rules"),
        (
            {
                "rules": [
                    {
                        "name": "x",
                        "when": {"tempalte": ["a"]},
                        "use": [{"what": "rack", "must": ["r"]}],
                    }
                ]
            },
            "spec.rules[0].when.tempalte: no such field; there are "
            "image, namespace, role, source, template, workflow",
        ),
        (
            {
                "rules": [
                    {
                        "name": "x",
                        "when": {"template": []},
                        "use": [{"what": "rack", "must": ["r"]}],
                    }
                ]
            },
            "spec.rules[0].when.template: empty",
        ),
        ({"gate": {"maxTotal": "1m"}}, "shorter than maxHold (not written, so 300s)"),
        ({"gate": {"maxTotal": "1m", "maxHold": "2m"}}, "shorter than maxHold (120s)"),
    ],
)
def test_what_is_wrong_is_named(spec: dict[str, object], where: str) -> None:
    """An unknown key or bad value is refused with its path."""
    with pytest.raises(errors.InputError, match="SchedulingPolicy p: ") as caught:
        settings.read(spec, name="p")
    assert where in str(caught.value)


def test_rules_may_name_all_labels_that_pods_have() -> None:
    """What is refused in `when` and what pods are labelled with are one list."""
    main = pods.Container(name="main", role=pods.ContainerRole.MAIN, image="align:1")
    pod = dataclasses.replace(
        scenes.a_waiting("p").pod, template="t", workflow="w", namespace="n", containers=(main,)
    )
    labels = constraints.labels(pod, source="s")
    assert constraints.SELECTABLE == tuple(name for name, _ in labels)


def test_two_rules_of_one_name_are_refused() -> None:
    """The name stands in reasons, so it must tell which rule it was."""
    rule = {"name": "x", "use": [{"what": "rack", "must": ["r1"]}]}
    with pytest.raises(errors.InputError, match="taken"):
        constraints.read([rule, rule])


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ({"what": "rack", "must": ["r2"]}, "rack must be r2, the node has r1"),
        ({"what": "rack", "mustNot": ["r*"]}, "rack r1 is ruled out"),
        ({"what": "gpuModel", "must": ["T4"]}, "gpuModel must be T4, the node has none"),
        ({"what": "gpuModel", "mustNot": ["T4"]}, ""),
        ({"what": "taint", "key": "spot", "mustNot": ["*"]}, "spot any is ruled out"),
        ({"what": "label", "key": "disk", "must": ["ssd", "nvme"]}, ""),
        ({"what": "node", "mustNot": ["n*"]}, "node n1 is ruled out"),
        ({"what": "instanceType", "must": ["m5"]}, ""),
    ],
)
def test_a_limit_says_why_a_node_will_not_do(limit: dict[str, object], why: str) -> None:
    """Each subject reads its own label; a label that is absent only fails what must be there."""
    node = scenes.a_node("n1", labels=(("disk", "ssd"),), taints=(clusters.Taint(key="spot"),))
    rule = constraints.read([{"name": "x", "use": [limit]}])[0]
    assert (f"rule 'x': {why}" if why else "") == rule.refusal(node)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("2d", 172_800.0),
        (5, 5.0),
        ("1.5m", 90.0),
    ],
)
def test_times_are_read(written: object, seconds: float) -> None:
    """Units may be combined; a bare number is seconds."""
    assert seconds == durations.read(written)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "5x",
        "m5",
        "-5s",
        -1,
        True,
        None,
        "5 m",
        float("inf"),
        pytest.param(10**400, id="far"),
        "9" * 63 + "s",
    ],
)
def test_what_is_no_time_is_refused(written: object) -> None:
    """The message says how to write it."""
    with pytest.raises(errors.InputError, match="such as"):
        durations.read(written, where="spec.x")


def test_a_long_text_that_is_no_time_is_refused_in_one_line() -> None:
    """Whatever its length, and at once."""
    with pytest.raises(errors.InputError) as refusal:
        durations.read("9" * 1_000_000 + "s")
    assert 200 > len(str(refusal.value))


def test_times_are_said_in_words() -> None:
    """Short ones with a tenth, long ones in two units."""
    said = [durations.words(each) for each in (0.44, 59.6, 60, 185, 7_800, 7_200)]
    assert ["0.4 s", "1 min", "1 min", "3 min 5 s", "2 h 10 min", "2 h"] == said
