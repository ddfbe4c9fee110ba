"""The first books: what is written once (accounts, charges and what they were charged for), and balances beside it."""

import sqlalchemy as sa
from alembic import op

from dptext.errors import LedgerError

revision = "0.2.0"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# The tables that are written once, and when a row is there already.
_THERE = {
    "accounts": "id = NEW.id OR name = NEW.name OR dataset = NEW.dataset",
    "requests": "id = NEW.id OR digest = NEW.digest",
    "charges": "id = NEW.id",  # a key that is there is met by ON CONFLICT DO NOTHING
    "charged_subjects": "charge_id = NEW.charge_id AND subject = NEW.subject",
    "settlements": "charge_id = NEW.charge_id",
}


def upgrade() -> None:
    """From an empty database."""
    op.create_table(
        "accounts",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("dataset", sa.Text, nullable=False, unique=True),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("relation", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Double, nullable=False),
        sa.Column("delta", sa.Double, nullable=False),
        sa.Column("key_check", sa.LargeBinary),
        sa.Column("opened", sa.Text, nullable=False),
    )
    op.create_table(
        "requests",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("request", sa.Text, nullable=False),
    )
    op.create_table(
        "charges",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("account_id", NUMBER, sa.ForeignKey("accounts.id"), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("request_id", NUMBER, sa.ForeignKey("requests.id"), nullable=False),
        sa.Column("everyone", sa.Boolean, nullable=False),
        sa.Column("subjects_digest", sa.Text),
        sa.Column("subjects", NUMBER),
        sa.Column("at", sa.Text, nullable=False),
        sa.UniqueConstraint("account_id", "key"),
    )
    op.create_table(
        "charged_subjects",
        sa.Column("charge_id", NUMBER, sa.ForeignKey("charges.id"), primary_key=True),
        sa.Column("subject", sa.LargeBinary, primary_key=True),
    )
    op.create_table(
        "settlements",
        sa.Column("charge_id", NUMBER, sa.ForeignKey("charges.id"), primary_key=True),
        sa.Column("release", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )
    op.create_table(
        "tallies",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("events", sa.Text, nullable=False),
    )
    op.create_table(
        "balances",
        sa.Column("account_id", NUMBER, sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("charges", NUMBER, nullable=False),
        sa.Column("subjects", NUMBER, nullable=False),
        sa.Column("earlier", sa.Text),
    )
    op.create_table(
        "earlier_events",
        sa.Column("account_id", NUMBER, sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("events", sa.Text, nullable=False),
    )
    op.create_table(
        "subject_balances",
        sa.Column("account_id", NUMBER, sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("subject", sa.LargeBinary, primary_key=True),
        sa.Column("tally_id", NUMBER, sa.ForeignKey("tallies.id"), nullable=False),
    )
    op.create_index("subject_balances_by_tally", "subject_balances", ["account_id", "tally_id"])
    _write_once()


def _write_once() -> None:
    """Triggers that refuse to change or delete a row of `_THERE`."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION dptext_written_once() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the books are append-only'; END $$"
        )
        for table in _THERE:
            op.execute(
                f"CREATE TRIGGER {table}_written_once BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION dptext_written_once()"
            )
    else:
        for table, there in _THERE.items():
            op.execute(  # INSERT OR REPLACE deletes without a trigger
                f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN EXISTS "  # noqa: S608  # our names
                f"(SELECT 1 FROM {table} WHERE {there}) BEGIN SELECT RAISE(ABORT, 'the books are append-only'); END"
            )
            for change in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                    "BEGIN SELECT RAISE(ABORT, 'the books are append-only'); END"
                )


def downgrade() -> None:
    """Refused: a ledger is not taken back."""
    raise LedgerError("The books are not taken back: restore a copy.")
