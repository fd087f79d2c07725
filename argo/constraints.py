"""Where a pod's author lets it run, and which of its constraints Tiphys does not model."""

from tiphys.argo import documents
from tiphys.models.domain import pods

OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
DEFAULT_SCHEDULER = "default-scheduler"
ANYWHERE = frozenset(
    {
        "configMap",
        "downwardAPI",
        "emptyDir",
        "gitRepo",
        "hostPath",
        "image",
        "name",
        "nfs",
        "projected",
        "secret",
    }
)
"""Volume sources that bind a pod to no node (and the volume's name)."""
MODELLED = frozenset(
    [
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    ]
)
"""Fields of a pod's spec that are looked at or move it nowhere (Kubernetes 1.36).  Not among them:
those by which pods are scheduled as a gang (KEP-4671), and what is yet to come."""
_TOLERATIONS = frozenset({"", "Equal", "Exists"})
_TOLERATION = ("key", "operator", "value", "effect")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read(spec: documents.Document) -> pods.Constraints:
    """Read the constraints of a pod's spec.  Raises `InputError`.

    Preferences (preferred affinity, ScheduleAnyway) are none.  Whatever kube-scheduler would weigh
    and this does not name goes to `unmodelled`, so that a new field never leads to a wrong place.
    """
    unmodelled = [
        f"spec.{field}" for field in spec if field not in MODELLED and spec[field] is not None
    ]
    required: tuple[tuple[pods.Expression, ...], ...] = ()
    affinity = documents.mapping(spec, "affinity", "spec")
    if affinity:
        required = _required(
            documents.mapping(affinity, "nodeAffinity", "spec.affinity"), unmodelled
        )
        for kind in ("podAffinity", "podAntiAffinity"):
            if documents.items(
                documents.mapping(affinity, kind, "spec.affinity"),
                _REQUIRED,
                f"spec.affinity.{kind}",
            ):
                unmodelled.append(f"spec.affinity.{kind}.{_REQUIRED}")
    for place, spread in enumerate(documents.mappings(spec, "topologySpreadConstraints", "spec")):
        if spread.get("whenUnsatisfiable") != "ScheduleAnyway":
            unmodelled.append(f"spec.topologySpreadConstraints[{place}]")
    for place, volume in enumerate(documents.mappings(spec, "volumes", "spec")):
        for source in volume:
            if source not in ANYWHERE and volume[source] is not None:
                unmodelled.append(f"spec.volumes[{place}].{source}")
    if documents.items(spec, "resourceClaims", "spec"):
        unmodelled.append("spec.resourceClaims")
    if documents.text(spec, "schedulerName", "spec") not in ("", DEFAULT_SCHEDULER):
        unmodelled.append("spec.schedulerName")
    for name in ("containers", "initContainers"):
        for place, container in enumerate(documents.mappings(spec, name, "spec")):
            if "ports" in container:
                where = f"spec.{name}[{place}]"
                if any(
                    port.get("hostPort") for port in documents.mappings(container, "ports", where)
                ):
                    unmodelled.append(f"{where}.ports")
    for place, toleration in enumerate(documents.mappings(spec, "tolerations", "spec")):
        if documents.text(toleration, "operator", "spec.tolerations") not in _TOLERATIONS:
            unmodelled.append(f"spec.tolerations[{place}]")
    return pods.Constraints(
        node_selector=documents.pairs(spec, "nodeSelector", "spec"),
        required=required,
        tolerations=tuple(
            _toleration(*documents.texts(each, "spec.tolerations", *_TOLERATION))
            for each in documents.mappings(spec, "tolerations", "spec")
        ),
        unmodelled=tuple(unmodelled),
    )


def _toleration(key: str, operator: str, value: str, effect: str) -> pods.Toleration:
    return pods.Toleration(key=key, operator=operator or "Equal", value=value, effect=effect)


def _required(
    node_affinity: documents.Document, unmodelled: list[str]
) -> tuple[tuple[pods.Expression, ...], ...]:
    where = f"spec.affinity.nodeAffinity.{_REQUIRED}"
    terms = documents.mapping(node_affinity, _REQUIRED, "spec.affinity.nodeAffinity")
    if not terms:
        return ()
    found = []
    for place, term in enumerate(documents.mappings(terms, "nodeSelectorTerms", where)):
        at = f"{where}.nodeSelectorTerms[{place}]"
        expressions = tuple(
            pods.Expression(
                key=documents.text(expression, "key", at),
                operator=documents.text(expression, "operator", at),
                values=tuple(str(value) for value in documents.items(expression, "values", at)),
                on_field=kind == "matchFields",
            )
            for kind in ("matchExpressions", "matchFields")
            for expression in documents.mappings(term, kind, at)
        )
        if any(expression.operator not in OPERATORS for expression in expressions):
            unmodelled.append(at)
        if expressions:  # a term without any matches no node
            found.append(expressions)
    if not found:
        unmodelled.append(where)
    return tuple(found)
