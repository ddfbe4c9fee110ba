"""Prototypes: an unlabelled public pool, labelled and weighed by noisy class means of a private corpus."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.encoders import load_encoder
from dptext.errors import ConfigError
from dptext.sampling.source import Randomness
from dptext.synthesis.labelling import chosen, class_scores, class_sizes, fitting_size, prior_means, shrunk
from dptext.synthesis.pool import FIT_SHARE, UNLIKE_PART, OnPool, Pool, fit_pool, pool_texts, shuffled
from dptext.synthesis.report import Topics
from dptext.synthesis.space import Corpus, readings
from dptext.synthesis.spec import SynthesisSpec, Synthetic
from dptext.synthesis.sums import PrivateSum, in_steps
from dptext.text.records import Record
from dptext.types import Floats

_DIMS: Final = (64, 128, 256)
# The most squared noise of a class mean, all directions together, that more directions than the fewest may have: for
# each of the classes - 1 directions in which class means differ.
_NOISY: Final = 6.5e-4
_TEXTS_A_DIRECTION: Final = 8  # of the pool, at least: its covariance must be known
_COUNT: Final = 0.5  # weight of a unit's count beside its point


@dataclass(frozen=True, slots=True, kw_only=True)
class Prototypes(SynthesisSpec):
    """Settings of a synthesis that labels public texts by noisy class means.

    Use:
        Take it where texts have labels and the pool has none, or others: a classifier learns from what leaves.
        Set first: labels, epsilon, about.

    Guarantee:
        Every unit adds its point in the row of its label, in length at most 1, its count with weight 1/2, the topic
        that it is nearest to, and whether it is unlike the pool. The parts are scaled so that they are one vector of
        length at most 1. The sum has discrete Gaussian noise. All else reads that noisy sum and public text.

    Attributes:
        dim: directions of the space; 0 takes 64 to 256, by `about`, the labels and the noise. A small pool has fewer.
        topic_share: share of rho for the topics.
        names: what the labels mean, one text for each, in their order; empty takes the labels as they are.
        prior: whether class means are drawn towards where the names of the labels put them, as far as they are noise.
    """

    signed: ClassVar[bool] = True

    dim: int = 0
    topic_share: float = 0.1
    names: tuple[str, ...] = ()
    prior: bool = True
    kind: Literal["prototypes"] = field(default="prototypes", init=False)

    def __post_init__(self) -> None:
        SynthesisSpec.__post_init__(self)
        if len(self.labels) < 2:
            raise ConfigError(f"Expected labels={self.labels!r} to be at least two; kind='votes' needs none.")
        if self.names and len(self.names) != len(self.labels):
            raise ConfigError(f"Expected {len(self.labels)} names, one for each label, found {len(self.names)}.")
        _validate.not_negative(dim=self.dim)
        _validate.within(0.01, 0.98, topic_share=self.topic_share)

    @property
    def point_length(self) -> float:
        """The part of a unit's vector that is its point, at most."""
        rest = 1 - FIT_SHARE - (self.topic_share if self.topics else 0.0)
        return math.sqrt(rest / (1 + _COUNT**2)) * (1 - 2.0**-30)

    @property
    def directions(self) -> int:
        """Directions of the space."""
        if self.dim:
            return self.dim
        noise = self.noise().scale / self.point_length * len(self.labels) / self.about
        most = _NOISY * (len(self.labels) - 1)
        return max((dim for dim in _DIMS if dim * noise**2 <= most), default=_DIMS[0])

    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> FittedPrototypes:
        """Read the pool. Its labels are not looked at; a text that occurs twice counts once."""
        texts = pool_texts(public)
        pool = fit_pool(texts, self, dim=min(self.directions, max(4, len(texts) // _TEXTS_A_DIRECTION)), seed=seed)
        centre = None
        if self.prior:
            reader = load_encoder(self.encoder)
            likeness = np.asarray(reader.embed(list(texts)) @ reader.embed(list(self.names or self.labels)).T)
            centre = prior_means(pool.points, likeness - likeness.mean(axis=0))
        return FittedPrototypes(self, pool, centre)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """By document with topics, and by author without, on the labels of `dptext.sample_records`."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, about=200, topics=4)
        return small, cls(
            labels=labels, encoder="glove", words=0, dim=8, about=200, unit="author", relation="replace_one"
        )


class FittedPrototypes(OnPool[Prototypes]):
    """`Prototypes` with a pool, and where the names of the labels put class means `(classes, dim)`, if they do."""

    __slots__ = ("_centre",)

    def __init__(self, spec: Prototypes, pool: Pool, centre: Floats | None) -> None:
        super().__init__(spec, pool)
        self._centre = centre

    def synthesize(self, corpus: Corpus, randomness: Randomness) -> Synthetic:
        """One pass over the corpus, noise once, then labelled pool texts."""
        spec, dim, classes = self.spec, self.pool.space.dim, len(self.spec.labels)
        row = dim + 1
        last = classes * (row + spec.topics)
        summed = PrivateSum(last + 1, spec.noise(), by_author=spec.unit == "author")
        part = spec.point_length
        count, topic = in_steps(part * _COUNT), in_steps(math.sqrt(spec.topic_share))
        for read in readings(corpus, self.pool.space, spec.labels):
            one = (len(read.points), 1)
            cells = [read.labels[:, None] * row + np.arange(row), np.full(one, last)]
            values = [read.points * part, np.full(one, count), read.unlike[:, None] * UNLIKE_PART]
            if spec.topics:
                cells.append((classes * row + read.labels * spec.topics + self.topics.nearest(read.points))[:, None])
                values.append(np.full(one, topic))
            summed.add(np.concatenate(cells, axis=1), np.concatenate(values, axis=1), read.authors)
        noisy = summed.release(randomness)
        return self._written(noisy, part, count, topic, randomness)

    def _written(self, noisy: Floats, part: float, count: float, topic: float, randomness: Randomness) -> Synthetic:
        """What follows from the noisy sum."""
        spec, classes, row = self.spec, len(self.spec.labels), self.pool.space.dim + 1
        scale = spec.noise().scale
        blocks = noisy[: classes * row].reshape(classes, row)
        counted = blocks[:, -1] / count
        sizes = class_sizes(counted, scale / count)
        # Of the noise, and of a mean of so few texts.
        variance = (scale / part / sizes[:, None]) ** 2 + self.pool.points.var(axis=0) / sizes[:, None]
        means = blocks[:, :-1] / part / sizes[:, None]
        centre = means.mean(axis=0) if self._centre is None else self._centre
        scores = class_scores(self.pool.points, shrunk(means, centre, variance), sizes)
        fit = self.pool_fit(noisy[-1], scale, counted, scale / count)
        report = Topics.of(spec.labels, counted[:, None], scale / count, (), spec.unit, fit)
        if spec.topics:
            histogram = noisy[classes * row : -1].reshape(classes, spec.topics) / topic
            described, own = self.topics.described, (counted, scale / count)
            report = Topics.of(spec.labels, histogram, scale / topic, described, spec.unit, fit, own)
            scores = scores + self.topics.weights(histogram.sum(axis=0), scale / topic * math.sqrt(classes))[:, None]
        size = spec.size or fitting_size(scores, sizes, spec.size_of(self.pool.texts))
        rows, label = chosen(scores, sizes, size)
        order = shuffled(len(rows), randomness)
        return Synthetic(
            tuple(self.pool.texts[i] for i in rows[order]),
            tuple(spec.labels[i] for i in label[order]),
            report,
            report.sentences(),
        )
