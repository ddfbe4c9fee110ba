"""The words that a label has more often than public text: which are shown, and what their intervals hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dptext.synthesis.agreement import NORMAL, Known
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.lexicon import mark_rates, rate_texts
from dptext.types import Floats, Integers

LABELS, WIDTH, DEVIATION = 4, 1_000, 10.0
NAMES = tuple(map(str, range(WIDTH)))
ALL = np.ones(WIDTH, bool)
USUAL, N = np.full((LABELS, WIDTH), 5.0), 10_000
UNITS = Known(np.full(LABELS, float(N)), DEVIATION)


def not_covered(clean: Floats, margin: Callable[[LabelWords], float], runs: int = 200) -> float:
    """The mean share of the shown words whose interval does not hold the number without noise."""
    draw, shares = np.random.default_rng(5), []
    for _ in range(runs):
        noisy = clean + draw.normal(0, DEVIATION, clean.shape)
        found = LabelWords.of(NAMES, Known(noisy, DEVIATION), UNITS, USUAL / N, np.full(LABELS, 1e6), ALL)
        missed = [
            abs(number - clean[label, int(name)]) > margin(found)
            for label, own in enumerate(found.words)
            for name, number, _ in own
        ]
        shares.append(sum(missed) / max(1, len(missed)))
    return float(np.mean(shares))


@pytest.mark.slow_cases("a few larger", "many larger", why="none and all stay")
@pytest.mark.parametrize(
    ("larger", "more"),
    [(0, 0.0), (10, 38.0), (100, 30.0), (WIDTH, 20.0)],
    ids=["all as public", "a few larger", "many larger", "all larger"],
)
def test_95_of_100_intervals_of_shown_words_hold_their_number(larger: int, more: float) -> None:
    clean = USUAL.copy()
    clean[:, :larger] += more
    assert not_covered(clean, lambda found: found.margin) <= 0.05
    alone = not_covered(clean, lambda _: NORMAL * DEVIATION)  # as if each word had been named beforehand
    assert alone > 0.06 if larger else alone <= 0.025 + 3 * np.sqrt(0.025 / 200)  # hardly a run shows any word


class Marking:
    """Stands for a list of words: texts are the words that they have, `(n, width)`."""

    def __len__(self) -> int:
        return WIDTH

    def marks(self, texts: Any) -> Integers:
        return np.array([np.where(text, np.arange(WIDTH), -1) for text in texts], np.int64)


def shown_by_chance(n: int, pool: int, drafts: int, noise: float, *, texts: float = 1.0, units: float = 1.0) -> float:
    """How many words are shown on average, where private and public texts have every word equally often.

    `noise` is that of a number of units. The factors `texts` and `units` state other numbers of texts and deviations.
    """
    draw, rates, runs, shown = np.random.default_rng(7), 0.3 / np.arange(2.0, WIDTH + 2), 10, 0
    for _ in range(runs):
        marked = draw.binomial(n, rates, (LABELS, WIDTH))
        counts = Known(n + draw.normal(0, noise, LABELS), noise * units)
        known = Known(marked + draw.normal(0, DEVIATION, marked.shape), DEVIATION)
        public, written = (draw.random((size, WIDTH)) < rates for size in (pool, drafts * LABELS))
        found = mark_rates(Marking(), public, [*written.reshape(LABELS, drafts, WIDTH)] if drafts else [], LABELS)  # type: ignore[arg-type]
        own = rate_texts(pool, [drafts] * LABELS) * texts
        shown += sum(map(len, LabelWords.of(NAMES, known, counts, found, own, ALL).words))
    return shown / runs


@pytest.mark.parametrize(
    ("n", "pool", "drafts", "noise"),
    [(500, 400, 0, 10.0), (20_000, 400, 0, 10.0), (20_000, 1_000, 48, 10.0), (2_000, 100, 48, 300.0)],
)
def test_chance_shows_hardly_a_word(n: int, pool: int, drafts: int, noise: float) -> None:
    assert shown_by_chance(n, pool, drafts, noise) < 0.5


def test_a_noise_that_is_left_out_shows_many() -> None:
    assert shown_by_chance(20_000, 400, 0, 10.0, texts=1e9) > 5
    assert shown_by_chance(500, 3_000, 0, 400.0, units=1e-9) > 1
