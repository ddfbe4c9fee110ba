"""Randomized response on a label of a public set (Warner 1965; Kairouz, Bonawitz and Ramage 2016), by integer draws.

>>> LabelResponse(2.0, ("travel", "money")).distribution("money").round(3).tolist()
[0.119, 0.881]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import TopKEvent
from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.types import Floats, Integers


@dataclass(frozen=True, slots=True)
class LabelResponse:
    """The own label of L with probability e^epsilon / (e^epsilon + L - 1), each other with 1 / (e^epsilon + L - 1).

    Guarantee:
        `event`, for any two labels at all. A label that is missing or not among `labels` is replaced by a uniformly
        drawn one before all else, so that what leaves is uniform. That keeps epsilon: 1/L lies between the two
        probabilities p and q, and p / (1/L) <= e^epsilon because L <= e^epsilon + L - 1, while (1/L) / q <= e^epsilon
        because e^epsilon + L - 1 <= L e^epsilon. And with a delta, in any composition: such a record's output is a
        mixture, with public weights, of those of records with a label, and by joint convexity no divergence from a
        mixture is larger than the largest from its parts.

    Attributes:
        labels: the public set, at least two.
    """

    epsilon: float
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise ConfigError(f"Expected labels={self.labels!r} to be at least two, each named once.")

    @property
    def event(self) -> TopKEvent:
        """One choice among the labels."""
        return self._choice.event

    @property
    def _choice(self) -> TopKRandomizedResponse:
        return TopKRandomizedResponse(self.epsilon, 1, len(self.labels))

    def _places(self, labels: Sequence[str | None]) -> Integers:
        place = {label: i for i, label in enumerate(self.labels)}
        return np.array([place.get(label or "", -1) for label in labels], np.int64)

    def distribution(self, label: str | None) -> Floats:
        """The probability of each label of the set `(L,)`, given the private one."""
        [place] = self._places([label]).tolist()
        every = self._choice.distribution(np.eye(len(self.labels)))
        return np.asarray(every.mean(axis=0) if place < 0 else every[place])

    def choose(self, labels: Sequence[str | None], source: Randomness) -> Integers:
        """The place in the set of what leaves for each private label `(n,)`."""
        given = self._places(labels)
        # Drawn for every record, so that which ones have an unknown label shows in nothing.
        anything = uniform_below(len(self.labels), len(given), source).astype(np.int64)
        true = np.where(given >= 0, given, anything)
        scores = np.zeros((len(true), len(self.labels)))
        scores[np.arange(len(true)), true] = 1.0
        return self._choice.choose(scores, source)
