"""Workflows as DAGs, before anything has run."""

import json
import time

import pytest

from tests.unit.argo import laws
from tests.unit.argo.builders import (
    CREATED_AT,
    Object,
    a_dag,
    a_step,
    a_task,
    a_template,
    a_workflow,
    the_steps,
)
from tiphys.argo import templates as argo_templates
from tiphys.argo import walks
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import errors, workflows


def read(obj: Object, *objects: Object) -> workflows.Workflow:
    """Return a Workflow that keeps the laws."""
    workflow = argo_workflows.read(
        obj, templates={argo_templates.key(each): each for each in objects}
    )
    laws.check(workflow)
    return workflow


def edges(workflow: workflows.Workflow) -> dict[str, list[str]]:
    """Return for each task, by its name without the entry point, those that it waits for."""
    names = {task.id: task.name.removeprefix("main") for task in workflow.tasks}
    return {names[task.id]: [names[parent] for parent in task.parents] for task in workflow.tasks}


def a_workflow_template(name: str, *templates: Object, **spec: object) -> Object:
    """Return a WorkflowTemplate."""
    return {
        "kind": "WorkflowTemplate",
        "metadata": {"name": name, "namespace": "genomics"},
        "spec": {"templates": list(templates), **spec},
    }


def test_steps_wait_for_all_of_the_group_before() -> None:
    """Within a group nothing waits."""
    workflow = read(a_workflow(the_steps([a_step("a")], [a_step("b"), a_step("c")], [a_step("d")])))
    assert {
        "[0].a": [],
        "[1].b": ["[0].a"],
        "[1].c": ["[0].a"],
        "[2].d": ["[1].b", "[1].c"],
    } == edges(workflow)


def test_a_dag_by_dependencies_and_by_depends() -> None:
    """Both ways of writing lead to the same edges."""
    listed = a_dag(a_task("d", ["b", "c"]), a_task("b", ["a"]), a_task("c", ["a"]), a_task("a"))
    said = a_dag(a_task("d", "b && c.Succeeded"), a_task("b", "a"), a_task("c", "a"), a_task("a"))
    expected = {".a": [], ".b": [".a"], ".c": [".a"], ".d": [".b", ".c"]}
    for dag in (listed, said):
        workflow = read(a_workflow(dag))
        assert expected == edges(workflow)
        assert not any(task.conditional for task in workflow.tasks)


@pytest.mark.parametrize(
    ("fields", "conditional"),
    [
        ({"depends": "a"}, False),
        ({"depends": "a.Succeeded"}, False),
        ({"depends": "a && b"}, False),
        ({"depends": "a.Failed"}, True),
        ({"depends": "a || b"}, True),
        ({"depends": "!a"}, True),
        ({"depends": "(a.AnySucceeded || b.Omitted)"}, True),
        ({"dependencies": ["a"], "when": "{{tasks.a.outputs.result}} == x"}, True),
    ],
)
def test_what_may_be_left_out_is_conditional(fields: Object, conditional: bool) -> None:
    """A `when`, and a `depends` that chooses; waiting for success does not."""
    workflow = read(a_workflow(a_dag(a_task("a"), a_task("b"), a_task("c", **fields))))
    assert conditional == workflow.tasks[-1].conditional


def test_nested_templates_end_with_their_last_tasks() -> None:
    """What comes after a nested DAG waits for its leaves, through any number of levels."""
    inner = {
        "name": "inner",
        "dag": {"tasks": [a_task("x"), a_task("y", ["x"]), a_task("z", ["x"])]},
    }
    middle = {"name": "middle", "steps": [[a_step("s", template="inner")]]}
    workflow = read(
        a_workflow(a_dag(a_task("a", template="middle"), a_task("b", ["a"])), inner, middle)
    )
    assert {
        ".a[0].s.x": [],
        ".a[0].s.y": [".a[0].s.x"],
        ".a[0].s.z": [".a[0].s.x"],
        ".b": [".a[0].s.y", ".a[0].s.z"],
    } == edges(workflow)


def test_templates_that_run_nothing_pass_the_waiting_on() -> None:
    """An empty DAG or an empty fan-out between two tasks does not cut them apart."""
    empty = {"name": "empty", "dag": {"tasks": []}}
    dag = a_dag(
        a_task("a"),
        a_task("b", ["a"], template="empty"),
        a_task("c", ["b"], withParam="[]"),
        a_task("d", ["c"]),
    )
    assert {".a": [], ".d": [".a"]} == edges(read(a_workflow(dag, empty)))


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


def test_templates_of_other_objects_are_found_in_what_the_caller_gives() -> None:
    """`templateRef` changes where further names are looked up, and whose history counts."""
    library = a_workflow_template(
        "lib", a_template("leaf"), {"name": "tree", "steps": [[a_step("s", template="leaf")]]}
    )
    step = a_step("a", templateRef={"name": "lib", "template": "tree"})
    workflow = read(a_workflow(the_steps([step])), library)
    (task,) = workflow.tasks
    assert ("main[0].a[0].s", "wftmpl/genomics/lib#leaf@image-of-leaf") == (
        task.name,
        str(task.identity),
    )
    unknown = read(a_workflow(the_steps([step])))
    assert "template 'tree' of WorkflowTemplate 'lib' is not known here" in unknown.unknowns
    assert None is unknown.tasks[0].count


def test_cluster_templates_have_no_namespace() -> None:
    """Their key says so."""
    library = {
        "kind": "ClusterWorkflowTemplate",
        "metadata": {"name": "lib"},
        "spec": {"templates": [a_template("leaf")]},
    }
    step = a_step("a", templateRef={"name": "lib", "template": "leaf", "clusterScope": True})
    (task,) = read(a_workflow(the_steps([step])), library).tasks
    assert task.identity is not None
    assert "cwftmpl/lib" == task.identity.source


def test_a_workflow_made_of_a_template() -> None:
    """`workflowTemplateRef`: the Workflow's own fields win; the template is the source."""
    base = a_workflow_template(
        "base",
        the_steps([a_step("a", withParam="{{workflow.parameters.list}}")]),
        a_template("work"),
        entrypoint="main",
        priority=3,
        arguments={"parameters": [{"name": "list", "value": "[1]"}, {"name": "x", "value": "y"}]},
    )
    obj = a_workflow(a_template("unused"))
    obj["spec"] = {
        "workflowTemplateRef": {"name": "base"},
        "priority": 7,
        "arguments": {"parameters": [{"name": "list", "value": "[1, 2]"}]},
    }
    workflow = read(obj, base)
    assert (2, 7, "wftmpl/genomics/base") == (
        len(workflow.tasks),
        workflow.priority,
        workflow.source,
    )
    missing = read(obj)
    assert ((), "the template wftmpl/genomics/base is not known here") == (
        missing.tasks,
        missing.unknowns[0],
    )


def test_inline_templates_are_called_as_their_task() -> None:
    """They have no name of their own."""
    inline = {"container": {"image": "x", "resources": {"requests": {"cpu": "2"}}}}
    (task,) = read(a_workflow(a_dag(a_task("a", inline=inline)))).tasks
    assert ("a", "x", 2000) == (task.template, task.identity and task.identity.image, task.cpu_m)


def test_template_defaults_reach_every_template_but_change_none_of_its_own() -> None:
    """Requests, retries; of another type only what both have in common."""
    obj = a_workflow(
        the_steps([a_step("a"), a_step("b", template="own")]),
        {"name": "own", "container": {"image": "o", "resources": {"requests": {"cpu": "3"}}}},
        {"name": "work", "container": {"image": "w"}},
        templateDefaults={
            "container": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            "retryStrategy": {"limit": 2},
        },
    )
    workflow = read(obj)
    # The strategy holds for the steps as well, as it does for Argo.
    assert [("main(0)[0].a(0)", 1000, 2**30), ("main(0)[0].b(0)", 3000, 2**30)] == [
        (task.name, task.cpu_m, task.memory_bytes) for task in workflow.tasks
    ]


def test_kinds_of_tasks() -> None:
    """Suspension takes no pod, http and plugins run in the agent."""
    workflow = read(
        a_workflow(
            the_steps(
                [
                    a_step("a", template="stop"),
                    a_step("b", template="call"),
                    a_step("c", template="make"),
                ]
            ),
            {"name": "stop", "suspend": {}},
            {"name": "call", "http": {"url": "u"}},
            {"name": "make", "resource": {"action": "create"}},
        )
    )
    kinds = workflows.TaskKind
    assert [kinds.SUSPEND, kinds.AGENT, kinds.POD] == [task.kind for task in workflow.tasks]


def test_daemons_and_memoized_tasks_are_marked() -> None:
    """A daemon only has to begin; a memoized task may be left out."""
    workflow = read(
        a_workflow(
            the_steps([a_step("a", template="d"), a_step("b", template="m")]),
            a_template("d", daemon=True),
            a_template("m", memoize={"key": "k"}),
        )
    )
    assert [(True, False), (False, True)] == [
        (task.daemon, task.conditional) for task in workflow.tasks
    ]


def test_exit_handlers_and_hooks() -> None:
    """Of tasks and of the Workflow; what follows a task waits for its handler too."""
    obj = a_workflow(
        a_dag(
            a_task(
                "a",
                hooks={
                    "exit": {"template": "bye", "expression": "tasks.a.status == 'x'"},
                    "running": {"template": "bye", "expression": "tasks.a.status == 'Running'"},
                },
            ),
            a_task("b", ["a"], onExit="bye"),
        ),
        a_template("bye"),
        onExit="bye",
        hooks={"late": {"template": "bye", "expression": "workflow.status == 'Running'"}},
    )
    workflow = read(obj)
    assert {
        ".a": [],
        ".a.hooks.running": [],
        ".a.onExit": [".a"],
        ".b": [".a", ".a.hooks.running", ".a.onExit"],
        ".b.onExit": [".b"],
        ".hooks.late": [],
        ".onExit": [".b", ".b.onExit"],
    } == edges(workflow)
    marks = {
        task.name.removeprefix("main"): (task.exit_handler, task.conditional)
        for task in workflow.tasks
    }
    assert {
        ".a": (False, False),
        ".a.hooks.running": (False, True),
        ".a.onExit": (True, True),
        ".b": (False, False),
        ".b.onExit": (True, False),
        ".hooks.late": (False, True),
        ".onExit": (True, False),
    } == marks


def test_only_targets_and_what_they_need_run() -> None:
    """`target` may come from a parameter."""
    dag = a_dag(a_task("a"), a_task("b", ["a"]), a_task("c", ["a"]), target="b")
    assert {".a": [], ".b": [".a"]} == edges(read(a_workflow(dag)))


def test_what_a_task_asks_for() -> None:
    """Main and sidecars, limits as requests, the pod's patch where it is JSON."""
    template = a_template(
        "work",
        container={"image": "x", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}},
        sidecars=[{"name": "s", "image": "y", "resources": {"requests": {"cpu": "250m"}}}],
    )
    (task,) = read(a_workflow(the_steps([a_step("a")]), template)).tasks
    assert (2250, 2**30) == (task.cpu_m, task.memory_bytes)
    asked = {"requests": {"memory": "{{inputs.parameters.m}}"}}
    patch = json.dumps({"containers": [{"name": "main", "resources": asked}]})
    patched = a_template(
        "work", podSpecPatch=patch, inputs={"parameters": [{"name": "m", "value": "3Gi"}]}
    )
    (task,) = read(a_workflow(the_steps([a_step("a")]), patched)).tasks
    assert (500, 3 * 2**30) == (task.cpu_m, task.memory_bytes)


def test_the_size_of_inputs_where_something_tells_it() -> None:
    """An annotation of the template, filled; raw artifacts; else it is not known."""
    note = {"annotations": {argo_templates.INPUT_BYTES: "{{inputs.parameters.size}}"}}
    sized = a_template("sized", metadata=note, inputs={"parameters": [{"name": "size"}]})
    raw = a_template("raw", inputs={"artifacts": [{"name": "a", "raw": {"data": "grün"}}]})
    workflow = read(
        a_workflow(
            the_steps(
                [
                    a_step(
                        "a",
                        template="sized",
                        arguments={"parameters": [{"name": "size", "value": "2Ki"}]},
                    ),
                    a_step("b", template="sized"),
                    a_step("c", template="raw"),
                    a_step("d"),
                ]
            ),
            sized,
            raw,
        )
    )
    assert [2048, None, 5, None] == [task.input_bytes for task in workflow.tasks]


def test_the_frame_of_a_workflow() -> None:
    """Priority, deadlines, suspension, shutting down."""
    obj = a_workflow(
        the_steps([a_step("a")]),
        priority=9,
        activeDeadlineSeconds=60,
        suspend=True,
        shutdown="Stop",
    )
    obj["metadata"]["annotations"] = {"tiphys.dev/deadline": "2h"}
    workflow = read(obj)
    assert (9, CREATED_AT, CREATED_AT + 7200, CREATED_AT + 60) == (
        workflow.priority,
        workflow.created_at,
        workflow.deadline_at,
        workflow.ends_by_at,
    )
    assert (True, True, False) == (
        workflow.suspended,
        workflow.shutting_down,
        workflow.ended,
    )
    obj["metadata"]["annotations"] = {"tiphys.dev/deadline": "soon"}
    assert "annotation tiphys.dev/deadline: expected a time" in read(obj).unknowns[0]


def test_recursion_ends_where_nothing_is_known_any_more() -> None:
    """The next round stands for all that may follow."""
    main = the_steps([a_step("a")], [a_step("again", template="main", when="x == y")])
    workflow = read(a_workflow(main))
    assert {"[0].a": [], "[1].again": ["[0].a"]} == edges(workflow)
    assert None is workflow.tasks[1].count
    assert ("template 'main' calls itself, how often is not known",) == workflow.unknowns


def test_cycles_are_named_and_cut() -> None:
    """What is left is a DAG of all tasks."""
    workflow = read(a_workflow(a_dag(a_task("a", ["c"]), a_task("b", ["a"]), a_task("c", ["b"]))))
    assert {".a": [], ".b": [".a"], ".c": [".b"]} == edges(workflow)
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
    """2^60 tasks in a kilobyte: named, and read in well under a second of CPU."""
    levels = [
        {"name": f"t{n}", "steps": [[a_step(s, template=f"t{n + 1}") for s in ("a", "b")]]}
        for n in range(60)
    ]
    began = time.process_time()
    workflow = read(a_workflow(*levels, a_template("t60")))
    assert any(f"more than {walks.MOST_CALLS} calls" in each for each in workflow.unknowns)
    assert walks.MOST_CALLS >= len(workflow.tasks)
    assert 5.0 > time.process_time() - began


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
