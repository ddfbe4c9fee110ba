"""Surrogates of a likelihood, for an attacker without the density: learned from simulated releases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dptext.audits.subjects import Outputs
from dptext.embeddings.tfidf import load_sklearn
from dptext.errors import ConfigError
from dptext.types import Floats

#: From outputs to scores `(outputs, candidates)`.
PoolScore = Callable[[Outputs], Floats]
#: Gives simulated outputs of candidate i, as many for each.
Simulate = Callable[[int], Outputs]

_WORD_COUNTS = 1 << 23
_SMOOTHING = 0.1
#: The least variance within candidates, as a share of all variance, so that a coordinate without any stays finite.
_LEAST_SPREAD = 1e-9


def learn_surrogate(simulate: Simulate, candidates: int) -> PoolScore:
    """Scores that are learned from at least two outputs of each candidate. They are asked for once, and in order.

    Raises:
        ConfigError: vectors of several sizes.
        MissingExtraError: the outputs are texts and scikit-learn is absent.
    """
    first = simulate(0)
    if isinstance(first, np.ndarray):
        return _nearest_mean(first, simulate, candidates)
    return _naive_bayes(first, simulate, candidates)


def _nearest_mean(first: Floats, simulate: Simulate, candidates: int) -> PoolScore:
    """Minus half the squared distance to each candidate's mean, in units of the variance within candidates."""
    means, within = np.empty((candidates, first.shape[1])), np.zeros(first.shape[1])
    for i in range(candidates):
        outputs = np.asarray(simulate(i) if i else first, np.float64)
        if outputs.shape != first.shape:
            raise ConfigError(f"Expected releases of shape {first.shape} of every candidate, found {outputs.shape}.")
        means[i] = outputs.mean(axis=0)
        within += np.square(outputs - means[i]).sum(axis=0)
    centre = means.mean(axis=0)
    means -= centre
    variance = within / (candidates * (len(first) - 1))
    variance = np.maximum(variance, _LEAST_SPREAD * (variance + np.square(means).mean(axis=0)))
    weights = np.divide(means, variance, out=np.zeros_like(means), where=variance > 0)
    offsets = (weights * means).sum(axis=1) / 2
    return lambda outputs: np.asarray((np.asarray(outputs, np.float64) - centre) @ weights.T - offsets)


def _naive_bayes(first: Outputs, simulate: Simulate, candidates: int) -> PoolScore:
    """Multinomial naive Bayes on hashed words. The whole output is one more word."""
    size = 1 << min(16, max(8, (_WORD_COUNTS // candidates).bit_length() - 1))
    hasher = load_sklearn().feature_extraction.text.HashingVectorizer(
        n_features=size, analyzer=_words, alternate_sign=False, norm=None
    )
    counts = np.empty((candidates, size))
    for i in range(candidates):
        counts[i] = hasher.transform(simulate(i) if i else first).sum(axis=0)
    counts += _SMOOTHING
    weights = np.log(counts / counts.sum(axis=1, keepdims=True)).T
    return lambda outputs: np.asarray(hasher.transform(outputs) @ weights)


def _words(text: str) -> list[str]:
    return [*text.split(), f"= {text}"]
