"""What the webhook counts; every label has a closed set of values, none names a pod."""

import prometheus_client

from tiphys.webhook import checks, failures

OUTCOMES = (
    "gated",
    "placed",
    "passed",
    "shadow",
    "reinvoked",
    "other",
    "disabled",
    "failed",
)
"""How a mutating call ended; `other`: no creation of a named pod of a Workflow, or of one whose
author chose the node."""
VERDICTS = ("none", "held", "disabled", "failed", *checks.Fault)
"""How a validating call ended; `none`: without a decision, `held`: with a good one."""
REFUSED_CALLS = ("subject", "path", "secret", "too-large", "crowded", "slow", "malformed")
"""Why a call was refused or cut; `secret`: the right path without the right secret part,
`crowded`: too many large pods at once."""
PARTS = ("tls", "clients", "ring", "operator_ring")
BUCKETS_S = (0.001, 0.002, 0.004, 0.006, 0.01, 0.015, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2)


class Metrics:
    """One registry with all of them, so that tests may have many."""

    def __init__(self) -> None:
        registry = prometheus_client.CollectorRegistry()
        self.registry = registry
        prometheus_client.ProcessCollector(namespace="tiphys_webhook", registry=registry)
        self.mutations = prometheus_client.Counter(
            "tiphys_webhook_mutations_total",
            "Mutating calls that were answered.",
            ["outcome"],
            registry=registry,
        )
        self.failures = prometheus_client.Counter(
            "tiphys_webhook_decision_failures_total",
            "Pods that passed without a decision, by why.",
            ["kind"],
            registry=registry,
        )
        self.validations = prometheus_client.Counter(
            "tiphys_webhook_validations_total",
            "Validating calls that were answered.",
            ["verdict"],
            registry=registry,
        )
        self.refused_calls = prometheus_client.Counter(
            "tiphys_webhook_refused_calls_total",
            "Calls that were refused or cut.",
            ["why"],
            registry=registry,
        )
        self.stripped = prometheus_client.Counter(
            "tiphys_webhook_stripped_total",
            "Creates that brought along what only Tiphys writes.",
            registry=registry,
        )
        self.mutate_s = prometheus_client.Histogram(
            "tiphys_webhook_mutation_seconds",
            "Seconds from a whole mutating request to its answer.",
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.ask_s = prometheus_client.Histogram(
            "tiphys_webhook_decision_seconds",
            "Seconds that the decision API was waited for.",
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.breaker_open = prometheus_client.Gauge(
            "tiphys_webhook_breaker_open",
            "1 while questions are held back.",
            registry=registry,
        )
        self.expires_at = prometheus_client.Gauge(
            "tiphys_webhook_certificate_expires_timestamp_seconds",
            "Unix seconds at which the own certificate ends.",
            registry=registry,
        )
        self.certified = prometheus_client.Gauge(
            "tiphys_webhook_client_certificates_required",
            "1 while callers have to show a certificate, 0 while a secret path stands in for it.",
            registry=registry,
        )
        self.reloads = prometheus_client.Counter(
            "tiphys_webhook_reloads_total",
            "Changes of keys and certificates that were taken.",
            registry=registry,
        )
        self.refused_parts = prometheus_client.Counter(
            "tiphys_webhook_refused_materials_total",
            "Keys and certificates that could not be used; the last good ones stay.",
            ["part"],
            registry=registry,
        )
        # Every series exists from the start, so that a rate over the first event is seen.
        for outcome in OUTCOMES:
            self.mutations.labels(outcome)
        for kind in failures.Kind:
            self.failures.labels(str(kind))
        for verdict in VERDICTS:
            self.validations.labels(str(verdict))
        for why in REFUSED_CALLS:
            self.refused_calls.labels(why)
        for part in PARTS:
            self.refused_parts.labels(part)

    def text(self) -> bytes:
        """Return the page for Prometheus."""
        return prometheus_client.generate_latest(self.registry)
