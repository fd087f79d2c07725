"""From a trace's graph to DAG templates: exactly the same dependencies, and Argo's node names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.workloads import manifests, plans, shapes, traces
from tests.unit.workloads import expansions


def a_task(program: str, *parents: int) -> traces.TraceTask:
    """Return a task of one second."""
    return traces.TraceTask(program=program, parents=parents, runtime_s=1.0)


def a_plan(shape: shapes.Shape, *, uses_depends: bool = False) -> plans.WorkflowPlan:
    """Return a plan with the shape's templates; what else a plan has is made up."""
    return plans.WorkflowPlan(
        name="w",
        namespace="n",
        family="f",
        source="s",
        entrypoint=shapes.ROOT,
        programs=tuple(
            plans.Program(
                name=name,
                image="i",
                command=("c",),
                requests=plans.Requests(cpu_m=1000, memory_bytes=2**30),
            )
            for name in dict.fromkeys(shape.templates)
        ),
        graphs=shape.graphs,
        pods=(),
        arrival_s=0.0,
        deadline_s=60.0,
        uses_depends=uses_depends,
    )


def lists_of(shape: shapes.Shape) -> dict[str, str]:
    """Return the expression of each listing task and the items that it will report."""
    return {
        f"{{{{tasks.{shape.paths[index]}.outputs.parameters.items}}}}": shapes.items_json(items)
        for index, items in shape.listed.items()
    }


LANES = (
    a_task("split"),
    *(task for lane in range(3) for task in (a_task("clean", 0), a_task("map", 1 + 2 * lane))),
    a_task("merge", 2, 4, 6),
)


def test_equal_chains_become_a_loop_over_a_nested_dag() -> None:
    """Three lanes of two programs are one task with items, whose template is a DAG of two."""
    shape = shapes.shaped(LANES, word="lane", lists_items=False)
    assert ["main", "clean-to-map"] == [graph.name for graph in shape.graphs]
    assert ["split", "each-lane", "merge"] == [step.name for step in shape.graphs[0].steps]
    assert "each-lane(2:lane-02).map" == shape.paths[6]


def test_equal_siblings_become_a_loop() -> None:
    """Tasks of one program with the same parents and children are one task with items."""
    tasks = (a_task("split"), a_task("work", 0), a_task("work", 0), a_task("merge", 1, 2))
    shape = shapes.shaped(tasks, word="chunk", lists_items=False)
    assert ("split", "work(0:chunk-00)", "work(1:chunk-01)", "merge") == shape.paths


def test_siblings_with_different_children_stay_apart() -> None:
    """A loop would make each child wait for both, which the trace does not."""
    tasks = (a_task("work"), a_task("work"), a_task("left", 0), a_task("right", 0, 1))
    shape = shapes.shaped(tasks, word="chunk", lists_items=False)
    assert ("work", "work-2", "left", "right") == shape.paths


def test_a_split_that_lists_its_chunks_feeds_the_loop() -> None:
    """With `lists_items` the loop takes its items from the output of its one parent."""
    shape = shapes.shaped(LANES, word="lane", lists_items=True)
    assert ("split", "items") == shape.graphs[0].steps[1].items_from
    assert {0: ("lane-00", "lane-01", "lane-02")} == shape.listed


def test_program_names_become_template_names() -> None:
    """Kubernetes' alphabet, readable."""
    assert "samtools-sort" == shapes.slug("SAMTOOLS_SORT")
    assert "filter-contams" == shapes.slug("filterContams")
    assert "sg1iter-decon" == shapes.slug("sG1IterDecon")
    assert "task" == shapes.slug("作业") == shapes.slug("")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[traces.TraceTask, ...]:
    """Draw a graph of up to 14 tasks of few programs, so that loops and chains are frequent."""
    count = draw(st.integers(1, 14))
    tasks = []
    for index in range(count):
        parents = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        tasks.append(a_task(draw(st.sampled_from("abc")), *sorted(parents)))
    return tuple(tasks)


@settings(max_examples=300, deadline=None)
@given(tasks=graphs(), lists_items=st.booleans(), uses_depends=st.booleans())
def test_what_argo_makes_of_it_is_the_trace(
    tasks: tuple[traces.TraceTask, ...], lists_items: bool, uses_depends: bool
) -> None:
    """Every task is a pod under the name that the shape says, after exactly its parents."""
    shape = shapes.shaped(tasks, word="item", lists_items=lists_items)
    workflow = manifests.workflow(a_plan(shape, uses_depends=uses_depends))
    expected = {
        path: (template, frozenset(shape.paths[parent] for parent in task.parents))
        for path, template, task in zip(shape.paths, shape.templates, tasks, strict=True)
    }
    assert expected == expansions.expanded(workflow, lists=lists_of(shape).__getitem__)


@pytest.mark.parametrize("lists_items", [True, False])
def test_steps_and_templates_have_names_of_their_own(lists_items: bool) -> None:
    """Argo refuses two tasks of one name in a DAG, and two templates of one name."""
    tasks = (
        *(a_task("work-2"), a_task("work"), a_task("work", 1), a_task("work", 0)),
        a_task("main", 0),
    )
    shape = shapes.shaped(tasks, word="chunk", lists_items=lists_items)
    assert {graph.name for graph in shape.graphs}.isdisjoint(shape.templates)
    for graph in shape.graphs:
        names = [step.name for step in graph.steps]
        assert sorted(set(names)) == sorted(names)
    assert len({graph.name for graph in shape.graphs}) == len(shape.graphs)
