"""Workflows as DAGs while they run: the status laid over the spec."""

import base64
import gzip
import json

import pytest

from tests.unit.argo import laws
from tests.unit.argo.builders import (
    CREATED_AT,
    Object,
    a_dag,
    a_node,
    a_status,
    a_step,
    a_task,
    a_template,
    a_workflow,
    the_steps,
)
from tiphys.argo import nodes as argo_nodes
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import errors, workflows
from tiphys.models.domain.workflows import TaskState

GROUP = "StepGroup"


def read(obj: Object) -> workflows.Workflow:
    """Return a Workflow that keeps the laws."""
    workflow = argo_workflows.read(obj)
    laws.check(workflow)
    return workflow


def states(workflow: workflows.Workflow) -> dict[str, TaskState]:
    """Return the state of each task by its name without the entry point."""
    return {task.name.removeprefix("main"): task.state for task in workflow.tasks}


def test_what_exists_takes_the_place_of_what_was_foretold() -> None:
    """Ids become Argo's; what is still to come keeps its path and waits for the new ids."""
    status = a_status(
        a_node("wf", type="DAG"),
        a_node("wf.a", "Succeeded", finishedAt="2026-11-30T08:00:30Z"),
        a_node("wf.b", "Running"),
    )
    dag = a_dag(a_task("a"), a_task("b", ["a"]), a_task("c", ["a", "b"]))
    workflow = read(a_workflow(dag, status=status))
    assert [
        ("id:wf.a", TaskState.SUCCEEDED, ()),
        ("id:wf.b", TaskState.RUNNING, ("id:wf.a",)),
        ("main.c", TaskState.UNSTARTED, ("id:wf.a", "id:wf.b")),
    ] == [(task.id, task.state, task.parents) for task in workflow.tasks]
    first = workflow.tasks[0]
    assert (CREATED_AT, CREATED_AT + 30) == (first.started_at, first.ended_at)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("", TaskState.UNSTARTED),
        ("Pending", TaskState.PENDING),
        ("Running", TaskState.RUNNING),
        ("Succeeded", TaskState.SUCCEEDED),
        ("Failed", TaskState.FAILED),
        ("Error", TaskState.FAILED),
        ("Skipped", TaskState.SKIPPED),
        ("Omitted", TaskState.SKIPPED),
    ],
)
def test_phases(phase: str, state: TaskState) -> None:
    """Every phase of Argo has a state."""
    status = a_status(a_node("wf", type="DAG"), a_node("wf.a", phase))
    assert {".a": state} == states(read(a_workflow(a_dag(a_task("a")), status=status)))


def test_each_attempt_is_a_task_after_the_one_before() -> None:
    """What follows waits for the last attempt."""
    status = a_status(
        a_node("wf", type="DAG"),
        a_node("wf.a", type="Retry"),
        a_node("wf.a(0)", "Failed"),
        a_node("wf.a(1)", "Running"),
    )
    dag = a_dag(a_task("a", template="again"), a_task("b", ["a"]))
    workflow = read(a_workflow(dag, a_template("again", retryStrategy={"limit": 3}), status=status))
    assert [
        ("main.a(0)", (), TaskState.FAILED),
        ("main.a(1)", ("id:wf.a(0)",), TaskState.RUNNING),
        ("main.b", ("id:wf.a(1)",), TaskState.UNSTARTED),
    ] == [(task.name, task.parents, task.state) for task in workflow.tasks]


def test_retried_steps_run_again_as_a_whole() -> None:
    """The first attempt's unstarted steps never will."""
    again = {
        "name": "again",
        "retryStrategy": {},
        "steps": [[a_step("x")], [a_step("y")]],
    }
    status = a_status(
        a_node("wf", type="Steps"),
        a_node("wf[0]", type=GROUP),
        a_node("wf[0].a", type="Retry"),
        a_node("wf[0].a(0)", "Failed", type="Steps"),
        a_node("wf[0].a(0)[0]", "Failed", type=GROUP),
        a_node("wf[0].a(0)[0].x", "Failed"),
        a_node("wf[0].a(1)", type="Steps"),
        a_node("wf[0].a(1)[0]", type=GROUP),
        a_node("wf[0].a(1)[0].x", "Running"),
    )
    workflow = read(a_workflow(the_steps([a_step("a", template="again")]), again, status=status))
    assert {
        "[0].a(0)[0].x": TaskState.FAILED,
        "[0].a(0)[1].y": TaskState.SKIPPED,
        "[0].a(1)[0].x": TaskState.RUNNING,
        "[0].a(1)[1].y": TaskState.UNSTARTED,
    } == states(workflow)


def test_outputs_widen_a_fan_out() -> None:
    """A withParam on a result is known as soon as the result is, before any element exists."""
    status = a_status(
        a_node("wf", type="Steps"),
        a_node("wf[0]", "Succeeded", type=GROUP),
        a_node("wf[0].list", "Succeeded", outputs={"result": '["p", "q", "r"]'}),
    )
    main = the_steps(
        [a_step("list")],
        [a_step("f", withParam="{{steps.list.outputs.result}}")],
        [a_step("g", withSequence={"count": "{{steps.list.outputs.parameters.n}}"})],
    )
    workflow = read(a_workflow(main, status=status))
    assert ["[1].f(0:p)", "[1].f(1:q)", "[1].f(2:r)"] == list(states(workflow))[1:4]
    assert 1 == len(workflow.unknowns)


def test_outputs_of_a_fan_out_come_as_a_list() -> None:
    """Argo aggregates results and parameters of all elements, once all have ended."""
    elements = [
        a_node(
            f"wf.a({n}:{n})",
            "Succeeded",
            outputs={"result": str(n), "parameters": [{"name": "p", "value": f"v{n}"}]},
        )
        for n in range(2)
    ]
    dag = a_dag(
        a_task("a", withItems=[0, 1]),
        a_task("r", ["a"], withParam="{{tasks.a.outputs.result}}"),
        a_task("p", ["a"], withParam="{{tasks.a.outputs.parameters}}"),
        a_task("q", ["a"], withParam="{{tasks.a.outputs.parameters.p}}"),
    )
    group = a_node("wf.a", "Succeeded", type="TaskGroup")
    workflow = read(a_workflow(dag, status=a_status(a_node("wf", type="DAG"), group, *elements)))
    assert [".r(0:0)", ".r(1:1)", ".p(0:p:v0)", ".p(1:p:v1)", ".q(0:v0)", ".q(1:v1)"] == list(
        states(workflow)
    )[2:]
    elements[1]["phase"] = "Running"
    open_still = read(a_workflow(dag, status=a_status(a_node("wf", type="DAG"), group, *elements)))
    assert 3 == len(open_still.unknowns)


def test_elements_tell_the_width_that_a_parameter_does_not() -> None:
    """Argo makes all at once; only a limit on parallel pods leaves the rest open."""
    status = a_status(
        a_node("wf", type="DAG"),
        a_node("wf.f", type="TaskGroup"),
        *(a_node(f"wf.f({n}:{n})", "Running") for n in range(3)),
    )
    dag = a_dag(a_task("f", withParam="{{=toJson([1, 2, 3])}}"))
    whole = read(a_workflow(dag, status=status))
    assert ((), 3) == (whole.unknowns, len(whole.tasks))
    halted = read(a_workflow(dag, status=status, parallelism=3))
    assert (1, None) == (len(halted.unknowns), halted.tasks[-1].count)


def test_elements_that_do_not_exist_yet_stand_beside_those_that_do() -> None:
    """A limit on parallel pods: the rest of the items is still to come."""
    status = a_status(a_node("wf", type="Steps"), a_node("wf[0].f(1:q)", "Running"))
    main = the_steps([a_step("f", withItems=["p", "q", "r"])])
    assert {
        "[0].f(0:p)": TaskState.UNSTARTED,
        "[0].f(1:q)": TaskState.RUNNING,
        "[0].f(2:r)": TaskState.UNSTARTED,
    } == states(read(a_workflow(main, status=status)))


def test_skipped_nested_templates_are_one_task() -> None:
    """Whatever would have been inside of it."""
    inner = {"name": "inner", "dag": {"tasks": [a_task("x"), a_task("y")]}}
    status = a_status(a_node("wf", type="DAG"), a_node("wf.a", "Omitted", type="Skipped"))
    dag = a_dag(a_task("a", template="inner"), a_task("b", ["a"]))
    assert {".a": TaskState.SKIPPED, ".b": TaskState.UNSTARTED} == states(
        read(a_workflow(dag, inner, status=status))
    )


def test_a_result_from_the_cache_did_not_run() -> None:
    """Argo calls it succeeded; no pod was made."""
    memory = {"hit": True, "key": "k", "cacheName": "c"}
    node = a_node("wf", "Succeeded", memoizationStatus=memory)
    workflow = read(a_workflow(a_template("main", memoize={}), status=a_status(node)))
    assert {"": TaskState.SKIPPED} == states(workflow)


def test_what_has_not_begun_when_its_dag_failed_never_will() -> None:
    """The rest of the Workflow goes on."""
    inner = {"name": "inner", "dag": {"tasks": [a_task("x"), a_task("y", ["x"])]}}
    status = a_status(
        a_node("wf", type="DAG"),
        a_node("wf.a", "Failed", type="DAG"),
        a_node("wf.a.x", "Failed"),
    )
    dag = a_dag(a_task("a", template="inner"), a_task("b", "a.Failed"))
    assert {
        ".a.x": TaskState.FAILED,
        ".a.y": TaskState.SKIPPED,
        ".b": TaskState.UNSTARTED,
    } == states(read(a_workflow(dag, inner, status=status)))


def test_an_exit_handler_outlives_the_failure_of_the_rest() -> None:
    """It is still to come while the Workflow runs, and never is once that has ended."""
    obj = a_workflow(the_steps([a_step("a")], [a_step("b")]), onExit="work")
    nodes = (a_node("wf", "Failed", type="Steps"), a_node("wf[0].a", "Failed"))
    obj["status"] = a_status(*nodes)
    assert {
        "[0].a": TaskState.FAILED,
        "[1].b": TaskState.SKIPPED,
        ".onExit": TaskState.UNSTARTED,
    } == states(read(obj))
    obj["status"] = a_status(*nodes, phase="Failed")
    assert TaskState.SKIPPED is states(read(obj))[".onExit"]


def test_recursion_is_followed_as_far_as_it_went() -> None:
    """Each round that exists is there; the next stands for all others."""
    main = the_steps([a_step("a")], [a_step("again", template="main", when="x == y")])
    status = a_status(
        a_node("wf", type="Steps"),
        a_node("wf[0].a", "Succeeded"),
        a_node("wf[1].again", type="Steps"),
        a_node("wf[1].again[0].a", "Running"),
    )
    workflow = read(a_workflow(main, status=status))
    assert {
        "[0].a": TaskState.SUCCEEDED,
        "[1].again[0].a": TaskState.RUNNING,
        "[1].again[1].again": TaskState.UNSTARTED,
    } == states(workflow)
    assert None is workflow.tasks[-1].count


def test_the_status_has_its_own_copies_of_templates() -> None:
    """Templates that were changed or deleted since do not matter to a run."""
    step = a_step("a", templateRef={"name": "lib", "template": "tree"})
    stored = {
        "namespaced/lib/tree": {"name": "tree", "steps": [[a_step("s", template="leaf")]]},
        "namespaced/lib/leaf": a_template("leaf"),
    }
    workflow = read(
        a_workflow(
            the_steps([step]),
            status=a_status(a_node("wf", type="Steps"), storedTemplates=stored),
        )
    )
    assert ["main[0].a[0].s"] == [task.name for task in workflow.tasks]
    obj = a_workflow(a_template("unused"), status=a_status(a_node("wf", type="Steps")))
    obj["spec"] = {"workflowTemplateRef": {"name": "base"}}
    spec = {"entrypoint": "main", "templates": [the_steps([a_step("a")]), a_template("work")]}
    obj["status"]["storedWorkflowTemplateSpec"] = spec
    assert ["main[0].a"] == [task.name for task in read(obj).tasks]


def test_without_its_templates_a_call_is_what_the_status_has_of_it() -> None:
    """Tasks that run are never lost, and the reason is named."""
    step = a_step("a", templateRef={"name": "lib", "template": "tree"})
    status = a_status(
        a_node("wf", type="Steps"),
        a_node("wf[0].a", type="Steps"),
        a_node("wf[0].a[0].s", "Running", templateName="leaf"),
        a_node("wf[0].ab", "Running"),
    )
    workflow = read(a_workflow(the_steps([step], [a_step("b")]), status=status))
    assert ["[0].a[0].s", "[1].b", "[0].ab"] == list(states(workflow))
    assert ("id:wf[0].a[0].s",) == workflow.tasks[1].parents
    assert 1 == len(workflow.unknowns)


def test_packed_nodes_are_read() -> None:
    """Argo packs what is above 1 MiB: base64 of gzip of JSON."""
    nodes = {node["id"]: node for node in (a_node("wf", type="DAG"), a_node("wf.a"))}
    packed = base64.b64encode(gzip.compress(json.dumps(nodes).encode())).decode()
    status = {"phase": "Running", "compressedNodes": packed}
    assert {".a": TaskState.RUNNING} == states(read(a_workflow(a_dag(a_task("a")), status=status)))


def test_offloaded_nodes_are_an_unknown() -> None:
    """They are in a database that only Argo reads."""
    status = {"phase": "Running", "offloadNodeStatusVersion": "fnv:123"}
    workflow = read(a_workflow(a_dag(a_task("a")), status=status))
    assert ("node status is offloaded to Argo's database: what has run is not known",) == (
        workflow.unknowns
    )


@pytest.mark.parametrize(
    "packed",
    ["%", "aGk=", base64.b64encode(gzip.compress(b"[1]", mtime=0)).decode(), "H4sIAAAAAAAAA"],
)
def test_broken_packages_are_named_errors(packed: str) -> None:
    """No base64, no gzip, no object, cut off."""
    with pytest.raises(errors.InputError, match=r"status\.compressedNodes"):
        read(a_workflow(a_dag(a_task("a")), status={"compressedNodes": packed}))


def test_a_package_cannot_blow_up_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What unpacks to more than the bound is refused before it is unpacked."""
    monkeypatch.setattr(argo_nodes, "MOST_BYTES", 1_000)
    packed = base64.b64encode(gzip.compress(b" " * 100_000)).decode()
    with pytest.raises(errors.InputError, match="unpacks to over"):
        read(a_workflow(a_dag(a_task("a")), status={"compressedNodes": packed}))


def test_locks_that_are_held_and_waited_for() -> None:
    """Of the whole Workflow and of single tasks."""
    synchronization = {
        "mutex": {
            "holding": [{"mutex": "genomics/Mutex/m", "holder": "h"}],
            "waiting": [{"mutex": "genomics/Mutex/n", "holder": "h"}],
        },
        "semaphore": {"holding": [{"semaphore": "genomics/ConfigMap/s/k", "holders": ["h"]}]},
    }
    waiting = a_node("wf.a", "Pending", synchronizationStatus={"waiting": "genomics/Mutex/o"})
    over = a_node("wf.b", "Failed", synchronizationStatus={"waiting": "genomics/Mutex/p"})
    status = a_status(waiting, over, synchronization=synchronization)
    workflow = read(a_workflow(a_dag(a_task("a"), a_task("b")), status=status))
    assert (
        ("genomics/ConfigMap/s/k", "genomics/Mutex/m"),
        ("genomics/Mutex/n", "genomics/Mutex/o"),
    ) == (workflow.locks, workflow.waits_for)


def test_a_node_with_a_phase_that_argo_does_not_have_is_a_named_error() -> None:
    """The error names the node."""
    with pytest.raises(errors.InputError, match=r"status\.nodes\.id:wf\.a\.phase: 'Odd'"):
        read(a_workflow(a_dag(a_task("a")), status=a_status(a_node("wf.a", "Odd"))))
