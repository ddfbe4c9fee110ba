"""Summaries of tiny corpora that differ in one unit, the canary, and their sums without noise."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

import dptext as dp
from dptext.sampling.randomness import seeded
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.synthesis.sums import Draws, Noise, PrivateSum
from dptext.text.batches import Batch

LABELS: Final = ("health", "travel", "money", "leisure")
STUFFED: Final = 60  # documents of an author who is the canary
POOL: Final = tuple(dp.sample_records(200, seed=2))
COLUMNS: Final = ("stars: 1..5 by 1", "where?: north|south", "day: 2024-01..2024-12 by quarter")
PAIRS: Final = ("label+where", "where+stars")
PRIVATE: Final = tuple(
    replace(
        each, kept={"stars": i % 7, "where": ("north", "south", "east", None)[i % 4], "day": f"2024-{i % 14:02d}-01"}
    )
    for i, each in enumerate(dp.sample_records(40, seed=1))
)
CASES: Final = [
    (unit, relation) for unit in ("document", "author") for relation in ("add_or_remove_one", "replace_one")
]


def of_authors(found: PrivateSum) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The cells, and the whole numbers in them, of each author's sum before it is clipped."""
    size = len(found._total)
    for block in found._blocks.values():
        pairs, numbers = block.merged()
        starts = np.flatnonzero(np.diff(pairs // size, prepend=-1))[1:]
        yield from zip(np.split(pairs % size, starts), np.split(numbers, starts), strict=True)


class Clean(Draws):
    """Draws that keep the sum without noise, in steps."""

    clean: np.ndarray

    def noisy(self, clean: np.ndarray, noise: Noise) -> np.ndarray:
        self.clean = clean.copy()
        return super().noisy(clean, noise)


@functools.cache
def fitted_summary(unit: str, relation: str, **more: Any) -> FittedSummary:
    """Settings with all blocks, unless `more` says otherwise, and their pool."""
    pairs = PAIRS if more.get("labels", LABELS) else PAIRS[1:]
    given: dict[str, Any] = {
        "labels": LABELS, "encoder": "glove", "words": 8, "dim": 8, "about": 200, "topics": 4, "marks": 3,
        "lengths": (4, 8), "columns": COLUMNS, "pairs": pairs, "vocabulary": 80, "drafts": 0,
        "unit": unit, "relation": relation, **more,
    }  # fmt: skip
    return SummarySpec(**given).fit(public=POOL, seed=0)


def records_with(*canaries: dp.Record, stuffed: bool) -> list[dp.Record]:
    copies = [replace(each, id=f"{each.id} {i}") for each in canaries for i in range(STUFFED if stuffed else 1)]
    return [*PRIVATE, *copies]


def measured(fitted: FittedSummary, records: Sequence[dp.Record], draws: Draws) -> Summary:
    def corpus() -> Iterator[Batch]:
        yield Batch.of(list(records))

    return fitted.measure(corpus, draws)  # type: ignore[arg-type]


def clean(fitted: FittedSummary, records: Sequence[dp.Record]) -> np.ndarray:
    """The sum without noise, in steps."""
    draws = Clean(seeded(0))
    measured(fitted, records, draws)
    return draws.clean


def canaries(relation: str) -> Iterator[tuple[list[dp.Record], list[dp.Record]]]:
    """Pairs of what is in the corpus and what is there instead."""
    texts = ["The doctor at the hospital says that I need help", "Change the bus to Rome", POOL[3].text, "zq zq zq"]
    own = [{"stars": "5", "where": "south", "day": "2024-05-05"}, {"stars": None, "where": "?", "day": "2030-01-01"}]
    each = [
        dp.Record(f"{text} {label}", text, label, "canary", kept=own[i % 2])
        for i, text in enumerate(texts)
        for label in LABELS[:3]
    ]
    if relation == "add_or_remove_one":
        yield from (([one], []) for one in each)
        return
    yield from (([one], [other]) for one in each for other in each if one.text != other.text)
