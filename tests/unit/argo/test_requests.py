"""What a pod asks for: against kube-scheduler's own answers (`requests.json`, by `requests.go`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiphys.argo import pods as argo_pods
from tiphys.argo import requests
from tiphys.models.domain import amounts, errors, pods

ROWS = json.loads(Path(__file__).with_name("requests.json").read_text())
AMOUNTS = st.builds(
    amounts.Amounts,
    st.integers(0, 64_000),
    st.integers(0, 2**40),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 8)).map(
        lambda found: tuple(sorted(found.items()))
    ),
)


def containers(sizes: list[amounts.Amounts], *, restartable: bool = False) -> list[pods.Container]:
    """Return containers that ask for `sizes`."""
    return [
        pods.Container(
            name=f"c{place}",
            role=pods.ContainerRole.MAIN,
            image="i",
            requests=size,
            restartable=restartable,
        )
        for place, size in enumerate(sizes)
    ]


SIZES = st.lists(AMOUNTS, max_size=4)


@pytest.mark.parametrize("row", ROWS)
def test_counts_as_the_scheduler(row: dict[str, Any]) -> None:
    """Sidecars, init steps, overhead, pod level and resizes come to what the scheduler counts."""
    listed = {**row["requests"], amounts.PODS: 1}
    expected = amounts.Amounts(
        listed.pop("cpu", 0), listed.pop("memory", 0), tuple(sorted(listed.items()))
    )
    assert expected == argo_pods.read(row["pod"]).requests


@given(SIZES, SIZES, SIZES)
def test_a_pod_asks_for_at_least_each_part(
    mains: list[amounts.Amounts], inits: list[amounts.Amounts], sidecars: list[amounts.Amounts]
) -> None:
    """Neither any init step nor all that runs together asks for more than the pod."""
    total = requests.of_pod(
        containers(mains), [*containers(sidecars, restartable=True), *containers(inits)]
    )
    together = sum([*mains, *sidecars], amounts.NOTHING)
    assert together.fits(total)
    assert all((sum(sidecars, amounts.NOTHING) + init).fits(total) for init in inits)


@given(SIZES, SIZES)
def test_init_containers_without_sidecars_only_raise_to_the_largest(
    mains: list[amounts.Amounts], inits: list[amounts.Amounts]
) -> None:
    """Without native sidecars it is the larger of the sum and each init step, by resource."""
    expected = sum(mains, amounts.NOTHING)
    for init in inits:
        expected = expected.most(init)
    assert expected + requests.ONE_POD == requests.of_pod(containers(mains), containers(inits))


@given(SIZES, SIZES)
def test_the_order_of_plain_init_containers_does_not_matter(
    mains: list[amounts.Amounts], inits: list[amounts.Amounts]
) -> None:
    """Plain init steps run one by one, so turning them round changes nothing."""
    there = requests.of_pod(containers(mains), containers(inits))
    assert there == requests.of_pod(containers(mains), containers(inits[::-1]))


@given(AMOUNTS)
def test_a_sidecar_counts_as_a_container(size: amounts.Amounts) -> None:
    """A native sidecar alone asks for as much as a container of its size."""
    as_sidecar = requests.of_pod((), containers([size], restartable=True))
    assert requests.of_pod(containers([size]), ()) == as_sidecar


def test_a_limit_alone_is_a_request() -> None:
    """As the API server defaults; a request that is written stays."""
    container = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    asked, limits = requests.of_container(container, "main")
    assert (amounts.Amounts(1000, 2**30), amounts.Amounts(2000, 2**30)) == (asked, limits)


def test_a_quantity_that_cannot_be_read_is_named() -> None:
    """The error says which field of which container."""
    pod = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "many"}}}]}}
    with pytest.raises(
        errors.InputError, match=r"spec\.containers\[0\]\.resources\.requests\.cpu: 'many'"
    ):
        argo_pods.read(pod)
