"""Finds the truth about a pod in the truth files, which appear while the kubelet runs."""

import logging
from dataclasses import dataclass
from pathlib import Path

from lab import errors, truths

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A truth and the attempt that it is asked for."""

    truth: truths.Truth
    attempt: int
    run: str
    """Name of the run whose file holds the truth: two runs of one plan differ by its noise."""


class Lookup:
    """An index over the truth files of one folder; files are read once, when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, int]] = {}
        self._index: dict[tuple[str, str, str], tuple[str, truths.Truth]] = {}

    def find(self, namespace: str, argo_node: str) -> Found | None:
        """Return what stands in the files about an Argo node, or None.

        A miss looks for new files: a run's file is there before its first workflow.
        """
        namespace, workflow, task, attempt = truths.key(namespace, argo_node)
        key = (namespace, workflow, task)
        if key not in self._index:
            self._scan()
        if key not in self._index:
            return None
        run, truth = self._index[key]
        return Found(truth=truth, attempt=attempt, run=run)

    def _scan(self) -> None:
        for path in sorted(self._folder.glob("*.jsonl")):
            about = path.stat()
            mark = (about.st_mtime_ns, about.st_size)
            if self._read.get(path.name) == mark:
                continue
            self._read[path.name] = mark
            try:
                for truth in truths.read(path):
                    self._index[truth.namespace, truth.workflow, truth.task] = path.stem, truth
            except errors.UsageError as error:
                logger.error("a truth file cannot be read: %s", error)
