"""Fan-outs before anything has run, and the parameters that they are made of."""

import pytest

from tests.unit.argo import laws
from tests.unit.argo.builders import (
    Object,
    a_step,
    a_template,
    a_workflow,
    the_steps,
)
from tiphys.argo import walks
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import workflows


def read(obj: Object) -> workflows.Workflow:
    """Return a Workflow that keeps the laws."""
    workflow = argo_workflows.read(obj)
    laws.check(workflow)
    return workflow


@pytest.mark.parametrize(
    ("fan", "names"),
    [
        ({"withItems": ["x", "y"]}, ["(0:x)", "(1:y)"]),
        ({"withItems": [3, True, 1.5]}, ["(0:3)", "(1:true)", "(2:1.5)"]),
        ({"withItems": [{"b": 2, "a": "(x)"}]}, ["(0:a:x,b:2)"]),
        ({"withItems": [["p", 1]]}, ['(0:["p",1])']),
        ({"withParam": '["x", {"k": 1}]'}, ["(0:x)", "(1:k:1)"]),
        ({"withParam": "{{workflow.parameters.list}}"}, ["(0:l1)", "(1:l2)"]),
        ({"withSequence": {"count": 2}}, ["(0:0)", "(1:1)"]),
        ({"withSequence": {"count": "2", "start": "5"}}, ["(0:5)", "(1:6)"]),
        ({"withSequence": {"start": 3, "end": "1"}}, ["(0:3)", "(1:2)", "(2:1)"]),
        ({"withSequence": {"count": 1, "format": "user%02X"}}, ["(0:user00)"]),
        ({"withSequence": {"count": 0}}, []),
    ],
)
def test_fan_outs_are_told_apart_where_their_elements_are_known(
    fan: Object, names: list[str]
) -> None:
    """Items, lists in parameters, sequences."""
    arguments = {"parameters": [{"name": "list", "value": '["l1", "l2"]'}]}
    workflow = read(a_workflow(the_steps([a_step("f", **fan)]), arguments=arguments))
    assert [f"main[0].f{name}" for name in names] == [task.name for task in workflow.tasks]
    assert () == workflow.unknowns


@pytest.mark.parametrize(
    ("fan", "why"),
    [
        ({"withParam": "{{steps.a.outputs.result}}"}, "withParam {{steps.a.outputs.result}}"),
        ({"withParam": "{{=toJson([1])}}"}, "withParam {{=toJson([1])}}"),
        ({"withParam": "{{inputs.parameters.absent}}"}, "withParam {{inputs.parameters.absent}}"),
        ({"withParam": "no list"}, "withParam is no JSON list: 'no list'"),
        ({"withSequence": {"count": "{{steps.a.outputs.result}}"}}, "withSequence count {{st"),
        ({"withSequence": {"start": 1}}, "withSequence has neither end nor count"),
    ],
)
def test_fan_outs_of_unknown_width_are_named(fan: Object, why: str) -> None:
    """One task stands for all, and what its width waits for is said."""
    workflow = read(a_workflow(the_steps([a_step("a")], [a_step("f", **fan)], [a_step("b")])))
    fanned = next(task for task in workflow.tasks if task.name == "main[1].f(*)")
    assert None is fanned.count
    assert (fanned.id,) == workflow.tasks[-1].parents
    assert workflow.unknowns[0].startswith(f"how wide 'main[1].f' becomes is not known: {why}")


def test_a_very_wide_fan_out_is_one_task_that_stands_for_all() -> None:
    """A million elements cost one; inside of another fan-out they multiply."""
    inner = {"name": "inner", "steps": [[a_step("g", withSequence={"count": 1_000_000})]]}
    workflow = read(
        a_workflow(the_steps([a_step("f", template="inner", withItems=["x", "y"])]), inner)
    )
    assert [1_000_000, 1_000_000] == [task.count for task in workflow.tasks]


def test_arguments_reach_down_through_calls() -> None:
    """Workflow to entry point to nested template to element."""
    inner = {
        "name": "inner",
        "inputs": {"parameters": [{"name": "n"}, {"name": "more", "default": "1"}]},
        "steps": [
            [
                a_step(
                    "g",
                    withSequence={
                        "start": "{{inputs.parameters.more}}",
                        "end": "{{inputs.parameters.n}}",
                    },
                )
            ]
        ],
    }
    main = the_steps(
        [
            a_step(
                "f",
                template="inner",
                withItems=[2, 3],
                arguments={"parameters": [{"name": "n", "value": "{{item}}"}]},
            )
        ]
    )
    workflow = read(a_workflow(main, inner))
    assert [2, 3] == [
        sum(task.name.startswith(f"main[0].f({place}:") for task in workflow.tasks)
        for place in (0, 1)
    ]


def test_a_value_that_leads_to_itself_is_not_known() -> None:
    """It is no endless loop either."""
    main = the_steps([a_step("f", withParam="{{inputs.parameters.a}}")])
    main["inputs"] = {"parameters": [{"name": "a", "value": "{{inputs.parameters.a}}"}]}
    assert "f' becomes" in read(a_workflow(main)).unknowns[0]


def test_fan_outs_in_fan_outs_stay_within_what_a_float_holds() -> None:
    """A hundred levels of thousands each are as good as a milliard."""
    levels = [
        {
            "name": f"t{n}",
            "steps": [[a_step("a", template=f"t{n + 1}", withSequence={"count": 5_000})]],
        }
        for n in range(90)
    ]
    (task,) = read(a_workflow(*levels, a_template("t90"))).tasks
    assert walks.MOST_COUNT == task.count
    endless = a_step("a", withSequence={"end": "9" * 400})
    (task,) = read(a_workflow(the_steps([endless]))).tasks
    assert walks.MOST_COUNT == task.count
