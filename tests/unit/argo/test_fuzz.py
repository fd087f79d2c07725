"""Whatever a user can write is read, or refused with a named error; never anything else.

Argo's examples and what the lab recorded of them are damaged at random places, one or several.
"""

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens import argo
from tests.unit.argo import builders, laws
from tiphys.argo import clocks, names, nodes, schedules
from tiphys.argo import pods as argo_pods
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import errors

INPUTS = argo.load()
OBJECTS = argo.by_key(INPUTS["examples"].values())
EXAMPLES = [
    found for obj in INPUTS["examples"].values() if (found := argo.submitted(obj))
] + INPUTS["halfway"]
PODS = [{**pod, "status": builders.ENDED} for pod in INPUTS["pods"]]
CRONS = [obj for obj in INPUTS["examples"].values() if obj["kind"] == "CronWorkflow"]

PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["{{item}}", "{{=x}}", "{{inputs.parameters.a}}", "true", "1e99", "main", "A"]),
)
JSON = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything in a JSON value."""
    if isinstance(value, dict):
        below = value.items()
    elif isinstance(value, list):
        below = enumerate(value)  # type: ignore[assignment]
    else:
        return [path]
    return [path, *(each for key, item in below for each in places(item, (*path, key)))]


def damage(obj: Any, found: random.Random, values: list[Any]) -> Any:
    """Return a copy with one place replaced, removed, or swapped with another for each value."""
    obj = copy.deepcopy(obj)
    for value in values:
        everywhere = [path for path in places(obj) if path]
        if not everywhere:
            return value
        path = found.choice(everywhere)
        above = obj
        for key in path[:-1]:
            above = above[key]
        how = found.randrange(4)
        if how == 0 and isinstance(above, dict):
            del above[path[-1]]
        elif how == 1:
            other = found.choice(everywhere)
            taken = obj
            for key in other:
                taken = taken[key]
            above[path[-1]] = copy.deepcopy(taken)
        else:
            above[path[-1]] = value
    return obj


DAMAGES = st.lists(JSON, min_size=1, max_size=4)


def read_or_refused(obj: Any) -> None:
    """Read a Workflow: it keeps the laws, or there is one named error."""
    try:
        workflow = argo_workflows.read(obj, templates=OBJECTS)
    except errors.InputError as error:
        assert str(error)
    else:
        laws.check(workflow)
        clocks.of_workflow(workflow)


@given(st.sampled_from(EXAMPLES), st.randoms(use_true_random=False), DAMAGES)
def test_damaged_workflows(obj: Any, found: random.Random, values: list[Any]) -> None:
    """Examples before, and recordings while they run."""
    read_or_refused(damage(obj, found, values))


@given(st.sampled_from(PODS), st.randoms(use_true_random=False), DAMAGES)
def test_damaged_pods(obj: Any, found: random.Random, values: list[Any]) -> None:
    """Pods as the webhook and the watches bring them."""
    damaged = damage(obj, found, values)
    for read in (argo_pods.read, lambda pod: clocks.of_pod(pod, at=0.0)):
        try:
            read(damaged)
        except errors.InputError as error:
            assert str(error)


@given(st.sampled_from(CRONS), st.randoms(use_true_random=False), DAMAGES)
def test_damaged_cron_workflows(obj: Any, found: random.Random, values: list[Any]) -> None:
    """Schedules, zones and policies."""
    try:
        clocks.of_cron_workflow(damage(obj, found, values), after=1_796_025_600.0)
    except errors.InputError as error:
        assert str(error)


@given(JSON)
def test_any_json(value: Any) -> None:
    """Also what is not even an object."""
    for what in (value, {"spec": value}, {"metadata": value}, {"spec": {}, "status": value}):
        read_or_refused(what)
        try:
            argo_pods.read(what)
        except errors.InputError as error:
            assert str(error)


@given(st.text(max_size=60))
def test_any_schedule(text: str) -> None:
    """Read or refused."""
    try:
        schedules.following(schedules.read(text), 1_796_025_600.0)
    except errors.InputError as error:
        assert str(error)


@given(st.text(max_size=60))
def test_any_name(text: str) -> None:
    """Attempts and templates are found in names, or not."""
    assert 0 <= names.attempt(text)
    assert isinstance(names.template_of_pod_name(text, "wf"), str)


@pytest.mark.parametrize("value", ["", "x", "H4sI", "AAAA", "é", "=" * 9])
def test_any_package(value: str) -> None:
    """Packed nodes that are none."""
    try:
        nodes.read({"compressedNodes": value}, [])
    except errors.InputError as error:
        assert "status.compressedNodes" in str(error)
