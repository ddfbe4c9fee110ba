"""Words under metric differential privacy: each token becomes a word near to it in a public embedding.

Three choices of noise:

* `multivariate` (Feyisetan et al. 2020): vector + noise with density exp(-epsilon |z|), then the nearest word.
* `mahalanobis` (Xu et al. 2020): the same with elliptical noise that follows the public vectors' covariance.
* `tem` (Carvalho et al. 2021): a word v with probability proportional to exp(-epsilon min(d, gamma) / 2).
  Drawn with integers only, so without the float slack of the other two.

`fit` returns one of two classes, each with its seams for audits: a mechanism that adds noise has latents with a known
density, TEM the exact probability of every output.

Every token takes part: words, numbers, punctuation, capitals. A token that the vocabulary lacks, also in lower case,
gets the mean of all vectors; no unknown token is released verbatim.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeAlias

import numpy as np

from dptext import _validate
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError, IncomparableError, MissingExtraError
from dptext.mechanism import Remarks
from dptext.mechanisms.bases import FromWords, check_choices
from dptext.mechanisms.words.vocabulary import PUBLIC_VECTORS, WordPoints, covariance_root
from dptext.mechanisms.words.word_by_word import WordChoiceMechanism, WordNoiseMechanism
from dptext.privacy import accounting
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, ApproximateEvent, Event, MetricEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.exponential import LEAST_DISTANCE, TruncatedExponential
from dptext.sampling.float_noise import MetricNoise
from dptext.text.tokens import LINE_STRUCTURE, TOKEN_COUNT

WordMetricMechanism: TypeAlias = "WordNoiseMechanism[WordMetric] | WordChoiceMechanism[WordMetric]"

_NO_DOCUMENT = (
    "Expected unit=token, found unit={unit}: the guarantee is a multiple of the distance between two words. For a "
    "document set diameter (a public bound on that distance) and max_tokens."
)


REVEALS = (TOKEN_COUNT, LINE_STRUCTURE)


@dataclass(frozen=True, slots=True)
class WordMetric(FromWords["WordMetricMechanism"]):
    """Settings of word-by-word metric privacy.

    Use:
        Take it to blur single words, each under a weak guarantee of its own.
        Set first: epsilon, noise, max_tokens, diameter.

    Guarantee:
        Unit TOKEN, relation replace one, metric: two texts that differ in one token give any output with
        probabilities whose ratio is at most e^(epsilon * distance of the two tokens). It reveals the number
        of tokens and the line structure. For a DOCUMENT only with a public `diameter` and `max_tokens`:
        epsilon * diameter * max_tokens.

    Attributes:
        epsilon: the privacy loss per unit of distance. The number alone says nothing: see `unchanged_share` of the
            fitted mechanism.
        noise: one of the three mechanisms of this module.
        vectors: "glove" (GloVe 6B 50d, extra `[glove]`), or the path of a text or .npy file.
        n_words: the number of words of the file, from its start, that form the vocabulary.
        mahalanobis_lambda: 0 (round noise) to 1 (the vectors' own covariance); only for `mahalanobis`.
        tem_beta: bound on the probability of a word farther away than gamma; only for `tem`.
        max_tokens: texts are cut to this public length; None keeps them whole.
        diameter: a public bound on the distance of any two words; `fit` refuses a diameter that is too small.
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
        check_choices(self)
        if self.max_tokens is not None:
            _validate.count(max_tokens=self.max_tokens)
        if self.diameter is not None:
            _validate.positive(diameter=self.diameter)

    def remarks(self) -> Remarks:
        """Remark on the share of public words that come back unchanged, measured on the vectors."""
        try:
            mechanism = self.fit()
        except MissingExtraError:
            unknown = f"How many words come back unchanged is not known: the vectors {self.vectors!r} are not here."
            return Remarks(unknown, {"unchanged_share": None, "unchanged_share_of_vocabulary": None})
        running, whole = mechanism.unchanged_share(), mechanism.unchanged_share_of_vocabulary()
        return Remarks(
            f"Measured on public words, at epsilon = {self.epsilon:g}: {running:.3f} of running words (the 200 most "
            f"frequent, weighted as in text) and {whole:.3f} of the whole vocabulary (a fixed sample of it) come back "
            "unchanged. The number epsilon alone says nothing: a word that comes back is released verbatim.",
            {"unchanged_share": running, "unchanged_share_of_vocabulary": whole},
        )

    @property
    def metric(self) -> str:
        """The distance by which epsilon is multiplied."""
        shape = f"Mahalanobis distance (lambda {self.mahalanobis_lambda!r})"
        shape = shape if self.noise == "mahalanobis" else "Euclidean distance"
        # The name includes the number of words, because covariance and stand-in vector depend on it.
        return f"{shape} of word vectors ({self.vectors}, first {self.n_words} words)"

    @property
    def units(self) -> tuple[Unit, ...]:
        """TOKEN, and DOCUMENT if diameter and max_tokens are set."""
        return (Unit.TOKEN, Unit.DOCUMENT) if self.diameter and self.max_tokens else (Unit.TOKEN,)

    @property
    def event(self) -> MetricEvent:
        """The event of one token, with the largest slack of the float samplers for any accepted vectors."""
        if self.noise == "tem":
            return MetricEvent(self.epsilon, TruncatedExponential.counted(self.metric))
        dim, largest_norm = self.largest_vectors
        return MetricNoise(self.epsilon, dim, largest_norm).event(self.metric)

    @property
    def largest_vectors(self) -> tuple[int, float]:
        """The largest dimension and norm that `fit` accepts: the slack is stated before any vectors are loaded."""
        return (50, 32.0) if self.vectors == "glove" else (1024, 1000.0)

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Return the event of one token; for DOCUMENT one run a token, each within the public diameter.

        IncomparableError: another unit, or DOCUMENT without `diameter` and `max_tokens`.
        """
        if unit is Unit.TOKEN:
            return (self.event,)
        if unit is not Unit.DOCUMENT or self.diameter is None or self.max_tokens is None:
            raise IncomparableError(_NO_DOCUMENT.format(unit=unit.value))
        return accounting.lift(accounting.bounded_metric([self.event], diameter=self.diameter), runs=self.max_tokens)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """Return the guarantee of one release of one text, per token (default) or per document."""
        unit = unit or Unit.TOKEN
        events = self.events(unit)
        slack = sum(e.delta * e.count for e in events if isinstance(e, MetricEvent | ApproximateEvent))
        delta, terms = max(delta, min(1.0, slack * (1 + 1e-9))), (PUBLIC_VECTORS,)
        return accounting.guarantee(
            events, delta, unit=unit, basis=Basis.CONDITIONAL, assumptions=terms, reveals=REVEALS
        )

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> "WordMetric":
        """Return the spec whose guarantee for this unit costs at most epsilon (per unit of distance for TOKEN).

        ConfigError: the slack of the float samplers alone is more than delta.
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

    def _fitted(self, vectors: WordVectors) -> WordMetricMechanism:
        points = vectors.vectors.astype(np.float64)
        root = covariance_root(points, self.mahalanobis_lambda) if self.noise == "mahalanobis" else None
        # Noise is added, and rounded, in coordinates where it is round; mapping back is post-processing.
        points = points if root is None else points @ np.linalg.inv(root)
        largest = float(np.sqrt(np.einsum("ij,ij->i", points, points).max()))
        largest_dim, largest_norm = self.largest_vectors
        if points.shape[1] > largest_dim or largest > largest_norm:
            most, found = f"{largest_dim} dimensions and norm {largest_norm:g}", f"{points.shape[1]} and {largest:.4g}"
            raise ConfigError(f"Expected vectors of at most {most}, found {found}: scale them down.")
        if self.diameter is not None:
            if root is None:
                needed = vectors.diameter_bound()
            else:  # twice the radius around the mean: never below the true diameter
                needed = float(2 * np.linalg.norm(points - points.mean(axis=0), axis=1).max() * (1 + 1e-9))
            needed = max(needed, LEAST_DISTANCE)
            if self.diameter < needed:
                raise ConfigError(
                    f"Expected diameter={self.diameter!r} >= {needed:.6g}, the largest distance of two words."
                )
        words = WordPoints(vectors, points, points.mean(axis=0), self.max_tokens)
        if self.noise == "tem":
            threshold = TruncatedExponential.threshold_for(self.epsilon, len(points), self.tem_beta)
            return WordChoiceMechanism(self, words, TruncatedExponential(self.epsilon, threshold, len(points)))
        return WordNoiseMechanism(self, words, MetricNoise(self.epsilon, points.shape[1], largest_norm), root)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings on the first words of GloVe, one for each way of working.

        At epsilon 0.3 a word and a typical other word, at distance 3 to 6, have a privacy loss of 1 to 2: an audit of
        some thousand runs can see such a loss. The last spec has a gamma (6.1) below its diameter (8.04), so that words
        beyond gamma take part, which needs a larger epsilon; with two tokens at most, every output can be
        enumerated.
        """
        return (
            cls(epsilon=0.3, n_words=300),
            cls(epsilon=0.3, n_words=300, max_tokens=2, diameter=10.0),
            cls(epsilon=0.3, n_words=300, noise="mahalanobis"),
            cls(epsilon=0.3, n_words=300, noise="tem"),
            cls(epsilon=1.5, n_words=100, noise="tem", tem_beta=0.5, max_tokens=2, diameter=9.0),
        )
