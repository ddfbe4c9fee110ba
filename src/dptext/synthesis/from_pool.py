"""The writer that reads a pool: public texts leave, labelled and chosen by the noisy numbers of a summary.

It needs no language model. A text of the pool leaves at most once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.sampling.randomness import Randomness
from dptext.synthesis.blocks import POINTS, TOPICS
from dptext.synthesis.by_topic import topic_lifts, with_topics
from dptext.synthesis.drawn import DrawnRows, followed_columns, gumbel
from dptext.synthesis.judging import judged
from dptext.synthesis.labelling import (
    chosen,
    fitting_size,
    matched,
    pool_mix,
    shortage,
)
from dptext.synthesis.marginals import LABEL
from dptext.synthesis.pool import apportioned, shuffled
from dptext.synthesis.report import Topics
from dptext.synthesis.spec import Synthetic
from dptext.synthesis.summary import Summary
from dptext.types import Floats, Integers

# A text is drawn for a group with its probability to this power, in proportion. The likeliest one (infinity) would make
# a weak relation of text and column seem certain; 1 leaves more texts beside their values than real rows have.
_SHARP: Final = 2.0
_MOST: Final = 0.9  # of the pool leaves at most, where no size is given
_COPIES: Final = "Each text is a public text of the pool, word for word."
_ANY: Final = "Texts follow no column: none was measured with points or topics."
_LENGTHS: Final = "Texts of the pool are as long as they are: the noisy numbers of lengths choose none."
_ENOUGH: Final = 0.25  # of that, at least, if only texts leave that fit their label better than others


@dataclass(frozen=True, slots=True, kw_only=True)
class FromPool:
    """Settings of the writer `pool`.

    Attributes:
        size: number of texts; 0 means 90% of the pool, or as many as it has in the noisy mix of labels. If that is less
            than a quarter of these 90%, all of them leave: a label that the pool lacks then gets the nearest texts.
            Where texts follow columns, 0 means 90% of the pool, and texts leave again if more are wanted.
        prior: whether noisy class means are pulled towards guesses made from the names of the labels.
    """

    takes: ClassVar[str] = ""  #: nothing follows the writer's name

    size: int = 0
    prior: bool = True

    def __post_init__(self) -> None:
        _validate.texts(size=self.size)

    def write(self, summary: Summary, source: Randomness) -> Synthetic:
        """Return texts of the pool. `source` is for their order. ConfigError: neither points nor topics are there."""
        spec, there = summary.spec, len(summary.public.pool.texts)
        lifts = topic_lifts(summary)
        if spec.followed or lifts or (spec.axes.columns and POINTS in summary.known and self.size > there):
            return self._for_rows(summary, lifts, source)
        if POINTS in summary.known:
            return self._labelled(summary, source)
        if TOPICS in summary.known:
            if summary.wanted:
                raise ConfigError("Expected no mix of labels: without class means no text of the pool has a label.")
            return self._by_topic(summary, source)
        if summary.spec.axes.columns:
            return self._any(summary, source)
        raise ConfigError(
            "Expected a summary of topics, or of points of labelled texts, to choose public texts by, found "
            f"{', '.join(summary.known)}: take --writer builtin if words were measured, or measure --with topics."
        )

    @staticmethod
    def limit(summary: Summary) -> int | None:
        """Return the most texts that leave: all of the pool. None where texts leave again for further rows."""
        columns = summary.spec.axes.columns and (POINTS in summary.known or TOPICS not in summary.known)
        if summary.spec.followed or columns or topic_lifts(summary):
            return None
        return len(summary.public.pool.texts)

    def _any(self, summary: Summary, source: Randomness) -> Synthetic:
        """Return texts of the pool for rows whose columns no text follows: each text as often as any other, about."""
        spec, texts = summary.spec, summary.public.pool.texts
        size = self.size or len(texts)
        labels = np.repeat(np.arange(len(summary.shares)), apportioned(summary.shares, size))[shuffled(size, source)]
        order = shuffled(len(texts), source)
        given = tuple(spec.labels[c] if spec.labels else None for c in labels.tolist())
        often = f" Each text leaves {size / len(texts):.1f} times on average." if size > len(texts) else ""
        said = (_ANY + often, *_with(summary.report))
        return Synthetic(tuple(texts[order[i % len(texts)]] for i in range(size)), given, summary.report, said)

    def _for_rows(self, summary: Summary, lifts: Mapping[int, Floats], source: Randomness) -> Synthetic:
        """Return texts of the pool for rows that are drawn before, by the values that texts follow, and by `lifts`.

        A text leaves again when all others have left.
        """
        spec, pool = summary.spec, summary.public.pool
        rows = DrawnRows.of(summary, self.size or self._most(summary), source)
        scores = rows.scores(summary, pool.texts, pool.points, prior=self.prior)
        if pool.topics is not None:
            numbers = summary.known[TOPICS]
            spread = numbers.deviation * math.sqrt(len(summary.shares))
            scores = scores + pool.topics.weights(numbers.numbers.sum(axis=0), spread)[:, None]
        if lifts:
            rows, scores = with_topics(rows, scores, summary, lifts, source)
        found = [list[str]() for _ in rows.values]
        for first in range(0, len(rows), len(pool.texts)):
            wanted = np.bincount(rows.groups[first : first + len(pool.texts)], minlength=len(rows.values))
            there = np.flatnonzero(wanted)
            best, sizes, size = scores[:, there], wanted[there].astype(np.float64), int(wanted.sum())
            best = best if size <= fitting_size(best, sizes, size) else matched(best, sizes)
            picked, group = chosen(best + gumbel(best.shape, source) / _SHARP, sizes, size)
            for i in shuffled(len(picked), source):
                found[there[group[i]]].append(pool.texts[picked[i]])
        _, texts = rows.filled(found)
        given = tuple(spec.labels[c] if spec.labels else None for c in rows.labels.tolist())
        report = summary.report
        if spec.labels and POINTS in summary.known:
            by_label, sizes, means = judged(summary, pool.texts, pool.points, prior=self.prior)
            leaving = np.bincount(rows.labels, minlength=len(spec.labels))
            often = max(1.0, len(rows) / len(pool.texts))
            about = often * self._about(summary, by_label, sizes, means.shape[1])
            lacking = shortage(spec.labels, summary.shares, about, leaving, len(rows), asked=bool(summary.wanted))
            most = len(pool.texts)  # texts that leave again are counted once
            report = replace(report, shortage=lacking and replace(lacking, there=min(lacking.there, most)))
        names = [LABEL if each is None else spec.axes.names[each.axes[0]] for each in followed_columns(summary)]
        often = len(rows) / len(set(texts))
        said = " ".join(
            f"{head} {', '.join(own)}."
            for head, own in (("Texts follow", names), ("Their topics follow", [spec.axes.names[a] for a in lifts]))
            if own
        )
        said += f" A text that leaves does so {often:.1f} times on average." * (often > 1)
        return Synthetic(tuple(texts), given, report, (said, *_with(report)), cells=rows.cells_of(range(len(rows))))

    def _most(self, summary: Summary) -> int:
        there = len(summary.public.pool.texts)
        return min(self.size or max(1, math.floor(_MOST * there)), there)

    def _labelled(self, summary: Summary, source: Randomness) -> Synthetic:
        spec, pool = summary.spec, summary.public.pool
        scores, found, means = judged(summary, pool.texts, pool.points, prior=self.prior)
        sizes = summary.shares * found.sum()
        most = self._most(summary)
        fitting = fitting_size(scores, sizes, most)
        size = most if self.size or fitting < _ENOUGH * most else fitting
        best = scores if size <= fitting else matched(scores, sizes)
        if pool.topics is not None:
            cells = summary.known[TOPICS]
            spread = cells.deviation * math.sqrt(len(spec.labels))
            best = best + pool.topics.weights(cells.numbers.sum(axis=0), spread)[:, None]
        rows, label = chosen(best, sizes, size)
        about = self._about(summary, scores, found, means.shape[1])
        leaving = np.bincount(label, minlength=len(spec.labels))
        report = replace(
            summary.report, shortage=shortage(spec.labels, sizes, about, leaving, most, asked=bool(summary.wanted))
        )
        order = shuffled(len(rows), source)
        texts, labels = (pool.texts[i] for i in rows[order]), (spec.labels[i] for i in label[order])
        return Synthetic(tuple(texts), tuple(labels), report, _with(report))

    @staticmethod
    def _about(summary: Summary, scores: Floats, sizes: Floats, dim: int) -> Floats:
        """Return about how many texts of each label the pool has, `(labels,)`."""
        blurred = summary.known[POINTS].deviation / sizes * math.sqrt(dim)
        return np.asarray(pool_mix(scores, sizes, blurred) * len(scores))

    def _by_topic(self, summary: Summary, source: Randomness) -> Synthetic:
        """Return texts of each topic and label in proportion to their noisy number."""
        spec, pool, cells = summary.spec, summary.public.pool, summary.report.estimates.cells.numbers
        assert pool.topics is not None  # noqa: S101 (topics were measured)
        of_pool = pool.topics.of_pool
        wanted = apportioned(cells.ravel() + 1e-9, self._most(summary)).reshape(cells.shape)
        rows, label = list[Integers](), list[Integers]()
        for topic, numbers in enumerate(wanted.T):
            own = np.flatnonzero(of_pool == topic)
            given = np.repeat(np.arange(len(numbers)), apportioned(numbers + 1e-9, min(int(numbers.sum()), len(own))))
            rows.append(own[shuffled(len(own), source)[: len(given)]])
            label.append(given)
        picked, named = np.concatenate(rows), np.concatenate(label)
        order = shuffled(len(picked), source)
        texts = tuple(pool.texts[i] for i in picked[order])
        labels = tuple(spec.labels[i] if spec.labels else None for i in named[order])
        return Synthetic(texts, labels, summary.report, _with(summary.report))


def _with(report: Topics) -> tuple[str, ...]:
    """Return the sentences of a report, with what the texts are after the warnings.

    How many texts the noisy numbers read as their label is not said: they were chosen by these numbers.
    """
    n = len(report.warnings)
    sentences = report.sentences()
    long = () if report.lengths is None else (_LENGTHS,)
    return (*sentences[:n], _COPIES, *long, *sentences[n:])
