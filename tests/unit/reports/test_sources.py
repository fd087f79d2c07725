import json

import msgspec
import pytest

from lab import errors, homes, journals
from lab.reports import audits, figures, measurements, sources
from tests.unit.reports import synthetic_runs as a
from tests.unit.reports import written_runs


@pytest.fixture
def home(tmp_path):
    """Return the home of a lab that wrote all its records."""
    home = homes.Home(name="test", root=tmp_path)
    written_runs.write(home, a.a_run())
    return home


def test_a_call_carries_the_api_servers_own_times(tmp_path):
    """Microseconds, wall time; what a call took is answered - received."""
    path = tmp_path / "audit.log"
    path.write_text(json.dumps(written_runs.an_event("create", "pods/binding")) + "\n")
    (call,) = audits.read_file(path)
    assert ("create", "pods/binding", "genomics", 201) == (
        call.verb,
        call.resource,
        call.namespace,
        call.code,
    )
    assert 1796017200.123456 == call.at
    assert 0.007 == pytest.approx(call.latency_s, abs=1e-6)


def test_other_stages_dry_runs_and_a_half_written_line_are_no_calls(tmp_path):
    """They changed nothing, or are not over."""
    lines = [
        written_runs.an_event("create", "pods", stage="RequestReceived"),
        written_runs.an_event(
            "create", "pods", requestURI="/api/v1/namespaces/genomics/pods?dryRun=All"
        ),
    ]
    path = tmp_path / "audit.log"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"stage": "Resp')
    assert [] == list(audits.read_file(path))


def test_a_damaged_line_is_named(tmp_path):
    """Leaving it out would lose a pod."""
    path = tmp_path / "audit.log"
    path.write_text("not json\n")
    with pytest.raises(errors.UsageError, match=r"audit.log, line 1 is not an audit event"):
        list(audits.read_file(path))


def test_the_records_of_a_run_are_found_and_measured(home):
    """From files to figures."""
    known = sources.load(home)
    assert "synthetic" == known.record.run
    measured = figures.measure(known)
    assert [] == measured.problems
    assert 70.0 == pytest.approx(measured.figures.mean_completion_s, abs=1e-3)


def test_a_measurement_is_read_as_it_was_written(home, tmp_path):
    """The JSON holds all of it."""
    measured = figures.measure(sources.load(home))
    path = tmp_path / "out" / "run.json"
    measurements.write(path, measured)
    assert measured == measurements.read(path)
    assert [path] == list(path.parent.iterdir())


def test_what_the_webhook_noted_is_read_with_the_creation(tmp_path):
    """The API server keeps it among the annotations of the call, beside those of others."""
    path = tmp_path / "audit.log"
    notes = {"authorization.k8s.io/decision": "allow", "pods.tiphys.dev/outcome": "gated"}
    events = [written_runs.an_event("create", "pods", annotations=more) for more in (notes, {})]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert [("gated", True), ("", False)] == [
        (call.outcome, call.decided) for call in audits.read_file(path)
    ]


def test_rotated_audit_logs_are_read_first(home):
    """The API server renames a full log; its calls came before."""
    first, *rest = home.audit_log.read_text().splitlines(keepends=True)
    (home.root / "audit-2026-11-30T05-00-00.000.log").write_text(first)
    home.audit_log.write_text("".join(rest))
    assert [] == figures.measure(sources.load(home)).problems


def test_records_of_another_time_are_left_out(home):
    """A lab may have run for hours before."""
    old = a.a_pod("wf-0-align-9", seen_at=a.EPOCH - 100, started_at=None, ended_at=a.EPOCH - 90)
    with home.journal.open("ab") as file:
        file.write(msgspec.json.encode(old) + b"\n")
    assert 1 == len(sources.load(home).pods)


@pytest.mark.parametrize("missing", ["audit.log", "journal.jsonl", "cluster.yaml"])
def test_a_record_that_is_absent_is_said(home, missing):
    """Nothing is measured from two witnesses of three."""
    (home.root / missing).unlink()
    with pytest.raises(errors.UsageError, match=missing):
        sources.load(home)


def test_a_lab_without_runs_says_how_to_make_one(tmp_path):
    """Also where the run that was asked for is not there."""
    home = homes.Home(name="test", root=tmp_path)
    with pytest.raises(errors.UsageError, match="has no runs"):
        sources.load(home)
    with pytest.raises(errors.UsageError, match="has no runs"):
        sources.load(home, "other")


def test_an_unknown_run_is_answered_with_the_known_ones(home):
    """A name is easily mistyped."""
    with pytest.raises(errors.UsageError, match="has no run 'other': choose one of synthetic"):
        sources.load(home, "other")


def test_a_damaged_journal_is_named(home):
    """With the line."""
    home.journal.write_text('{"kind": "pod"}\n')
    with pytest.raises(errors.UsageError, match=r"journal.jsonl, line 1"):
        sources.load(home)


def test_faults_and_samples_come_along(home):
    """All kinds of the journal are read."""
    more = [
        journals.FaultRecord(at=a.EPOCH + 1, fault="slow-disk", node="node-0"),
        journals.NodeSample(
            at=a.EPOCH + 1,
            node="node-0",
            cpu_used=1.0,
            cpu_requested=2.0,
            memory_used_bytes=1.0,
            memory_requested_bytes=2.0,
        ),
    ]
    with home.journal.open("ab") as file:
        file.writelines(msgspec.json.encode(item) + b"\n" for item in more)
    known = sources.load(home)
    assert (1, 1) == (len(known.samples), len(known.faults))
    assert 60.0 == figures.measure(known).faults[0].at_s
