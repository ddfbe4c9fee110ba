"""Earlier events apart from the balance, so that a charge does not rewrite them; the next one moves what is there."""

import sqlalchemy as sa
from alembic import op

from dptext.errors import LedgerError

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the place for them, with nothing in it."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "earlier_events",
        sa.Column("account_id", number, sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("events", sa.Text, nullable=False),
    )
    op.add_column("balances", sa.Column("earlier", sa.Text))


def downgrade() -> None:
    """Refused: a ledger is not taken back."""
    raise LedgerError("The books are not taken back: restore a copy.")
