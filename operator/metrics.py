"""The operator's metrics: units in the names, closed label sets, never a pod's name as a label."""

import prometheus_client as prometheus

from tiphys.operator import caches

CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST
SECONDS = (0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
PREFIX = "tiphys_operator"


class Metrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        # When each series began says nothing here, and doubles the page.
        prometheus.disable_created_metrics()
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.GCCollector(registry=self.registry)
        self.watch_events = prometheus.Counter(
            f"{PREFIX}_watch_events",
            "Events of the watches that fill the caches",
            ("kind", "event"),
            registry=self.registry,
        )
        self.cache_age_seconds = prometheus.Gauge(
            f"{PREFIX}_cache_age_seconds",
            "For how long nothing proves that a cache is current; 0 while its watch is open",
            ("kind",),
            registry=self.registry,
        )
        self.cache_objects = prometheus.Gauge(
            f"{PREFIX}_cache_objects", "Objects in a cache", ("kind",), registry=self.registry
        )
        self.snapshot_age_seconds = prometheus.Gauge(
            f"{PREFIX}_snapshot_age_seconds",
            "Age of the oldest cache that decisions need",
            registry=self.registry,
        )
        self.gated_pods = prometheus.Gauge(
            f"{PREFIX}_gated_pods", "Pods behind our gate", registry=self.registry
        )
        self.assumed_pods = prometheus.Gauge(
            f"{PREFIX}_assumed_pods",
            "Pods that were decided and are not seen bound yet",
            registry=self.registry,
        )
        self.leader = prometheus.Gauge(
            f"{PREFIX}_leader", "1 on the leader, else 0", registry=self.registry
        )
        self.decisions = prometheus.Counter(
            f"{PREFIX}_decisions", "Answers by verdict", ("verdict",), registry=self.registry
        )
        self.refusals = prometheus.Counter(
            f"{PREFIX}_refusals",
            "Requests that got no decision: bad, unsigned, replayed, late, unready",
            ("why",),
            registry=self.registry,
        )
        self.decision_seconds = prometheus.Histogram(
            f"{PREFIX}_decision_seconds",
            "From the whole request to the whole answer",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.start_seconds = prometheus.Gauge(
            f"{PREFIX}_start_seconds",
            "From a pod's binding to the start of its work, median of the latest",
            registry=self.registry,
        )
        self.frees_seconds = prometheus.Gauge(
            f"{PREFIX}_frees_seconds",
            "From the end of a pod's work until its requests are free, median of the latest",
            registry=self.registry,
        )
        self.estimates_age_seconds = prometheus.Gauge(
            f"{PREFIX}_estimates_age_seconds",
            "Age of the estimates in use; on the leader since the last change",
            registry=self.registry,
        )
        self.history_rows = prometheus.Counter(
            f"{PREFIX}_history_rows",
            "Attempts written to the history store",
            ("outcome",),
            registry=self.registry,
        )
        self.certificate_expiry_seconds = prometheus.Gauge(
            f"{PREFIX}_certificate_expiry_timestamp_seconds",
            "When a certificate ends, unix seconds",
            ("certificate",),
            registry=self.registry,
        )
        self.key_expiry_seconds = prometheus.Gauge(
            f"{PREFIX}_key_expiry_timestamp_seconds",
            "When the newest key of a ring ends, unix seconds",
            ("ring",),
            registry=self.registry,
        )

        self.webhook_exposed = prometheus.Gauge(
            f"{PREFIX}_webhook_exposed",
            "1 while any pod reaches a webhook whose callers show no certificate; by configuration",
            ("configuration",),
            registry=self.registry,
        )

    def watched(self, kind: str, event: str) -> None:
        """Count an event of a watch."""
        self.watch_events.labels(kind, event).inc()

    def observe(self, cached: caches.Caches, now_s: float) -> None:
        """Set what is measured when somebody looks; `now_s` is monotonic."""
        for cache in cached.all:
            self.cache_age_seconds.labels(cache.kind).set(cache.age_s(now_s))
            self.cache_objects.labels(cache.kind).set(len(cache))
        self.snapshot_age_seconds.set(cached.age_s(now_s))
        self.gated_pods.set(len(cached.pods.gated()))

    def page(self) -> bytes:
        """Return the page in Prometheus' text format."""
        return prometheus.generate_latest(self.registry)
