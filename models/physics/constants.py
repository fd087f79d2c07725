"""Every number of the fluid model that is not given by a cluster or a task.

Each stands with its source, or the word "assumption"; `docs/physics.md` has the same list, and a
test compares the two. Units are in the names.
"""

MEMORY_KNEE = 0.75
"""Part of the sustained memory bandwidth from which latency rises. Assumption (the design's
figure); the shape above it is one too: see `slowdowns.latency`."""

AFFINITY_SIGMA = 0.2
"""Log-normal sigma of how well a template suits a hardware. Source: Lotaru's runs of the same tasks
on seven machine types; 10 to 90 % spread inside one machine 0.55-0.82 to 0.97-1.77."""

ATTEMPT_SIGMA_LEAST = 0.03
"""Least run-to-run sigma of one task; each template has its own between this and the next. Source:
990 CWS runs, median CV 2-4 % in most workflows."""

ATTEMPT_SIGMA_MOST = 0.07
"""Largest run-to-run sigma of one task. Source: 990 CWS runs, median CV 7-11 % in sarek, rnaseq."""

RUN_SIGMA = 0.014
"""Sigma of what all tasks of one run share. Assumption (the design's figure); a rough fit to the
tasks above 10 s of the CWS runs gave 0-0.5 %."""

HOST_TEMPLATE_SIGMA = 0.014
"""Sigma of one template on one host. Assumption (the design's figure); the same rough fit gave
0-0.7 %."""

START_MEDIAN_S = 3.0
"""Median service time of the pod start server of one node. Source: CWS runs (a serial server of
about 3 s a node explains 51-79 % of the best makespan in 7 of 9 workflows)."""

START_SIGMA = 0.42
"""Log-normal sigma of that service time. Source: 469,440 gaps between starts on one host of the CWS
runs while pods waited; the best fit is this sigma with a median of 3.4 s."""

RELEASE_MEDIAN_S = 2.0
"""Median time from the end of a task until its requests are free again. Assumption, of the order of
a kubelet's status loops; in the CWS runs completion lags the work by 0.3 s (p50) to 3 s (p99)."""

RELEASE_SIGMA = 0.5
"""Log-normal sigma of that time. Assumption."""

LEAST_CPU_WEIGHT_CORES = 2 / 1024
"""CPU weight of a task without a request. Source: kubelet's least cpu.shares is 2 (1024 a core)."""

BURST_RATE_FACTOR = 2.0
"""Disk rate over its cap while tokens last, when the cluster gives none. Assumption."""

CROSS_ROOT_SHARE = 0.2
"""Part of a GPU link's bandwidth that is left across PCIe root complexes. Assumption (the design's
figure): the path then runs through both host bridges and the link between the sockets."""

GPU_LINK_BYTES_PER_S = 12.0 * 2**30
"""Between two GPUs of one root complex when the cluster gives none. Assumption: what PCIe 3.0 x16
(15.75 GB/s raw) leaves to data."""

DOWN_LINK_BYTES_PER_S = 1.0
"""Rate over a link that is down: not 0, so that times stay finite; a task on it hangs. Assumption,
after NCCL, which waits rather than fails."""

RTT_INSIDE_RACK_S = 0.0002
"""Round trip inside a rack when the cluster gives none. Assumption."""

RTT_BETWEEN_RACKS_S = 0.001
"""Round trip between racks for a pair that the cluster does not list. Assumption."""

RTT_INSIDE_NODE_S = 0.00003
"""Round trip between two tasks of one node. Assumption (loopback TCP)."""

EVICTION_RESERVE_BYTES = 100 * 2**20
"""Memory that a kubelet keeps available by evicting. Source: kubelet default
`memory.available<100Mi`."""

EVICTION_PERIOD_S = 10.0
"""How often a kubelet looks; what fills the reserve faster meets the kernel's OOM killer first.
Source: kubelet, housekeeping and eviction monitoring period of 10 s."""

LEAST_TASK_S = 0.001
"""Shortest time that any task takes. Assumption; keeps rates finite for tasks without work."""
