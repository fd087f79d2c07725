"""By when Argo needs a pod to have started or ended."""

import pytest

from tests.unit.argo.builders import (
    CREATED_AT,
    Object,
    a_container,
    a_pod,
    a_step,
    a_workflow,
    the_steps,
)
from tiphys.argo import clocks, names
from tiphys.argo import workflows as argo_workflows


def a_timed_pod(deadline: str = "0001-01-01T00:00:00Z", **template: object) -> Object:
    """Return a pod whose template has timeouts."""
    init = a_container("init", template={"name": "align", **template})
    return a_pod(a_container("wait", deadline=deadline), a_container("main"), init=(init,))


def test_timeouts_count_from_the_start_of_the_node() -> None:
    """The nearest first; a timeout needs the end, a pending timeout only the start."""
    pod = a_timed_pod(timeout="10m", pendingTimeout="90s")
    assert (
        clocks.Clock(name="pendingTimeout", at=CREATED_AT + 90, to_end=False),
        clocks.Clock(name="timeout", at=CREATED_AT + 600, to_end=True),
    ) == clocks.of_pod(pod, at=0.0)
    begun = clocks.of_pod(pod, at=0.0, node_started_at=CREATED_AT - 60)
    assert CREATED_AT + 30 == begun[0].at


def test_at_admission_they_count_from_now() -> None:
    """The pod has no creation time yet."""
    pod = a_timed_pod(timeout="10m")
    del pod["metadata"]["creationTimestamp"]
    assert 1_600.0 == clocks.of_pod(pod, at=1_000.0)[0].at


def test_the_deadline_that_argo_tells_its_executor() -> None:
    """The end of the Workflow or of its retries; Go's zero time is none."""
    (clock,) = clocks.of_pod(a_timed_pod("2026-11-30T08:05:00Z"), at=0.0)
    assert (names.ENV_DEADLINE, CREATED_AT + 300, True) == (clock.name, clock.at, clock.to_end)
    assert () == clocks.of_pod(a_timed_pod(), at=0.0)


def test_a_deadline_that_an_author_wrote_is_none_of_argos() -> None:
    """Else anybody's pod would have no time left behind a gate, and go before all others."""
    forged = {"name": names.ENV_DEADLINE, "value": "2020-01-01T00:00:00Z"}
    told = {"name": names.ENV_DEADLINE, "value": "2026-11-30T08:05:00Z"}
    pod = a_pod({"name": "main", "env": [forged, told]}, {"name": "wait", "env": [told]})
    assert [CREATED_AT + 300] == [clock.at for clock in clocks.of_pod(pod, at=0.0)]
    pod = a_pod({"name": "main", "env": [forged]}, {"name": "wait"})
    assert () == clocks.of_pod(pod, at=0.0)
    # A resource template has no container of the author.
    pod = a_pod({"name": "main", "env": [forged, told]})
    assert [CREATED_AT + 300] == [clock.at for clock in clocks.of_pod(pod, at=0.0)]


def test_an_offloaded_template_shows_in_the_pods_own_limit() -> None:
    """Argo makes it from the timeout and others, as of the pod's creation."""
    init = a_container("init", template=names.OFFLOADED)
    pod = a_pod(a_container("main"), init=(init,), activeDeadlineSeconds=120)
    assert CREATED_AT + 120 == clocks.of_pod(pod, at=0.0)[0].at


@pytest.mark.parametrize("written", ["soon", "", 5, None, {}, "1" * 500, "-5m"])
def test_timeouts_that_argo_cannot_read_are_no_clocks(written: object) -> None:
    """Argo fails such a template itself."""
    assert () == clocks.of_pod(a_timed_pod(timeout=written), at=0.0)


def test_a_script_that_speaks_of_a_timeout_has_none() -> None:
    """Only the field counts."""
    pod = a_timed_pod(script={"source": '{"timeout":"1s"}'})
    assert () == clocks.of_pod(pod, at=0.0)


def test_the_clock_of_a_workflow() -> None:
    """`activeDeadlineSeconds` counts from its start."""
    obj = a_workflow(the_steps([a_step("a")]), activeDeadlineSeconds=60)
    (clock,) = clocks.of_workflow(argo_workflows.read(obj))
    assert ("activeDeadlineSeconds", CREATED_AT + 60) == (clock.name, clock.at)
    assert () == clocks.of_workflow(argo_workflows.read(a_workflow(the_steps())))


@pytest.mark.parametrize(
    ("policy", "at"), [("Replace", 3_600.0), ("Forbid", 3_600.0), ("Allow", None), ("", None)]
)
def test_the_next_run_of_a_cron_workflow(policy: str, at: float | None) -> None:
    """It ends this one, or is left out because of it."""
    cron = {"spec": {"schedules": ["@hourly"], "concurrencyPolicy": policy}}
    assert ([] if at is None else [at]) == [
        clock.at for clock in clocks.of_cron_workflow(cron, after=60.0)
    ]


def test_a_gate_opens_in_time_for_the_tightest_clock() -> None:
    """Starting takes its time, and what must end needs its run as well."""
    found = (
        clocks.Clock(name="timeout", at=1_000.0, to_end=True),
        clocks.Clock(name="pendingTimeout", at=700.0, to_end=False),
    )
    assert 690.0 == clocks.open_by(found, start_s=10.0)
    assert 590.0 == clocks.open_by(found, start_s=10.0, run_s=400.0)
    assert None is clocks.open_by((), start_s=10.0)
