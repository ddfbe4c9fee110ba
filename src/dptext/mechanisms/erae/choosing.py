"""How ER-AE draws one word from the logits that its network proposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dptext.sampling.exponential import ClippedExponential
from dptext.sampling.hub import Hub
from dptext.sampling.source import Randomness
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.sampling.two_set import TwoSet
from dptext.types import Floats, Int32s, Integers

#: The step of logits: `LOGIT_GRID` of `dptext.neural.erae.writing`, which needs torch.
_GRID = 2.0**-8

WordChoice: TypeAlias = Hub | TopKRandomizedResponse | TwoSet | ClippedExponential


def _below(steps: Int32s) -> Floats:
    """Logits below the largest of their row."""
    return np.asarray((steps - steps.max(axis=1, keepdims=True)) * _GRID)


def _softmax(steps: Int32s) -> Floats:
    weights = np.exp(_below(steps))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def choose(chooser: WordChoice, choice: str, logits: Sequence[Int32s], source: Randomness) -> Integers:
    """One option a row."""
    match chooser:
        case Hub():
            return chooser.choose(_softmax(logits[0]), _softmax(logits[1]), source)
        case TopKRandomizedResponse():
            return chooser.choose(logits[0], source)
        case _:
            return chooser.choose(_below(logits[0]) if choice == "exponential" else _softmax(logits[0]), source)


def distribution(chooser: WordChoice, choice: str, logits: Sequence[Int32s]) -> Floats:
    """Probabilities `(rows, options)` of what `choose` draws."""
    match chooser:
        case Hub():
            return chooser.distribution(_softmax(logits[0]), _softmax(logits[1]))
        case TopKRandomizedResponse():
            return chooser.distribution(logits[0])
        case _:
            return chooser.distribution(_below(logits[0]) if choice == "exponential" else _softmax(logits[0]))
