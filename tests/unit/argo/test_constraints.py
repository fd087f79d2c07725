"""Where a pod may run, and what Tiphys says it does not model."""

import pytest

from tests.unit.argo.builders import a_container, a_pod
from tiphys.argo import constraints
from tiphys.argo import pods as argo_pods
from tiphys.models.domain import pods

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def read(**spec: object) -> pods.Constraints:
    """Return the constraints of a spec."""
    return constraints.read(spec)


def test_selectors_affinity_and_tolerations_are_modelled() -> None:
    """Terms with labels and fields, in the order written; selectors sorted."""
    terms = [
        {
            "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a", "b"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
        },
        {"matchExpressions": [{"key": "big", "operator": "Exists"}]},
    ]
    found = read(
        nodeSelector={"zone": "z", "arch": "arm64"},
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
        tolerations=[
            {"operator": "Exists"},
            {"key": "spot", "value": "yes", "effect": "NoExecute"},
        ],
    )
    assert (("arch", "arm64"), ("zone", "z")) == found.node_selector
    assert (
        (
            pods.Expression(key="gpu", operator="In", values=("a", "b")),
            pods.Expression(key="metadata.name", operator="NotIn", values=("n1",), on_field=True),
        ),
        (pods.Expression(key="big", operator="Exists"),),
    ) == found.required
    assert (
        pods.Toleration(operator="Exists"),
        pods.Toleration(key="spot", value="yes", effect="NoExecute"),
    ) == found.tolerations
    assert () == found.unmodelled


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
            f"spec.affinity.podAffinity.{REQUIRED}",
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
            f"spec.affinity.podAntiAffinity.{REQUIRED}",
        ),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0]",
        ),
        (
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "ephemeral": {}}]},
            "spec.volumes[1].ephemeral",
        ),
        ({"volumes": [{"name": "a", "invented": {}}]}, "spec.volumes[0].invented"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"schedulerName": "volcano"}, "spec.schedulerName"),
        ({"schedulingGroup": {"podGroupName": "gang"}}, "spec.schedulingGroup"),
        (
            {"tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Gt", "value": "5"}]},
            "spec.tolerations[1]",
        ),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, "spec.containers[0].ports"),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}},
            f"spec.affinity.nodeAffinity.{REQUIRED}",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Near"}]}
                            ]
                        }
                    }
                }
            },
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]",
        ),
    ],
)
def test_what_is_not_modelled_is_named_by_its_path(spec: dict[str, object], path: str) -> None:
    """Such a pod gets an order and no place; fields that do not exist yet are among them."""
    assert (path,) == constraints.read(spec).unmodelled


def test_preferences_and_free_volumes_constrain_nothing() -> None:
    """Preferred affinity, ScheduleAnyway, container ports and local volumes are no constraints."""
    found = read(
        affinity={
            "nodeAffinity": {PREFERRED: [{"weight": 1}]},
            "podAffinity": {PREFERRED: [{"weight": 1}]},
        },
        topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}],
        volumes=[{"name": kind, kind: {}} for kind in ("configMap", "projected", "image")],
        schedulerName="default-scheduler",
        containers=[{"ports": [{"containerPort": 80}]}],
    )
    assert pods.Constraints() == found


def test_the_retry_on_another_host_is_read() -> None:
    """Argo writes the hosts that failed as node affinity, which narrows where a retry may go."""
    hosts = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}}}
    pod = argo_pods.read(a_pod(a_container("main"), node="wf.align(2)", affinity=affinity))
    expected = pods.Expression(key="kubernetes.io/hostname", operator="NotIn", values=("n1", "n2"))
    assert ((expected,),) == pod.constraints.required
