"""What people request on a production GPU cluster (Alibaba 2023, openb): CPU, memory and GPUs.

A pod that shares a GPU (`gpu_milli` under 1000) counts as one that has it whole: the plain device
plugin, which Argo's users mostly have, knows no shares.
"""

import csv
import io
from collections.abc import Iterator

import msgspec

from lab import errors
from lab.workloads import packs

FILE = "openb_gpu2023/openb_pod_list_default.csv.xz"


class GpuPod(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one pod that has GPUs, and how long it ran."""

    cpu_m: int
    memory_bytes: int
    gpus: int
    lasted_s: float


def read(pack: packs.Pack) -> Iterator[GpuPod]:
    """Yield the pods with GPUs in the order of the file; `UsageError` for a broken line.

    A pod of the list that requests no memory is left out: nothing can be told about its use.
    """
    path = pack.file(FILE)
    header: list[str] = []
    for number, line in packs.lines(path):
        cells = next(csv.reader(io.StringIO(line.decode(errors="replace"))))
        if number == 1:
            header = cells
            continue
        row = dict(zip(header, cells, strict=False))
        try:
            pod = GpuPod(
                cpu_m=int(row["cpu_milli"]),
                memory_bytes=int(row["memory_mib"]) * 2**20,
                gpus=int(row["num_gpu"]),
                lasted_s=float(row["deletion_time"] or 0) - float(row["scheduled_time"] or 0),
            )
        except (KeyError, ValueError) as error:
            raise errors.UsageError(
                f"{path}, line {number}: not a pod of the openb list ({error}); "
                "mend or remove the line, or copy the file again"
            ) from error
        if min(pod.gpus, pod.cpu_m, pod.memory_bytes) < 0:
            raise errors.UsageError(
                f"{path}, line {number}: a request is below zero; "
                "mend or remove the line, or copy the file again"
            )
        if pod.gpus and pod.cpu_m and pod.memory_bytes:
            yield pod
