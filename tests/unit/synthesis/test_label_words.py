"""The words that a label has more often than public text: which are shown, and what their intervals hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dptext.synthesis.agreement import NORMAL, Known
from dptext.synthesis.report import LabelWords
from dptext.types import Floats

LABELS, WIDTH, DEVIATION = 4, 1_000, 10.0
NAMES = tuple(map(str, range(WIDTH)))
USUAL = np.full((LABELS, WIDTH), 50.0)


def not_covered(clean: Floats, margin: Callable[[LabelWords], float], runs: int = 400) -> float:
    """The mean share of the shown words whose interval does not hold the number without noise."""
    draw, shares = np.random.default_rng(5), []
    for _ in range(runs):
        noisy = clean + draw.normal(0, DEVIATION, clean.shape)
        found = LabelWords.of(NAMES, Known(noisy, DEVIATION), noisy - USUAL, np.ones(WIDTH, bool))
        missed = [
            abs(number - clean[label, int(name)]) > margin(found)
            for label, own in enumerate(found.words)
            for name, number, _ in own
        ]
        shares.append(sum(missed) / max(1, len(missed)))
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("larger", "more"),
    [(0, 0.0), (10, 38.0), (100, 30.0), (WIDTH, 20.0)],
    ids=["all as public", "a few larger", "many larger", "all larger"],
)
def test_95_of_100_intervals_of_shown_words_hold_their_number(larger: int, more: float) -> None:
    clean = USUAL.copy()
    clean[:, :larger] += more
    assert not_covered(clean, lambda found: found.margin) <= 0.05
    assert not_covered(clean, lambda _: NORMAL * DEVIATION) > 0.06  # as if each word had been named beforehand
