"""The history in PostgreSQL: the same rows as in SQLite, from a real server."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql

from tests.unit.operator.test_histories import AT, an_attempt
from tiphys.models.domain import errors
from tiphys.operator import histories

DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs of each version."""
PORT = 5432
"""Part of the socket's name; nothing listens on the network."""


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, the newest version first; None without a server."""
    found = shutil.which("pg_ctl")
    places = [path.parent for path in DEBIAN.glob("*/bin/pg_ctl")]
    places += [Path(found).resolve().parent] if found else []
    places = [place for place in places if (place / "initdb").exists()]
    return max(places, default=None)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run a server of its own in a folder of its own, as nobody where we are root."""
    place = programs()
    if place is None:
        pytest.skip("no initdb and pg_ctl here (Debian: apt-get install postgresql)")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("no psycopg here (pip install 'tiphys[postgres]')")
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    # A server refuses to run as root.
    demoted = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
    if demoted:
        shutil.chown(folder, "nobody")

    def run(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [place / program, "-D", folder / "data", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            **demoted,
        )
        assert 0 == done.returncode, done.stdout

    try:
        run("initdb", "-U", "tiphys", "-A", "trust", "--no-sync")
        options = f"-k {folder} -p {PORT} -c listen_addresses= -F"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql+psycopg://tiphys@/postgres?host={folder}&port={PORT}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def store(url: str) -> Iterator[histories.Store]:
    """Return an open store without rows."""
    found = histories.Store(url)
    found.open(at=AT)
    yield found
    found.close()
    engine = sql.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sql.text("drop schema public cascade"))
        connection.execute(sql.text("create schema public"))
    engine.dispose()


def test_tables_are_made_once(store: histories.Store) -> None:
    """The second opening finds the version of the first."""
    assert histories.SCHEMA == store.open(at=AT)


def test_lesser_evidence_never_replaces_better(store: histories.Store) -> None:
    """One row for an attempt, whatever comes in whichever order, twice in one batch too."""
    kinds = [histories.Evidence(value) for value in (2, 0, 1, 2, 1)]
    for kind in kinds:
        store.write([an_attempt(duration_s=10.0 + kind, evidence=kind)])
    store.write([an_attempt(duration_s=20.0 + kind, evidence=kind) for kind in kinds])
    (row,) = store.rows(recent=10)
    assert (22.0, 1) == (row.duration_s, store.count())


def test_the_newest_rows_come_back_with_sizes_beyond_32_bits(store: histories.Store) -> None:
    """A window over 300 attempts; an input of 32 TiB and requests of 1 TiB keep their bytes."""
    store.write(
        [
            an_attempt(f"n{n}", memory_bytes=2**40, input_bytes=2**45, ended_at=AT + n)
            for n in range(300)
        ]
    )
    rows = store.rows(recent=200)
    assert [AT + n for n in range(100, 300)] == [row.ended_at for row in rows]
    assert {2**45} == {row.input_bytes for row in rows}
    assert (100, 200) == (store.prune(most=200), store.count())


def test_what_cannot_be_reached_or_is_newer_says_so(store: histories.Store, url: str) -> None:
    """The first passes by itself, the second does not."""
    away = histories.Store(url.replace("history-", "nothing-"))
    with pytest.raises(errors.UnavailableError, match="history store: "):
        away.open(at=AT)
    away.close()
    engine = sql.create_engine(url)
    with engine.begin() as connection:
        later = {"version": histories.SCHEMA + 1, "at": AT}
        connection.execute(
            sql.text("insert into tiphys_schema (version, applied_at) values (:version, :at)"),
            later,
        )
    engine.dispose()
    with pytest.raises(errors.InputError, match="run a newer operator"):
        store.open(at=AT)
