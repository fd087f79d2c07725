"""The truth about tasks: what they really do. Lives in files that only the kubelet reads.

One file per run, `HOME/truths/RUN.jsonl`, one `Truth` per line, written beside and renamed, before
the first workflow of the run is submitted. Nothing of it ever stands in an API object: the kubelet
finds a pod's truth by namespace, workflow name and the node name that Argo writes as the annotation
`workflows.argoproj.io/node-name` (`WORKFLOW.TASK` in a DAG, with `(N)` appended by a retry; `N` is
the attempt and is cut off before the look-up). Units: seconds of simulated time, bytes, cores.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from lab import errors

RETRY_SUFFIX = re.compile(r"\((\d+)\)$")


class FileRead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input file; the page cache serves it to the second reader on the same node."""

    file: str
    bytes: float


class Truth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one task does, whatever it requested. `x` is its progress from 0 to 1."""

    namespace: str
    workflow: str
    task: str
    """The node name without the workflow's prefix and without the attempt: `align(3:chr4)`."""
    template: str
    """Identity for affinity, host-template noise and sensitivity: the same program, any input."""
    cpu_s: float
    """CPU seconds at node speed 1 (C)."""
    parallelism: float = 1.0
    """Most cores that it can use at once."""
    memory_traffic_bytes_per_s: float = 0.0
    """Memory bandwidth that one core of it asks for when it runs unhindered."""
    memory_sensitivity: float = 0.0
    """How much a loaded memory bus slows it: 0 not at all, 1 wholly bound by memory."""
    reads: tuple[FileRead, ...] = ()
    """Files read from the node's disk or its page cache, in full."""
    written_bytes: float = 0.0
    disk_ops: float = 0.0
    """IO operations; against the IOPS cap of the node's disk."""
    store_bytes: float = 0.0
    """Bytes to and from the object store (artifacts)."""
    sibling_bytes: float = 0.0
    """Bytes exchanged with `siblings` while they run (all-reduce between GPU workers)."""
    round_trips: float = 0.0
    """Messages to siblings that each cost one RTT."""
    siblings: tuple[str, ...] = ()
    """Tasks (same workflow) that it talks to."""
    gpu_s: float = 0.0
    """GPU seconds at GPU speed 1 (G)."""
    memory_curve: tuple[tuple[float, float], ...] = ((0.0, 64 * 2**20), (1.0, 64 * 2**20))
    """Working set: (x, bytes) points, piecewise linear, x ascending from 0 to 1."""
    image_bytes: float = 0.0
    """Pulled once per node and image name."""
    exit_codes: tuple[int, ...] = ()
    """Exit code of attempt n = 0, 1, …; attempts beyond the list end with 0."""
    outputs: dict[str, str] = {}
    """Output parameters that the task reports, by name; `result` for the script result."""


def key(namespace: str, node_name: str) -> tuple[str, str, str, int]:
    """Split a pod's node name into (namespace, workflow, task, attempt)."""
    workflow, _, task = node_name.partition(".")
    attempt = 0
    if match := RETRY_SUFFIX.search(task):
        task, attempt = task[: match.start()], int(match.group(1))
    return namespace, workflow, task, attempt


def write(path: Path, truths: Iterable[Truth]) -> None:
    """Write one run's truths; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    encoder = msgspec.json.Encoder()
    with beside.open("wb") as file:
        for truth in truths:
            file.write(encoder.encode(truth) + b"\n")
    beside.replace(path)


def read(path: Path) -> Iterator[Truth]:
    """Yield the truths of one file; raises `UsageError` naming the file and line of a bad one."""
    decoder = msgspec.json.Decoder(Truth)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield decoder.decode(line)
            except (msgspec.ValidationError, msgspec.DecodeError) as error:
                raise errors.UsageError(
                    f"{path}, line {number}: {error}; start the run again, which writes it anew"
                ) from error
