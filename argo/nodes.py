"""The nodes of a Workflow's status, whatever way Argo stored them."""

import base64
import binascii
import dataclasses
import json
import zlib

from tiphys.argo import documents, moments
from tiphys.models.domain import errors, workflows

MOST_BYTES = 64 * 2**20
"""Of unpacked node status; Argo packs what is above 1 MiB, and etcd holds 1.5 MiB."""
MOST_VALUES = 2_000_000
"""In it: read, an empty list of two bytes takes fifty, and anybody may write a status that packs
well.  The nodes of 60,000 pods have as many."""
LEAVES = {
    "Pod": workflows.TaskKind.POD,
    "HTTP": workflows.TaskKind.AGENT,
    "Plugin": workflows.TaskKind.AGENT,
    "Suspend": workflows.TaskKind.SUSPEND,
}
"""Types of nodes that are tasks; the others group them (or are containers of a set's pod)."""
_STATES = {
    "": workflows.TaskState.UNSTARTED,
    "Pending": workflows.TaskState.PENDING,
    "Running": workflows.TaskState.RUNNING,
    "Succeeded": workflows.TaskState.SUCCEEDED,
    "Failed": workflows.TaskState.FAILED,
    "Error": workflows.TaskState.FAILED,
    "Skipped": workflows.TaskState.SKIPPED,
    "Omitted": workflows.TaskState.SKIPPED,
}


@dataclasses.dataclass(slots=True)
class Node:
    """One node of the status; `written` is its JSON."""

    id: str
    name: str
    type: str
    state: workflows.TaskState
    written: documents.Document

    @property
    def cached(self) -> bool:
        """Whether its result came from a memoization cache, without a run."""
        memory = self.written.get("memoizationStatus")
        return isinstance(memory, dict) and memory.get("hit") is True

    @property
    def started_at(self) -> float | None:
        """When Argo created it: for a pod that is its creation, not its start."""
        return moments.read(self.written, "startedAt", f"status.nodes.{self.id}")

    @property
    def ended_at(self) -> float | None:
        """When Argo saw its end."""
        return moments.read(self.written, "finishedAt", f"status.nodes.{self.id}")


@dataclasses.dataclass(slots=True)
class Nodes:
    """All nodes by name, with the elements of fan-outs by place."""

    by_name: dict[str, Node]
    fans: dict[str, dict[int, str]]
    """Name of a fan-out to the names of its elements by index: `wf.fan` to {0: `wf.fan(0:a)`}."""


def read(status: documents.Document, unknowns: list[str]) -> Nodes:
    """Return the nodes of a status; appends to `unknowns` what cannot be seen from here."""
    by_name: dict[str, Node] = {}
    fans: dict[str, dict[int, str]] = {}
    for key, written in _listed(status, unknowns).items():
        if not isinstance(written, dict):
            raise errors.InputError(f"status.nodes.{key}: expected an object, got {written!r:.80}")
        where = "status.nodes"
        name = documents.text(written, "name", where)
        phase = documents.text(written, "phase", where)
        if phase not in _STATES:
            raise errors.InputError(f"status.nodes.{key}.phase: {phase!r:.40} is no phase of Argo")
        by_name[name] = Node(
            key, name, documents.text(written, "type", where), _STATES[phase], written
        )
        if name.endswith(")"):
            base, _, item = name[:-1].rpartition("(")
            digits = item.partition(":")[0]
            if len(digits) < min(len(item), 10) and digits.isascii() and digits.isdigit():
                fans.setdefault(base, {})[int(digits)] = name
    return Nodes(by_name, fans)


def _listed(status: documents.Document, unknowns: list[str]) -> documents.Document:
    if found := documents.mapping(status, "nodes", "status"):
        return found
    if packed := documents.text(status, "compressedNodes", "status"):
        return _unpacked(packed)
    if documents.text(status, "offloadNodeStatusVersion", "status"):
        unknowns.append("node status is offloaded to Argo's database: what has run is not known")
    return documents.EMPTY


def _unpacked(packed: str) -> documents.Document:
    """Return nodes that Argo stored as base64 of gzip of JSON."""
    try:
        unpacking = zlib.decompressobj(wbits=31)
        plain = unpacking.decompress(base64.b64decode(packed, validate=True), MOST_BYTES)
        if unpacking.unconsumed_tail:
            raise errors.InputError(f"status.compressedNodes: unpacks to over {MOST_BYTES} bytes")
        if sum(plain.count(sign) for sign in (b"{", b"[", b",")) > MOST_VALUES:
            raise errors.InputError(f"status.compressedNodes: holds over {MOST_VALUES} values")
        found = json.loads(plain)
    except (binascii.Error, zlib.error, ValueError) as error:
        if isinstance(error, errors.InputError):
            raise
        raise errors.InputError(f"status.compressedNodes: cannot be unpacked: {error}") from None
    return documents.root(found, "status.compressedNodes")
