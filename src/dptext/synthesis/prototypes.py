"""Prototypes: public texts get labels and weights from noisy class means of a private corpus.

The classifier is made from noisy sums and public text, so it costs no more privacy.
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
# Largest squared length of the noise of a class mean, divided by classes - 1 (class means differ in classes - 1
# directions). A space with more than the fewest directions must stay within this bound.
_NOISY: Final = 6.5e-4
_TEXTS_A_DIRECTION: Final = 8  # at least, of the pool: its covariance is estimated
_COUNT: Final = 0.5  # weight of a unit's count beside its point
_SMOOTHED: Final = 9  # neighbouring directions whose signal is estimated together
_STEPS: Final = 3
_SMALLEST: Final = 100  # scarce labels shrink the output by this factor at most
_BLURRED: Final = 0.5  # largest noise of a usable class mean, in lengths of a point
_ROUNDS: Final = 100
_FEW: Final = 0.02  # labels with a smaller share of the released texts are not reported in `others`
# Ridge, as a part of the mean variance. Without a ridge the last directions decide, in which only the pool varies.
_RIDGE: Final = 0.3
_PRIOR: Final = 0.5  # position of a prior mean, from the pool's mean (0) to the texts most like the class name (1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prototypes(SynthesisSpec):
    """Settings of a synthesis that labels public texts by noisy class means.

    Use:
        Take it to train a classifier when private texts have labels and the pool has none, or other labels.
        Set first: labels, epsilon, about.

    Guarantee:
        Every unit adds its point (length at most 1) in the row of its label, its count with weight 1/2, a number for
        its nearest topic, and a number if it is unlike the pool. The parts are scaled to be one vector of length at
        most 1. The sum has discrete Gaussian noise. Everything else reads the noisy sum and public text alone.

    Attributes:
        dim: directions of the space; 0 chooses 64 to 256 by `about`, labels and noise. A small pool has fewer.
        topic_share: share of rho for the topics.
        names: meanings of the labels, one text for each, in their order; empty takes the labels as they are.
        prior: whether noisy class means are pulled towards guesses made from the label names; noisier means are pulled
            more.
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
        """The largest length of the point within a unit's vector."""
        rest = 1 - FIT_SHARE - (self.topic_share if self.topics else 0.0)
        return math.sqrt(rest / (1 + _COUNT**2)) * (1 - 2.0**-30)

    @property
    def directions(self) -> int:
        """The number of directions of the space."""
        if self.dim:
            return self.dim
        noise = self.noise().scale / self.point_length * len(self.labels) / self.about
        most = _NOISY * (len(self.labels) - 1)
        return max((dim for dim in _DIMS if dim * noise**2 <= most), default=_DIMS[0])

    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> FittedPrototypes:
        """Read the pool. Labels of the pool are ignored; a text that occurs twice counts once."""
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
        """Settings by document with topics, and by author without topics, on the labels of `dptext.sample_records`."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, about=200, topics=4)
        return small, replace(small, words=0, topics=0, unit="author", relation="replace_one")


class FittedPrototypes(OnPool[Prototypes]):
    """`Prototypes` with a pool, and prior class means `centre` `(classes, dim)`, or None without a prior."""

    __slots__ = ("centre",)

    def __init__(self, spec: Prototypes, pool: PublicPool, centre: Floats | None) -> None:
        super().__init__(spec, pool)
        self.centre = centre

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """One pass over the corpus, noise once, then labelled pool texts."""
        return self.written(self.noisy_sum(corpus, draws), draws)

    @property
    def parts(self) -> tuple[float, float, float]:
        """The parts of a unit's vector: the largest length of the point, then the values of count and topic."""
        part = self.spec.point_length
        return part, in_steps(part * _COUNT), in_steps(math.sqrt(self.spec.topic_share))

    def noisy_sum(self, corpus: Corpus, draws: Draws) -> Floats:
        """Return the noisy sum `(cells,)`.

        Its cells are, for each label, the sum of points and the count; then the numbers by label and topic; then the
        number of texts unlike the pool.
        """
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
        """Return the synthetic corpus that follows from a noisy sum and public text."""
        part, count, topic = self.parts
        spec, classes, row = self.spec, len(self.spec.labels), self.pool.space.dim + 1
        scale = spec.noise().scale
        blocks = noisy[: classes * row].reshape(classes, row)
        counted = blocks[:, -1] / count
        sizes = class_sizes(counted, scale / count)
        # The variance of the noise, and of the mean of a small class.
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
        report = replace(report, names=spec.names, shortage=shortage(spec.labels, sizes, there, leaving, most))
        order = shuffled(len(rows), draws.randomness)
        texts, labels = (self.pool.texts[i] for i in rows[order]), (spec.labels[i] for i in label[order])
        return Synthetic(tuple(texts), tuple(labels), report, report.sentences())


def shrunk(noisy: Floats, centre: Floats, variance: Floats) -> Floats:
    """Return noisy rows `(n, dim)` pulled towards their centres: the larger the share of noise, the stronger the pull.

    `variance` of the noise is `(n, 1)` or `(n, dim)`. The share of noise in the variance of each column is estimated
    from the rows themselves (empirical Bayes; Efron and Morris 1973), over neighbouring columns together. Rows with
    more noise weigh less in this estimate.
    """
    apart = noisy - centre
    half = _SMOOTHED // 2
    signal = np.zeros(noisy.shape[1])
    for _ in range(_STEPS):
        # By the variance of `apart**2`, whose mean is signal + variance.
        weights = 1 / np.maximum(signal + variance, 1e-12) ** 2
        signal = np.maximum(((apart**2 - variance) * weights).sum(axis=0) / weights.sum(axis=0), 0.0)
        if len(signal) >= _SMOOTHED:
            signal = np.convolve(np.pad(signal, half, mode="edge"), np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")
    kept = signal / np.maximum(signal + variance, 1e-300)
    return np.asarray(centre + np.where(variance > 0, kept, 1.0) * apart)


def class_sizes(noisy: Floats, deviation: float) -> Floats:
    """Return noisy numbers of units `(n,)`, shrunk towards their mean by the share of noise; each at least 1."""
    numbers = noisy[:, None]
    return np.maximum(shrunk(numbers, numbers.mean(axis=0), np.full(numbers.shape, deviation**2))[:, 0], 1)


def prior_means(pool: Floats, likeness: Floats) -> Floats:
    """Return prior class means `(classes, dim)`.

    A prior mean is half-way between the mean of the pool and the mean of the texts that are more like this class than
    like any other, by `likeness` `(n, classes)`.
    """
    best = likeness.argmax(axis=1)
    middle = pool.mean(axis=0)
    means = [pool[best == c].mean(axis=0) if (best == c).any() else middle for c in range(likeness.shape[1])]
    return np.asarray(middle + _PRIOR * (np.stack(means) - middle))


def class_scores(pool: Floats, means: Floats, sizes: Floats) -> Floats:
    """Return the log-probability of each class for each pool text, `(n, classes)`, by linear discriminants.

    The covariance is that of the whole pool, whose classes are unknown. Leaving the spread between class means out of
    the covariance gave worse results.
    """
    covariance = np.atleast_2d(np.cov(pool.T))
    covariance += _RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    scores = pool @ weights - 0.5 * np.sum(means.T * weights, axis=0) + np.log(sizes / sizes.sum())
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1)[:, None])


def pool_counts(scores: Floats) -> Integers:
    """Return the number of pool texts that fit each class best, `(classes,)`, from scores `(n, classes)`."""
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1])


def pool_mix(scores: Floats, sizes: Floats, blurred: Floats) -> Floats:
    """Return the shares of the classes in the pool `(classes,)`, from scores `(n, classes)` with `sizes` as prior.

    Expectation maximization starts from equal shares (Saerens, Latinne and Decaestecker 2002), so that a class
    that is frequent in the private corpus is not overcounted in the pool. `blurred` is the length of the noise in each
    class mean. With noise of half a point's length or more, a class would seem to be everywhere: its share is then the
    share of the texts that fit the class best.
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
    """Return the share of `size` texts that the pool lacks for this mix of classes.

    `there` `(classes,)` are the numbers of pool texts of each class.
    """
    return float(np.maximum(shares - there / size, 0.0).sum())


def fitting_size(scores: Floats, sizes: Floats, most: int) -> int:
    """Return the number of texts, up to `most`, that the pool has in the mix of the classes, within `MIX` (L1).

    A class is given up if the pool has less than 1/100 of the texts that the class should have among `most`. If the
    given-up classes exceed `MIX / 2` of the mix, only the other classes keep their proportions.
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
    """Return the labels of which the pool has too few texts for `most` texts; None if the pool has enough.

    `leaving` are the numbers of released texts of each class. `there` is a pair: the numbers of pool texts that fit
    each class best, and the estimated numbers of pool texts of each class.
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
    """Choose at most `size` texts; return their rows in the pool and their classes.

    Each class gives its best texts, in proportion to its size. Where a class runs out, other classes fill up.
    """
    best = scores.argmax(axis=1)
    order = [
        np.flatnonzero(best == c)[np.argsort(-scores[best == c, c], kind="stable")] for c in range(scores.shape[1])
    ]
    there = np.array([len(each) for each in order])
    quota = np.zeros(len(there), np.int64)
    open_ = there > 0
    while (left := size - quota.sum()) > 0 and open_.any():
        more = np.maximum(1, np.floor(left * sizes / sizes[open_].sum())).astype(np.int64) * open_
        if more.sum() > left:  # one text each for the largest classes
            more = np.zeros_like(more)
            more[np.argsort(-np.where(open_, sizes, -1.0), kind="stable")[:left]] = 1
        quota = np.minimum(quota + more * open_, there)
        open_ = quota < there
    rows = np.concatenate([each[:n] for each, n in zip(order, quota, strict=True)])
    return rows, best[rows]
