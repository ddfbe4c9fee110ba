"""Topics of texts that fit the columns of their rows, which the texts do not follow otherwise.

Everything here reads noisy numbers and public text alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from dptext.sampling.randomness import Randomness
from dptext.synthesis.agreement import Known
from dptext.synthesis.blocks import TOPICS
from dptext.synthesis.column_numbers import one_way
from dptext.synthesis.drawn import DrawnRows, followed_columns, gumbel
from dptext.synthesis.rows import related, shares_of
from dptext.synthesis.summary import Summary
from dptext.types import Floats

_APART: Final = -50.0  # beside log-probabilities of labels, for a text of another topic
_LEAST: Final = 1e-6  # share of a pair


def topic_lifts(summary: Summary) -> Mapping[int, Floats]:
    """Return what topics tell of the columns that texts do not follow, `(cells, topics)` by axis.

    It is ln(share of cell and topic together / product of both shares). A pair that tells nothing beyond noise is
    left out, as in `RowModel.of`. With points, texts follow labels.
    """
    spec = summary.spec
    axes, marginals = spec.axes, (*spec.marginals, spec.axes.by_topic)
    if not (TOPICS in summary.known and axes.columns):
        return {}
    followed = {0 if column is None else column.axes[0] for column in followed_columns(summary)}
    topics = one_way(axes.topic, marginals, summary.known)
    total = max(1.0, float(topics.numbers.sum()))
    own, found = shares_of(topics, total), dict[int, Floats]()
    pairs = [pair for pair in marginals if axes.topic in pair.axes and pair.axes[0] not in followed]
    for pair in pairs:
        known, axis = summary.known[pair.name], pair.axes[0]
        deviation = one_way(axis, marginals, summary.known).deviation if axis else summary.counts.deviation
        column = Known(summary.noisy_rows.shares[axis], deviation / total)
        numbers = known.numbers.reshape(pair.shape)
        both = related(Known(numbers / total, known.deviation / total), column, own, of=len(pairs))
        if both is not None:
            found[axis] = np.log((both + _LEAST) / (np.outer(column.numbers, own.numbers) + _LEAST))
    return found


def with_topics(
    rows: DrawnRows, scores: Floats, summary: Summary, lifts: Mapping[int, Floats], source: Randomness
) -> tuple[DrawnRows, Floats]:
    """Return the rows in groups by topic, too, and the scores `(n, groups)` of the pool's texts for them.

    The topic of a row is drawn by how well texts of the pool fit its group, by their `scores` `(n, groups before)`, and
    by the lifts of its other cells.
    """
    topics = summary.public.pool.topics
    assert topics is not None  # noqa: S101 (there are lifts)
    number = len(topics.centres)
    fitting = np.full((number, scores.shape[1]), -np.inf)
    for topic in range(number):
        if (own := topics.of_pool == topic).any():
            fitting[topic] = np.logaddexp.reduce(scores[own], axis=0)
    chances = fitting.T[rows.groups]
    cells = np.column_stack([rows.labels, rows.cells])
    for axis, lift in lifts.items():
        chances = chances + lift[cells[:, axis]]
    drawn = (chances + gumbel(chances.shape, source)).argmax(axis=1)
    both, groups = np.unique(np.column_stack([rows.groups, drawn]), axis=0, return_inverse=True)
    before, topic_of = both.T
    apart = np.where(topics.of_pool[:, None] == topic_of, 0.0, _APART)
    return replace(rows, groups=groups.reshape(-1), values=rows.values[before]), scores[:, before] + apart
