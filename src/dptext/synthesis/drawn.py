"""Rows that are drawn from a summary before their texts are found, in groups whose texts follow the same values.

Everything here reads noisy numbers and public text alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.blocks import WORDS
from dptext.synthesis.effects import LITTLE_NOISE, Effects
from dptext.synthesis.judging import by_words, class_means, normal, require_pool, word_logs
from dptext.synthesis.labelling import class_scores, signal_of
from dptext.synthesis.marginals import Marginal
from dptext.synthesis.pool import apportioned, shuffled
from dptext.synthesis.summary import Summary
from dptext.types import Floats, Integers

_ROWS: Final = 20_000  # drawn to see which values go together


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DrawnRows:
    """Rows without texts.

    Attributes:
        labels: place of the label of each row, `(n,)`; 0 without labels.
        cells: cells of the columns, `(n, columns)`.
        groups: the group of each row, `(n,)`.
        values: what the texts of a group follow, `(groups, 1 + followed columns)`: the label, and cells.
    """

    labels: Integers
    cells: Integers
    groups: Integers
    values: Integers

    @classmethod
    def of(cls, summary: Summary, size: int, source: Randomness) -> Self:
        """Draw rows: labels in their shares, and columns by the model of rows."""
        shares = summary.shares
        labels = np.repeat(np.arange(len(shares)), apportioned(shares, size))[shuffled(size, source)]
        cells = summary.rows.rows(labels, source)
        places = [column.axes[0] - 1 for column in summary.spec.followed]
        values, groups = np.unique(np.column_stack([labels, cells[:, places]]), axis=0, return_inverse=True)
        return cls(labels, cells, groups.reshape(-1), values)

    def followed(self, summary: Summary) -> Integers:
        """The values of each group that its texts follow, `(groups, columns)`: with labels, the label first."""
        return self.values if None in followed_columns(summary) else self.values[:, 1:]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def numbers(self) -> Integers:
        """The number of rows of each group, `(groups,)`."""
        return np.bincount(self.groups, minlength=len(self.values))

    def scores(self, summary: Summary, texts: Sequence[str], points: Floats, *, prior: bool = True) -> Floats:
        """Return the log-probability of each group for texts `(n, groups)`, whose points are given.

        The mean of the points of a group is that of all texts and what each of its values adds by itself, and so are
        the logarithms of the rates of words. If `prior`, means of labels are pulled towards guesses made from names.
        """
        require_pool(summary)
        columns, values = followed_columns(summary), self.followed(summary)
        if not columns:
            return np.zeros((len(texts), len(self.values)))
        effects, pool = effects_of(summary), summary.public.pool.points
        apart, noise, before, guessed = list[Floats](), list[Floats](), list[Floats](), list[Floats]()
        for column in columns:
            means, variance = class_means(summary, column)
            shares = _shares(summary, column)
            centre = summary.public.centre if column is None and prior else None
            middle = shares @ means
            own = np.zeros_like(means) if centre is None else centre - shares @ centre
            apart.append(means - middle)
            noise.append(variance)
            before.append(np.tile(signal_of(means - middle - own, variance), (len(means), 1)))
            guessed.append(own)
        middle = np.mean([_shares(summary, c) @ class_means(summary, c)[0] for c in columns], axis=0)
        usual = np.concatenate(guessed)
        found = usual + effects.alone(
            np.concatenate(apart) - effects.together @ usual, np.concatenate(noise), np.concatenate(before)
        )
        scores = class_scores(points, pool, middle + effects.added(found, values), self.numbers.astype(np.float64))
        if WORDS in summary.known:
            logs = [word_logs(summary, column) for column in columns]
            usual_logs = [_shares(summary, c) @ each for c, each in zip(columns, logs, strict=True)]
            departing = np.concatenate([each - usual for each, usual in zip(logs, usual_logs, strict=True)])
            words = np.mean(usual_logs, axis=0) + effects.added(effects.alone(departing, LITTLE_NOISE), values)
            scores = normal(scores + by_words(summary, words, texts))
        return scores

    def cells_of(self, rows: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """Return the cells of the columns of these rows."""
        return tuple(tuple(self.cells[row].tolist()) for row in rows)

    def filled(self, texts: Sequence[Sequence[str]]) -> tuple[list[int], list[str]]:
        """Return the rows that get a text, in their order, and their texts.

        `texts` are those of each group; rows beyond them get none.
        """
        left = [iter(own) for own in texts]
        own = [next(left[group], None) for group in self.groups.tolist()]
        both = [(row, text) for row, text in enumerate(own) if text is not None]
        return [row for row, _ in both], [text for _, text in both]


def followed_columns(summary: Summary) -> list[Marginal | None]:
    """Return the columns that texts follow; None is the label."""
    spec = summary.spec
    return [*([None] if spec.labels and spec.points else []), *spec.followed]


def gumbel(shape: tuple[int, ...], source: Randomness) -> Floats:
    """Draw from the Gumbel distribution: the largest of log-probabilities plus such draws is one drawn by them."""
    drawn = (uniform_below(1 << 53, math.prod(shape), source).astype(np.float64) + 0.5) / (1 << 53)
    return np.asarray(-np.log(-np.log(drawn)).reshape(shape))


def _shares(summary: Summary, column: Marginal | None) -> Floats:
    sizes = summary.sizes if column is None else summary.cell_sizes(column)
    return np.asarray(sizes / sizes.sum())


def effects_of(summary: Summary) -> Effects:
    """Return how often the values that texts follow go together, in the model of rows."""
    rows = DrawnRows.of(replace(summary, rounded=False, drop_other=False, wanted=()), _ROWS, seeded(0))
    sizes = [len(summary.sizes) if column is None else column.size for column in followed_columns(summary)]
    return Effects.of(rows.followed(summary), rows.numbers, sizes)
