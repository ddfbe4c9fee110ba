"""Reading texts by the noisy numbers of a summary: which label the class means and the words give a text.

All of it reads noisy numbers and public text alone, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.synthesis.blocks import POINTS, WORDS
from dptext.synthesis.labelling import class_scores, shrunk
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
        scores = scores + word_scores(summary, texts)
        scores = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    return scores, sizes, means


def word_scores(summary: Summary, texts: Sequence[str]) -> Floats:
    """Return the log-probability of the words of texts `(n, labels)`, up to a number for each text: naive Bayes.

    All words of a text together weigh as much as the marks of a text: words of a long text are not independent, and
    would outweigh everything else (decision 23).
    """
    known, lexicon, rates = summary.known[WORDS], summary.public.lexicon, summary.public.rates
    assert lexicon is not None and rates is not None  # noqa: S101, PT018 (words were measured)
    each = zip(known.numbers, summary.sizes, rates, strict=True)
    logs = np.log(np.array([believed(numbers, n, usual, known.deviation) for numbers, n, usual in each]))
    known_words = [sorted(lexicon.known(text)) for text in texts]
    summed = np.array([logs[:, words].sum(axis=1) for words in known_words]).reshape(len(texts), len(logs))
    weights = np.array([min(1.0, lexicon.most / max(1, len(words))) for words in known_words])
    return np.asarray(summed * weights[:, None])


def labelled(summary: Summary, points: Floats, *, prior: bool = True) -> tuple[Floats, Floats, Floats]:
    """Return the log-probability of each label for points `(n, labels)`, numbers of units, and class means.

    The means are shrunk by the share of noise in them, towards guesses made from the names of the labels if `prior`.
    ConfigError: the summary leaves out the pool.
    """
    if not summary.public.has_pool:
        raise ConfigError(f"Expected the pool, as this summary leaves it out ({summary.public.pool_named}).")
    known, pool = summary.known[POINTS], summary.public.pool
    dim = pool.points.shape[1]
    sizes = summary.sizes
    # The variance of the noise, and of the mean of a small class.
    variance = (known.deviation / sizes[:, None]) ** 2 + pool.points.var(axis=0) / sizes[:, None]
    means = known.numbers.reshape(-1, dim) / sizes[:, None]
    centre = summary.public.centre if prior else None
    shrunk_means = shrunk(means, means.mean(axis=0) if centre is None else centre, variance)
    return class_scores(points, pool.points, shrunk_means, sizes), sizes, shrunk_means
