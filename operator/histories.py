"""The history store: one row for each attempt of a task that ended (docs/operator.md, Store).

SQLAlchemy over SQLite, one file on the leader; PostgreSQL by URL has the same tables. The schema
carries its version, and opening a store brings an older one up step by step. All calls block: the
operator makes them in one thread of their own.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence

import sqlalchemy as sql
import structlog
from sqlalchemy.dialects import postgresql, sqlite

from tiphys.models.domain import errors, workflows
from tiphys.models.estimators import histories

SCHEMA = 1
"""Version of the tables below."""

log = structlog.get_logger()

_tables = sql.MetaData()
_versions = sql.Table(
    "tiphys_schema",
    _tables,
    sql.Column("version", sql.Integer, primary_key=True),
    sql.Column("applied_at", sql.Float, nullable=False),
)
_identities = sql.Table(
    "identities",
    _tables,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("source", sql.Text, nullable=False),
    sql.Column("template", sql.Text, nullable=False),
    sql.Column("image", sql.Text, nullable=False),
    sql.UniqueConstraint("source", "template", "image"),
)
_attempts = sql.Table(
    "attempts",
    _tables,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("identity_id", sql.ForeignKey("identities.id"), nullable=False),
    sql.Column("workflow_uid", sql.Text, nullable=False),
    sql.Column("node_id", sql.Text, nullable=False),
    sql.Column("namespace", sql.Text, nullable=False),
    sql.Column("task", sql.Text, nullable=False),
    sql.Column("attempt", sql.Integer, nullable=False),
    sql.Column("node", sql.Text, nullable=False),
    sql.Column("node_group", sql.Text, nullable=False),
    sql.Column("outcome", sql.Text, nullable=False),
    sql.Column("queued_s", sql.Float),
    sql.Column("duration_s", sql.Float, nullable=False),
    sql.Column("ended_at", sql.Float, nullable=False),
    sql.Column("cpu_m", sql.Integer, nullable=False),
    sql.Column("memory_bytes", sql.BigInteger, nullable=False),
    sql.Column("input_bytes", sql.BigInteger),
    sql.Column("steered", sql.Boolean, nullable=False),
    sql.Column("evidence", sql.Integer, nullable=False),
    sql.UniqueConstraint("workflow_uid", "node_id"),
    sql.Index("attempts_by_identity", "identity_id", "ended_at"),
)


class Outcome(enum.StrEnum):
    """How an attempt ended; also the closed label set of the metric."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OOM = "oom"
    EVICTED = "evicted"
    """By the kubelet under pressure, or preempted, or with its node."""
    NEVER_RAN = "never_ran"


class Evidence(enum.IntEnum):
    """What an attempt's times rest on, the worst first."""

    WORKFLOW = 0
    """Its node in the Workflow's status: the queue counts in."""
    POD = 1
    """The pod's own status, in whole seconds."""
    SEEN = 2
    """The pod's status, made finer by when we saw it change."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that ended."""

    identity: workflows.Identity
    workflow_uid: str
    node_id: str
    """With the Workflow's uid it names the attempt: Argo makes a node for each retry."""
    namespace: str
    task: str
    attempt: int
    node: str
    """Empty where only the Workflow's status was left."""
    group: str
    outcome: Outcome
    queued_s: float | None
    """From its creation to its binding, behind our gate or not; None = not known."""
    duration_s: float
    """Run time of the work itself; 0 when it never ran."""
    ended_at: float
    cpu_m: int
    memory_bytes: int
    input_bytes: int | None
    steered: bool
    """Whether its workflow was opted in."""
    evidence: Evidence
    """A row of lesser evidence never replaces another."""


class Store:
    """The tables behind one URL."""

    def __init__(self, url: str) -> None:
        """Raises `InputError` for a URL that means nothing, without it: it may hold a password."""
        kind, _, rest = url.partition("://")
        where = f"history.url ({kind}://…)" if rest else "history.url"
        try:
            # One connection: SQLite has one writer, and its memory store lives and dies with it.
            self._engine = sql.create_engine(
                url,
                **(
                    {"poolclass": sql.StaticPool, "connect_args": {"check_same_thread": False}}
                    if url.startswith("sqlite")
                    else {"pool_pre_ping": True}
                ),
            )
        except (sql.exc.ArgumentError, ImportError) as error:
            raise errors.InputError(f"{where}: {error}") from error
        except ValueError as error:
            raise errors.InputError(
                f"{where}: its port is no number; in a password / and @ are written %2F and %40"
            ) from error
        self._known: dict[workflows.Identity, int] = {}
        if url.startswith("sqlite"):
            sql.event.listen(self._engine, "connect", _pragmas)

    def open(self, *, at: float) -> int:
        """Create or bring up the tables; returns the version that was found (0 = none).

        Raises `InputError` for a store of a newer version, `UnavailableError` if it cannot be
        reached.
        """
        try:
            with self._engine.begin() as connection:
                found = 0
                if sql.inspect(connection).has_table(_versions.name):
                    found = connection.scalar(sql.select(sql.func.max(_versions.c.version))) or 0
                if found > SCHEMA:
                    raise errors.InputError(
                        f"the history store has schema {found}, this version knows {SCHEMA}: "
                        "run a newer operator, or name another store in history.url"
                    )
                for version in range(found + 1, SCHEMA + 1):
                    MIGRATIONS[version](connection)
                    connection.execute(_versions.insert().values(version=version, applied_at=at))
                return found
        except sql.exc.SQLAlchemyError as error:
            raise errors.UnavailableError(f"history store: {error}") from error

    def write(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Keep attempts; one that is there stays if it rests on more.

        Returns them without those that no column holds, which are left out: whoever writes a
        Workflow chooses its words and numbers. Raises `UnavailableError`.
        """
        if not attempts:
            return []
        try:
            self._write(attempts)
        except UNFIT as error:
            self._known.clear()
            if len(attempts) > 1:
                return [kept for each in attempts for kept in self.write([each])]
            log.error("attempt does not fit the history", task=attempts[0].task, error=repr(error))
            return []
        except sql.exc.SQLAlchemyError as error:
            self._known.clear()
            raise errors.UnavailableError(f"history store: {error}") from error
        return list(attempts)

    def _write(self, attempts: Sequence[Attempt]) -> None:
        with self._engine.begin() as connection:
            insert = (
                postgresql.insert(_attempts)
                if self._engine.dialect.name == "postgresql"
                else sqlite.insert(_attempts)
            )
            key = ["workflow_uid", "node_id"]
            changed = {
                column.name: insert.excluded[column.name]
                for column in _attempts.columns
                if column.name not in ("id", *key)
            }
            better = insert.excluded.evidence >= _attempts.c.evidence
            connection.execute(
                insert.on_conflict_do_update(index_elements=key, set_=changed, where=better),
                [self._row(connection, each) for each in attempts],
            )

    def prune(self, *, most: int) -> int:
        """Forget the oldest attempts beyond the latest `most`; return how many.

        By number in the order in which they were first written: no walk over the table. Raises
        `UnavailableError`.
        """
        try:
            with self._engine.begin() as connection:
                newest = connection.scalar(sql.select(sql.func.max(_attempts.c.id))) or 0
                gone = connection.execute(_attempts.delete().where(_attempts.c.id <= newest - most))
                return gone.rowcount
        except sql.exc.SQLAlchemyError as error:
            raise errors.UnavailableError(f"history store: {error}") from error

    def rows(self, *, recent: int) -> list[histories.Row]:
        """Return the newest `recent` rows of each identity that tell something about run times."""
        newest = (
            sql.func.row_number()
            .over(partition_by=_attempts.c.identity_id, order_by=_attempts.c.ended_at.desc())
            .label("newest")
        )
        inner = (
            sql.select(_attempts, newest)
            .where(_attempts.c.outcome.in_(RAN), _attempts.c.duration_s > 0)
            .subquery()
        )
        query = (
            sql.select(inner, _identities.c.source, _identities.c.template, _identities.c.image)
            .join(_identities, _identities.c.id == inner.c.identity_id)
            .where(inner.c.newest <= recent)
            .order_by(inner.c.ended_at)
        )
        try:
            with self._engine.connect() as connection:
                return [
                    histories.Row(
                        identity=workflows.Identity(
                            source=row.source, template=row.template, image=row.image
                        ),
                        duration_s=row.duration_s,
                        group=row.node_group,
                        attempt=row.attempt,
                        run=row.workflow_uid,
                        input_bytes=row.input_bytes,
                        ended_at=row.ended_at,
                        failed=row.outcome != Outcome.SUCCEEDED
                        or row.evidence == Evidence.WORKFLOW,
                    )
                    for row in connection.execute(query)
                ]
        except sql.exc.SQLAlchemyError as error:
            raise errors.UnavailableError(f"history store: {error}") from error

    def count(self) -> int:
        """Return how many attempts are kept."""
        with self._engine.connect() as connection:
            return connection.scalar(sql.select(sql.func.count()).select_from(_attempts)) or 0

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _row(self, connection: sql.Connection, attempt: Attempt) -> dict[str, object]:
        fields = {
            field.name: getattr(attempt, field.name)
            for field in dataclasses.fields(attempt)
            if field.name not in ("identity", "group", "outcome", "evidence")
        }
        return {
            **fields,
            "identity_id": self._identity(connection, attempt.identity),
            "node_group": attempt.group,
            "outcome": str(attempt.outcome),
            "evidence": int(attempt.evidence),
        }

    def _identity(self, connection: sql.Connection, identity: workflows.Identity) -> int:
        """Return the number of an identity, giving it one when it is new."""
        known = self._known.get(identity)
        if known is None:
            fields = {
                "source": identity.source,
                "template": identity.template,
                "image": identity.image,
            }
            query = sql.select(_identities.c.id).filter_by(**fields)
            found = connection.scalar(query)
            if found is None:
                done = connection.execute(_identities.insert().values(**fields))
                found = done.inserted_primary_key[0] if done.inserted_primary_key else 0
            known = self._known[identity] = int(found)
        return known


UNFIT = (sql.exc.DataError, OverflowError, ValueError)
"""What comes of a number beyond a column's, or a text that is none."""
RAN = (Outcome.SUCCEEDED.value, Outcome.FAILED.value, Outcome.OOM.value)
"""Outcomes after which the run time means something."""


def _first(connection: sql.Connection) -> None:
    """Schema 1: all tables."""
    _tables.create_all(connection)


MIGRATIONS: dict[int, Callable[[sql.Connection], None]] = {1: _first}
"""How to come to each version from the one before."""


def _pragmas(connection: object, record: object) -> None:
    """Make a commit cheap and a crash harmless: the log is kept in order, not forced to disk."""
    cursor = connection.cursor()  # type: ignore[attr-defined]
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def by_outcome(attempts: Iterable[Attempt]) -> dict[Outcome, int]:
    """Return how many attempts ended in which way."""
    counts: dict[Outcome, int] = {}
    for attempt in attempts:
        counts[attempt.outcome] = counts.get(attempt.outcome, 0) + 1
    return counts
