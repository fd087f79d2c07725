"""Nodes as API objects: labels, addresses, capacities, conditions."""

from lab import catalogs
from lab.kubelet import machines, nodes, pods
from tests.unit.kubelet.builders import GB, a_cluster, a_group

GPUS = catalogs.Gpus(model="V100", roots=(2, 4), gpu_memory=16 * 2**30)


def test_a_node_has_the_labels_that_schedulers_and_people_read() -> None:
    """Topology, instance type, storage, GPUs, and the group's own."""
    group = a_group(gpus=GPUS, labels={"team": "a"})
    labels = nodes.labels(nodes.places(a_cluster(group))[0])
    expected = {
        "kubernetes.io/hostname": "g-0",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "test-8",
        "topology.kubernetes.io/zone": "zone-1",
        "topology.kubernetes.io/region": "lab",
        "topology.kubernetes.io/rack": "rack-a",
        "lab.tiphys.dev/storage": "ssd",
        "nvidia.com/gpu.count": "6",
        "team": "a",
    }
    assert expected.items() <= labels.items()


def test_addresses_differ_between_all_nodes_and_pods() -> None:
    """600 nodes: own addresses on loopback, pod addresses of distinct blocks."""
    places = nodes.places(a_cluster(a_group(count=600)))
    assert 600 == len({place.address for place in places})
    assert all(place.address.startswith("127.1.") for place in places)
    given = {place.pod_address(number) for place in places for number in range(253)}
    assert 600 * 253 == len(given)


def test_the_system_keeps_memory_for_itself() -> None:
    """Allocatable is capacity less what is reserved, an eighth at most."""
    small, large = a_group(memory=1 * GB), a_group(memory=64 * GB)
    assert 1 * GB / 8 == nodes.reserved_bytes(small)
    assert 1465 * 2**20 == nodes.reserved_bytes(large)
    assert 64 * GB - 1465 * 2**20 == nodes.allocatable(large).memory_bytes


def test_the_status_holds_what_others_decide_by() -> None:
    """Capacity, conditions, the kubelet's port, images by size."""
    place = nodes.places(a_cluster(a_group(gpus=GPUS)))[0]
    status = nodes.status(
        place,
        conditions=nodes.healthy(0.0),
        images={"small": 1.0, "large": 2.0},
        port=4444,
        version="v1.36.3",
        at=10.0,
    )
    assert ("8", "6") == (status["capacity"]["cpu"], status["allocatable"][pods.GPU_RESOURCE])
    assert {"Ready": "True", "MemoryPressure": "False"}.items() <= {
        item["type"]: item["status"] for item in status["conditions"]
    }.items()
    assert 4444 == status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    assert ["large", "small"] == [image["names"][0] for image in status["images"]]


def test_gpus_come_from_one_root_complex_where_one_has_enough() -> None:
    """Roots of 2 and 4: two GPUs take the smaller root, the next three the larger, one the rest."""
    machine = machines.machine(nodes.places(a_cluster(a_group(gpus=GPUS)))[0], at=0.0)
    assert (0, 1) == machine.take_gpus("a", 2)
    assert (2, 3, 4) == machine.take_gpus("b", 3)
    machine.free("a")
    assert (5,) == machine.take_gpus("c", 1)
    assert (0, 1) == machine.take_gpus("d", 2)


def test_gpus_are_split_when_no_root_complex_has_enough() -> None:
    """Five of 2 + 4."""
    machine = machines.machine(nodes.places(a_cluster(a_group(gpus=GPUS)))[0], at=0.0)
    assert (2, 3, 4, 5, 0) == machine.take_gpus("a", 5)
