"""The downward API."""

import pytest

from lab.processnode import fields
from tests.unit.processnode import builders as a


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "demo"),
        ("metadata.uid", "uid-web"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.labels", 'app="web"\nnote="a \\"b\\""'),
        ("spec.nodeName", "process-0"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.20.128.1"),
        ("status.hostIP", "127.20.255.1"),
    ],
)
def test_fields_read_as_kubelets_write_them(path, expected):
    """The address too, before the pod runs."""
    pod = a.a_pod()
    pod["metadata"]["labels"]["note"] = 'a "b"'
    assert expected == fields.field(pod, path, place=a.PLACE)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"resource": "limits.memory"}, str(64 * 1024**2)),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "250"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "limits.cpu"}, "64"),
        ({"resource": "requests.cpu", "divisor": "0"}, "1"),
    ],
)
def test_resources_are_rounded_up_to_the_divisor(reference, expected):
    """A limit that is not set is what the node could give."""
    container = a.a_container(resources={"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}})
    read = fields.resource(a.a_pod(container), reference, container="main", place=a.PLACE)
    assert expected == read


def test_unknown_fields_are_named():
    """So that whoever wrote the chart finds the word."""
    with pytest.raises(fields.UnknownError, match=r"spec\.hostPID"):
        fields.field(a.a_pod(), "spec.hostPID", place=a.PLACE)
    with pytest.raises(fields.UnknownError, match="'other'"):
        reference = {"resource": "limits.cpu", "containerName": "other"}
        fields.resource(a.a_pod(), reference, place=a.PLACE)
