"""What a kubelet refuses although the scheduler has bound it."""

import pytest

from lab.kubelet import admissions, pods
from tests.unit.kubelet.builders import a_container, a_pod

NODE = pods.Resources(cpu_m=2000, memory_bytes=4 * 2**30, storage_bytes=10**9, gpus=1)
LABELS = {"topology.kubernetes.io/rack": "rack-a"}


def a_request(**amounts: str) -> pods.Pod:
    """A pod that asks for some amounts."""
    names = {"gpus": "nvidia.com/gpu", "storage": "ephemeral-storage"}
    requests = {names.get(name, name): amount for name, amount in amounts.items()}
    return pods.read(a_pod(containers=[a_container(resources={"requests": requests})]))


def refusal(pod: pods.Pod, *others: pods.Pod, most_pods: int = 110) -> admissions.Refusal | None:
    """Ask for admission to the node."""
    return admissions.refusal(
        pod, others=others, allocatable=NODE, most_pods=most_pods, labels=LABELS
    )


def test_what_fits_is_taken() -> None:
    """Exactly the rest is still room."""
    assert refusal(a_request(cpu="1", memory="4Gi"), a_request(cpu="1")) is None


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"cpu": "1500m"}, "OutOfcpu"),
        ({"memory": "4Gi"}, "OutOfmemory"),
        ({"storage": "2G"}, "OutOfephemeral-storage"),
        ({"gpus": "2"}, "OutOfnvidia.com/gpu"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_resource(asked: dict[str, str], reason: str) -> None:
    """The reason names the resource, as a kubelet's does."""
    found = refusal(a_request(**asked), a_request(cpu="1", memory="1Gi"))
    assert found is not None
    assert reason == found.reason
    assert "Node didn't have enough resource" in found.message


def test_the_number_of_pods_is_a_resource() -> None:
    """The second pod on a node that holds one."""
    found = refusal(a_request(cpu="0"), a_request(cpu="0"), most_pods=1)
    assert found is not None
    assert "OutOfpods" == found.reason


def test_a_selector_that_the_node_does_not_meet_is_refused() -> None:
    """Bound by hand to the wrong rack."""
    pod = pods.read(a_pod(nodeSelector={"topology.kubernetes.io/rack": "rack-b"}))
    found = refusal(pod)
    assert found is not None
    assert "NodeAffinity" == found.reason
