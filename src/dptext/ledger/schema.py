"""The tables of the newest schema; `migrations` makes them, step by step.

Tables that are written once: `accounts`, `requests` (each distinct text once), `charges`, `charged_subjects`,
`settlements`; triggers refuse to change or delete their rows. Tables that are derived from them, and checked by
`Ledger.verify`: `balances`, `earlier_events`, `subject_balances` and the `tallies` (run lengths of events) that
subjects share.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlalchemy import Column, Dialect, ForeignKey, Index, MetaData, Table, UniqueConstraint, types
from sqlalchemy.types import TypeDecorator

from dptext.errors import LedgerError

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class _Checked(TypeDecorator[Any]):
    """A type whose values are checked when they are read: SQLite stores any value in any column."""

    impl: type[types.TypeEngine[Any]] = types.Text
    kinds: ClassVar[tuple[type, ...]] = (str,)

    def _is_sound(self, value: object) -> bool:
        return isinstance(value, self.kinds)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Check what the driver gives, before the type converts it."""
        read = super().result_processor(dialect, coltype)

        def checked(value: Any) -> Any:
            if value is not None and not self._is_sound(value):
                raise LedgerError(
                    "The ledger is damaged: another program wrote a value into it that dptext does not write. "
                    "Restore a copy of it. Nothing is released."
                )
            return value if read is None else read(value)

        return checked


class Text(_Checked):
    """Text."""

    cache_ok = True


class Time(_Checked):
    """A time, UTC, as text."""

    cache_ok = True

    def _is_sound(self, value: object) -> bool:
        return isinstance(value, str) and _TIME.fullmatch(value) is not None


class Double(_Checked):
    """A float."""

    impl, kinds, cache_ok = types.Double, (float,), True


class LargeBinary(_Checked):
    """Bytes."""

    impl, kinds, cache_ok = types.LargeBinary, (bytes, memoryview), True


class Boolean(_Checked):
    """True or false, which SQLite keeps as 1 or 0."""

    impl, cache_ok = types.Boolean, True

    def _is_sound(self, value: object) -> bool:
        return isinstance(value, int) and value in (0, 1)


class Natural(_Checked):
    """The number of a row, or a count."""

    impl, cache_ok = types.BigInteger, True

    def load_dialect_impl(self, dialect: Dialect) -> types.TypeEngine[Any]:
        """SQLite numbers rows by itself in an INTEGER primary key only."""
        return dialect.type_descriptor(types.Integer() if dialect.name == "sqlite" else types.BigInteger())

    def _is_sound(self, value: object) -> bool:
        return isinstance(value, int) and value >= 0


metadata = MetaData()
accounts = Table(
    "accounts",
    metadata,
    Column("id", Natural, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("dataset", Text, nullable=False, unique=True),
    Column("unit", Text, nullable=False),
    Column("relation", Text, nullable=False),
    Column("epsilon", Double, nullable=False),
    Column("delta", Double, nullable=False),
    Column("key_check", LargeBinary),  # an HMAC that tells the account's subject key from others; null: none was set
    Column("opened", Time, nullable=False),
)


def _written_once(name: str, what: str) -> Table:
    """Return a table of distinct texts, each once, with their digests."""
    digest = Column("digest", Text, nullable=False, unique=True)
    return Table(name, metadata, Column("id", Natural, primary_key=True), digest, Column(what, Text, nullable=False))


def _of(table: str, name: str) -> Column[Any]:
    return Column(name, Natural, ForeignKey(f"{table}.id"), primary_key=True)


requests = _written_once("requests", "request")

charges = Table(
    "charges",
    metadata,
    Column("id", Natural, primary_key=True),
    Column("account_id", Natural, ForeignKey("accounts.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("request_id", Natural, ForeignKey("requests.id"), nullable=False),
    Column("everyone", Boolean, nullable=False),
    Column("subjects_digest", Text),  # digest of the keyed hashes, in order; null for everyone
    Column("subjects", Natural),  # number of subjects; null for everyone
    Column("at", Time, nullable=False),
    UniqueConstraint("account_id", "key"),
)

_subject = Column("subject", LargeBinary, primary_key=True)
charged_subjects = Table("charged_subjects", metadata, _of("charges", "charge_id"), _subject)

settlements = Table(
    "settlements",
    metadata,
    Column("charge_id", Natural, ForeignKey("charges.id"), primary_key=True),
    Column("release", Text, nullable=False),
    Column("at", Time, nullable=False),
)

tallies = _written_once("tallies", "events")

balances = Table(
    "balances",
    metadata,
    Column("account_id", Natural, ForeignKey("accounts.id"), primary_key=True),
    Column("events", Text, nullable=False),  # recent events of charges to everyone, after `earlier`
    Column("earlier", Text),  # sha256 of the earlier events; null: there are none
    Column("terms", Text, nullable=False),  # terms of all charges together
    Column("charges", Natural, nullable=False),
    Column("subjects", Natural, nullable=False),
)

_events = Column("events", Text, nullable=False)
earlier_events = Table("earlier_events", metadata, _of("accounts", "account_id"), _events)

subject_balances = Table(
    "subject_balances",
    metadata,
    Column("account_id", Natural, ForeignKey("accounts.id"), primary_key=True),
    Column("subject", LargeBinary, primary_key=True),
    Column("tally_id", Natural, ForeignKey("tallies.id"), nullable=False),
    Index("subject_balances_by_tally", "account_id", "tally_id"),
)
