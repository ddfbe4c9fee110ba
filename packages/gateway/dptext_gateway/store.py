"""The tables of a gateway: keys, answers, jobs and events, in the database of its ledger.

Nothing here is private text in the clear: keys are keyed hashes, answers are sealed, payloads are keyed digests.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import sqlalchemy as sa

from dptext.ledger.database import Database
from dptext.ledger.statements import insert_into
from dptext.types import Json

_METADATA: Final = sa.MetaData()
_Text = sa.Text
KEYS: Final = sa.Table(
    "gateway_keys",
    _METADATA,
    sa.Column("prefix", _Text, primary_key=True),
    sa.Column("hash", _Text, nullable=False),
    sa.Column("name", _Text, nullable=False),
    sa.Column("account", _Text),
    sa.Column("scopes", _Text, nullable=False),
    sa.Column("models", _Text, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("expires", sa.Float),
    sa.Column("revoked", sa.Float),
)
ANSWERS: Final = sa.Table(
    "gateway_answers",
    _METADATA,
    sa.Column("id", _Text, primary_key=True),
    sa.Column("payload_mac", _Text, nullable=False),
    sa.Column("attempt", _Text, nullable=False),  # random id of the attempt that has the lease
    sa.Column("lease", sa.Float, nullable=False),
    sa.Column("answer", sa.LargeBinary),
    sa.Column("result_sha256", _Text),
    sa.Column("expires", sa.Float, nullable=False),
)
JOBS: Final = sa.Table(
    "gateway_jobs",
    _METADATA,
    sa.Column("id", _Text, primary_key=True),
    sa.Column("payload_mac", _Text, nullable=False),  # of id, settings and the file's sha256
    sa.Column("prefix", _Text, nullable=False),
    sa.Column("account", _Text, nullable=False),
    sa.Column("model", _Text, nullable=False),
    sa.Column("kind", _Text, nullable=False),
    sa.Column("settings", _Text, nullable=False),
    sa.Column("state", _Text, nullable=False),
    sa.Column("spool_id", _Text, nullable=False),
    # Time of the last start, or until which it is not tried again; 0: nobody began it, or it has ended.
    sa.Column("not_before", sa.Float, nullable=False),
    sa.Column("records_done", sa.Integer, nullable=False),
    sa.Column("problem", _Text),
    sa.Column("result_sha256", _Text),  # as the certificate states it
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
    sa.Column("starts", sa.Integer, nullable=False),
    sa.Column("model_mark", _Text),
    sa.Column("problem_for_others", _Text),  # the problem as other keys read it; null: the same
)
#: The states of a job that has not ended, and of a job that has files.
OPEN: Final = ("queued", "running", "cancelling")
KEPT: Final = (*OPEN, "done")
sa.Index("gateway_jobs_by_state", JOBS.c.state)  # rows stay for good: a job's id is never used again
EVENTS: Final = sa.Table(
    "gateway_events",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("who", _Text, nullable=False),
    sa.Column("account", _Text),
    sa.Column("model", _Text),
    sa.Column("event", _Text, nullable=False),
    sa.Column("charge", sa.Integer),
    sa.Column("result_sha256", _Text),
)


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the audit log.

    Attributes:
        who: name and prefix of the key, or "server".
        event: the action, in a word or two.
        charge: number of the charge in the ledger.
        result_sha256: sha256 of the released file, as its certificate states it.
    """

    who: str
    event: str
    account: str | None = None
    model: str | None = None
    charge: int | None = None
    result_sha256: str | None = None


class Store:
    """Access to the tables; each method is one transaction. LedgerError: the database cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with self._database.writing() as connection:
            _METADATA.create_all(connection)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def one(self, query: sa.Select[Any]) -> sa.Row[Any] | None:
        """Return the first row of a query, or None."""
        with self._database.reading() as connection:
            return connection.execute(query).first()

    def rows(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        """Return all rows of a query."""
        with self._database.reading() as connection:
            return connection.execute(query).all()

    def write(self, *statements: Any) -> int:
        """Execute statements in one transaction; return the number of rows that the last one touched."""
        with self._database.writing() as connection:
            found = [connection.execute(each).rowcount for each in statements]
        return int(found[-1])

    def change(self, statement: Any, event: Event, *more: Any) -> bool:
        """Execute a statement and, if it touched a row, `more` and a line of the audit log, in one transaction."""
        with self._database.writing() as connection:
            changed = connection.execute(statement).rowcount > 0
            for each in more if changed else ():
                connection.execute(each)
            if changed:
                connection.execute(_line(event))
        return changed

    def insert(self, table: sa.Table, event: Event | None = None, **values: Any) -> bool:
        """Add a row and a line of the audit log, unless a row with this key is there; return whether it was added."""
        with self._database.writing() as connection:
            adding = insert_into(connection)(table).on_conflict_do_nothing().values(**values)
            if connection.execute(adding.returning(*table.primary_key)).first() is None:
                return False
            if event is not None:
                connection.execute(_line(event))
        return True

    def note(self, event: Event) -> None:
        """Write a line of the audit log."""
        self.write(_line(event))

    def newest(self) -> float | None:
        """Return the time of the newest line of the audit log; None if there is none."""
        found = self.one(sa.select(sa.func.max(EVENTS.c.at).label("at")))
        return None if found is None else found.at

    def events(self, account: str | None, last: int, before: int | None = None) -> list[dict[str, Json]]:
        """Return the last lines of the audit log (before a number), of one account or all, newest first."""
        query = sa.select(EVENTS).order_by(EVENTS.c.number.desc()).limit(last)
        if account is not None:
            query = query.where(EVENTS.c.account == account)
        if before is not None:
            query = query.where(EVENTS.c.number < before)
        return [dict(row._mapping) for row in self.rows(query)]  # noqa: SLF001  # the public name of a row as a mapping


def _line(event: Event) -> sa.Insert:
    return EVENTS.insert().values(at=time.time(), **asdict(event))
