"""The share of the gap between public text and the originals that a mechanism closes, as rows of a table."""

from collections.abc import Sequence
from math import sqrt
from typing import Final

from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY
from dptext_lab.compare.stored import TableRow

ACCURACY: Final = "classification.accuracy"
GAP: Final = "classification.gap_closed"
_FRECHET: Final = "corpus.frechet"


def with_gaps(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows, and beside each accuracy the share of the closed gap, for each corpus and trial that has a gap.

    There is a gap if the interval of the originals lies above the interval of *public-only*, and the utility "corpus"
    was measured, which reads all of the public part. The interval of the share is by the delta method, as if the three
    accuracies were independent: on the same test texts they rise together, so the interval is wide.
    """
    seen = {row.signature for row in rows if row.metric == _FRECHET}
    own = [row for row in rows if row.metric == ACCURACY and row.signature in seen]
    found = {(row.corpus, row.trial, row.row): row for row in own if row.row in (ORIGINAL, PUBLIC_ONLY)}
    added = []
    for row in own:
        ends = [found.get((row.corpus, row.trial, name)) for name in (PUBLIC_ONLY, ORIGINAL)]
        if row.row not in (ORIGINAL, PUBLIC_ONLY) and (closed := _closed(row, *ends)):
            added.append(closed)
    return [*rows, *added]


def _closed(row: TableRow, least: TableRow | None, best: TableRow | None) -> TableRow | None:
    ends = [(each.value, each.low, each.high) for each in (row, least, best) if each is not None]
    known = [(v, low, high) for v, low, high in ends if v is not None and low is not None and high is not None]
    if len(known) < 3 or known[2][1] <= known[1][2]:
        return None
    own, public, original = (value for value, _, _ in known)
    gap = original - public
    share = (own - public) / gap
    half = [(high - low) / 2 for _, low, high in known]
    margin = sqrt(half[0] ** 2 + ((1 - share) * half[1]) ** 2 + (share * half[2]) ** 2) / gap
    return row.model_copy(update={"metric": GAP, "value": share, "low": share - margin, "high": share + margin})
