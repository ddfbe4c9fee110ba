"""Words under metric differential privacy: each token becomes a word near to it in a public embedding.

Three choices of noise:

* `multivariate` (Feyisetan et al. 2020): vector + noise with density exp(-epsilon |z|), then the nearest word.
* `mahalanobis` (Xu et al. 2020): the same with elliptical noise that follows the public vectors' covariance.
* `tem` (Carvalho et al. 2021): a word v with probability proportional to exp(-epsilon min(d, gamma) / 2).
  Drawn with integers only, so without the float slack of the other two.

`fit` gives a class for each way of working, with the seams for audits that it has: a mechanism that adds noise knows
its latents and their density, TEM the exact probability of every output.

Every token takes part: words, numbers, punctuation, capitals. A token that the vocabulary lacks, also in
lower case, stands for the mean of all vectors; nothing passes verbatim because it was not understood.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.nearest import NearestWords
from dptext.embeddings.saved_vectors import load_saved_word_vectors, save_word_vectors
from dptext.embeddings.vector_files import load_word_vectors
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError, IncomparableError, MissingExtraError
from dptext.mechanism import Learns, Remarks, Traits
from dptext.mechanisms.bases import FittedMechanism
from dptext.mechanisms.words.vocabulary import (
    Vocabulary,
    covariance_root,
    frequent_words,
    sizes_of,
    spread_words,
    squared_distances,
)
from dptext.privacy import accounting
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, ApproximateEvent, Event, MetricEvent
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.float_noise import MetricNoise
from dptext.sampling.source import Randomness, seeded
from dptext.sampling.truncated import LEAST_DISTANCE, TruncatedExponential
from dptext.text import tokens as text
from dptext.text.batches import Releases
from dptext.text.records import Record
from dptext.types import Floats, Integers

_NO_DOCUMENT = (
    "Expected unit=token, found unit={unit}: the guarantee is a multiple of the distance between two words. For a "
    "document set diameter (a public bound on that distance) and max_tokens."
)


REVEALS = (text.TOKEN_COUNT, text.LINE_STRUCTURE)
PUBLIC_VECTORS = "the word vectors and their vocabulary were made from public text only"

_TOKENS_AT_ONCE = 8192
_TEM_ENTRIES_AT_ONCE = 1 << 21
_PAIRS_AT_ONCE = 1 << 16
_MOST_OUTPUTS = 1_000_000


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

    def remarks(self) -> Remarks:
        """How many public words come back unchanged, measured on the vectors."""
        try:
            mechanism = self.fit()
        except MissingExtraError:
            unknown = f"How many words come back unchanged is not known: the vectors {self.vectors!r} are not here."
            return Remarks(unknown, {"unchanged_share": None, "unchanged_share_of_vocabulary": None})
        running, whole = mechanism.unchanged_share(), mechanism.unchanged_share_of_vocabulary()
        return Remarks(
            f"Measured on public words, at epsilon = {self.epsilon:g}: {running:.3f} of running words (the 200 most "
            f"frequent, weighted as in text) and {whole:.3f} of the whole vocabulary come back unchanged. "
            "The number epsilon alone says nothing: a word that comes back is released verbatim.",
            {"unchanged_share": running, "unchanged_share_of_vocabulary": whole},
        )

    @property
    def traits(self) -> Traits:
        """It learns from no text."""
        return Traits(learns=Learns.NOTHING)

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
            return MetricEvent(self.epsilon, TruncatedExponential.counted(self.metric))
        dim, largest_norm = self.largest_vectors
        return MetricNoise(self.epsilon, dim, largest_norm).event(self.metric)

    @property
    def largest_vectors(self) -> tuple[int, float]:
        """Dimension and norm that `fit` accepts at most: the slack is stated before any vectors are loaded."""
        return (50, 32.0) if self.vectors == "glove" else (1024, 1000.0)

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """One token; or, with a public diameter, all of a document, each a run of its own (else IncomparableError)."""
        if unit is Unit.TOKEN:
            return (self.event,)
        if unit is not Unit.DOCUMENT or self.diameter is None or self.max_tokens is None:
            raise IncomparableError(_NO_DOCUMENT.format(unit=unit.value))
        return accounting.lift(accounting.bounded_metric([self.event], diameter=self.diameter), runs=self.max_tokens)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """What one release of one text guarantees, per token (default) or per document.

        Raises:
            IncomparableError: the unit is larger than a token and no diameter and max_tokens are set.
        """
        unit = unit or Unit.TOKEN
        events = self.events(unit)
        slack = sum(e.delta * e.count for e in events if isinstance(e, MetricEvent | ApproximateEvent))
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
        return _mechanism(self, load_word_vectors(self.vectors, self.n_words))

    def load(self, folder: Path) -> WordMetricMechanism:
        """The mechanism that was saved into the folder under this spec; the vectors are read from there alone.

        Raises:
            ConfigError: a file is absent, truncated or edited, or does not belong to this spec.
        """
        return _mechanism(self, load_saved_word_vectors(folder, self.n_words))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings on the first words of GloVe, one for each way of working.

        At epsilon 0.3 a word and a typical other one, at distance 3 to 6, are 1 to 2 apart: what an audit of some
        thousand runs can see. The last spec has a gamma (6.1) below its diameter (8.04), so that TEM's other words
        take part, which needs a larger epsilon; with two tokens at most, every output can be enumerated.
        """
        return (
            cls(epsilon=0.3, n_words=300),
            cls(epsilon=0.3, n_words=300, max_tokens=2, diameter=10.0),
            cls(epsilon=0.3, n_words=300, noise="mahalanobis"),
            cls(epsilon=0.3, n_words=300, noise="tem"),
            cls(epsilon=1.5, n_words=100, noise="tem", tem_beta=0.5, max_tokens=2, diameter=9.0),
        )


class _Fitted(FittedMechanism[WordMetric], ABC):
    """What both ways have in common: public vectors, and a word for each token."""

    __slots__ = ("_words",)

    def __init__(self, spec: WordMetric, words: Vocabulary) -> None:
        super().__init__(spec)
        self._words = words

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the public vectors."""
        return {"vectors": self._words.vectors.digest}

    def save(self, folder: Path) -> None:
        """Write the public vectors into an existing folder, for `WordMetric.load`.

        Raises:
            ConfigError: a file of a model is there already, or cannot be written.
        """
        save_word_vectors(self._words.vectors, folder)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One release a record; labels are dropped, as they are not privatized."""
        return self._words.rewrite(records, lambda indices, sizes: self._replace(indices, sizes, randomness))

    def distance(self, first: Record, second: Record) -> float:
        """The guarantee's distance of two records: the sum over their tokens, rounded up a little.

        Raises:
            ConfigError: the records differ in their number of tokens or lines, so that they are no neighbours.
        """
        return self._words.distance(first, second)

    def unchanged_share(self) -> float:
        """Share of running words that come back unchanged at this epsilon: see `frequent_words`."""
        return self._share(frequent_words(len(self._words.points)))

    def unchanged_share_of_vocabulary(self) -> float:
        """The same share among words spread evenly over the whole vocabulary, 2,000 of them at most."""
        return self._share(spread_words(len(self._words.points)))

    @abstractmethod
    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """A word for each token (-1 for an unknown one)."""

    @abstractmethod
    def _share(self, indices: Integers) -> float:
        """The share of these words that come back unchanged."""


class WordNoiseMechanism(_Fitted):
    """A `WordMetric` of noise `multivariate` or `mahalanobis` with its vectors.

    Immutable. It has a latent with a known density (`HasLatent`) and a metric (`HasMetric`).
    """

    __slots__ = ("_nearest", "_noise", "_root")

    def __init__(self, spec: WordMetric, words: Vocabulary, root: Floats | None) -> None:
        super().__init__(spec, words)
        self._root = root
        self._nearest = NearestWords(words.vectors)
        self._noise = MetricNoise(spec.epsilon, words.points.shape[1], spec.largest_vectors[1])

    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """A word for each token (-1 for an unknown one)."""
        result = np.empty(len(indices), np.int64)
        for here, noisy in self._noisy(lambda tokens: self._words.at(indices[tokens]), sizes, randomness):
            result[here] = self._nearest.search(noisy if self._root is None else noisy @ self._root)
        return result

    def _noisy(
        self, points: Callable[[slice], Floats], sizes: Sequence[int], randomness: Randomness
    ) -> Iterator[tuple[slice, Floats]]:
        """Blocks of tokens and their noisy points: the one place where noise is added."""
        start = 0
        for source, n in randomness.blocks(sizes, _TOKENS_AT_ONCE):
            here = slice(start, start + n)
            start += n
            yield here, self._noise.release(points(here), source)

    def latent(self, records: Sequence[Record]) -> Floats:
        """The points of each record's tokens side by side, in the coordinates in which the noise is round.

        Returns:
            Points `(n_records, n_tokens * dim)`.

        Raises:
            ConfigError: the records differ in their number of tokens.
        """
        documents = self._words.lines(records)
        if len(set(sizes_of(documents))) > 1:
            raise ConfigError("Expected records with equally many tokens: others have latents of another size.")
        return self._words.at(self._words.indices(documents)).reshape(len(records), -1 if records else 0)

    def release(self, latents: Floats, randomness: Randomness) -> Floats:
        """Latents `(rows, n_tokens * dim)` with the noise that `privatize` would add to them.

        Raises:
            ConfigError: the latents do not have dim coordinates a token.
        """
        points = self._tokens(latents)
        released = np.empty_like(points)
        n_tokens = latents.shape[1] // points.shape[1]
        for here, noisy in self._noisy(lambda tokens: points[tokens], [n_tokens] * len(latents), randomness):
            released[here] = noisy
        return released.reshape(latents.shape)

    def log_density(self, released: Floats, latents: Floats) -> Floats:
        """Log density `(rows,)` of released latents given the latents, up to a term that `released` determines.

        Raises:
            ConfigError: the shapes differ, or are not those of latents.
        """
        if released.shape != latents.shape:
            raise ConfigError(f"Expected released latents of shape {latents.shape}, found {released.shape}.")
        tokens = self._noise.log_density(self._tokens(released), self._tokens(latents))
        return np.asarray(tokens.reshape(len(latents), -1 if len(latents) else 0).sum(axis=1))

    def _tokens(self, latents: Floats) -> Floats:
        dim = self._words.points.shape[1]
        if latents.ndim != 2 or latents.shape[1] % dim:
            raise ConfigError(f"Expected latents of shape (rows, n_tokens * {dim}), found {latents.shape}.")
        return np.asarray(latents, np.float64).reshape(-1, dim)

    def _share(self, indices: Integers) -> float:
        return float(np.mean(self._replace(indices, [len(indices)], seeded(0)) == indices))


class WordChoiceMechanism(_Fitted):
    """A `WordMetric` of noise `tem` with its vectors.

    Immutable. It knows the probability of every output (`HasDistribution`) and has a metric (`HasMetric`).
    """

    __slots__ = ("_choice",)

    def __init__(self, spec: WordMetric, words: Vocabulary) -> None:
        super().__init__(spec, words)
        threshold = TruncatedExponential.threshold_for(spec.epsilon, len(words.points), spec.tem_beta)
        self._choice = TruncatedExponential(spec.epsilon, threshold, len(words.points))

    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """A word for each token (-1 for an unknown one)."""
        start = 0

        def choose(source: Randomness, n: int) -> Integers:
            nonlocal start
            start += n
            return self._choose(indices[start - n : start], source)

        return randomness.rows(sizes, choose)

    def distance(self, first: Record, second: Record) -> float:
        """As every `WordMetric`'s, but different words count as at least `LEAST_DISTANCE` apart."""
        return self._words.distance(first, second, least=LEAST_DISTANCE)

    def _choose(self, indices: Integers, source: Randomness) -> Integers:
        step = max(1, _TEM_ENTRIES_AT_ONCE // len(self._words.points))
        blocks = [self._choose_block(indices[i : i + step], source) for i in range(0, len(indices), step)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.int64)

    def _choose_block(self, indices: Integers, source: Randomness) -> Integers:
        choice, every = self._choice, self._words.points
        points = self._words.at(indices)
        # float32 finds a superset of the near words; their distances are then computed in float64
        squared = squared_distances(points, every)
        room = 1e-4 * float(np.square(points).sum(axis=1).max(initial=0.0) + np.square(every).sum(axis=1).max())
        rows, columns = np.nonzero(squared <= choice.threshold**2 + room)
        distances = np.empty(len(rows))
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            pairs = slice(start, start + _PAIRS_AT_ONCE)
            distances[pairs] = np.linalg.norm(points[rows[pairs]] - every[columns[pairs]], axis=1)
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

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of every output text: the product over tokens of `TruncatedExponential.distribution`.

        `privatize` draws with integer weights, which are these probabilities rounded: a token's two probabilities of a
        word differ by less than 2^-40 of themselves. Different words never make the same text, because no word has
        whitespace, so each key has one origin.

        Raises:
            ConfigError: there are more than a million outputs.
        """
        [lines] = self._words.lines([record])
        indices = self._words.indices([lines])
        words = self._words.vectors.words
        if len(indices) * math.log(len(words)) > math.log(_MOST_OUTPUTS) + 1e-9:
            raise ConfigError(
                f"Expected a record with at most {_MOST_OUTPUTS:,} possible outputs to enumerate, where a token has "
                f"n_words={len(words)}: give a shorter record, or lower n_words or max_tokens."
            )
        # What stands before, between and after the words: every output has the lines of the input.
        between = text.detokenize([["\0"] * len(line) for line in lines]).split("\0")
        texts, probabilities = between[:1], np.ones(1)
        for point, gap in zip(self._words.at(indices), between[1:], strict=True):
            distances = np.linalg.norm(point - self._words.points, axis=1)
            texts = [f"{begun}{word}{gap}" for begun in texts for word in words]
            probabilities = np.multiply.outer(probabilities, self._choice.distribution(distances[None])[0]).ravel()
        return dict(zip(texts, probabilities.tolist(), strict=True))

    def _share(self, indices: Integers) -> float:
        words, counts = np.unique(indices, return_counts=True)
        chances = np.empty(len(words))
        for start in range(0, len(words), 64):
            block = words[start : start + 64]
            distances = np.sqrt(np.maximum(squared_distances(self._words.at(block), self._words.points), 0.0))
            own = np.arange(len(block)), block
            distances[own] = 0.0
            chances[start : start + 64] = self._choice.distribution(distances)[own]
        return float(np.average(chances, weights=counts))


WordMetricMechanism = WordNoiseMechanism | WordChoiceMechanism


def _mechanism(spec: WordMetric, vectors: WordVectors) -> WordMetricMechanism:
    """The mechanism of a spec, with vectors that keep to its bounds."""
    points = vectors.vectors.astype(np.float64)
    root = covariance_root(points, spec.mahalanobis_lambda) if spec.noise == "mahalanobis" else None
    # Noise is added, and rounded, where it is round; going back is post-processing.
    points = points if root is None else points @ np.linalg.inv(root)
    largest = float(np.linalg.norm(points, axis=1).max())
    largest_dim, largest_norm = spec.largest_vectors
    if points.shape[1] > largest_dim or largest > largest_norm:
        raise ConfigError(
            f"Expected vectors of at most {largest_dim} dimensions and norm {largest_norm:g}, found {points.shape[1]} "
            f"and {largest:.4g}: scale them down."
        )
    if spec.diameter is not None:
        needed = max(_diameter(points, vectors, root), LEAST_DISTANCE)
        if spec.diameter < needed:
            raise ConfigError(
                f"Expected diameter={spec.diameter!r} >= {needed:.6g}, the largest distance of two words."
            )
    words = Vocabulary(vectors, points, points.mean(axis=0), spec.max_tokens)
    return WordChoiceMechanism(spec, words) if spec.noise == "tem" else WordNoiseMechanism(spec, words, root)


def _diameter(points: Floats, vectors: WordVectors, root: Floats | None) -> float:
    if root is None:
        return vectors.diameter_bound()
    # Twice the radius around the mean: never below the true diameter.
    return float(2 * np.linalg.norm(points - points.mean(axis=0), axis=1).max() * (1 + 1e-9))
