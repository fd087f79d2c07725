"""Events of the watch on pods: what is kept, what is left out, and where the spec comes from."""

import msgspec

from lab.kubelet import tidings
from tests.unit.kubelet import builders


def line(kind: str, item: object) -> bytes:
    """An event as the API server writes it."""
    return msgspec.json.encode({"type": kind, "object": item})


def test_a_pod_comes_without_who_set_which_field() -> None:
    """The rest of it is as the API server told it."""
    pod = builders.a_pod(metadata={"managedFields": [{"manager": "argo", "fieldsV1": {}}]})
    kind, item = tidings.event(line("ADDED", pod))
    tidings.complete(item, before=None)
    expected = {name: value for name, value in pod["metadata"].items() if name != "managedFields"}
    assert ("ADDED", {**pod, "metadata": expected}) == (kind, item)


def test_a_known_pod_keeps_its_spec() -> None:
    """It is the very same object, not decoded again."""
    pod = builders.a_pod()
    _, item = tidings.event(line("MODIFIED", builders.deleted(pod)))
    tidings.complete(item, before=pod)
    assert pod["spec"] is item["spec"]
    assert "deletionTimestamp" in item["metadata"]


def test_a_spec_of_another_generation_is_decoded() -> None:
    """A resize or a new deadline is seen; the object before stays as it was."""
    pod = builders.a_pod(metadata={"generation": 1})
    after = {
        **pod,
        "metadata": {**pod["metadata"], "generation": 2},
        "spec": {**pod["spec"], "activeDeadlineSeconds": 5},
    }
    _, item = tidings.event(line("MODIFIED", after))
    tidings.complete(item, before=pod)
    assert after["spec"] == item["spec"]
    assert "activeDeadlineSeconds" not in pod["spec"]


def test_a_pod_that_is_over_needs_no_spec() -> None:
    """What is remembered of it has none."""
    _, item = tidings.event(line("MODIFIED", builders.a_pod()))
    tidings.complete(item, before={"metadata": {}, "status": {}})
    assert {} == item["spec"]


def test_errors_and_bookmarks_come_whole() -> None:
    """They are no pods: a status is a word there, and a creation time may be null."""
    error = {"kind": "Status", "metadata": {}, "status": "Failure", "code": 410}
    assert ("ERROR", error) == tidings.event(line("ERROR", error))
    bookmark = {
        "kind": "Pod",
        "metadata": {"resourceVersion": "7", "creationTimestamp": None},
        "spec": {"containers": None},
        "status": {},
    }
    assert ("BOOKMARK", bookmark) == tidings.event(line("BOOKMARK", bookmark))
