"""`node_*` as node-exporter exports them for one node."""

from lab.kubelet import nodes
from lab.kubelet.exporters import observations
from lab.kubelet.exporters.pages import Page

SYSTEM_SHARE = 0.1
"""Part of CPU time that counts as `system`; assumption."""
DEVICES = {"nvme": "nvme0n1"}
"""Name of the disk by kind; others are `sda`."""


def write(page: Page, node: observations.Node, *, speed: float) -> None:
    """Write one node's page."""
    _cpu(page, node, speed=speed)
    _memory(page, node)
    _disk(page, node, speed=speed)
    half = node.usage.net_bytes / 2 / speed
    for direction in ("receive", "transmit"):
        about = f"Network device statistic {direction}_bytes (half of both directions together)."
        page.counter(f"node_network_{direction}_bytes_total", about, half, device="eth0")
    group, meter = node.place.group, node.meter
    page.gauge(
        "node_network_speed_bytes", "speed_bytes value of the device.", group.nic, device="eth0"
    )
    for name, about, seconds in (
        ("node_pressure_cpu_waiting_seconds_total", "CPU some", meter.cpu_waiting_s),
        ("node_pressure_io_waiting_seconds_total", "IO some", meter.io_waiting_s),
        ("node_pressure_io_stalled_seconds_total", "IO full", meter.io_stalled_s),
        # Nothing in the model stalls on reclaim: memory runs out, or it does not.
        ("node_pressure_memory_waiting_seconds_total", "memory some", 0.0),
        ("node_pressure_memory_stalled_seconds_total", "memory full", 0.0),
    ):
        page.counter(name, f"Pressure stall time: {about}.", seconds / speed)
    about = "/proc/vmstat information field oom_kill."
    page.gauge("node_vmstat_oom_kill", about, meter.oom_kills)
    page.gauge("node_boot_time_seconds", "Node boot time, in unixtime.", node.booted_at)
    page.gauge(
        "node_uname_info",
        "Labeled system information as provided by the uname system call.",
        1,
        nodename=node.place.name,
        machine="x86_64",
        sysname="Linux",
        release="simulated",
    )


def _cpu(page: Page, node: observations.Node, *, speed: float) -> None:
    """Spread CPU time over the cores evenly; only the sum over them means something."""
    cores = node.place.group.cores
    used, waited = node.usage.cpu_core_s, node.meter.iowait_core_s
    modes = {
        "user": used * (1 - SYSTEM_SHARE),
        "system": used * SYSTEM_SHARE,
        "iowait": waited,
        "idle": max(0.0, node.up_s * cores - used - waited),
    }
    about = "Seconds the CPUs spent in each mode, scaled to wall time."
    for core in range(cores):
        for mode, seconds in modes.items():
            value = seconds / cores / speed
            page.counter("node_cpu_seconds_total", about, value, cpu=str(core), mode=mode)
    for name, load in zip(
        ("node_load1", "node_load5", "node_load15"), node.meter.loads, strict=True
    ):
        page.gauge(name, "Load average over simulated time.", load)


def _memory(page: Page, node: observations.Node) -> None:
    group = node.place.group
    available = group.memory - nodes.reserved_bytes(group) - node.working_set_bytes
    for name, amount in (
        ("MemTotal", group.memory),
        ("MemAvailable", available),
        ("MemFree", available - node.cache_bytes),
        ("Cached", node.cache_bytes),
        ("Buffers", 0.0),
    ):
        about = f"Memory information field {name}_bytes."
        page.gauge(f"node_memory_{name}_bytes", about, max(0.0, amount))


def _disk(page: Page, node: observations.Node, *, speed: float) -> None:
    disk, usage, meter = node.place.group.disk, node.usage, node.meter
    device = DEVICES.get(disk.kind, "sda")
    read_share = usage.read_share
    for name, amount in (
        ("node_disk_read_bytes_total", usage.disk_read_bytes),
        ("node_disk_written_bytes_total", usage.disk_written_bytes),
        ("node_disk_reads_completed_total", usage.disk_ops * read_share),
        ("node_disk_writes_completed_total", usage.disk_ops * (1 - read_share)),
        ("node_disk_io_time_seconds_total", meter.io_time_s),
        ("node_disk_read_time_seconds_total", meter.read_time_s),
        ("node_disk_write_time_seconds_total", meter.write_time_s),
        ("node_disk_io_time_weighted_seconds_total", meter.read_time_s + meter.write_time_s),
    ):
        page.counter(name, "Disk statistic, scaled to wall time.", amount / speed, device=device)
    for name, amount in (
        ("node_filesystem_size_bytes", disk.capacity),
        ("node_filesystem_avail_bytes", disk.capacity),
    ):
        about = "Filesystem; the simulation never fills one."
        page.gauge(name, about, amount, device=f"/dev/{device}", mountpoint="/", fstype="ext4")
