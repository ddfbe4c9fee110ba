"""What each value of a row adds by itself to the mean of its texts, from the means by one value at a time.

Texts of "urgent" differ from others partly because urgent letters have other topics. What is left beside the topic is
what urgency adds by itself. Means by one value, and how often values go together, tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dptext.types import Floats, Integers

#: Noise of departures that hold hardly any, beside a variance of 1 of effects: values that go together share.
LITTLE_NOISE = 0.1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Effects:
    """How often the values of several columns go together: the share of each value among rows of each, `(v, v)`.

    The values of all columns stand one after the other; `starts` are the first of each column.
    """

    together: Floats
    starts: tuple[int, ...]

    @classmethod
    def of(cls, values: Integers, numbers: Integers, sizes: Sequence[int]) -> Self:
        """Return them for groups of rows: their `values` `(groups, columns)` and `numbers`; columns have `sizes`."""
        starts = np.cumsum([0, *sizes])
        there = np.zeros((len(values), int(starts[-1])))
        places = values + starts[:-1]
        own = np.repeat(np.arange(len(sizes)), sizes)
        there[np.arange(len(values))[:, None], places] = 1.0
        both = there.T @ (there * numbers[:, None])
        alone = np.diag(both).copy()
        shares = alone / max(1, int(numbers.sum()))
        together = np.where(alone[:, None] > 0, both / np.maximum(alone, 1)[:, None], shares)
        together[own[:, None] == own] = 0.0  # no row has two values of a column
        np.fill_diagonal(together, 1.0)
        return cls(together, tuple(starts[:-1].tolist()))

    def alone(self, apart: Floats, noise: Floats | float, variance: Floats | float = 1.0) -> Floats:
        """Return the effect of each value by itself, `(v, k)`.

        `apart` `(v, k)` says by how much the mean of each value is apart from that of all rows, with this variance of
        `noise`, `(v, k)` or one number. An effect has mean 0 and this `variance` before, `(v, k)` or one number. The
        effects are their posterior means, if they add up in each row.
        """
        if isinstance(noise, float) and isinstance(variance, float):  # the same for all k: solved once
            spread = self.together @ self.together.T
            spread[np.diag_indices(len(spread))] += noise / variance
            return np.asarray(self.together.T @ np.linalg.solve(spread, apart))
        before, noisy = (np.broadcast_to(each, apart.shape).T for each in (variance, noise))
        moved = before[:, :, None] * self.together.T  # (k, v, v): the covariance of effects with what is apart
        spread = self.together @ moved
        spread[:, np.arange(len(apart)), np.arange(len(apart))] += np.maximum(noisy, 1e-12)
        return np.asarray((moved @ np.linalg.solve(spread, apart.T[:, :, None]))[:, :, 0].T)

    def added(self, effects: Floats, values: Integers) -> Floats:
        """Return the sum of the effects of the values of each group, `(groups, k)`."""
        return np.asarray(effects[values + np.array(self.starts)].sum(axis=1))
