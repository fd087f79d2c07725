"""Workflows as DAGs, before anything has run."""

import json

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
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import workflows


def read(obj: Object, *objects: Object) -> workflows.Workflow:
    """Return a Workflow that keeps the laws."""
    workflow = argo_workflows.read(
        obj, templates={argo_templates.key(each): each for each in objects}
    )
    laws.check(workflow)
    return workflow


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
    } == laws.edges(workflow)


def test_a_dag_by_dependencies_and_by_depends() -> None:
    """Both ways of writing lead to the same edges."""
    listed = a_dag(a_task("d", ["b", "c"]), a_task("b", ["a"]), a_task("c", ["a"]), a_task("a"))
    said = a_dag(a_task("d", "b && c.Succeeded"), a_task("b", "a"), a_task("c", "a"), a_task("a"))
    expected = {".a": [], ".b": [".a"], ".c": [".a"], ".d": [".b", ".c"]}
    for dag in (listed, said):
        workflow = read(a_workflow(dag))
        assert expected == laws.edges(workflow)
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
    } == laws.edges(workflow)


def test_templates_that_run_nothing_pass_the_waiting_on() -> None:
    """An empty DAG or an empty fan-out between two tasks does not cut them apart."""
    empty = {"name": "empty", "dag": {"tasks": []}}
    dag = a_dag(
        a_task("a"),
        a_task("b", ["a"], template="empty"),
        a_task("c", ["b"], withParam="[]"),
        a_task("d", ["c"]),
    )
    assert {".a": [], ".d": [".a"]} == laws.edges(read(a_workflow(dag, empty)))


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
    } == laws.edges(workflow)
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
    assert {".a": [], ".b": [".a"]} == laws.edges(read(a_workflow(dag)))


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
