"""Balances beside the charges, derived from them, so that an account with a million charges is read at once."""

import hashlib
import itertools
import json
from collections.abc import Iterable

import sqlalchemy as sa
from alembic import op

from dptext.errors import LedgerError

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ROWS_AT_ONCE = 1000

# As the first schema wrote them. A step does not import the code of today, which later steps may change.
_BASES = ("proven", "conditional", "claimed", "none")


def _text(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _tally(requests: Iterable[tuple[str, int]]) -> str:
    """Run lengths of the events of requests and how often each was charged."""
    counts: dict[str, int] = {}
    for request, times in requests:
        for event in json.loads(request)["events"]:
            single = _text({**event, "count": 1})
            counts[single] = counts.get(single, 0) + event["count"] * times
    listed = [{**json.loads(single), "count": count} for single, count in counts.items()]
    return _text(sorted(listed, key=_text))


def _terms(requests: Iterable[str]) -> str:
    found = [json.loads(request)["terms"] for request in requests]
    return _text(
        {
            "trust": "central" if any(terms["trust"] == "central" for terms in found) else "local",
            "basis": max((terms["basis"] for terms in found), key=_BASES.index, default="proven"),
            "assumptions": sorted({text for terms in found for text in terms["assumptions"]}),
            "reveals": sorted({text for terms in found for text in terms["reveals"]}),
        }
    )


def upgrade() -> None:
    """Make the tables and fill them from the charges."""
    tallies = op.create_table(
        "tallies",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("events", sa.Text, nullable=False),
    )
    balances = op.create_table(
        "balances",
        sa.Column("account_id", NUMBER, sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("charges", NUMBER, nullable=False),
        sa.Column("subjects", NUMBER, nullable=False),
    )
    subject_balances = op.create_table(
        "subject_balances",
        sa.Column("account_id", NUMBER, sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("subject", sa.LargeBinary, primary_key=True),
        sa.Column("tally_id", NUMBER, sa.ForeignKey("tallies.id"), nullable=False),
    )
    connection = op.get_bind()
    known: dict[str, int] = {}

    def tally_id(events: str) -> int:
        if events not in known:
            digest = hashlib.sha256(events.encode()).hexdigest()
            connection.execute(sa.insert(tallies).values(digest=digest, events=events))
            chosen = sa.select(tallies.c.id).where(tallies.c.digest == digest)
            known[events] = int(connection.execute(chosen).scalar_one())
        return known[events]

    for (account,) in connection.execute(sa.text("SELECT id FROM accounts ORDER BY id")).all():
        charged = connection.execute(
            sa.text(
                "SELECT r.request, c.everyone, COUNT(*) FROM charges c JOIN requests r ON r.id = c.request_id "
                "WHERE c.account_id = :account GROUP BY r.id, r.request, c.everyone ORDER BY r.id"
            ),
            {"account": account},
        ).all()
        rows = connection.execute(
            sa.text(
                "SELECT s.subject, r.request, COUNT(*) FROM charged_subjects s JOIN charges c ON c.id = s.charge_id "
                "JOIN requests r ON r.id = c.request_id WHERE c.account_id = :account "
                "GROUP BY s.subject, r.id, r.request ORDER BY s.subject, r.id"
            ),
            {"account": account},
        )
        subjects = 0
        groups = itertools.groupby(rows, key=lambda row: bytes(row[0]))
        while some := list(itertools.islice(((s, [(r, n) for _, r, n in rows]) for s, rows in groups), ROWS_AT_ONCE)):
            connection.execute(
                sa.insert(subject_balances),
                [
                    {"account_id": account, "subject": subject, "tally_id": tally_id(_tally(requests))}
                    for subject, requests in some
                ],
            )
            subjects += len(some)
        connection.execute(
            sa.insert(balances).values(
                account_id=account,
                events=_tally((request, times) for request, everyone, times in charged if everyone),
                terms=_terms(request for request, _, _ in charged),
                charges=sum(times for _, _, times in charged),
                subjects=subjects,
            )
        )
    op.create_index("subject_balances_by_tally", "subject_balances", ["account_id", "tally_id"])


def downgrade() -> None:
    """Refused: a ledger is not taken back."""
    raise LedgerError("The books are not taken back: restore a copy.")
