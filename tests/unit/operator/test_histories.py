"""The history: rows by what they rest on, versions of the schema, estimates that travel."""

import asyncio
import dataclasses
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.fakes import clocks
from tests.unit.operator import builders
from tiphys.models.domain import errors, pods, workflows
from tiphys.models.estimators import books
from tiphys.operator import (
    attempts,
    estimates,
    histories,
    metrics,
    objects,
    recorders,
    settings,
)

AT = builders.AT


def an_attempt(node_id: str = "n1", **fields: Any) -> histories.Attempt:
    """Return an attempt of 10 s."""
    given: dict[str, Any] = {
        "identity": builders.an_identity(),
        "workflow_uid": "w1",
        "namespace": "genomics",
        "task": "exome.align",
        "attempt": 0,
        "node": "n",
        "group": "m5/a",
        "outcome": histories.Outcome.SUCCEEDED,
        "queued_s": 1.0,
        "duration_s": 10.0,
        "ended_at": AT,
        "cpu_m": 1000,
        "memory_bytes": 2**30,
        "input_bytes": None,
        "steered": True,
        "evidence": histories.Evidence.POD,
        **fields,
    }
    return histories.Attempt(node_id=node_id, **given)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[histories.Store]:
    """Return an open store in a file."""
    found = histories.Store(f"sqlite:///{tmp_path / 'history.db'}")
    found.open(at=AT)
    yield found
    found.close()


def test_rows_come_back_as_estimators_want_them(store: histories.Store) -> None:
    """Identity, group, run time and run are there; what never ran is not."""
    never = an_attempt("n2", outcome=histories.Outcome.NEVER_RAN, duration_s=0.0)
    store.write([an_attempt(), never])
    assert 2 == store.count()
    (row,) = store.rows(recent=10)
    assert builders.an_identity() == row.identity
    assert ("m5/a", 10.0, "w1", False) == (row.group, row.duration_s, row.run, row.failed)


def test_lesser_evidence_never_replaces_better(store: histories.Store) -> None:
    """In any order: what was seen live stands before the pod's status, then the workflow's."""
    for evidence in (2, 0, 1, 2):
        kind = histories.Evidence(evidence)
        store.write([an_attempt(duration_s=10.0 + evidence, evidence=kind)])
    (row,) = store.rows(recent=10)
    assert 12.0 == row.duration_s
    assert 1 == store.count()


def test_only_the_newest_rows_of_each_identity_count(store: histories.Store) -> None:
    """`recent` bounds the memory of learning."""
    store.write([an_attempt(f"n{i}", ended_at=AT + i, duration_s=1.0 + i) for i in range(20)])
    assert [16.0, 17.0, 18.0, 19.0, 20.0] == [row.duration_s for row in store.rows(recent=5)]


def test_a_store_is_opened_again_as_it_is(tmp_path: Path) -> None:
    """The schema's version is found, the rows are there."""
    url = f"sqlite:///{tmp_path / 'history.db'}"
    first = histories.Store(url)
    assert 0 == first.open(at=AT)
    first.write([an_attempt()])
    first.close()
    second = histories.Store(url)
    assert histories.SCHEMA == second.open(at=AT)
    assert 1 == second.count()
    second.close()


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """The sentence says what to do."""
    path = tmp_path / "history.db"
    store = histories.Store(f"sqlite:///{path}")
    store.open(at=AT)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("insert into tiphys_schema values (99, 0)")
    connection.close()
    with pytest.raises(errors.InputError, match="schema 99, this version knows"):
        histories.Store(f"sqlite:///{path}").open(at=AT)


def test_a_store_that_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    """Not a crash: it may work in a moment."""
    store = histories.Store(f"sqlite:///{tmp_path / 'none' / 'history.db'}")
    with pytest.raises(errors.UnavailableError, match="history store"):
        store.open(at=AT)


@pytest.mark.parametrize(
    "unfit",
    [{"memory_bytes": 10**20}, {"cpu_m": 2**70}, {"input_bytes": 10**30}, {"task": "\ud800"}],
)
def test_an_attempt_that_does_not_fit_keeps_no_other_out(
    store: histories.Store, unfit: dict[str, Any]
) -> None:
    """A Workflow may ask for 100E of memory: its row is left out, the rest of the batch is kept."""
    new = workflows.Identity(source="s", template="new", image="i")
    batch = [an_attempt("n1", identity=new), an_attempt("n2", **unfit), an_attempt("n3")]
    assert [batch[0], batch[2]] == store.write(batch)
    assert 2 == store.count()
    store.write([an_attempt("n4", identity=new)])
    assert {new, builders.an_identity()} == {row.identity for row in store.rows(recent=10)}


async def test_a_store_that_hangs_keeps_no_leader_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Lease is given back after the work has ended; until then so many rows wait at most."""
    monkeypatch.setattr(recorders, "END_S", 0.1)
    over, clock = threading.Event(), clocks.Clock(AT)
    hung = threading.Event()

    def write(store: histories.Store, batch: list[histories.Attempt]) -> list[histories.Attempt]:
        hung.set()
        over.wait(30.0)
        return batch

    monkeypatch.setattr(histories.Store, "write", write)
    cached = builders.filled()
    cached.workflows.put("genomics/exome", builders.a_run("a"))
    recorder = recorders.Recorder(
        cached,
        estimates.Estimates(),
        chosen=settings.History(url=f"sqlite:///{tmp_path / 'history.db'}"),
        clock=clock,
        measured=metrics.Metrics(),
        group_of=lambda node: "",
    )
    task = asyncio.ensure_future(recorder.run())
    try:
        cached.pods.put("genomics/a", a_seen_end("a"))
        while not hung.is_set():
            await clock.advance(1.0)
        monkeypatch.setattr(recorders, "MOST_PENDING", 2)
        cached.workflows.put("genomics/exome", builders.a_run("a", "b", "c", "d"))
        for name in ("b", "c", "d"):
            cached.pods.put(f"genomics/{name}", a_seen_end(name))
        assert ["exome-c", "exome-d"] == [node_id for _, node_id in recorder._pending]
        task.cancel()
        done, _ = await asyncio.wait((task,), timeout=5.0)
    finally:
        over.set()
    assert {task} == done


def a_recorder(url: str) -> tuple[clocks.Clock, recorders.Recorder]:
    """Return a recorder that has seen nothing, over the store at a URL, and its clock."""
    clock = clocks.Clock(AT)
    recorder = recorders.Recorder(
        builders.filled(),
        estimates.Estimates(),
        chosen=settings.History(url=url),
        clock=clock,
        measured=metrics.Metrics(),
        group_of=lambda node: "",
    )
    return clock, recorder


async def test_rows_that_nothing_can_be_learned_from_end_no_leader(tmp_path: Path) -> None:
    """They stand in the store, where each leader would meet them."""
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = histories.Store(url)
    store.open(at=AT)
    store.write([an_attempt(f"n{n}", input_bytes=-1) for n in range(9)])
    store.close()
    clock, recorder = a_recorder(url)
    with structlog.testing.capture_logs() as said:
        task = asyncio.ensure_future(recorder.run())
        for _ in range(50):
            await clock.advance(1.0)
            if said:
                break
            await asyncio.sleep(0.02)
    assert "estimates cannot be learned" == said[-1]["event"]
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def a_seen_end(name: str, *, code: int = 0, reason: str = "Completed") -> objects.Seen:
    """Return a pod that ran from AT to AT + 4 by whole seconds."""
    phase = pods.Phase.SUCCEEDED if code == 0 else pods.Phase.FAILED
    seen = builders.a_seen(name, node="n", phase=phase, started_at=AT, ended_at=AT + 4)
    end = objects.End(
        container="main", exit_code=code, reason=reason, started_at=AT, ended_at=AT + 4
    )
    return dataclasses.replace(seen, ran=True, ends=(end,))


@pytest.mark.parametrize(
    ("code", "reason", "outcome"),
    [
        (0, "Completed", histories.Outcome.SUCCEEDED),
        (1, "Error", histories.Outcome.FAILED),
        (137, "OOMKilled", histories.Outcome.OOM),
    ],
)
def test_a_pod_tells_how_its_attempt_ended(
    code: int, reason: str, outcome: histories.Outcome
) -> None:
    """By exit code and reason of the containers that do the work."""
    cached = builders.filled()
    cached.workflows.put("genomics/exome", builders.a_run("a"))
    row = attempts.of_pod(cached, a_seen_end("a", code=code, reason=reason), "m5/a")
    assert row is not None
    assert (outcome, 4.0, True) == (row.outcome, row.duration_s, row.steered)


@pytest.mark.parametrize(
    ("observed_s", "expected_s"), [(None, 4.0), (3.4, 3.4), (9.0, 4.0), (0.0, 4.0)]
)
def test_times_seen_live_are_finer_but_never_contradict(
    observed_s: float | None, expected_s: float
) -> None:
    """Kubernetes keeps whole seconds; what is off by more than that rounding is not believed."""
    cached = builders.filled()
    cached.workflows.put("genomics/exome", builders.a_run("a"))
    row = attempts.of_pod(cached, a_seen_end("a"), "", observed_s=observed_s)
    assert row is not None
    assert expected_s == row.duration_s


async def test_the_recorder_writes_what_ends_and_learns_from_it() -> None:
    """A pod is seen to run and to end: its row is there, and the estimate is by its own time."""
    clock, cached, kept = clocks.Clock(AT), builders.filled(), estimates.Estimates()
    cached.workflows.put("genomics/exome", builders.a_run("a"))
    recorder = recorders.Recorder(
        cached,
        kept,
        chosen=settings.History(url="sqlite://", flush_s=1.0, publish_s=2.0),
        clock=clock,
        measured=metrics.Metrics(),
        group_of=lambda node: "m5/a",
    )
    task = asyncio.ensure_future(recorder.run())
    await clock.advance(1.0)
    running = builders.a_seen("a", node="n", phase=pods.Phase.RUNNING, started_at=AT)
    cached.pods.put("genomics/a", running)
    await clock.advance(3.4)
    cached.pods.put("genomics/a", a_seen_end("a"))
    # The store works in a thread of its own, which no simulated clock waits for.
    for _ in range(100):
        await clock.advance(1.0)
        estimate = kept.book.estimate(builders.an_identity())
        if "history" == estimate.basis:
            break
        await asyncio.sleep(0.02)
    assert pytest.approx(3.4, abs=0.01) == estimate.centre_s
    assert "history" == estimate.basis
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "secret:nonsense",
        "postgresql+nothing://me:secret@db/x",
        "postgresql+psycopg://me:secret@db:port/x",
    ],
)
def test_a_url_that_means_nothing_is_refused_without_its_password(url: str) -> None:
    """What is said goes to a log that many read."""
    with pytest.raises(errors.InputError, match=r"^history\.url.*: ") as refused:
        histories.Store(url)
    assert "secret" not in str(refused.value)


def test_the_oldest_attempts_are_forgotten(store: histories.Store) -> None:
    """The file does not grow for ever; what was corrected later keeps its place in the order."""
    for n in range(5):
        store.write([an_attempt(f"n{n}", ended_at=AT + n)])
    store.write([an_attempt("n0", evidence=histories.Evidence.SEEN)])
    assert 2 == store.prune(most=3)
    assert [AT + 2, AT + 3, AT + 4] == [row.ended_at for row in store.rows(recent=10)]
    assert 0 == store.prune(most=3)


async def test_a_store_of_a_newer_version_ends_no_leader(tmp_path: Path) -> None:
    """Gates and keys go on without a history; a message each publish interval says why."""
    url = f"sqlite:///{tmp_path / 'newer.db'}"
    store = histories.Store(url)
    store.open(at=AT)
    with store._engine.begin() as connection:
        later = {"version": histories.SCHEMA + 1, "applied_at": AT}
        connection.execute(histories._versions.insert().values(**later))
    store.close()
    clock, recorder = a_recorder(url)
    task = asyncio.ensure_future(recorder.run())
    await clock.advance(30.0)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_estimates_travel_whole() -> None:
    """What a follower reads is what the leader knows."""
    rows = [
        recorders.books.learn([]),
        books.learn(
            [
                histories.histories.Row(
                    identity=builders.an_identity(),
                    duration_s=10.0 + i % 3,
                    group="m5/a" if i % 2 else "m7/b",
                    run=f"w{i // 4}",
                    input_bytes=1000 * (i + 1),
                    ended_at=AT + i,
                    attempt=i % 2,
                )
                for i in range(40)
            ]
        ),
    ]
    for book in rows:
        document = estimates.encode(book, version=7, made_at=AT)
        assert (book, 7, AT) == estimates.decode(document)


@pytest.mark.parametrize("document", [b"", b"{}", b"[]", b'{"format": 2}', b'{"format": 1}'])
def test_estimates_that_cannot_be_read_change_nothing(document: bytes) -> None:
    """The error is named, the last ones stay."""
    kept = estimates.Estimates()
    kept.learn(books.Book(default_s=5.0), at=AT)
    with pytest.raises(errors.InputError, match="estimates"):
        kept.pull(document)
    assert (5.0, 1) == (kept.book.default_s, kept.version)


def test_what_is_pulled_is_new_whatever_number_its_leader_gave_it() -> None:
    """Two leaders count for themselves: with the same number old estimates would stay in use."""
    first, second, kept = (estimates.Estimates() for _ in range(3))
    first.learn(books.Book(default_s=5.0), at=AT)
    second.learn(books.Book(default_s=9.0), at=AT + 60)
    assert first.published is not None and second.published is not None
    kept.pull(first.published)
    version = kept.version
    assert estimates.tag(first.published) == kept.tag
    kept.pull(second.published)
    assert (9.0, AT + 60) == (kept.book.default_s, kept.made_at)
    assert version < kept.version
    assert estimates.tag(second.published) == kept.tag != estimates.tag(first.published)
