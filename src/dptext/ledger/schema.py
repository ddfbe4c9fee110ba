"""The tables of the newest schema; `migrations` makes them, step by step.

What is written once: `accounts`, `requests` (each distinct text once), `charges`, `charged_subjects`, `settlements`;
triggers refuse to change or delete their rows. What is derived from them, and checked by `Ledger.verify`: `balances`,
`subject_balances` and the `tallies` (run lengths of events) that subjects share.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

#: SQLite numbers rows by itself in an INTEGER primary key only.
Number = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

accounts = Table(
    "accounts",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("dataset", Text, nullable=False, unique=True),
    Column("unit", Text, nullable=False),
    Column("relation", Text, nullable=False),
    Column("epsilon", Double, nullable=False),
    Column("delta", Double, nullable=False),
    Column("key_check", LargeBinary),  # an HMAC that tells the account's subject key from others; null: none was set
    Column("opened", Text, nullable=False),
)

requests = Table(
    "requests",
    metadata,
    Column("id", Number, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("request", Text, nullable=False),
)

charges = Table(
    "charges",
    metadata,
    Column("id", Number, primary_key=True),
    Column("account_id", Number, ForeignKey("accounts.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("request_id", Number, ForeignKey("requests.id"), nullable=False),
    Column("everyone", Boolean, nullable=False),
    Column("subjects_digest", Text),  # of the keyed hashes in their order; null for everyone
    Column("subjects", Number),  # how many; null for everyone
    Column("at", Text, nullable=False),
    UniqueConstraint("account_id", "key"),
)

charged_subjects = Table(
    "charged_subjects",
    metadata,
    Column("charge_id", Number, ForeignKey("charges.id"), primary_key=True),
    Column("subject", LargeBinary, primary_key=True),
)

settlements = Table(
    "settlements",
    metadata,
    Column("charge_id", Number, ForeignKey("charges.id"), primary_key=True),
    Column("release", Text, nullable=False),
    Column("at", Text, nullable=False),
)

# ------------------------------------------------------------------------ derived, since the second schema

tallies = Table(
    "tallies",
    metadata,
    Column("id", Number, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("events", Text, nullable=False),
)

balances = Table(
    "balances",
    metadata,
    Column("account_id", Number, ForeignKey("accounts.id"), primary_key=True),
    Column("events", Text, nullable=False),  # of the charges to everyone
    Column("terms", Text, nullable=False),  # of all charges
    Column("charges", Number, nullable=False),
    Column("subjects", Number, nullable=False),
)

subject_balances = Table(
    "subject_balances",
    metadata,
    Column("account_id", Number, ForeignKey("accounts.id"), primary_key=True),
    Column("subject", LargeBinary, primary_key=True),
    Column("tally_id", Number, ForeignKey("tallies.id"), nullable=False),
    Index("subject_balances_by_tally", "account_id", "tally_id"),
)
