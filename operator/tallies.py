"""What the dispatcher measures: gates that open, and what stood in the way."""

import enum

import prometheus_client as prometheus

from tiphys.models.planner import plans

PREFIX = "tiphys_operator"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class How(enum.StrEnum):
    """What opened a gate."""

    TURN = "turn"
    """Its turn had come."""
    CLOCK = "clock"
    """A time-out: Argo's clocks, `gate.maxHold`, `gate.maxTotal`, or caches that stay old."""
    PLANNED = "planned"
    """Nobody steers it any more: policy Off or gone, opted out, switched off."""
    NEVER = "never"
    """It could never have been released otherwise."""


class Outcome(enum.StrEnum):
    """What came of one attempt to open a gate."""

    OPENED = "opened"
    UNPLACED = "unplaced"
    """Opened without the placement, which the pod would not take."""
    VANISHED = "vanished"
    """The pod is gone, or another one has its name."""
    OVERTAKEN = "overtaken"
    """Somebody else let the pod go."""
    REFUSED = "refused"
    """No right, or an admission policy says no."""
    LATER = "later"
    """The API server did not answer or was too busy: it is planned again."""


class Tallies:
    """Counters of the dispatcher, in the registry of the process."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self.opened = prometheus.Counter(
            f"{PREFIX}_gates_opened",
            "Gates opened, by what opened them",
            ("how",),
            registry=registry,
        )
        self.attempts = prometheus.Counter(
            f"{PREFIX}_release_attempts",
            "Attempts to open a gate, by what came of it",
            ("outcome",),
            registry=registry,
        )
        self.release_seconds = prometheus.Histogram(
            f"{PREFIX}_release_seconds",
            "From what made room, or from a new pod, to the open gate",
            buckets=SECONDS,
            registry=registry,
        )
        self.tick_seconds = prometheus.Histogram(
            f"{PREFIX}_tick_seconds",
            "One plan over all gated pods",
            buckets=SECONDS,
            registry=registry,
        )
        self.held = prometheus.Gauge(
            f"{PREFIX}_held_pods", "Pods behind our gate, by why", ("kind",), registry=registry
        )
        self.recoveries = prometheus.Counter(
            f"{PREFIX}_recoveries",
            "Badly placed pods that were given back to Argo, by what came of it",
            ("outcome",),
            registry=registry,
        )
        self.conditions = prometheus.Counter(
            f"{PREFIX}_conditions",
            "Reasons written to pods that wait long, by what came of it",
            ("outcome",),
            registry=registry,
        )
        self.events = prometheus.Counter(
            f"{PREFIX}_events",
            "Events for people, by what came of it",
            ("outcome",),
            registry=registry,
        )
        self.unreadable_annotations = prometheus.Gauge(
            f"{PREFIX}_unreadable_annotations",
            "Objects with an annotation of Tiphys that cannot be read, so that it steers nobody",
            ("kind",),
            registry=registry,
        )
        for how in How:
            self.opened.labels(how.value)
        for kind in plans.HoldKind:
            self.held.labels(kind.value)
