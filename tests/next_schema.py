"""The schema of the ledger after today's: one more step, in a copy of the steps of today.

No version of dptext has a second step yet. With this one the tests show what an upgrade does.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dptext.ledger import database

TODAY, NEXT = "0.2.0", "next"
_STEP = '''"""A table that is filled from the accounts; then a column."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "next", "0.2.0"


def upgrade() -> None:
    op.create_table(
        "notes",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("charges", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO notes SELECT name, (SELECT COUNT(*) FROM charges c WHERE c.account_id = a.id) FROM accounts a"
    )
    op.add_column("balances", sa.Column("note", sa.Text))
'''


def with_next_step(folder: Path) -> Path:
    """A new folder with the steps of today and the next one."""
    steps = Path(shutil.copytree(database.STEPS, folder, ignore=shutil.ignore_patterns("__pycache__")))
    (steps / "versions" / "next_step.py").write_text(_STEP, "utf-8")
    return steps


@contextmanager
def version_with(steps: str) -> Iterator[None]:
    """Meanwhile this process, and those that it forks, are of a version with the steps in a folder; "" is today's."""
    today = database.STEPS
    database.STEPS = Path(steps) if steps else today
    try:
        yield
    finally:
        database.STEPS = today
