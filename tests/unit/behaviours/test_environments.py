import pytest

from lab.kubelet.behaviours import environments, images
from tests.unit.behaviours.fakes import FakeApi

POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "1"}},
    "spec": {"nodeName": "node-1", "containers": []},
}


async def resolved(*entries: dict[str, object], api: FakeApi | None = None) -> dict[str, str]:
    """Return the environment of a container with these entries."""
    return await environments.resolve(
        api or FakeApi(), POD, {"name": "c", "env": list(entries)}, address="10.0.0.9"
    )


async def test_variables_refer_to_earlier_ones_and_to_the_pod() -> None:
    """`$$` stays a dollar sign, unknown names stay as they are."""
    found = await resolved(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(C)-$$(A)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    )
    assert found == {"A": "1", "B": "1-$(C)-$(A)", "IP": "10.0.0.9", "L": "1", "N": "node-1"}


async def test_resources_are_told_in_the_units_of_their_divisor() -> None:
    """Rounded up; what has no limit may take all that the node gives."""
    node = {"status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}}
    pod = {
        **POD,
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {
                    "name": "c",
                    "resources": {"requests": {"cpu": "1500m"}, "limits": {"memory": "64Mi"}},
                }
            ],
        },
    }
    api = FakeApi({"/api/v1/nodes/node-1": node})

    async def told(resource: str, **more: str) -> str:
        reference = {"resource": resource, **more}
        return await environments.resource_field(api, pod, reference, container="c")

    assert "2" == await told("requests.cpu")
    assert "1500" == await told("requests.cpu", divisor="1m")
    assert str(64 * 2**20) == await told("limits.memory")
    assert "8" == await told("limits.cpu", containerName="c")


async def test_bytes_that_are_no_text_are_for_files_alone() -> None:
    """As with kubelets: no variable of `binaryData`, and the container waits for other bytes."""
    path = "/api/v1/namespaces/ns"
    api = FakeApi(
        {
            f"{path}/configmaps/c": {"data": {"a": "1"}, "binaryData": {"b": "//4="}},
            f"{path}/secrets/s": {"data": {"b": "//4="}},
        }
    )
    container = {"name": "c", "envFrom": [{"configMapRef": {"name": "c"}}]}
    assert {"a": "1"} == await environments.resolve(api, POD, container, address="")
    files = await environments.contents(api, POD, "configMap", {"name": "c"}, binary=True)
    assert {"a": b"1", "b": b"\xff\xfe"} == files
    container = {"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}
    with pytest.raises(environments.MissingReferenceError, match="key b is not UTF-8 text"):
        await environments.resolve(api, POD, container, address="")


async def test_a_missing_secret_keeps_a_pod_waiting_unless_it_is_optional() -> None:
    """A kubelet does not start a container without it."""
    reference = {"name": "s", "key": "k"}
    with pytest.raises(environments.MissingReferenceError, match='secret "s" not found'):
        await resolved({"name": "A", "valueFrom": {"secretKeyRef": reference}})
    optional = {**reference, "optional": True}
    assert await resolved({"name": "A", "valueFrom": {"secretKeyRef": optional}}) == {}


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ([], None, ["nginx", "-g", "daemon off;"]),
        ([], ["x"], ["x"]),
        (["a"], None, ["a"]),
        (["a"], ["b"], ["a", "b"]),
    ],
)
def test_an_image_fills_in_what_the_pod_leaves_open(
    command: list[str], args: list[str] | None, expected: list[str]
) -> None:
    """By the rules of Kubernetes for entrypoint and cmd."""
    assert images.command_line("nginx:1.13", command=command, args=args) == expected


def test_an_unknown_image_runs_nothing_that_is_known() -> None:
    """It is then held until it is stopped."""
    assert images.command_line("nobody/knows", command=[], args=None) == []
