"""Reading texts by the noisy numbers of a summary: which label the class means and the words give a text.

All of it reads noisy numbers and public text alone, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.synthesis.blocks import POINTS, WORDS, block_of
from dptext.synthesis.labelling import class_scores, shrunk
from dptext.synthesis.marginals import Marginal
from dptext.synthesis.summary import Summary
from dptext.types import Floats

# Possible shifts of the logarithm of a word's rate. The least public rate, 1e-6, can become a rate of 1.
_GRID: Final = np.linspace(-4.0, 14.0, 91)
_PRIOR: Final = 0.3  # of the Laplace prior of the logarithm of a rate: larger believes less


def believed(numbers: Floats, units: float, rates: Floats, deviation: float) -> Floats:
    """Return the rates of words `(width,)` that noisy numbers and public rates make likely.

    They are e to the posterior mean of the logarithm. ln(rate / public rate) has a Laplace prior. The most likely rate
    would be the public one for all words but those far beyond the noise: on a public split this left most of what the
    numbers say unused (decision 23).
    """
    options = rates[:, None] * np.exp(_GRID)
    likely = -np.square((numbers[:, None] - units * options) / deviation) / 2 - _PRIOR * np.abs(_GRID)
    likely[options > np.maximum(rates[:, None], 1.0)] = -np.inf  # a text has a word at most once
    weights = np.exp(likely - likely.max(axis=1, keepdims=True))
    return np.asarray(np.exp((weights * np.log(options)).sum(axis=1) / weights.sum(axis=1)))


def judged(
    summary: Summary, texts: Sequence[str], points: Floats, *, prior: bool = True
) -> tuple[Floats, Floats, Floats]:
    """Return the log-probability of each label for texts `(n, labels)`, numbers of units, and class means.

    `points` are those of the texts. If words were measured, they count beside the class means. The means are shrunk by
    the share of noise in them, towards guesses made from the names of the labels if `prior`. What is said of a text
    does not depend on the texts beside it.

    ConfigError: the summary leaves out the pool.
    """
    scores, sizes, means = labelled(summary, points, prior=prior)
    if WORDS in summary.known:
        scores = normal(scores + word_scores(summary, texts))
    return scores, sizes, means


def word_scores(summary: Summary, texts: Sequence[str]) -> Floats:
    """Return the log-probability of the words of texts `(n, labels)`, up to a number for each text: naive Bayes."""
    return by_words(summary, word_logs(summary), texts)


def word_logs(summary: Summary, column: Marginal | None = None) -> Floats:
    """Return the logarithms of the believed rates of words by label, or by the cells of a column: `(rows, width)`."""
    known, sizes, rates = summary.known[block_of(WORDS, column)], summary.sizes, summary.public.rates
    assert rates is not None  # noqa: S101 (words were measured)
    if column is not None:
        usual = np.average(rates, axis=0, weights=sizes)
        sizes = summary.cell_sizes(column)
        rates = np.tile(usual, (len(sizes), 1))
    each = zip(known.numbers, sizes, rates, strict=True)
    return np.asarray(np.log([believed(numbers, n, usual, known.deviation) for numbers, n, usual in each]))


def by_words(summary: Summary, logs: Floats, texts: Sequence[str]) -> Floats:
    """Return the log-probability of the words of texts by logarithms of rates `(rows, width)`: `(n, rows)`.

    All words of a text together weigh as much as the marks of a text: words of a long text are not independent, and
    would outweigh everything else (decision 23).
    """
    lexicon = summary.public.lexicon
    assert lexicon is not None  # noqa: S101 (words were measured)
    known_words = [sorted(lexicon.known(text)) for text in texts]
    summed = np.array([logs[:, words].sum(axis=1) for words in known_words]).reshape(len(texts), len(logs))
    weights = np.array([min(1.0, lexicon.most / max(1, len(words))) for words in known_words])
    return np.asarray(summed * weights[:, None])


def labelled(summary: Summary, points: Floats, *, prior: bool = True) -> tuple[Floats, Floats, Floats]:
    """Return the log-probability of each label for points `(n, labels)`, numbers of units, and class means.

    The means are shrunk by the share of noise in them, towards guesses made from the names of the labels if `prior`.
    ConfigError: the summary leaves out the pool.
    """
    require_pool(summary)
    means, variance = class_means(summary)
    centre, pool, sizes = summary.public.centre if prior else None, summary.public.pool.points, summary.sizes
    shrunk_means = shrunk(means, means.mean(axis=0) if centre is None else centre, variance)
    return class_scores(points, pool, shrunk_means, sizes), sizes, shrunk_means


def class_means(summary: Summary, column: Marginal | None = None) -> tuple[Floats, Floats]:
    """Return the noisy mean of the points of each label, or of each cell of a column, and its variance: `(rows, dim)`.

    The variance is that of the noise, and of the mean of few texts.
    """
    sizes = (summary.sizes if column is None else summary.cell_sizes(column))[:, None]
    known, spread = summary.known[block_of(POINTS, column)], summary.public.pool.points.var(axis=0)
    return known.numbers.reshape(len(sizes), -1) / sizes, (known.deviation / sizes) ** 2 + spread / sizes


def require_pool(summary: Summary) -> None:
    """Raise ConfigError if the summary leaves out the pool."""
    if not summary.public.has_pool:
        raise ConfigError(f"Expected the pool, as this summary leaves it out ({summary.public.pool_named}).")


def normal(scores: Floats) -> Floats:
    """Return log-probabilities that add up to 1 in each row."""
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
