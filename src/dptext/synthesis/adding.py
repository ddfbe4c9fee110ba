"""The sum of two summaries with the same public parts: of two owners, or of two months."""

from __future__ import annotations

import math
from dataclasses import replace

from dptext.errors import ConfigError
from dptext.synthesis.agreement import Known
from dptext.synthesis.summary import Summary


def summed(first: Summary, other: Summary, *, disjoint: bool) -> Summary:
    """Return the sum of two summaries with the same public parts; `disjoint` says that nobody is in both corpora.

    The sum has the public parts of the first, with its pool or without. ConfigError: they measure other things,
    or hold a common release, whose noise would be counted as if it were drawn twice.
    """
    mine, theirs = (each.releases or (each.digest,) for each in (first, other))
    if set(mine) & set(theirs):
        raise ConfigError("Expected summaries of different releases, found one release in both: leave one out.")
    apart = [name for name, same in _alike(first, other).items() if not same]
    if apart:
        raise ConfigError(
            f"Expected summaries that measure the same, found two that differ in {', '.join(apart)}: make the "
            "second with dptext summarize --like FIRST."
        )
    one, two = first.spec, other.spec
    known = {
        name: Known(mine.numbers + theirs.numbers, math.hypot(mine.deviation, theirs.deviation))
        for name, mine, theirs in ((name, first.known[name], other.known[name]) for name in first.known)
    }
    if disjoint and any(each.added and not each.disjoint for each in (one, two)):
        raise ConfigError("Expected every addition to be of disjoint corpora, found one that is not: add all at once.")
    added, own = (*one.added, two.rho, *two.added), two.block_shares
    shares = (*one.added_shares, *(own[name] for name in two.blocks), *two.added_shares)
    spec = replace(one, about=one.about + two.about, disjoint=disjoint, added=added, added_shares=shares)
    return Summary(spec, first.public, known, (*mine, *theirs))


def _alike(first: Summary, other: Summary) -> dict[str, bool]:
    """Return what must be the same to add two summaries, by name, and whether it is."""
    one, two = first.spec, other.spec
    found = {
        name: getattr(one, name) == getattr(two, name)
        for name in (
            "unit",
            "relation",
            "labels",
            "label_type",
            "names",
            "marks",
            "lengths",
            "columns",
            "pairs",
            "text_follows",
        )
    }
    return {
        **found,
        "blocks": one.blocks == two.blocks,
        "public parts": first.public.digests == other.public.digests,
    }
