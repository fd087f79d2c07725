"""JSON patches: they add what is missing, change nothing of the author's, and twice is once."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.fakes import patching, pods
from tiphys.argo import patches
from tiphys.models.domain import decisions, errors

GATE = {"name": "tiphys.dev/steer"}
FOREIGN_GATE = {"name": "kueue.x-k8s.io/admission"}
FAST = decisions.Placement(group="fast", selector=(("node.kubernetes.io/instance-type", "f1"),))
TERM = {
    "weight": 100,
    "preference": {
        "matchExpressions": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["f1"]}
        ]
    },
}
OTHER_TERM = {"weight": 5, "preference": {"matchFields": []}}
SIZING = decisions.Sizing(
    container="main",
    cpu_m=1500,
    memory_bytes=3 * 2**30,
    original_cpu_m=2000,
    original_memory_bytes=4 * 2**30,
)


def a_stamp(verdict: str, **changes: Any) -> decisions.Stamp:
    """Return a decision about the example's pod."""
    return decisions.Stamp(
        id="d-1", verdict=decisions.Verdict(verdict), pod="genomics/exome-align-1", **changes
    )


def created(pod: dict[str, Any], stamp: decisions.Stamp) -> dict[str, Any]:
    """Return the pod with a decision applied; a second patch must be empty."""
    patch = patches.create(pod, stamp, stamp="{}", signature="a..b")
    changed = patching.applied(pod, patch)
    assert [] == patches.create(changed, stamp, stamp="{}", signature="a..b")
    return changed


def test_a_gate_comes_with_its_label_and_the_decision() -> None:
    """And with nothing else, not even a planned placement."""
    pod = pods.a_pod()
    changed = created(pod, a_stamp("gate", placement=FAST))
    assert [GATE] == changed["spec"].pop("schedulingGates")
    assert changed["metadata"]["labels"].pop("tiphys.dev/gated") == "true"
    assert changed["metadata"]["annotations"].pop("tiphys.dev/decision") == "{}"
    assert changed["metadata"]["annotations"].pop("tiphys.dev/signature") == "a..b"
    assert pod == changed


def test_a_foreign_gate_stays() -> None:
    """Ours is added behind it and taken away from wherever it stands."""
    pod = pods.a_pod(spec__schedulingGates=[FOREIGN_GATE], metadata__uid="u")
    gated = created(pod, a_stamp("gate"))
    assert [FOREIGN_GATE, GATE] == gated["spec"]["schedulingGates"]
    opened = patching.applied(gated, patches.opening(gated))
    assert [FOREIGN_GATE] == opened["spec"]["schedulingGates"]


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (None, [TERM]),
        ({}, [TERM]),
        ({"podAntiAffinity": {}}, [TERM]),
        ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}, [TERM]),
        ({"nodeAffinity": {patches.PREFERRED: []}}, [TERM]),
        ({"nodeAffinity": {patches.PREFERRED: [OTHER_TERM]}}, [OTHER_TERM, TERM]),
    ],
)
def test_a_preference_stands_beside_the_authors_terms(
    affinity: object, expected: list[object]
) -> None:
    """Whatever part of the affinity was there stays."""
    pod = pods.a_pod(spec__affinity=affinity)
    changed = created(pod, a_stamp("place", placement=FAST))["spec"]["affinity"]
    assert expected == changed["nodeAffinity"].pop(patches.PREFERRED)
    for kind, terms in (affinity or {}).items():  # type: ignore[attr-defined]
        assert {k: v for k, v in terms.items() if k != patches.PREFERRED} == changed[kind]


def test_a_requirement_is_a_node_selector_beside_the_authors() -> None:
    """Keys are added; the same key with the same value is nothing to do."""
    must = decisions.Placement(selector=(("a/b~c", "1"), ("disk", "ssd")), bind="require")
    pod = pods.a_pod(spec__nodeSelector={"disk": "ssd", "arch": "amd64"})
    changed = created(pod, a_stamp("place", placement=must))
    assert {"disk": "ssd", "arch": "amd64", "a/b~c": "1"} == changed["spec"]["nodeSelector"]


def test_the_authors_selector_is_never_written_over() -> None:
    """The decision is refused; the API server would refuse the release of such a pod for ever."""
    must = decisions.Placement(selector=(("disk", "hdd"),), bind="require")
    pod = pods.a_pod(spec__nodeSelector={"disk": "ssd"}, spec__schedulingGates=[GATE])
    for verdict, make in (("place", patches.create), ("release", patches.release)):
        with pytest.raises(errors.InputError, match="only what is missing"):
            make(pod, a_stamp(verdict, placement=must), stamp="", signature="")


def test_sizes_are_requests_of_the_named_container_alone() -> None:
    """Limits stay; the texts are canonical."""
    changed = created(pods.a_pod(), a_stamp("gate", sizings=(SIZING,)))
    resources = [container.get("resources") for container in changed["spec"]["containers"]]
    assert [None, {"requests": {"cpu": "1500m", "memory": "3Gi"}}] == resources


def test_a_size_for_other_requests_is_refused() -> None:
    """Somebody changed them since: the proof of the size does not hold any more."""
    pod = pods.a_pod()
    pod["spec"]["containers"][1]["resources"]["requests"]["cpu"] = "3"
    with pytest.raises(errors.InputError, match="asks for 3000"):
        patches.create(pod, a_stamp("gate", sizings=(SIZING,)), stamp="", signature="")


def test_what_a_create_brought_along_is_taken_away() -> None:
    """Decisions, the gate and its label are ours to write; the rest of the metadata stays."""
    clean = pods.a_pod()
    forged = pods.a_pod(spec__schedulingGates=[GATE, FOREIGN_GATE])
    forged["metadata"]["labels"]["tiphys.dev/gated"] = "true"
    for name in decisions.WRITTEN:
        forged["metadata"]["annotations"][name] = "forged"
    for stamp in (a_stamp("pass"), a_stamp("shadow")):
        changed = created(forged, stamp)
        assert [FOREIGN_GATE] == changed["spec"].pop("schedulingGates")
        assert clean == changed
    placed = created(forged, a_stamp("place", placement=FAST))
    assert [FOREIGN_GATE] == placed["spec"]["schedulingGates"]
    assert "tiphys.dev/release" not in placed["metadata"]["annotations"]


def test_a_release_opens_places_and_explains_in_one_patch() -> None:
    """It tests uid and gate first, and is nothing the second time."""
    gated = created(pods.a_pod(metadata__uid="u-1"), a_stamp("gate"))
    stamp = a_stamp("release", placement=FAST, pod_uid="u-1")
    patch = patches.release(gated, stamp, stamp="{r}", signature="c..d")
    assert ["test", "test", "remove"] == [operation["op"] for operation in patch[:3]]
    changed = patching.applied(gated, patch)
    assert [] == changed["spec"]["schedulingGates"]
    assert "tiphys.dev/gated" not in changed["metadata"]["labels"]
    assert changed["metadata"]["annotations"]["tiphys.dev/release"] == "{r}"
    assert [TERM] == changed["spec"]["affinity"]["nodeAffinity"][patches.PREFERRED]
    assert [] == patches.release(changed, stamp, stamp="{r}", signature="c..d")
    assert [] == patches.opening(changed)


def test_a_release_never_meets_another_pod() -> None:
    """Made again under the same name, a pod has another uid."""
    gated = created(pods.a_pod(metadata__uid="u-2"), a_stamp("gate"))
    with pytest.raises(errors.StaleError, match="u-2"):
        patches.release(gated, a_stamp("release", pod_uid="u-1"), stamp="", signature="")
    unseen = {**gated, "metadata": {**gated["metadata"], "uid": ""}}
    patch = patches.release(unseen, a_stamp("release", pod_uid="u-1"), stamp="", signature="")
    with pytest.raises(patching.TestFailedError):
        patching.applied(gated, patch)


@pytest.mark.parametrize(("verdict", "make"), [("release", "create"), ("gate", "release")])
def test_a_verdict_for_another_moment_is_refused(verdict: str, make: str) -> None:
    """A release is none at CREATE, and the other way round."""
    with pytest.raises(errors.InputError, match="verdict"):
        getattr(patches, make)(pods.a_pod(), a_stamp(verdict), stamp="", signature="")


@pytest.mark.parametrize(
    ("verdict", "path", "value", "said"),
    [
        ("gate", "spec__schedulingGates", [], "schedulingGates"),
        ("gate", "metadata__labels", {}, "labels"),
        ("place", "spec__affinity", {}, "affinity"),
        ("place", "spec__schedulingGates", [GATE], "schedulingGates"),
    ],
)
def test_a_field_of_ours_that_was_changed_is_named(
    verdict: str, path: str, value: object, said: str
) -> None:
    """Only ours: a sidecar and a label of somebody else's are none of our business."""
    stamp = a_stamp(verdict, placement=FAST, sizings=(SIZING,))
    changed = created(pods.a_pod(), stamp)
    changed["spec"]["containers"].append({"name": "proxy"})
    changed["metadata"]["labels"]["mesh"] = "on"
    assert () == patches.differences(changed, stamp)
    part, _, field = path.partition("__")
    changed[part][field] = value
    assert said in " ".join(patches.differences(changed, stamp))


def test_requests_that_were_changed_are_named() -> None:
    """With container and resource."""
    stamp = a_stamp("gate", sizings=(SIZING,))
    changed = created(pods.a_pod(), stamp)
    changed["spec"]["containers"][1]["resources"]["requests"]["cpu"] = "9"
    assert ("spec.containers[main].resources.requests.cpu",) == patches.differences(changed, stamp)


JUNK = st.sampled_from([None, 1, "x", [], {}, [None], [{"name": 1}], {"a": None}])


@hypothesis.given(
    junk=st.dictionaries(
        st.sampled_from(
            [
                "metadata",
                "metadata__labels",
                "metadata__annotations",
                "spec",
                "spec__schedulingGates",
                "spec__nodeSelector",
                "spec__affinity",
                "spec__affinity__nodeAffinity",
                "spec__containers",
            ]
        ),
        JUNK,
        max_size=2,
    ),
    verdict=st.sampled_from(["gate", "place"]),
)
def test_a_pod_of_any_shape_is_patched_or_refused(junk: dict[str, Any], verdict: str) -> None:
    """Whatever stands in a field: a patch that applies, or the error that callers expect."""
    pod = pods.a_pod()
    for path, value in junk.items():
        owner: Any = pod
        *parents, last = path.split("__")
        for part in parents:
            owner = owner.get(part) if isinstance(owner, dict) else None
        if isinstance(owner, dict):
            owner[last] = value
    stamp = a_stamp(verdict, placement=FAST, sizings=(SIZING,))
    try:
        patch = patches.create(pod, stamp, stamp="{}", signature="s")
    except errors.InputError:
        return
    if isinstance(pod.get("metadata"), dict) and isinstance(pod.get("spec"), dict):
        assert () == patches.differences(patching.applied(pod, patch), stamp)
