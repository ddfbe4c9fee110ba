"""What the tests of the ledger share: limits, requests, and the database behind a ledger as its owner sees it."""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool

from dptext.ledger.books import Ledger
from dptext.ledger.entries import in_order
from dptext.ledger.requests import Request, Terms
from dptext.ledger.subjects import SubjectKey
from dptext.privacy import accounting
from dptext.privacy.events import Event, PureEvent
from dptext.privacy.guarantee import Guarantee, Relation, Unit

KEY = SubjectKey(bytes(range(32)))
OTHER_KEY = SubjectKey(b"\xff" * 32)
WRITTEN_ONCE = ("accounts", "requests", "charges", "charged_subjects", "settlements")
DERIVED = ("balances", "earlier_events", "subject_balances", "tallies")
MANY = [(n + 1) / 4096 for n in range(40)]  # epsilons: more than a balance keeps apart from earlier ones

_numbers = itertools.count(1)


def charged_epsilon(events: Iterable[Event], delta: float) -> float:
    """What the ledger counts: the quick bound, in an order of its own."""
    ordered = in_order(events)
    return accounting.quick_epsilon(ordered, delta) if ordered else 0.0


def fresh(prefix: str = "account") -> str:
    """A name that no other test has."""
    return f"{prefix} {next(_numbers)}"


def limit(
    epsilon: float = 10.0,
    delta: float = 0.0,
    *,
    unit: Unit = Unit.DOCUMENT,
    relation: Relation = Relation.REPLACE_ONE,
) -> Guarantee:
    return Guarantee(epsilon, delta, unit, relation)


def opened(ledger: Ledger, epsilon: float = 10.0, delta: float = 0.0, *, by_subject: bool = False) -> str:
    """The name of a new account per document."""
    return ledger.open_account(fresh(), limit(epsilon, delta), by_subject=by_subject).name


def request(*events: Event | float, units: int = 1, terms: Terms = Terms(), **settings: object) -> Request:  # noqa: B008
    """A request per document; a bare number is a pure epsilon."""
    listed = tuple(PureEvent(float(event)) if isinstance(event, int | float) else event for event in events)
    return Request(listed, Unit.DOCUMENT, terms=terms, settings=settings, units_per_subject=units)


def exact(values: Iterable[float]) -> Fraction:
    return sum((Fraction(value) for value in values), Fraction(0))


class Raw:
    """The database itself, past all that the ledger promises."""

    _engines: ClassVar[list[sa.Engine]] = []

    def __init__(self, location: str) -> None:
        self.location = location
        self.is_postgresql = "://" in location
        url = location if self.is_postgresql else f"sqlite:///{location}"
        # a handshake with PostgreSQL costs more than all that a test asks of it
        self._engine = sa.create_engine(url, poolclass=QueuePool if self.is_postgresql else NullPool)
        self._engines.append(self._engine)

    @classmethod
    def close_all(cls) -> None:
        while cls._engines:
            cls._engines.pop().dispose()

    @contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        with self._engine.begin() as connection:
            yield connection

    def rows(self, statement: str, **values: object) -> list[tuple[object, ...]]:
        with self.connection() as connection:
            found = connection.execute(sa.text(statement), values)
            return [tuple(row) for row in found] if found.returns_rows else []

    def one(self, statement: str, **values: object) -> object:
        ((value,),) = self.rows(statement, **values)
        return value

    def dump(self) -> dict[str, list[tuple[object, ...]]]:
        """Every row of every table, as the catalogue of the database lists them."""
        with self.connection() as connection:
            if self.is_postgresql:
                named = (
                    "SELECT table_schema || '.' || table_name FROM information_schema.tables "
                    "WHERE table_schema NOT IN ('information_schema', 'pg_catalog')"
                )
            else:
                named = "SELECT name FROM sqlite_master WHERE type = 'table'"
            tables = [name for (name,) in connection.execute(sa.text(named))]
            return {
                table.rpartition(".")[2]: sorted(
                    (tuple(row) for row in connection.execute(sa.text(f"SELECT * FROM {table}"))),  # noqa: S608
                    key=repr,
                )
                for table in sorted(tables)
            }

    def drop_triggers(self) -> None:
        """What anyone may do who owns the database."""
        with self.connection() as connection:
            for table in WRITTEN_ONCE:
                if self.is_postgresql:
                    connection.execute(sa.text(f"DROP TRIGGER {table}_written_once ON {table}"))
                else:
                    for change in ("update", "delete"):
                        connection.execute(sa.text(f"DROP TRIGGER {table}_no_{change}"))
