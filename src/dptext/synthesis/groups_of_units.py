"""Which group of private texts each unit stands in, and with which text: drawn by bits that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness
from dptext.types import Integers


def drawn_groups(units: Sequence[tuple[int, str]], groups: Integers, randomness: Randomness) -> list[int]:
    """The group that each unit draws among those of its label, by bits that nobody knows."""
    found = np.empty(len(units), np.int64)
    labels = np.array([label for label, _ in units], np.int64)
    for label, n in enumerate(groups.tolist()):
        own = labels == label
        found[own] = uniform_below(n, int(own.sum()), randomness)
    return found.tolist()


def takes(n: int, _before: str, _text: str, randomness: Randomness) -> bool:
    """Whether the n-th text of an author takes the place of the one before: each is drawn with the same chance."""
    return bool(uniform_below(n, 1, randomness)[0] == 0)
