"""Words under metric differential privacy: each token becomes a word near to it in a public embedding.

Three choices of noise:

* `multivariate` (Feyisetan et al. 2020): vector + noise with density exp(-epsilon |z|), then the nearest word.
* `mahalanobis` (Xu et al. 2020): the same with elliptical noise that follows the public vectors' covariance.
* `tem` (Carvalho et al. 2021): a word v with probability proportional to exp(-epsilon min(d, gamma) / 2).
  Drawn with integers only, so without the float slack of the other two.

Every token takes part: words, numbers, punctuation, capitals. A token that the vocabulary lacks, also in
lower case, stands for the mean of all vectors; nothing passes verbatim because it was not understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dptext import _validate, accounting, text
from dptext.embeddings import WordVectors, load_word_vectors
from dptext.errors import ConfigError, IncomparableError
from dptext.guarantee import MAX_MEANINGFUL_DELTA, Basis, Event, Guarantee, MetricEvent, Relation, Unit
from dptext.nearest import NearestWords
from dptext.noise import MetricNoise
from dptext.randomness import Randomness, seeded, uniform_below
from dptext.records import Record, Release
from dptext.selection import TruncatedExponential

_NO_DOCUMENT = (
    "Expected unit=token, found unit={unit}: the guarantee is a multiple of the distance between two words. For a "
    "document set diameter (a public bound on that distance) and max_tokens."
)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

REVEALS = ("the number of tokens", "the line structure")
PUBLIC_VECTORS = "the word vectors and their vocabulary were made from public text only"

_TOKENS_AT_ONCE = 8192
_TEM_ENTRIES_AT_ONCE = 1 << 21
_PAIRS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class WordMetric:
    """Settings of word-by-word metric privacy.

    Guarantee:
        Unit TOKEN, relation replace one, metric: two texts that differ in one token give any output with
        probabilities whose ratio is at most e^(epsilon * distance of the two tokens). It reveals the number
        of tokens and the line structure. For a DOCUMENT only with a public `diameter` and `max_tokens`:
        epsilon * diameter * max_tokens.

    Attributes:
        epsilon: per unit of distance. The number alone says nothing: see `WordMetricMechanism.unchanged_share`.
        noise: which of the three mechanisms.
        vectors: "glove" (GloVe 6B 50d, extra `[glove]`), or the path of a text or .npy file.
        n_words: how many words of the file, the first ones, form the vocabulary.
        mahalanobis_lambda: 0 (round noise) to 1 (the vectors' own covariance); only for `mahalanobis`.
        tem_beta: bound on the probability of a word beyond gamma; only for `tem`.
        max_tokens: texts are cut to this public length; None keeps them whole.
        diameter: a public bound on the distance of any two words; refused by `fit` when it is too small.
    """

    epsilon: float
    noise: Literal["multivariate", "mahalanobis", "tem"] = "multivariate"
    vectors: str = "glove"
    n_words: int = 50_000
    mahalanobis_lambda: float = 0.2
    tem_beta: float = 0.001
    max_tokens: int | None = None
    diameter: float | None = None
    kind: Literal["word_metric"] = field(default="word_metric", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.count(n_words=self.n_words)
        _validate.probability(mahalanobis_lambda=self.mahalanobis_lambda)
        _validate.within(1e-6, 0.5, tem_beta=self.tem_beta)
        if self.noise not in ("multivariate", "mahalanobis", "tem"):
            raise ConfigError(f"Expected noise={self.noise!r} to be 'multivariate', 'mahalanobis' or 'tem'.")
        if self.max_tokens is not None:
            _validate.count(max_tokens=self.max_tokens)
        if self.diameter is not None:
            _validate.positive(diameter=self.diameter)

    @property
    def metric(self) -> str:
        """The distance that epsilon is multiplied with."""
        if self.noise == "mahalanobis":
            return f"Mahalanobis distance (lambda {self.mahalanobis_lambda!r}) of {self._named_vectors}"
        return f"Euclidean distance of {self._named_vectors}"

    @property
    def _named_vectors(self) -> str:
        # The number of words belongs to the name: covariance and stand-in vector depend on it.
        return f"word vectors ({self.vectors}, first {self.n_words} words)"

    @property
    def units(self) -> tuple[Unit, ...]:
        """TOKEN, and DOCUMENT where diameter and max_tokens are set."""
        return (Unit.TOKEN, Unit.DOCUMENT) if self.diameter and self.max_tokens else (Unit.TOKEN,)

    @property
    def event(self) -> MetricEvent:
        """One token, with the largest slack of the float samplers that any accepted vectors can have."""
        if self.noise == "tem":
            return MetricEvent(self.epsilon, self.metric)
        dim, largest_norm = self.largest_vectors
        return MetricNoise(self.epsilon, dim, largest_norm).event(self.metric)

    @property
    def largest_vectors(self) -> tuple[int, float]:
        """Dimension and norm that `fit` accepts at most: the slack is stated before any vectors are loaded."""
        return (50, 32.0) if self.vectors == "glove" else (1024, 1000.0)

    def _lifted(self, event: MetricEvent, unit: Unit) -> tuple[Event, ...]:
        if unit is Unit.TOKEN:
            return (event,)
        if unit is not Unit.DOCUMENT or self.diameter is None or self.max_tokens is None:
            raise IncomparableError(_NO_DOCUMENT.format(unit=unit.value))
        return accounting.lift(accounting.bounded_metric([event], diameter=self.diameter), runs=self.max_tokens)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """What one release of one text guarantees, per token (default) or per document.

        Raises:
            IncomparableError: the unit is larger than a token and no diameter and max_tokens are set.
        """
        unit = unit or Unit.TOKEN
        events = self._lifted(self.event, unit)
        slack = sum(getattr(event, "delta", 0.0) * event.count for event in events)
        return accounting.guarantee(
            events,
            max(delta, min(1.0, slack * (1 + 1e-9))),
            unit=unit,
            relation=Relation.REPLACE_ONE,
            basis=Basis.CONDITIONAL,
            assumptions=(PUBLIC_VECTORS,),
            reveals=REVEALS,
        )

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> WordMetric:
        """The spec whose guarantee for this unit costs at most epsilon (per unit of distance for TOKEN).

        Raises:
            ConfigError: the slack of the float samplers alone is more than delta.
            IncomparableError: as `guarantee`.
        """
        unit = unit or Unit.TOKEN
        if unit is Unit.TOKEN:
            return replace(self, epsilon=epsilon)
        _validate.positive(epsilon=epsilon)
        if self.diameter is None or self.max_tokens is None or unit is not Unit.DOCUMENT:
            raise IncomparableError(_NO_DOCUMENT.format(unit=unit.value))
        # accounting rounds epsilon * diameter up by 2^-44: step back by more than that
        found = replace(self, epsilon=epsilon / (self.diameter * self.max_tokens) * (1 - 2.0**-40))
        floor = found.guarantee(unit).delta
        if floor > (delta or MAX_MEANINGFUL_DELTA):
            raise ConfigError(
                f"Expected delta={delta or MAX_MEANINGFUL_DELTA!r} >= {floor:.3g}, the slack of the float sampler over "
                "all tokens: choose noise='tem', which has none, a larger delta or fewer tokens."
            )
        return found

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> WordMetricMechanism:
        """Load the public vectors; public records and a seed are not needed.

        Raises:
            ConfigError: the vectors cannot be used, or two words are farther apart than `diameter`.
            MissingExtraError: `vectors="glove"` and the package is absent.
        """
        return WordMetricMechanism(self, load_word_vectors(self.vectors, self.n_words))


class WordMetricMechanism:
    """A `WordMetric` with its vectors. Immutable; `privatize` answers a batch with one search."""

    __slots__ = ("_gamma_choice", "_nearest", "_points", "_root", "_standin", "_vectors", "spec")

    def __init__(self, spec: WordMetric, vectors: WordVectors) -> None:
        self.spec = spec
        self._vectors = vectors
        self._nearest = NearestWords(vectors)
        points = vectors.vectors.astype(np.float64)
        self._root = _covariance_root(points, spec.mahalanobis_lambda) if spec.noise == "mahalanobis" else None
        # Noise is added, and rounded, where it is round; going back is post-processing.
        self._points = points if self._root is None else points @ np.linalg.inv(self._root)
        self._standin = self._points.mean(axis=0)
        self._gamma_choice = TruncatedExponential(
            spec.epsilon,
            TruncatedExponential.threshold_for(spec.epsilon, len(points), spec.tem_beta),
            len(points),
        )
        self._check()

    def _check(self) -> None:
        dim = self._points.shape[1]
        largest = float(np.linalg.norm(self._points, axis=1).max())
        largest_dim, largest_norm = self.spec.largest_vectors
        if dim > largest_dim or largest > largest_norm:
            raise ConfigError(
                f"Expected vectors of at most {largest_dim} dimensions and norm {largest_norm:g}, found {dim} and "
                f"{largest:.4g}: scale them down."
            )
        if self.spec.diameter is not None:
            needed = _diameter(self._points, self._vectors, self._root)
            if self.spec.diameter < needed:
                raise ConfigError(
                    f"Expected diameter={self.spec.diameter!r} >= {needed:.6g}, the largest distance of two words."
                )

    def __repr__(self) -> str:
        return f"WordMetricMechanism({self.spec!r})"

    @property
    def event(self) -> MetricEvent:
        """What happens to one token."""
        return self.spec.event

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the public vectors."""
        return {"vectors": self._vectors.digest}

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        """One release a record; labels are dropped, as they are not privatized."""
        lines = [text.tokenize(record.text) for record in records]
        if self.spec.max_tokens is not None:
            lines = [text.cut(tokens, self.spec.max_tokens) for tokens in lines]
        sizes = [sum(map(len, tokens)) for tokens in lines]
        indices = self._vectors.index_of([token for document in lines for line in document for token in line])
        words = self._replace(np.asarray(indices, np.int64), sizes, randomness)
        chosen = iter(self._vectors.words[i] for i in words.tolist())
        return [
            Release(record.id, text.detokenize([[next(chosen) for _ in line] for line in document]), kept=record.kept)
            for record, document in zip(records, lines, strict=True)
        ]

    def _replace(self, indices: Indices, sizes: Sequence[int], randomness: Randomness) -> Indices:
        """A word for each token (-1 for an unknown one)."""
        if self.spec.noise == "tem":
            start = 0

            def choose(source: Randomness, n: int) -> Indices:
                nonlocal start
                start += n
                return self._choose_by_tem(indices[start - n : start], source)

            return randomness.rows(sizes, choose)
        adder = MetricNoise(self.spec.epsilon, self._points.shape[1], self.spec.largest_vectors[1])
        result = np.empty(len(indices), np.int64)
        done = 0
        for source, n in randomness.blocks(sizes, _TOKENS_AT_ONCE):
            here = slice(done, done + n)
            done += n
            noisy = adder.add(self._at(indices[here]), adder.draw(n, source))
            queries = noisy if self._root is None else noisy @ self._root
            result[here] = self._nearest.search(queries)
        return result

    def _at(self, indices: Indices) -> Floats:
        points = self._points[indices]
        points[indices < 0] = self._standin
        return points

    def _choose_by_tem(self, indices: Indices, source: Randomness) -> Indices:
        step = max(1, _TEM_ENTRIES_AT_ONCE // len(self._points))
        blocks = [self._tem_block(indices[i : i + step], source) for i in range(0, len(indices), step)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.int64)

    def _tem_block(self, indices: Indices, source: Randomness) -> Indices:
        choice = self._gamma_choice
        points = self._at(indices)
        # float32 finds a superset of the near words; their distances are then computed in float64
        squared = _squared_distances(points, self._points)
        room = 1e-4 * float(np.square(points).sum(axis=1).max(initial=0.0) + np.square(self._points).sum(axis=1).max())
        rows, columns = np.nonzero(squared <= choice.threshold**2 + room)
        distances = np.empty(len(rows))
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            pairs = slice(start, start + _PAIRS_AT_ONCE)
            distances[pairs] = np.linalg.norm(points[rows[pairs]] - self._points[columns[pairs]], axis=1)
        counts = np.bincount(rows, minlength=len(points))
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        near = np.full((len(points), max(int(counts.max(initial=0)), 1)), np.inf)
        words = np.full(near.shape, -1, np.int64)
        near[rows, place], words[rows, place] = distances, columns
        picked = choice.choose(near, source)
        result = words[np.arange(len(points)), picked]
        pending = np.flatnonzero(picked < 0)
        while pending.size:  # uniform among the words that are not near
            drawn = uniform_below(choice.size, pending.size, source).astype(np.int64)
            far = ~(words[pending] == drawn[:, None]).any(axis=1)
            result[pending[far]] = drawn[far]
            pending = pending[~far]
        return result

    def unchanged_share(self) -> float:
        """Share of running words that come back unchanged at this epsilon.

        Measured on the 200 most frequent words of the public vocabulary (its first ones), weighted by
        1 / (rank + 2.7) as in running text (Zipf and Mandelbrot), 4,000 draws with a fixed seed. No private
        text takes part.
        """
        ranks = np.arange(min(200, len(self._vectors.words)))
        cumulated = np.cumsum(1 / (ranks + 2.7))
        return self._share(np.searchsorted(cumulated / cumulated[-1], (np.arange(4000) + 0.5) / 4000))

    def unchanged_share_of_vocabulary(self) -> float:
        """The same share among words spread evenly over the whole vocabulary, 2,000 of them at most."""
        count = min(2000, len(self._vectors.words))
        return self._share(np.linspace(0, len(self._vectors.words) - 1, count).round().astype(np.int64))

    def _share(self, indices: Indices) -> float:
        return float(np.mean(self._replace(indices, [len(indices)], seeded(0)) == indices))


def _squared_distances(left: Floats, right: Floats) -> NDArray[np.float32]:
    a, b = left.astype(np.float32), right.astype(np.float32)
    result = a @ b.T
    result *= -2
    result += np.square(a).sum(axis=1)[:, None]
    result += np.square(b).sum(axis=1)
    return result


def _covariance_root(points: Floats, mix: float) -> Floats:
    """(lambda * Sigma + (1 - lambda) I)^(1/2), Sigma the covariance scaled to trace dim (Xu et al. 2020)."""
    covariance = np.cov(points, rowvar=False).reshape(points.shape[1], -1)
    covariance *= points.shape[1] / np.trace(covariance)
    values, axes = np.linalg.eigh(mix * covariance + (1 - mix) * np.eye(points.shape[1]))
    if values.min() < 1e-6:
        raise ConfigError(f"Expected mahalanobis_lambda={mix!r} < 1: these vectors do not fill their space.")
    return np.asarray((axes * np.sqrt(values)) @ axes.T)


def _diameter(points: Floats, vectors: WordVectors, root: Floats | None) -> float:
    if root is None:
        return vectors.diameter_bound()
    # Twice the radius around the mean: never below the true diameter.
    return float(2 * np.linalg.norm(points - points.mean(axis=0), axis=1).max() * (1 + 1e-9))
