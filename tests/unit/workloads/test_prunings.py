"""Large traces cut down: small enough, sound, and still of the same shape."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.workloads import prunings, traces


def lanes(count: int) -> traces.Trace:
    """Return a split, `count` lanes of three programs, and a merge."""
    tasks = [traces.TraceTask(program="split", runtime_s=1.0)]
    for _ in range(count):
        head = len(tasks)
        tasks.append(traces.TraceTask(program="clean", parents=(0,), runtime_s=1.0))
        tasks.append(traces.TraceTask(program="map", parents=(head,), runtime_s=1.0))
        tasks.append(traces.TraceTask(program="sort", parents=(head + 1,), runtime_s=1.0))
    ends = tuple(range(3, len(tasks), 3))
    tasks.append(traces.TraceTask(program="merge", parents=ends, runtime_s=1.0))
    return traces.Trace(name="lanes", family="bwa", tasks=tuple(tasks))


def test_whole_lanes_are_left() -> None:
    """50 lanes cut to 20 tasks are six whole lanes, each merged at the end."""
    cut = prunings.pruned(lanes(50), most_tasks=20)
    assert lanes(6).tasks == cut.tasks


def test_a_small_trace_stays_as_it_is() -> None:
    """There is nothing to cut."""
    assert lanes(3) == prunings.pruned(lanes(3), most_tasks=11)


def test_one_of_each_group_is_left_at_least() -> None:
    """A program does not vanish."""
    assert 5 == prunings.group_count(lanes(50))
    assert lanes(1).tasks == prunings.pruned(lanes(50), most_tasks=2).tasks


@settings(deadline=None)
@given(data=st.data(), most_tasks=st.integers(1, 30))
def test_what_is_left_is_a_workflow(data: st.DataObject, most_tasks: int) -> None:
    """No cycle, no stranger among the parents, no new roots, and not more than asked."""
    tasks: list[traces.TraceTask] = []
    for index in range(data.draw(st.integers(1, 40))):
        parents = data.draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        program = data.draw(st.sampled_from("abc"))
        tasks.append(
            traces.TraceTask(program=program, parents=tuple(sorted(parents)), runtime_s=1.0)
        )
    trace = traces.Trace(name="t", family="bwa", tasks=tuple(tasks))
    cut = traces.made(prunings.pruned(trace, most_tasks=most_tasks), where="here")
    assert len(cut.tasks) <= max(most_tasks, prunings.group_count(trace))
    roots = {task.program for task in trace.tasks if not task.parents}
    assert {task.program for task in cut.tasks if not task.parents} <= roots
    assert {task.program for task in trace.tasks} == {task.program for task in cut.tasks}
