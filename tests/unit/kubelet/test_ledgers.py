"""The journal: each pod once, over restarts and torn lines."""

from pathlib import Path

from lab.kubelet import ledgers, memories, pods
from tests.unit.kubelet.builders import a_clock, a_pod, read_records


def end(ledger: ledgers.Ledger, memory: memories.Memory) -> None:
    """Record a pod's end."""
    ledger.end(memory, group="g", template="t", reason="Completed", exit_code=0)


def test_a_pod_is_recorded_once_also_by_the_next_kubelet(tmp_path: Path) -> None:
    """Twice by one process, once more by its successor: one line."""
    memory = memories.Memory(pod=pods.read(a_pod()), seen_at=1.0)
    for _ in range(2):
        with ledgers.Ledger(tmp_path / "journal.jsonl", a_clock()) as ledger:
            end(ledger, memory)
            end(ledger, memory)
    assert [memory.pod.uid] == [one.uid for one in read_records(tmp_path / "journal.jsonl")]


def test_half_a_line_is_cut_off(tmp_path: Path) -> None:
    """What a full disk left at the end does not spoil the next line."""
    path = tmp_path / "journal.jsonl"
    one, two = (memories.Memory(pod=pods.read(a_pod()), seen_at=1.0) for _ in range(2))
    with ledgers.Ledger(path, a_clock()) as ledger:
        end(ledger, one)
    with path.open("ab") as file:
        file.write(b'{"kind":"pod","uid":"ha')
    with ledgers.Ledger(path, a_clock()) as ledger:
        end(ledger, two)
    assert [one.pod.uid, two.pod.uid] == [record.uid for record in read_records(path)]


def test_an_argo_pod_is_recorded_with_its_task_and_attempt(tmp_path: Path) -> None:
    """Argo's node name is split; another pod has neither."""
    item = a_pod(annotations={pods.NODE_NAME_ANNOTATION: "wf.align(2)"})
    memory = memories.Memory(pod=pods.read(item), seen_at=1.0)
    with ledgers.Ledger(tmp_path / "journal.jsonl", a_clock()) as ledger:
        end(ledger, memory)
    (record,) = read_records(tmp_path / "journal.jsonl")
    assert ("align", 2, 1000, 2**30) == (
        record.task,
        record.attempt,
        record.requested_cpu_m,
        record.requested_memory_bytes,
    )
