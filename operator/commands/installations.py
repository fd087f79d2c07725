"""What stands of an installation, as far as one may see: what is switched off, what is missing."""

from collections.abc import Callable, Mapping
from typing import Any

from tiphys.models.wire import paths
from tiphys.operator import elections, settings, trusts
from tiphys.operator.commands import sessions

OURS = "labelSelector=app.kubernetes.io%2Fname%3Dtiphys"
QUESTIONS = {
    "deployments": f"/apis/apps/v1/deployments?{OURS}",
    "cronjobs": f"/apis/batch/v1/cronjobs?{OURS}",
    **{
        kind: f"/apis/admissionregistration.k8s.io/v1/{kind}/tiphys"
        for kind in trusts.CONFIGURATIONS
    },
}
"""What is asked of the API server, by name."""
ENDPOINTS = "endpointslices"
"""Asked of Tiphys' own namespace, for whoever may not read its Deployments."""
RELEASERS = frozenset({"tiphys-releaser", "tiphys-floor"})
KINDS = {
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}


def of(seen: Mapping[str, sessions.Json], missing: frozenset[str]) -> sessions.Json:
    """Return what the answers come to; `missing` names the questions that were answered with 404.

    `releaser` is None where it cannot be seen whether one is there.
    """
    listed = [item for name in ("deployments", "cronjobs") for item in _items(seen, name)]
    found: sessions.Json = {
        "disabled": sorted({item["metadata"]["name"] for item in listed if _disabled(item)})
    }
    # A releaser that is switched off opens gates all the same, whoever leads.
    able = any(item["metadata"]["name"] in RELEASERS and _runs(item) for item in listed)
    found["releaser"] = able if able or {"deployments", "cronjobs"} <= seen.keys() else None

    def serves(namespace: str, service: str) -> bool | None:
        return _serves(seen, namespace, service)

    found["webhooks"] = {
        KINDS[kind]: "not there" if kind in missing else _state(seen[kind], serves)
        for kind in trusts.CONFIGURATIONS
        if kind in missing or kind in seen
    }
    noted = [_notes(seen[kind]) for kind in trusts.CONFIGURATIONS if kind in seen]
    if noted:
        uncertified = any(each.get(paths.CLIENTS) == paths.NONE for each in noted)
        found["clientCertificates"] = paths.NONE if uncertified else paths.REQUIRED
        found["webhookExposed"] = any(each.get(paths.EXPOSED) == "true" for each in noted)
    return found


def unguarded(found: sessions.Json) -> list[str]:
    """Return in sentences what keeps strangers from the webhook less than a certificate does."""
    if found.get("clientCertificates") != paths.NONE:
        return []
    weaker = [
        "the API server shows the webhook no client certificate: a secret path and a NetworkPolicy "
        "keep others out, which is weaker (docs/install.md)"
    ]
    if found.get("webhookExposed"):
        weaker.append(
            "any pod reaches the webhook, so that NetworkPolicy does not hold: is there a network "
            "that enforces policies, and are the API servers' CIDRs others than the pods'?"
        )
    return weaker


def absent(seen: Mapping[str, sessions.Json], missing: frozenset[str]) -> bool:
    """Say whether nothing of Tiphys is there, neither webhook, keys, processes nor a leader."""
    return (
        {"keys", *trusts.CONFIGURATIONS} <= missing
        and not _items(seen, "deployments")
        and not any(
            item["metadata"]["name"].startswith(elections.LEADER) for item in _items(seen, "leases")
        )
    )


def unfit(found: sessions.Json) -> list[str]:
    """Return in sentences why no new pod reaches the webhook; none when all is well."""
    return [
        f"{kind} tiphys: {state}, so pods pass unsteered"
        for kind, state in (found.get("webhooks") or {}).items()
        if state != "ready"
    ]


def switched_off(found: sessions.Json) -> str:
    """Return in a sentence what is switched off; empty when nothing is."""
    names = found.get("disabled") or []
    if not names:
        return ""
    return (
        f"switched off by {settings.DISABLED}=1 (`disabled: true` in the chart): "
        f"{', '.join(names)}; pods pass unsteered and gates are opened"
    )


def unled(found: sessions.Json) -> str:
    """Return in a sentence what comes of gates while no operator leads."""
    if found.get("releaser"):
        return "No operator leads: gates are opened by the releaser."
    if found.get("releaser") is None:
        return "No operator leads; you may not see whether a releaser is there to open gates."
    return (
        "No operator leads and no releaser is there: gates stay shut until somebody opens them "
        "(`tiphys release POD`)."
    )


def _items(seen: Mapping[str, sessions.Json], name: str) -> list[sessions.Json]:
    return list((seen.get(name) or {}).get("items") or ())


def _notes(configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    return (configuration.get("metadata") or {}).get("annotations") or {}


def _runs(item: Mapping[str, Any]) -> bool:
    spec = item.get("spec") or {}
    return not spec.get("suspend") and spec.get("replicas") != 0


def _disabled(item: Mapping[str, Any]) -> bool:
    spec = item.get("spec") or {}
    if "jobTemplate" in spec:
        spec = spec["jobTemplate"].get("spec") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    return any(
        each.get("name") == settings.DISABLED and each.get("value") == "1"
        for container in containers
        for each in container.get("env") or ()
    )


def _state(configuration: Mapping[str, Any], serves: Callable[[str, str], bool | None]) -> str:
    hooks = configuration.get("webhooks") or ()
    if not hooks:
        return "it names no webhook"
    if not all((hook.get("clientConfig") or {}).get("caBundle") for hook in hooks):
        return "its caBundle is empty (the leader fills it in)"
    # Behind a `url` stands whatever somebody put there: that cannot be seen from here.
    services = [hook["clientConfig"].get("service") for hook in hooks]
    for namespace, name in sorted({(s["namespace"], s["name"]) for s in services if s}):
        if serves(namespace, name) is False:
            return f"no pod behind its Service {namespace}/{name} is ready"
    return "ready"


def _serves(seen: Mapping[str, sessions.Json], namespace: str, service: str) -> bool | None:
    """Say whether a pod behind a Service is ready; None where that cannot be seen.

    The Deployment behind it has its name. Its EndpointSlices tell as well, where somebody keeps
    them: the lab does not, so that none at all says nothing.
    """
    for item in _items(seen, "deployments"):
        about = item["metadata"]
        if (about.get("namespace"), about["name"]) == (namespace, service):
            return bool((item.get("status") or {}).get("availableReplicas"))
    slices = [
        item
        for item in _items(seen, ENDPOINTS)
        if item["metadata"].get("namespace") == namespace
        and sessions.text(item, "metadata", "labels", "kubernetes.io/service-name") == service
    ]
    if not slices:
        return None
    return any(
        # Not said means ready, says the API.
        (endpoint.get("conditions") or {}).get("ready") is not False
        for item in slices
        for endpoint in item.get("endpoints") or ()
    )
