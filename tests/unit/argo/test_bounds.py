"""Specs that Argo would fail, or that never end: named, cut, bounded."""

import base64
import gzip
import tracemalloc

import pytest

from tests.unit.argo import hostiles, laws
from tests.unit.argo.builders import (
    Object,
    a_dag,
    a_step,
    a_task,
    a_template,
    a_workflow,
    the_steps,
)
from tiphys.argo import moments, names, nodes, tasks, walks
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import errors, workflows


def read(obj: Object) -> workflows.Workflow:
    """Return a Workflow that keeps the laws."""
    workflow = argo_workflows.read(obj)
    laws.check(workflow)
    return workflow


def test_recursion_ends_where_nothing_is_known_any_more() -> None:
    """The next round stands for all that may follow."""
    main = the_steps([a_step("a")], [a_step("again", template="main", when="x == y")])
    workflow = read(a_workflow(main))
    assert {"[0].a": [], "[1].again": ["[0].a"]} == laws.edges(workflow)
    assert None is workflow.tasks[1].count
    assert ("template 'main' calls itself, how often is not known",) == workflow.unknowns


def test_cycles_are_named_and_cut() -> None:
    """What is left is a DAG of all tasks."""
    workflow = read(a_workflow(a_dag(a_task("a", ["c"]), a_task("b", ["a"]), a_task("c", ["b"]))))
    assert {".a": [], ".b": [".a"], ".c": [".b"]} == laws.edges(workflow)
    assert ("tasks of 'main' wait for one another: a",) == workflow.unknowns


@pytest.mark.parametrize(
    ("main", "why"),
    [
        (a_dag(a_task("a", ["x"])), "task 'a' of 'main' waits for 'x': no such task"),
        (a_dag(a_task("a", template="x")), "template 'x' of 'a' is not there"),
        ({"name": "main"}, "template 'main' has no type that is known here"),
        (a_dag(target="{{item}}"), "which tasks of 'main' are wanted is not known: {{item}}"),
    ],
)
def test_broken_specs_become_unknowns(main: Object, why: str) -> None:
    """Argo will fail such a Workflow; here it only says so."""
    assert (why,) == read(a_workflow(main)).unknowns


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"templates": {}}, "spec.templates: expected a list"),
        ({"entrypoint": 5}, "spec.entrypoint: expected text"),
        ({"activeDeadlineSeconds": "1h"}, "spec.activeDeadlineSeconds: expected a whole number"),
        ({"templates": [{"name": "main", "steps": [{}]}]}, "expected a list"),
        (
            {"templates": [the_steps([a_step("a", withSequence={"count": "x"})])]},
            "'main.0..a'.withSequence.count: expected a whole number",
        ),
    ],
)
def test_another_shape_is_a_named_error(spec: Object, place: str) -> None:
    """The error says where and what was expected."""
    obj = a_workflow(a_template("main"))
    obj["spec"].update(spec)
    with pytest.raises(errors.InputError, match=place):
        read(obj)


def test_a_spec_that_doubles_at_each_level_is_bounded() -> None:
    """2^60 tasks in a kilobyte: named."""
    workflow = read(hostiles.a_doubling_workflow())
    assert any(f"more than {walks.MOST_CALLS} calls" in each for each in workflow.unknowns)
    assert walks.MOST_CALLS >= len(workflow.tasks)


def test_a_spec_that_is_too_deep_is_bounded() -> None:
    """Calls within calls within calls end as for Argo."""
    levels = [{"name": f"t{n}", "steps": [[a_step("a", template=f"t{n + 1}")]]} for n in range(200)]
    workflow = read(a_workflow(*levels, a_template("t200")))
    assert f"{walks.DEEPEST} within another" in workflow.unknowns[0]


def test_json_that_is_nested_too_deeply_is_a_named_error() -> None:
    """No RecursionError leaves the core."""
    nested: object = "x"
    for _ in range(5_000):
        nested = {"a": nested}
    with pytest.raises(errors.InputError, match="nested too deeply"):
        read(a_workflow(a_template("main", script={"env": nested})))


@pytest.mark.parametrize("name", hostiles.WORKFLOWS)
def test_values_that_lead_to_values_end(name: str) -> None:
    """A kilobyte that anybody may write held up whoever reads Workflows for minutes and more."""
    workflow = read(hostiles.WORKFLOWS[name])
    assert workflow.tasks or workflow.unknowns


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(
            a_workflow(
                the_steps(
                    [a_step("a", withSequence={"count": 2_000, "format": "x" * 100_000 + "%d"})]
                )
            ),
            id="format",
        ),
        pytest.param(
            a_workflow(the_steps([a_step("a" * 100_000, withSequence={"count": 2_000})])), id="step"
        ),
        pytest.param(
            a_workflow(
                a_dag(a_task("a" * 100_000, template="inner")),
                {"name": "inner", "dag": {"tasks": [a_task(f"b{n}") for n in range(2_000)]}},
            ),
            id="names below a long name",
        ),
        pytest.param(
            a_workflow(
                {"name": "m" * 100_000, "steps": [[a_step(f"s{n}") for n in range(2_000)]]},
            ),
            id="entry point",
        ),
        pytest.param(
            a_workflow(
                a_dag(
                    *(
                        a_task(f"t{n}", inline={"container": {}, "metadata": {"labels": {"a": ""}}})
                        for n in range(1_000)
                    )
                ),
                templateDefaults={"metadata": {"labels": {f"k{n}": "" for n in range(10_000)}}},
            ),
            id="defaults",
        ),
        pytest.param(
            a_workflow(
                the_steps(
                    [
                        a_step(
                            "a",
                            withSequence={"count": 2_000},
                            arguments={"parameters": [{"name": "n", "value": "{{item}}"}]},
                        )
                    ]
                ),
                a_template(
                    "work",
                    container={"image": "i" * 100_000 + "{{inputs.parameters.n}}"},
                    inputs={"parameters": [{"name": "n"}]},
                ),
            ),
            id="image",
        ),
    ],
)
def test_a_long_text_is_not_kept_for_each_task(obj: Object) -> None:
    """A hundred kilobytes took hundreds of megabytes, for each of those who read Workflows."""
    tracemalloc.start()
    try:
        workflow = read(obj)
        assert 32 * 2**20 > tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert workflow.tasks or workflow.unknowns


def test_what_is_not_known_is_said_in_short() -> None:
    """Whatever the names are that somebody gave."""
    workflow = read(a_workflow(a_dag(a_task("a", template="x" * 100_000))))
    assert [tasks.LONGEST_UNKNOWN] == [len(why) for why in workflow.unknowns]


def test_node_status_that_packs_well_is_refused_before_it_is_read() -> None:
    """Ten kilobytes of it would be hundreds of megabytes of empty lists."""
    plain = b'{"a":[%s[]]}' % (b"[]," * nodes.MOST_VALUES)
    packed = base64.b64encode(gzip.compress(plain)).decode()
    assert 100_000 > len(packed)
    with pytest.raises(errors.InputError, match="holds over 2000000 values"):
        read(a_workflow(status={"compressedNodes": packed}))


def test_names_of_nodes_are_read_in_one_go() -> None:
    """The annotation with the node's name may be as long as all annotations together."""
    for name in hostiles.NODE_NAMES:
        assert 0 == names.attempt(name)


def test_a_time_with_endless_digits_is_none() -> None:
    """Python reads them all, and what is read is kept."""
    with pytest.raises(errors.InputError, match="expected a time"):
        moments.parse("2026-11-30T08:00:00." + "0" * 100 + "Z")
