"""The journal as its writer sees it: every pod ends in it exactly once, across restarts."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec

from lab import clocks, journals, truths
from lab.kubelet import memories


class Ledger:
    """Appends records to the journal and knows which pods have ended in it already.

    Each append is one `write` of whole lines, so a killed process leaves no half line behind;
    a half line that a full disk left is cut off when the journal is opened again.
    """

    def __init__(self, path: Path, clock: clocks.SimClock) -> None:
        self._path = path
        self._clock = clock
        self._encoder = msgspec.json.Encoder()
        self.ended: set[str] = set()
        """Uids of the pods that have their record."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def end(
        self, memory: memories.Memory, *, group: str, template: str, reason: str, exit_code: int
    ) -> None:
        """Write the end of a pod, now, unless it has one."""
        pod, used = memory.pod, memory.used
        if pod.uid in self.ended:
            return
        _, _, task, attempt = truths.key(pod.namespace, pod.argo_node)
        self.ended.add(pod.uid)
        self.append(
            (
                journals.PodRecord(
                    uid=pod.uid,
                    namespace=pod.namespace,
                    name=pod.name,
                    workflow=pod.workflow,
                    task=task,
                    template=template,
                    attempt=attempt,
                    node=pod.node,
                    group=group,
                    seen_at=memory.seen_at,
                    started_at=memory.first_started_at,
                    ended_at=self._clock.wall(),
                    reason=reason,
                    exit_code=exit_code,
                    requested_cpu_m=pod.requests.cpu_m,
                    requested_memory_bytes=pod.requests.memory_bytes,
                    limit_memory_bytes=pod.main.limit_memory_bytes,
                    cpu_s=used.cpu_core_s,
                    peak_memory_bytes=used.memory_peak_bytes,
                    memory_byte_s=used.memory_byte_s,
                    disk_bytes=used.disk_read_bytes + used.disk_written_bytes,
                    network_bytes=used.net_bytes,
                    gpu_s=used.gpu_s,
                ),
            )
        )

    def append(self, records: Iterable[journals.Record]) -> None:
        """Write records that may come any number of times."""
        lines = b"".join(self._encoder.encode(record) + b"\n" for record in records)
        if lines:
            os.write(self._file, lines)

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(journals.PodRecord)
        whole = 0
        with self._path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    os.ftruncate(self._file, whole)
                    break
                whole += len(line)
                if line.startswith(b'{"kind":"pod"'):
                    self.ended.add(decoder.decode(line).uid)
