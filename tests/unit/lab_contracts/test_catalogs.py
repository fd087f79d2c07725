"""Cluster descriptions: the shipped ones build, and bad ones are refused by name and place."""

from pathlib import Path

import pytest

from lab import catalogs, errors
from lab.processnode import settings

GROUP = """
  - {name: a, count: 2, instance_type: t, rack: r, zone: z, cores: 4, memory: 8Gi,
     memory_bandwidth: 10Gi, nic: 1G, disk: {kind: ssd, bandwidth: 100M, iops: 1000}}
"""
NETWORK = "network: {rack_uplink: 1G, object_store: 2G}\n"


def described(*, groups: str = GROUP, network: str = NETWORK, more: str = "") -> str:
    """Return a cluster description with the given parts."""
    return f"name: test\nabout: a test\n{more}groups:{groups}{network}"


@pytest.mark.parametrize("name", catalogs.names())
def test_a_shipped_cluster_loads_and_names_each_node_once(name: str) -> None:
    """Every shipped description parses, and node names are distinct."""
    nodes = [node for node, _ in catalogs.load(name).nodes]
    assert nodes
    assert len(set(nodes)) == len(nodes)


def test_the_mixed_cluster_has_four_speeds_in_four_racks() -> None:
    """The cluster of the demo is unequal on purpose."""
    groups = catalogs.load("mixed").groups
    assert [group.speed for group in groups] == [0.6, 1.0, 1.4, 2.0]
    assert len({group.rack for group in groups}) == 4


def test_quantities_become_bytes() -> None:
    """`8Gi` and `100M` are what Kubernetes means by them."""
    group = catalogs.parse(described(), source="x.yaml").groups[0]
    assert group.memory == 8 * 2**30
    assert group.disk.bandwidth == 100e6


def test_an_unknown_cluster_is_refused_with_the_known_names() -> None:
    """A typo lists what could have been meant."""
    with pytest.raises(errors.UsageError, match=r"no cluster 'mixd': choose one of .*mixed"):
        catalogs.load("mixd")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "x.yaml is not YAML: line 1, column 5: expected", id="not yaml"),
        pytest.param(described(more="colour: red\n"), "unknown field `colour`", id="unknown key"),
        pytest.param(described(groups=" []\n"), "`groups` is empty", id="no group"),
        pytest.param(described(groups=GROUP + GROUP), "group 'a' appears twice", id="twice"),
        pytest.param(
            described(groups=GROUP.replace("cores: 4", "cores: 0")), "`cores` is 0", id="no cores"
        ),
        pytest.param(
            described(groups=GROUP.replace("8Gi", "8Gigs")),
            "x.yaml: group 'a': `memory`: '8Gigs' is no quantity; write",
            id="bad quantity",
        ),
        pytest.param(
            described(groups=GROUP.replace("cores: 4", "cores: four")),
            "x.yaml: group 'a', `cores`: Expected `int`, got `str`; lab/catalog/ has examples",
            id="bad type",
        ),
        pytest.param(
            described(groups=GROUP.replace("cores: 4, ", "")),
            "x.yaml: group 'a': Object missing required field `cores`; lab/catalog/",
            id="missing key",
        ),
        pytest.param(
            described(groups=GROUP.replace("kind: ssd, ", "")),
            "x.yaml: group 'a', `disk`: Object missing required field `kind`",
            id="missing key of a part",
        ),
        pytest.param(
            described(groups="\n  - 5\n"), "x.yaml: group number 1: Expected", id="no map"
        ),
        pytest.param(
            described(groups=GROUP.replace("name: a", "name: A_b")),
            "x.yaml: group 'A_b' cannot name nodes: use 1 to 47 of",
            id="bad name",
        ),
        pytest.param(
            described(groups=GROUP.replace("rack: r", "rack: my rack")),
            "x.yaml: group 'a': `rack` is 'my rack', but it becomes a label of the nodes: use",
            id="no label",
        ),
        pytest.param(
            described(groups=GROUP.replace("1G", ".inf")),
            "x.yaml: group 'a': `nic` is inf; it must be a number above 0",
            id="infinite",
        ),
        pytest.param(
            described(
                groups=GROUP.replace("nic:", "gpus: {model: x, roots: [], gpu_memory: 1Gi}, nic:")
            ),
            "x.yaml: group 'a': `gpus.roots` is 0; it must be",
            id="no GPU",
        ),
        pytest.param(
            described(groups=GROUP.replace("nic:", "taints: [{key: x}], nic:")),
            "x.yaml: group 'a': the taint .* needs `key` and `effect`",
            id="half a taint",
        ),
        pytest.param(
            described(groups=GROUP.replace("nic:", "taints: [{key: x, effect: Never}], nic:")),
            "x.yaml: group 'a': the taint .* has no such effect: use one of NoSchedule,",
            id="unknown effect",
        ),
        pytest.param(
            described(groups=GROUP.replace("nic:", "labels: {a b: x}, nic:")),
            "x.yaml: group 'a': `labels` has the key 'a b': use 1 to 63",
            id="no key",
        ),
        pytest.param(
            described(
                groups=GROUP.replace("nic:", "labels: {topology.kubernetes.io/rack: x}, nic:")
            ),
            "x.yaml: group 'a': the label topology.kubernetes.io/rack follows from `rack`: write",
            id="rack said twice",
        ),
        pytest.param(
            described(groups=GROUP.replace("name: a", "name: process")),
            "x.yaml: group 'process' would have a node process-0, which is the lab's own",
            id="name of the process node",
        ),
        pytest.param(
            described(network=NETWORK.replace("2G", "0")),
            "x.yaml: network: `object_store` is 0.0; it must be",
            id="no object store",
        ),
        pytest.param(
            described(network=NETWORK[:-2] + ", rtt_ms_between: {r: 1.0}}\n"),
            "x.yaml: network.rtt_ms_between has the pair 'r', but that is no pair: write",
            id="no pair",
        ),
        pytest.param(
            described(network=NETWORK[:-2] + ", rtt_ms: -1}\n"),
            "x.yaml: network: the round trip 'rtt_ms' is -1.0 ms; it must be",
            id="negative round trip",
        ),
        pytest.param(
            described(network=NETWORK[:-2] + ", rtt_ms_between: {r/x: 1.0}}\n"),
            "x.yaml: network.rtt_ms_between has the pair 'r/x', but no group is in rack 'x'",
            id="unknown rack",
        ),
        pytest.param(described(network=""), "missing required field `network`", id="no network"),
    ],
)
def test_a_bad_description_says_what_and_where(text: str, message: str) -> None:
    """Each fault is named with its file."""
    with pytest.raises(errors.UsageError, match=message):
        catalogs.parse(text, source="x.yaml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """A binary given by mistake."""
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"\xb6\x00\xff")
    with pytest.raises(errors.UsageError, match=r"cluster.yaml is not YAML: it is not even text"):
        catalogs.load(str(path))


def test_labels_may_have_a_domain() -> None:
    """As those of clouds and of their autoscalers do."""
    labels = "labels: {karpenter.sh/capacity-type: spot, pool: ''}, nic:"
    cluster = catalogs.parse(described(groups=GROUP.replace("nic:", labels)), source="x.yaml")
    assert cluster.groups[0].labels == {"karpenter.sh/capacity-type": "spot", "pool": ""}


def test_the_name_that_no_group_may_have_is_the_process_nodes() -> None:
    """Two programs would write one Node."""
    assert settings.NODE == f"{catalogs.TAKEN}-0"
