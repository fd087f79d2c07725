"""Which time is which: what runs `speed` times faster in a lab, what is set, and what cannot be."""

ARGO_PAUSE_S = 10.0
"""Simulated seconds that Argo waits before it looks at a workflow again (DEFAULT_REQUEUE_TIME)."""

SCALED = (
    "durations of tasks, start-up of pods and pulling of images",
    "Argo's pause between two looks at a workflow (10 s on real clusters, 10 s / speed here)",
    "arrivals and deadlines of workflows",
    "how long pods stay on a lost node by default (300 s / speed, 1 s of wall time at least)",
    "all figures of this page that do not say wall time",
)
CHOSEN = (
    "kube-scheduler's back-off: 1 s of wall time, the least that it takes (defaults: 1 to 10 s)",
    "Argo's sleep of 1 s after each update of a workflow: left out where time runs faster, as it "
    "cannot be shortened",
)
WALL = (
    "the API server, etcd, the scheduler and Argo themselves: what they take counts speed times",
    "back-off of retries, leases and node heartbeats, CronWorkflows, garbage collection",
    "times in API objects (creationTimestamp, startTime, …)",
)
