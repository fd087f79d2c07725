"""Readers of traces: what they take from a line, and one clear sentence for what they cannot."""

import lzma
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from lab import errors
from lab.workloads import packs, traces
from lab.workloads.readers import alibaba, cws, openb, pegasus, tpch, wfinstances, wta
from tests.unit.workloads.packs_made import a_pack, a_row


def test_a_line_becomes_a_trace(tmp_path: Path) -> None:
    """Percent become cores, names stay, parents stay."""
    pack = a_pack(tmp_path, {wfinstances.FILE: [a_row()]})
    (trace,) = wfinstances.read(pack)
    assert ("made/one", "bwa") == (trace.name, trace.family)
    assert [(), (0,)] == [task.parents for task in trace.tasks]
    assert 0.8 == trace.tasks[0].cores_used


def test_zero_runtimes_are_floored(tmp_path: Path) -> None:
    """A zero is a task whose trace was not recorded."""
    row = a_row()
    row["tasks"][0]["rt"] = 0.0
    (trace,) = wfinstances.read(a_pack(tmp_path, {wfinstances.FILE: [row]}))
    assert traces.SHORTEST_S == trace.tasks[0].runtime_s


def test_names_of_nextflow_are_split(tmp_path: Path) -> None:
    """The last word is the program, the one before its sub-workflow."""
    row = a_row(wms="nextflow")
    row["tasks"][0]["name"] = "NFCORE_HIC.HIC.PREPARE_GENOME.BOWTIE2_BUILD"
    (trace,) = wfinstances.read(a_pack(tmp_path, {wfinstances.FILE: [row]}))
    first = trace.tasks[0]
    assert ("BOWTIE2_BUILD", "PREPARE_GENOME") == (first.program, first.part)
    assert trace.small_inputs


def test_nan_in_a_line_is_no_value(tmp_path: Path) -> None:
    """The pack has some; JSON does not know them."""
    row = '{"id": "j", "tasks": [{"n": "M1", "p": [], "st": 1, "rt": NaN, "inst":NaN}]}'
    (trace,) = alibaba.read(a_pack(tmp_path, {alibaba.FILE: [row]}))
    assert traces.SHORTEST_S == trace.tasks[0].runtime_s


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    """File, line and remedy."""
    pack = a_pack(tmp_path, {wfinstances.FILE: [a_row(), '{"id": "cut']})
    with pytest.raises(errors.UsageError, match=r"wfinstances_norm.jsonl.xz, line 2: .*copy the"):
        list(wfinstances.read(pack))


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    """The sentence says which one."""
    row = a_row()
    del row["tasks"][1]["p"]
    with pytest.raises(errors.UsageError, match=r"line 1: .*missing required field `p`"):
        list(wfinstances.read(a_pack(tmp_path, {wfinstances.FILE: [row]})))


@pytest.mark.parametrize("field", ["rt", "cpu", "mem", "inb"])
def test_an_amount_below_zero_is_refused(tmp_path: Path, field: str) -> None:
    """No task runs for less than no time; the line and the field are named."""
    row = a_row()
    row["tasks"][0][field] = -5.0
    with pytest.raises(errors.UsageError, match=rf"line 1: .*>= 0.*{field}"):
        list(wfinstances.read(a_pack(tmp_path, {wfinstances.FILE: [row]})))


def test_a_cycle_is_named_with_its_tasks(tmp_path: Path) -> None:
    """Where, which workflow, the tasks in their order, and what to do."""
    row = a_row()
    row["tasks"][0]["p"] = [1]
    expected = r"line 1: made/one has a cycle: \d \((first|second)\) → .*must have none"
    with pytest.raises(errors.UsageError, match=expected):
        list(wfinstances.read(a_pack(tmp_path, {wfinstances.FILE: [row]})))


def test_a_cycle_of_stages_is_named(tmp_path: Path) -> None:
    """Stages are looked at before they are split into tasks."""
    stage = {"ntask": 2, "dur_ms": {"20": {"first": [5], "rest": [], "fresh": []}}}
    row = {"id": "q", "query": 1, "size": "2g", "stages": [{"p": [1]} | stage, {"p": [0]} | stage]}
    with pytest.raises(errors.UsageError, match="has a cycle"):
        list(tpch.read(a_pack(tmp_path, {tpch.FILE: [row]})))


def test_a_parent_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """An index beyond the tasks is no parent."""
    row = a_row()
    row["tasks"][1]["p"] = [7]
    with pytest.raises(errors.UsageError, match=r"task 1 \(second\) of made/one names parent 7"):
        list(wfinstances.read(a_pack(tmp_path, {wfinstances.FILE: [row]})))


def test_a_workflow_without_tasks_is_refused(tmp_path: Path) -> None:
    """There is nothing to run."""
    pack = a_pack(tmp_path, {wfinstances.FILE: [a_row(tasks=[])]})
    with pytest.raises(errors.UsageError, match="has no tasks"):
        list(wfinstances.read(pack))


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    """An archive that ends too early."""
    pack = a_pack(tmp_path, {wfinstances.FILE: [a_row()] * 50})
    path = tmp_path / wfinstances.FILE
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(errors.UsageError, match="cannot be unpacked"):
        list(wfinstances.read(pack))


def test_amounts_below_zero_of_the_generator_are_floored(tmp_path: Path) -> None:
    """Pegasus' generator draws some; they are no mistake of the file."""
    task = {"name": "a", "p": [], "rt": -1.0, "inb": -5.0, "outb": 7.0}
    row = {"id": "w", "app": "epigenomics", "tasks": [task]}
    (trace,) = pegasus.read(a_pack(tmp_path, {pegasus.FILE: [row]}))
    (first,) = trace.tasks
    assert (traces.SHORTEST_S, 0.0, 7.0) == (
        first.runtime_s,
        first.input_bytes,
        first.output_bytes,
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The pack is there, one file of it is not."""
    with pytest.raises(errors.UsageError, match=r"pegasus_dax_20.jsonl.xz is missing.*--data"):
        list(pegasus.read(packs.Pack(root=tmp_path)))


def test_the_sample_says_what_it_lacks() -> None:
    """Whoever has no pack learns that one is needed."""
    with pytest.raises(errors.UsageError, match="own sample does not have"):
        list(pegasus.read(packs.Pack(root=packs.SAMPLE, sample=True)))


def test_stages_are_split_and_wait_for_every_part(tmp_path: Path) -> None:
    """120 partitions are two tasks; each task of the next stage waits for both."""
    waves = {"20": {"first": [1000.0], "rest": [], "fresh": []}}
    stages = [
        {"p": [], "ntask": 120, "dur_ms": waves},
        {"p": [0], "ntask": 1, "dur_ms": waves},
    ]
    row = {"id": "q1", "query": 1, "size": "10g", "stages": stages}
    (trace,) = tpch.read(a_pack(tmp_path, {tpch.FILE: [row]}))
    assert [(), (), (0, 1)] == [task.parents for task in trace.tasks]
    assert [60.0, 60.0, 1.0] == [task.runtime_s for task in trace.tasks]


def test_a_stage_without_durations_is_named(tmp_path: Path) -> None:
    """There is no work to read off."""
    stage = {"p": [], "ntask": 2, "dur_ms": {}}
    row = {"id": "q", "query": 1, "size": "2g", "stages": [stage]}
    with pytest.raises(errors.UsageError, match="line 1: stage 0 has no durations"):
        list(tpch.read(a_pack(tmp_path, {tpch.FILE: [row]})))


@pytest.mark.parametrize(
    ("start_s", "expected"),
    [(0, "alibaba-early"), (420_000, "alibaba-middle"), (600_000, "alibaba-late")],
)
def test_jobs_are_split_by_time(tmp_path: Path, start_s: float, expected: str) -> None:
    """Structures repeat, so a random split would leak."""
    row = {"id": "j", "tasks": [{"n": "M1", "p": [], "st": start_s, "rt": 5.0, "inst": 1}]}
    (trace,) = alibaba.read(a_pack(tmp_path, {alibaba.FILE: [row]}))
    assert expected == trace.family


def test_pods_without_gpus_are_left_out(tmp_path: Path) -> None:
    """The list has both kinds."""
    header = "name,cpu_milli,memory_mib,num_gpu,deletion_time,scheduled_time"
    rows = [header, "a,4000,1024,0,9,1", "b,8000,2048,2,9,1"]
    (pod,) = openb.read(a_pack(tmp_path, {openb.FILE: rows}))
    assert openb.GpuPod(cpu_m=8000, memory_bytes=2**31, gpus=2, lasted_s=8.0) == pod


def test_a_pod_that_requests_no_memory_is_left_out(tmp_path: Path) -> None:
    """The real list has one; a task of it would be killed as soon as it starts."""
    rows = ["cpu_milli,memory_mib,num_gpu,deletion_time,scheduled_time", "14000,0,1,9,1"]
    assert [] == list(openb.read(a_pack(tmp_path, {openb.FILE: rows})))


@pytest.mark.parametrize("cells", ["-1,1,1", "1,-1,1", "1,1,-1"])
def test_a_request_below_zero_is_refused(tmp_path: Path, cells: str) -> None:
    """With the line."""
    rows = ["cpu_milli,memory_mib,num_gpu,deletion_time,scheduled_time", f"{cells},9,1"]
    with pytest.raises(errors.UsageError, match=r"line 2: a request is below zero"):
        list(openb.read(a_pack(tmp_path, {openb.FILE: rows})))


def test_bytes_that_are_no_text_are_a_broken_line(tmp_path: Path) -> None:
    """Not a trace of Python, in either table."""
    for file, read in ((openb.FILE, openb.read), (cws.ROWS, cws.usages)):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        header = b"cpu_milli,memory_mib,num_gpu,deletion_time,scheduled_time," + CWS_HEADER.encode()
        cells = b"\xff,1,1,9,1,w,\xff,COMPLETED,2,4e9,1,50,1e9"
        path.write_bytes(lzma.compress(header + b"\n" + cells + b"\n"))
        with pytest.raises(errors.UsageError, match=r"line 2: not a"):
            list(read(packs.Pack(root=tmp_path)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ntask": 0}, ">= 1"),
        ({"dur_ms": {"many": {}}}, "dur_ms"),
        ({"dur_ms": {"20": {"first": [-5]}}}, ">= 0"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    """Without tasks it would vanish, and what waits for it would not wait."""
    stage = {"p": [], "ntask": 2, "dur_ms": {"20": {"first": [5]}}} | change
    row = {"id": "q", "query": 1, "size": "2g", "stages": [stage]}
    with pytest.raises(errors.UsageError, match=rf"line 1: .*{said}"):
        list(tpch.read(a_pack(tmp_path, {tpch.FILE: [row]})))


@pytest.mark.parametrize("size", ["large", "-2g", "0g", "nan"])
def test_a_size_that_is_none_is_refused(tmp_path: Path, size: str) -> None:
    """Sizes are `2g` to `100g`."""
    stage = {"p": [], "ntask": 2, "dur_ms": {"20": {"first": [5]}}}
    row = {"id": "q", "query": 1, "size": size, "stages": [stage]}
    with pytest.raises(errors.UsageError, match=f"line 1: size '{size}' is not like"):
        list(tpch.read(a_pack(tmp_path, {tpch.FILE: [row]})))


def test_a_broken_pod_is_named(tmp_path: Path) -> None:
    """File and line of a table."""
    pack = a_pack(tmp_path, {openb.FILE: ["name,cpu_milli,memory_mib,num_gpu", "a,many,1,1"]})
    with pytest.raises(errors.UsageError, match=r"line 2: not a pod"):
        list(openb.read(pack))


def test_an_inferred_dag_becomes_a_trace(tmp_path: Path) -> None:
    """The process is the program; its sub-workflow is the part."""
    task = {"process": "NFCORE_MAG:MAG:QC:FASTQC", "p": [], "rt": 3.0, "cpu_pct": 150.0}
    row = {"id": "cws/mag", "app": "mag", "tasks": [task]}
    (trace,) = cws.read(a_pack(tmp_path, {cws.DAGS: [row]}))
    first = trace.tasks[0]
    assert ("FASTQC", "QC", 1.5) == (first.program, first.part, first.cores_used)


CWS_HEADER = "wf,task,status,cpus,memory,realtime,%cpu,peak_rss"


def test_rows_of_attempts_that_completed_are_read(tmp_path: Path) -> None:
    """In seconds and cores; rows of failed attempts and of unmeasured ones are left out."""
    rows = [CWS_HEADER, "w,1,COMPLETED,2,4e9,1500,50,1e9", "w,1,FAILED,2,4e9,1,50,1e9"]
    (usage,) = cws.usages(a_pack(tmp_path, {cws.ROWS: [*rows, "w,1,COMPLETED,2,4e9,1,,"]}))
    assert (1.5, 0.5, 4e9) == (usage.runtime_s, usage.cores_used, usage.memory_requested_bytes)


def test_a_broken_task_row_is_named(tmp_path: Path) -> None:
    """File and line of the table."""
    pack = a_pack(tmp_path, {cws.ROWS: [CWS_HEADER, "w,1,COMPLETED,two,4e9,1,50,1e9"]})
    with pytest.raises(errors.UsageError, match=r"cws_990runs_tasks.csv.xz, line 2: not a task"):
        list(cws.usages(pack))


def test_a_truncated_task_table_is_named(tmp_path: Path) -> None:
    """An archive that ends too early is a sentence, not a trace of Python."""
    pack = a_pack(tmp_path, {cws.ROWS: [CWS_HEADER] + ["w,1,COMPLETED,2,4e9,1500,50,1e9"] * 99})
    path = tmp_path / cws.ROWS
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(errors.UsageError, match="cannot be unpacked"):
        list(cws.usages(pack))


def test_replay_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who installed only the extra `lab` learns of the other one."""
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(errors.SetupError, match=r"pip install 'tiphys\[traces\]'"):
        wta.arrivals_s(a_pack(tmp_path, {wta.FILE: ["no table"]}))


def test_a_broken_table_of_arrivals_is_named(tmp_path: Path) -> None:
    """File and remedy."""
    with pytest.raises(errors.UsageError, match=r"wta_shell_workflows\.parquet is not a WTA table"):
        wta.arrivals_s(a_pack(tmp_path, {wta.FILE: ["no table"]}))


def test_recorded_arrivals_are_seconds_in_ascending_order(tmp_path: Path) -> None:
    """The archive's are milliseconds, and in any order."""
    path = tmp_path / wta.FILE
    path.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"ts_submit": [2500, 0, 1000]}), path)
    assert (0.0, 1.0, 2.5) == wta.arrivals_s(packs.Pack(root=tmp_path))


@pytest.mark.skipif(packs.find().sample, reason="needs the data pack")
def test_recorded_arrivals_ascend() -> None:
    """3,403 workflows in 624 seconds."""
    recorded = wta.arrivals_s(packs.find())
    assert (3403, 0.0, 624.0) == (len(recorded), recorded[0], recorded[-1])
    assert list(recorded) == sorted(recorded)
