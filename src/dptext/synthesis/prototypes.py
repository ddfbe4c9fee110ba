"""Prototypes: an unlabelled public pool, labelled and weighed by noisy class means of a private corpus.

The classifier is made of noisy sums and public text, and costs nothing more.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, Self

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.synthesis.pool import FIT_SHARE, UNLIKE_PART, OnPool, PublicPool, fit_pool, pool_texts, shuffled
from dptext.synthesis.report import Shortage, Topics
from dptext.synthesis.space import Corpus, readings
from dptext.synthesis.spec import MIX, SynthesisSpec, Synthetic
from dptext.synthesis.sums import Draws, PrivateSum, in_steps
from dptext.text.records import Record
from dptext.types import Floats, Integers

_DIMS: Final = (64, 128, 256)
# The most squared noise of a class mean, all directions together, that more directions than the fewest may have: for
# each of the classes - 1 directions in which class means differ.
_NOISY: Final = 6.5e-4
_TEXTS_A_DIRECTION: Final = 8  # of the pool, at least: its covariance must be known
_COUNT: Final = 0.5  # weight of a unit's count beside its point
_SMOOTHED: Final = 9  # neighbouring directions whose signal is estimated together
_STEPS: Final = 3
_SMALLEST: Final = 100  # a corpus is not smaller by more than this because the pool lacks texts of a label
_BLURRED: Final = 0.5  # noise in a class mean, in lengths of a point
_ROUNDS: Final = 100
_FEW: Final = 0.02  # of the texts that leave: less is not worth a word
_RIDGE: Final = 0.3  # of the mean variance: the pool's last directions are its own, and its texts stood out in them
_PRIOR: Final = 0.5  # how far a class mean is drawn from the middle of all to where its name puts it


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
        _validate.two_labels(self.labels, otherwise=", or take votes, which needs none")
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
        dim = min(self.directions, max(4, len(texts) // _TEXTS_A_DIRECTION))
        pool, features = fit_pool(texts, self, dim=dim, seed=seed)
        centre = None
        if self.prior:
            names = np.asarray(pool.space.encoder.embed(list(self.names or self.labels)), np.float64)
            likeness = features[:, : pool.space.encoder.dim] @ names.T
            centre = prior_means(pool.points, likeness - likeness.mean(axis=0))
        return FittedPrototypes(self, pool, centre)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """By document with topics, and by author without, on the labels of `dptext.sample_records`."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, about=200, topics=4)
        return small, replace(small, words=0, topics=0, unit="author", relation="replace_one")


class FittedPrototypes(OnPool[Prototypes]):
    """`Prototypes` with a pool, and where the names of the labels put class means `(classes, dim)`, if they do."""

    __slots__ = ("centre",)

    def __init__(self, spec: Prototypes, pool: PublicPool, centre: Floats | None) -> None:
        super().__init__(spec, pool)
        self.centre = centre

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """One pass over the corpus, noise once, then labelled pool texts."""
        return self.written(self.noisy_sum(corpus, draws), draws)

    @property
    def parts(self) -> tuple[float, float, float]:
        """What a unit's vector has: the length of its point at most, its count, and the number in its topic."""
        part = self.spec.point_length
        return part, in_steps(part * _COUNT), in_steps(math.sqrt(self.spec.topic_share))

    def noisy_sum(self, corpus: Corpus, draws: Draws) -> Floats:
        """The sum with noise: a row of points and a count for each label, topics by label, how many are unlike."""
        spec, dim, classes = self.spec, self.pool.space.dim, len(self.spec.labels)
        row = dim + 1
        last = classes * (row + spec.topics)
        summed = PrivateSum(last + 1, spec.noise(), by_author=spec.unit == "author")
        part, count, topic = self.parts
        for read in readings(corpus, self.pool.space, spec.labels):
            one = (len(read.points), 1)
            cells = [read.labels[:, None] * row + np.arange(row), np.full(one, last)]
            values = [read.points * part, np.full(one, count), read.unlike[:, None] * UNLIKE_PART]
            if spec.topics:
                cells.append((classes * row + read.labels * spec.topics + self.topics.nearest(read.points))[:, None])
                values.append(np.full(one, topic))
            summed.add(np.concatenate(cells, axis=1), np.concatenate(values, axis=1), read.authors)
        return summed.release(draws)

    def written(self, noisy: Floats, draws: Draws) -> Synthetic:
        """What follows from a noisy sum and public text."""
        part, count, topic = self.parts
        spec, classes, row = self.spec, len(self.spec.labels), self.pool.space.dim + 1
        scale = spec.noise().scale
        blocks = noisy[: classes * row].reshape(classes, row)
        counted = blocks[:, -1] / count
        sizes = class_sizes(counted, scale / count)
        # Of the noise, and of a mean of so few texts.
        variance = (scale / part / sizes[:, None]) ** 2 + self.pool.points.var(axis=0) / sizes[:, None]
        means = blocks[:, :-1] / part / sizes[:, None]
        centre = means.mean(axis=0) if self.centre is None else self.centre
        scores = class_scores(self.pool.points, shrunk(means, centre, variance), sizes)
        fit = self.pool_fit(noisy[-1], scale, counted, scale / count)
        report = Topics.of(spec.labels, counted[:, None], scale / count, (), spec.unit, fit)
        if spec.topics:
            histogram = noisy[classes * row : -1].reshape(classes, spec.topics) / topic
            described, own = self.topics.described, (counted, scale / count)
            report = Topics.of(spec.labels, histogram, scale / topic, described, spec.unit, fit, own)
            scores = scores + self.topics.weights(histogram.sum(axis=0), scale / topic * math.sqrt(classes))[:, None]
        most = min(spec.size_of(self.pool.texts), len(self.pool.texts))
        size = spec.size or fitting_size(scores, sizes, most)
        rows, label = chosen(scores, sizes, size)
        blurred = scale / part / sizes * math.sqrt(self.pool.space.dim)
        there = pool_counts(scores), pool_mix(scores, sizes, blurred) * len(scores)
        leaving = np.bincount(label, minlength=classes)
        report = replace(report, shortage=shortage(spec.labels, sizes, there, leaving, most))
        order = shuffled(len(rows), draws.randomness)
        texts, labels = (self.pool.texts[i] for i in rows[order]), (spec.labels[i] for i in label[order])
        return Synthetic(tuple(texts), tuple(labels), report, report.sentences())


def shrunk(noisy: Floats, centre: Floats, variance: Floats) -> Floats:
    """Noisy rows `(n, dim)` drawn towards their centres, in each column by the part that noise has in its variance.

    `variance` of the noise is `(n, 1)` or `(n, dim)`. The part is estimated from the rows themselves (empirical Bayes;
    Efron and Morris 1973), over neighbouring columns together. A row counts the less in this, the more noise it has.
    """
    apart = noisy - centre
    half = _SMOOTHED // 2
    signal = np.zeros(noisy.shape[1])
    for _ in range(_STEPS):
        weights = 1 / np.maximum(signal + variance, 1e-12) ** 2  # of a square whose mean is signal + variance
        signal = np.maximum(((apart**2 - variance) * weights).sum(axis=0) / weights.sum(axis=0), 0.0)
        if len(signal) >= _SMOOTHED:
            signal = np.convolve(np.pad(signal, half, mode="edge"), np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")
    kept = signal / np.maximum(signal + variance, 1e-300)
    return np.asarray(centre + np.where(variance > 0, kept, 1.0) * apart)


def class_sizes(noisy: Floats, deviation: float) -> Floats:
    """Noisy numbers of units `(n,)`, drawn towards their mean by what is noise in them; at least 1."""
    numbers = noisy[:, None]
    return np.maximum(shrunk(numbers, numbers.mean(axis=0), np.full(numbers.shape, deviation**2))[:, 0], 1)


def prior_means(pool: Floats, likeness: Floats) -> Floats:
    """Where names put classes, `(classes, dim)`: half-way to pool texts whose `likeness` `(n, classes)` is largest."""
    best = likeness.argmax(axis=1)
    middle = pool.mean(axis=0)
    means = [pool[best == c].mean(axis=0) if (best == c).any() else middle for c in range(likeness.shape[1])]
    return np.asarray(middle + _PRIOR * (np.stack(means) - middle))


def class_scores(pool: Floats, means: Floats, sizes: Floats) -> Floats:
    """ln of the chance of each class for each pool text `(n, classes)`, by linear discriminants.

    The covariance is that of the pool, whose class is not known: measured better than one without the spread of means.
    """
    covariance = np.atleast_2d(np.cov(pool.T))
    covariance += _RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    scores = pool @ weights - 0.5 * np.sum(means.T * weights, axis=0) + np.log(sizes / sizes.sum())
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1)[:, None])


def pool_counts(scores: Floats) -> Integers:
    """How many pool texts fit each class best, `(classes,)`, of scores `(n, classes)`."""
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1])


def pool_mix(scores: Floats, sizes: Floats, blurred: Floats) -> Floats:
    """The shares of the classes in the pool `(classes,)`, of scores `(n, classes)` whose prior has these sizes.

    By expectation maximization from equal shares (Saerens, Latinne and Decaestecker 2002), so that a class is not
    found in the pool because the private corpus has much of it. A class whose mean is `blurred`, the length of the
    noise in it, by more than half of what points are long would be found anywhere: it has the share of the texts that
    fit it best.
    """
    sharp = blurred < _BLURRED
    best = pool_counts(scores) / len(scores)
    if not sharp.any():
        return best
    likely = (scores - np.log(sizes / sizes.sum()))[:, sharp]
    shares = np.full(likely.shape[1], 1 / likely.shape[1])
    for _ in range(_ROUNDS):
        chances = likely + np.log(np.maximum(shares, 1e-12))
        shares = np.exp(chances - np.logaddexp.reduce(chances, axis=1)[:, None]).mean(axis=0)
    found = best.copy()
    found[sharp] = shares * (1 - best[~sharp].sum())
    return found


def missing(shares: Floats, there: Integers, size: int) -> float:
    """The share of so many texts that classes with these shares lack, where the pool has `there` of each."""
    return float(np.maximum(shares - there / size, 0.0).sum())


def fitting_size(scores: Floats, sizes: Floats, most: int) -> int:
    """As many texts, up to `most`, as the pool has in the mix of the classes: shares within a tenth of it in all.

    A class of which the pool has less than a hundredth of its share of `most` is lacked, and no size keeps its share.
    Where lacked classes have more of the mix than may be off, the mix of the others is kept among themselves.
    """
    shares = sizes / sizes.sum()
    for size in range(most, most // 5, -max(1, most // 20)):
        found = np.bincount(chosen(scores, sizes, size)[1], minlength=len(sizes))
        if np.abs(found / found.sum() - shares).sum() <= MIX:
            return size
    there = pool_counts(scores)
    lacked = there < shares * most / _SMALLEST
    if shares[lacked].sum() > MIX / 2:
        shares = np.where(lacked, 0.0, shares) / shares[~lacked].sum()
    return max(1, bisect_right(range(1, most + 1), MIX / 2, key=lambda size: missing(shares, there, size)))


def shortage(
    labels: Sequence[str], sizes: Floats, there: tuple[Integers, Floats], leaving: Integers, most: int
) -> Shortage | None:
    """Of which labels the pool has too few texts for `most` texts, of which some leave; None where it has enough.

    `there` says how many pool texts fit each class best, and about how many are of it.
    """
    shares, leave, (best, about) = sizes / sizes.sum(), int(leaving.sum()), there
    kept = missing(shares, best, leave) <= MIX / 2
    others = [c for c in range(len(shares)) if leaving[c] > max(2 * about[c], leave * _FEW)]
    if kept and leave == most and not others:
        return None
    lacking = shares - about / most
    order = [int(c) for c in np.argsort(-lacking, kind="stable") if lacking[c] > 0]
    pool = int(best.sum())
    named = tuple((labels[c], float(shares[c]), float(about[c] / pool)) for c in order)
    return Shortage(named, leave, most, kept, tuple(labels[c] for c in others))


def chosen(scores: Floats, sizes: Floats, size: int) -> tuple[Integers, Integers]:
    """`size` texts at most, of each class those that fit best, by its share; what a class lacks goes to the others."""
    best = scores.argmax(axis=1)
    order = [
        np.flatnonzero(best == c)[np.argsort(-scores[best == c, c], kind="stable")] for c in range(scores.shape[1])
    ]
    there = np.array([len(each) for each in order])
    quota = np.zeros(len(there), np.int64)
    open_ = there > 0
    while (left := size - quota.sum()) > 0 and open_.any():
        more = np.maximum(1, np.floor(left * sizes / sizes[open_].sum())).astype(np.int64) * open_
        if more.sum() > left:  # one each of the largest
            more = np.zeros_like(more)
            more[np.argsort(-np.where(open_, sizes, -1.0), kind="stable")[:left]] = 1
        quota = np.minimum(quota + more * open_, there)
        open_ = quota < there
    rows = np.concatenate([each[:n] for each, n in zip(order, quota, strict=True)])
    return rows, best[rows]
