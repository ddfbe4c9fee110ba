"""SynTF: a bag of words drawn from a document's term frequencies, each word exchanged for a similar one.

Weggenmann and Kerschbaum 2018 (arXiv 1805.00904): a term v of the document is drawn with its relative frequency as
probability. A word w of a public vocabulary is released in its place, with probability proportional to e^(epsilon *
sim(v, w) / 2). The two draws are repeated `n_terms` times. Similarities lie in [0, 1], so that two similarities differ
by at most 1. They are rounded to a public grid: no bit of them depends on the other terms of a batch.

The release is a bag of words, without order or sentences. The similarity is the cosine of public word vectors, in steps
of 2^-12; a negative cosine counts as 0. The vectors have length 1 and coordinates in steps of 2^-11. A term is any
token of the vocabulary, marks and stop words included.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.likeness import GRID, STEPS, on_grid
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError
from dptext.frozen import read_only
from dptext.mechanisms.bases import FromWords, OneUnit, OnWords
from dptext.mechanisms.words.vocabulary import PUBLIC_VECTORS
from dptext.privacy import accounting
from dptext.privacy.events import ExponentialEvent
from dptext.privacy.guarantee import Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.exponential import Exponential
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext.types import Floats, Integers, Singles

TERMS_AT_ONCE = 4096  #: Terms drawn in a call, of whole documents
ENTRIES_AT_ONCE = 1 << 21  #: Similarities in a block; bounds memory
MOST_OUTPUTS = 1_000_000


@dataclass(frozen=True, slots=True)
class SynTf(FromWords["SynTfMechanism"], OneUnit):
    """Settings of synthetic term frequencies: `n_terms` similar words in the place of a document.

    Use:
        Take it to release a bag of words of a document, for search or topics.
        Set first: epsilon, n_terms.

    Guarantee:
        Unit DOCUMENT, replace one, pure: any two documents whatever give any bag of words with probabilities whose
        ratio is at most e^(n_terms * t), t = d + ln(((m - 1) e^d + 1) / (e^d + m - 1)), d = epsilon / 2, m = n_words.
        Nothing is revealed: the number of words is public. CONDITIONAL: vectors and vocabulary must be public.

        One draw given the term v is an exponential choice p_v among m words, whose log weights lie in [0, epsilon /
        2]: p_v(w) <= e^t p_v'(w) for any two terms v and v'. (t is below epsilon, the exponential mechanism's general
        bound.) Given the document instead, it is the mixture of the p_v by term frequencies f, so that for documents
        f and g, as sums over pairs of terms, P_f = sum f(v) g(v') p_v and P_g = sum f(v) g(v') p_v'. A ratio of such
        sums is at most the largest of its terms' ratios, and by joint convexity no hockey-stick divergence of P_f and
        P_g is larger than that of some p_v and p_v' (nor a Renyi divergence: these are jointly quasi-convex). The
        draws of one document are independent given the document: their products are mixtures in the same way, and
        what holds for `n_terms` exponential choices at any delta holds for them. Documents of one term each are the
        worst, and a document without a known term draws v uniformly from the vocabulary, which is a mixture like any
        other.

    Attributes:
        epsilon: the privacy loss of each draw, as the paper states it; the guarantee is for all draws.
        n_terms: the number of released words, whatever the length of the document.
        vectors: "glove" (GloVe 6B 50d, extra `[glove]`), or the path of a text or .npy file.
        n_words: the number of words of the file, from its start, that form the vocabulary. More words need a larger
            epsilon.
    """

    assumptions: ClassVar[tuple[str, ...]] = (PUBLIC_VECTORS,)

    epsilon: float
    n_terms: int = 20
    vectors: str = "glove"
    n_words: int = 8_000
    kind: Literal["syntf"] = field(default="syntf", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.count(n_terms=self.n_terms, n_words=self.n_words)

    @property
    def released(self) -> tuple[ExponentialEvent]:
        """The event of the choices of all words of one document."""
        return (replace(self.choice.range_event(self.n_words), count=self.n_terms),)

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> "SynTf":
        """Return the spec whose guarantee costs at most epsilon at delta, for all words of a document together."""
        self.events(unit or Unit.DOCUMENT)
        (event,) = self.released
        return replace(self, epsilon=2 * accounting.calibrate(event, epsilon, delta=delta).log_range)

    @property
    def choice(self) -> Exponential:
        """The choice among similar words, whose similarities lie in [0, 1]."""
        return Exponential(self.epsilon, score_range=1.0)

    def _fitted(self, vectors: WordVectors) -> "SynTfMechanism":
        return SynTfMechanism(self, vectors)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """A single word, one of the first of GloVe: audits see the leak of a draw, and can list outputs."""
        return (cls(epsilon=3.0, n_terms=1, n_words=220),)


class SynTfMechanism(OnWords[SynTf]):
    """A `SynTf` with its vectors. Immutable; the probability of every output is known."""

    __slots__ = ("_choice", "_directions")

    def __init__(self, spec: SynTf, vectors: WordVectors) -> None:
        super().__init__(spec, vectors)
        self._choice = spec.choice
        self._directions = read_only(on_grid(vectors.vectors.astype(np.float64)))  # a zero vector is similar to none

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one bag of `n_terms` words a record, joined by blanks in the order of the draws."""
        n_terms = self.spec.n_terms
        terms, sizes = self._terms(records)
        firsts = np.cumsum(sizes) - sizes
        words = np.empty((len(records), n_terms), np.int64)
        start = 0
        # Blocks hold whole documents, so that each document draws its terms at once.
        for source, n in randomness.blocks([n_terms] * len(records), n_terms * max(1, TERMS_AT_ONCE // n_terms)):
            here = slice(start, start + n // n_terms)
            start = here.stop
            drawn = self._draw_terms(terms, firsts[here], sizes[here], source)
            words[here] = self._exchange(drawn.ravel(), source).reshape(drawn.shape)
        return Batch.of(records).released([" ".join(self._vectors.words[i] for i in row) for row in words.tolist()])

    def _terms(self, records: Sequence[Record]) -> tuple[Integers, Integers]:
        """Return the position of each known token, as often as it occurs, and the number of them in each record."""
        documents = [[token for line in tokenize(text) for token in line] for text in Batch.of(records).texts]
        found = np.asarray(self._vectors.index_of([token for tokens in documents for token in tokens]), np.int64)
        known = np.concatenate([[0], np.cumsum(found >= 0)])
        ends = np.cumsum([0, *map(len, documents)])
        return found[found >= 0], np.diff(known[ends])

    def _draw_terms(self, terms: Integers, firsts: Integers, sizes: Integers, source: Randomness) -> Integers:
        """Draw terms `(n, n_terms)`, uniform known tokens of each document; documents of one size together."""
        result = np.empty((len(sizes), self.spec.n_terms), np.int64)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            drawn = uniform_below(size or len(self._vectors), rows.size * self.spec.n_terms, source)
            places = drawn.astype(np.int64).reshape(-1, self.spec.n_terms)
            result[rows] = terms[firsts[rows, None] + places] if size else places
        return result

    def _exchange(self, terms: Integers, source: Randomness) -> Integers:
        step = max(1, ENTRIES_AT_ONCE // len(self._vectors))
        blocks = [terms[i : i + step] for i in range(0, len(terms), step)]
        found = (self._choice.choose(similarities(self._directions, block), source) for block in blocks)
        return np.concatenate(list(found))

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of every output text: words are drawn independently, given the document.

        `privatize` draws with integer weights, which are these probabilities rounded: the two probabilities of a word
        differ by less than 2^-36 of themselves. ConfigError: there are more than a million outputs.
        """
        words, n_terms = self._vectors.words, self.spec.n_terms
        if n_terms * math.log(len(words)) > math.log(MOST_OUTPUTS) + 1e-9:
            raise ConfigError(
                f"Expected at most {MOST_OUTPUTS:,} possible outputs to enumerate, found n_words={len(words)} to the "
                f"power of n_terms={n_terms}: set fewer of them."
            )
        one = self._word_distribution(self._terms([record])[0])
        texts, chances = list(words), one
        for _ in range(n_terms - 1):
            texts = [f"{begun} {word}" for begun in texts for word in words]
            chances = np.multiply.outer(chances, one).ravel()
        return dict(zip(texts, chances.tolist(), strict=True))

    def _word_distribution(self, terms: Integers) -> Floats:
        n_words = len(self._vectors)
        counts = np.bincount(terms, minlength=n_words) if len(terms) else np.ones(n_words, np.int64)
        distinct = np.flatnonzero(counts)
        step = max(1, ENTRIES_AT_ONCE // n_words)
        result = np.zeros(n_words)
        for start in range(0, len(distinct), step):
            block = distinct[start : start + step]
            result += counts[block] @ self._choice.distribution(similarities(self._directions, block))
        return np.asarray(result / counts.sum())


def similarities(directions: Singles, terms: Integers) -> Floats:
    """Return similarities of terms to every word `(n, n_words)`, in [0, 1]: the guarantee rests on this range.

    `directions` `(n_words, dim)` are on a grid, so that products in steps of 2^-12 are exact: neither other terms of a
    batch nor an order of summation changes a bit.
    """
    distinct, rows = np.unique(terms, return_inverse=True)
    found = directions[distinct] @ directions.T
    np.rint(found * np.float32(STEPS / GRID**2), out=found)
    return np.asarray(np.clip(found, 0, STEPS)[rows].astype(np.float64) / STEPS)
