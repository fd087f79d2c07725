"""Opt-in: nearest wins, key by key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiphys.models.domain import optins
from tiphys.models.domain.optins import Kind, Layer, Mode, OptIn

VALUES = {
    optins.ENABLED: ("true", "false"),
    optins.MODE: ("enforce", "shadow", "off", "Shadow"),
    optins.POLICY: ("genomics-v3", "builtin-fifo-v1"),
    optins.DEADLINE: ("2h", "90m", "1h30m"),
    optins.RIGHT_SIZE: ("true", "false"),
}
BAD = {
    optins.ENABLED: ("yes", "True", ""),
    optins.MODE: ("on", ""),
    optins.POLICY: ("Not A Name", "", "a" * 300),
    optins.DEADLINE: ("soon", "0s", "-1h", "", "9" * 400),
    optins.RIGHT_SIZE: ("no", "1"),
}
ANNOTATIONS = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in VALUES.items()}
)
LAYERS = st.dictionaries(st.sampled_from(list(Kind)), ANNOTATIONS)


def layers(found: dict[Kind, dict[str, str]]) -> list[Layer]:
    """Return layers by kind."""
    return [
        Layer(kind=kind, name=f"of-{kind.name.lower()}", annotations=annotations)
        for kind, annotations in found.items()
    ]


@given(LAYERS, st.randoms())
def test_the_order_in_which_layers_are_given_does_not_matter(
    found: dict[Kind, dict[str, str]], random: object
) -> None:
    """Only how near each is."""
    there = layers(found)
    back = there[::-1]
    assert optins.resolve(there) == optins.resolve(back)


@given(LAYERS)
def test_each_key_comes_from_the_nearest_layer_that_has_it(
    found: dict[Kind, dict[str, str]],
) -> None:
    """As if the nearer layers were written over the farther ones."""
    written: dict[str, str] = {}
    for kind in sorted(found):
        written.update(found[kind])
    flat = optins.resolve([Layer(kind=Kind.WORKFLOW, name="w", annotations=written)])
    resolved = optins.resolve(layers(found))
    assert (flat.enabled, flat.mode, flat.policy, flat.deadline_s, flat.right_size) == (
        resolved.enabled,
        resolved.mode,
        resolved.policy,
        resolved.deadline_s,
        resolved.right_size,
    )
    assert () == resolved.errors


@given(LAYERS)
def test_a_farther_layer_changes_nothing_that_is_settled(
    found: dict[Kind, dict[str, str]],
) -> None:
    """Once the Workflow says everything, the rest is of no account."""
    all_set = {key: values[0] for key, values in VALUES.items()}
    nearest = {**found, Kind.WORKFLOW: all_set}
    assert optins.resolve(layers({Kind.WORKFLOW: all_set})) == optins.resolve(layers(nearest))


@given(LAYERS, st.sampled_from([(key, bad) for key, values in BAD.items() for bad in values]))
def test_a_value_that_cannot_be_read_is_named_and_means_not_opted_in(
    found: dict[Kind, dict[str, str]], wrong: tuple[str, str]
) -> None:
    """Where it wins; farther good values do not step in for it."""
    key, value = wrong
    spoilt = {**found, Kind.WORKFLOW: {**found.get(Kind.WORKFLOW, {}), key: value}}
    resolved = optins.resolve(layers(spoilt))
    assert not resolved.enabled
    (error,) = resolved.errors
    assert error.startswith(f"Workflow of-workflow: annotation {key}: write ")


def test_a_wrong_value_that_does_not_win_is_of_no_account() -> None:
    """A namespace's mistake cannot switch off a workflow that says better."""
    found = {Kind.NAMESPACE: {optins.ENABLED: "yes"}, Kind.WORKFLOW: {optins.ENABLED: "true"}}
    assert OptIn(enabled=True, source="Workflow of-workflow") == optins.resolve(layers(found))


def test_nobody_said_anything() -> None:
    """Then nothing is touched."""
    assert OptIn() == optins.resolve([])
    assert OptIn() == optins.resolve(layers({Kind.NAMESPACE: {"other": "true"}}))


def test_false_opts_out_below_a_namespace_that_opted_in() -> None:
    """And the source says who settled it."""
    found = {
        Kind.NAMESPACE: {optins.ENABLED: "true"},
        Kind.CRON_WORKFLOW: {optins.ENABLED: "false"},
    }
    resolved = optins.resolve(layers(found))
    assert (False, "CronWorkflow of-cron_workflow", ()) == (
        resolved.enabled,
        resolved.source,
        resolved.errors,
    )


def test_all_keys_as_values() -> None:
    """Modes in either case, times in seconds."""
    written = {
        optins.ENABLED: "true",
        optins.MODE: "Shadow",
        optins.POLICY: "genomics-v3",
        optins.DEADLINE: "1h30m",
        optins.RIGHT_SIZE: "false",
    }
    assert OptIn(
        enabled=True,
        mode=Mode.SHADOW,
        policy="genomics-v3",
        deadline_s=5400.0,
        right_size=False,
        source="WorkflowTemplate n/t",
    ) == optins.resolve([Layer(kind=Kind.WORKFLOW_TEMPLATE, name="n/t", annotations=written)])


@pytest.mark.parametrize("kind", list(Kind))
def test_kinds_are_written_as_kubernetes_does(kind: Kind) -> None:
    """`ClusterWorkflowTemplate`, not `CLUSTER_WORKFLOW_TEMPLATE`."""
    assert kind.word in (
        "Namespace",
        "ClusterWorkflowTemplate",
        "WorkflowTemplate",
        "CronWorkflow",
        "Workflow",
    )
