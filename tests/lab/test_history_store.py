"""The history in PostgreSQL: the same rows as in SQLite, from a real server."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sql

from tests.unit.operator.test_histories import AT, an_attempt
from tiphys.models.domain import errors
from tiphys.operator import histories

DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs of each version."""
PORT = 5432
"""Part of the socket's name; nothing listens on the network."""
READY_WITHIN_S = 60.0


def programs() -> Path | None:
    """Return the folder of initdb and postgres, Debian's newest first; None without a server."""
    places = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    elsewhere = shutil.which("initdb")
    if places:
        return places[-1].parent
    return Path(elsewhere).resolve().parent if elsewhere else None


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run a server of its own in a folder of its own, as nobody where we are root."""
    place = programs()
    if place is None:
        pytest.skip(
            "PostgreSQL's server is not here, and .ci/setup could not install it "
            "(as root: apt-get install postgresql)"
        )
    # Not below TMPDIR, which may be closed to nobody; and a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="history-", dir="/tmp"))
    demoted: dict[str, Any] = {}
    if os.geteuid() == 0:  # as root a server refuses to run
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        demoted = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    data, log = folder / "data", folder / "log"
    how = ("-U", "tiphys", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
    where = ("-k", folder, "-p", str(PORT), "-c", "listen_addresses=", "-F")
    try:
        made = subprocess.run(
            [place / "initdb", "-D", data, *how],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
            **demoted,
        )
        assert 0 == made.returncode, made.stdout
        with log.open("wb") as out:
            server = subprocess.Popen(
                # It ends with us, also where we are killed.
                ["setpriv", "--pdeathsig", "QUIT", place / "postgres", "-D", data, *where],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                **demoted,
            )
        try:
            address = f"postgresql://tiphys@/postgres?host={folder}&port={PORT}"
            wait_for(address, server, log)
            yield address.replace("postgresql:", "postgresql+psycopg:")
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(30)
    finally:
        shutil.rmtree(folder)


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server takes connections; fail with its own words where it does not."""
    given_up_at = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < given_up_at, log.read_text()
            time.sleep(0.1)
        else:
            return


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
