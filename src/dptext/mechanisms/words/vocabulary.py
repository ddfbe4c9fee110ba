"""Records as positions in a public vocabulary, for mechanisms that replace words: tokens, points, distances.

Nothing private is kept: records are arguments, and everything stored is public.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError, PrivacyError
from dptext.frozen import fill
from dptext.kernels.shortlist import relative_error
from dptext.sampling.discrete import uniform_below, uniform_below_each, wide_choice
from dptext.sampling.exponential import SHELLS, TruncatedExponential, proposal_weights
from dptext.sampling.randomness import Randomness
from dptext.sampling.weights import blocks_of
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.text.tokens import cut, detokenize, tokenize
from dptext.types import Booleans, Floats, Integers, Singles, UInt8s

#: The assumption of every guarantee on public words.
PUBLIC_VECTORS = "the word vectors and their vocabulary were made from public text only"

Lines = list[list[str]]

_LARGE = 50_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordPoints:
    """Public words as points, and the conversion of records to tokens and back.

    Attributes:
        points: float64 `(n_words, dim)`, in coordinates of the mechanism's choice.
        standin: `(dim,)`, the point of an unknown token.
        max_tokens: texts are cut to this public length; None keeps them whole.
    """

    vectors: WordVectors
    points: Floats
    standin: Floats
    max_tokens: int | None

    def lines(self, records: Iterable[Record]) -> list[Lines]:
        """Tokenize each line of each record."""
        found = [tokenize(record.text) for record in records]
        return found if self.max_tokens is None else [cut(lines, self.max_tokens) for lines in found]

    def indices(self, documents: Iterable[Lines]) -> Integers:
        """Return the position of each token in the vocabulary, or -1, over all documents."""
        tokens = [token for lines in documents for line in lines for token in line]
        return np.asarray(self.vectors.index_of(tokens), np.int64)

    def at(self, indices: Integers) -> Floats:
        """Return the points `(n_tokens, dim)`; the stand-in where the index is -1."""
        points = self.points[indices]
        points[indices < 0] = self.standin
        return points

    def rewrite(self, records: Sequence[Record], words: Callable[[Integers, Sequence[int]], Integers]) -> Releases:
        """Release one text a record, with the words chosen by `words(indices, number of tokens of each record)`."""
        documents = self.lines(records)
        indices = self.indices(documents)
        chosen = iter(self.vectors.words[i] for i in words(indices, sizes_of(documents)).tolist())
        texts = [detokenize([[next(chosen) for _ in line] for line in lines]) for lines in documents]
        return Batch.of(records).released(texts)

    def distance(self, first: Record, second: Record, *, least: float = 0.0) -> float:
        """Sum over tokens the Euclidean distances of their points, rounded up by a factor of 1 + 2^-40.

        Different points are at least `least` apart. ConfigError: the lines, or their numbers of tokens, differ.
        """
        one, two = self.lines([first, second])
        if list(map(len, one)) != list(map(len, two)):
            raise ConfigError(
                "Expected two records with equally many tokens in each line: others are no neighbours where these "
                "numbers are revealed."
            )
        gaps = self.at(self.indices([one])) - self.at(self.indices([two]))
        apart = np.linalg.norm(gaps, axis=1)
        return math.fsum(np.where(apart > 0, np.maximum(apart, least), 0.0)) * (1 + 2.0**-40)


def sizes_of(documents: Iterable[Lines]) -> list[int]:
    """Return the number of tokens of each document."""
    return [sum(map(len, lines)) for lines in documents]


def frequent_words(n_words: int) -> Integers:
    """Return 4,000 running words, as positions in the vocabulary, on which the unchanged share is measured.

    They are the 200 most frequent words of the public vocabulary (its first ones), weighted by 1 / (rank + 2.7) as in
    running text (Zipf and Mandelbrot). The measurement has a fixed seed and uses no private text. In a vocabulary of
    more than 50,000 words there are 1,000 running words, because each word takes longer.
    """
    n_running = 1000 if n_words > _LARGE else 4000
    cumulated = np.cumsum(1 / (np.arange(min(200, n_words)) + 2.7))
    return np.searchsorted(cumulated / cumulated[-1], (np.arange(n_running) + 0.5) / n_running)


def spread_words(n_words: int) -> Integers:
    """Return at most 2,000 words, as positions spread evenly over the vocabulary; 100 if it has more than 50,000."""
    most = 100 if n_words > _LARGE else 2000
    return np.linspace(0, n_words - 1, min(most, n_words)).round().astype(np.int64)


def covariance_root(points: Floats, mix: float) -> Floats:
    """(lambda * Sigma + (1 - lambda) I)^(1/2), Sigma the covariance scaled to trace dim (Xu et al. 2020).

    ConfigError: lambda is 1 and the points lie in fewer dimensions than they have coordinates.
    """
    centred = points - points.mean(axis=0)
    covariance = centred.T @ centred
    covariance *= points.shape[1] / np.trace(covariance)
    values, axes = np.linalg.eigh(mix * covariance + (1 - mix) * np.eye(points.shape[1]))
    if values.min() < 1e-6:
        raise ConfigError(f"Expected mahalanobis_lambda={mix!r} < 1: these vectors do not fill their space.")
    return np.asarray((axes * np.sqrt(values)) @ axes.T)


_PROPOSED_AT_ONCE = 1 << 14
_TOKENS_AT_ONCE = 1 << 12
_DISTANCES_AT_ONCE = 1 << 23
# Weighing so many words by float32 distances takes about as long as one trial (measured).
_WORDS_A_TRIAL = 128
_PROBES = 16


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordDraws:
    """Draws of TEM that weigh few words instead of all: a draw proposes words, and keeps or drops each.

    Draws are exact, as `dptext.sampling.exponential` explains. There are two ways of proposing:

    * Trials: all words alike, in `rounds` rounds of 1, 2, 4, ... proposals a token; no rounds where trials would rarely
      succeed. At a small epsilon all weights are alike, so a few trials suffice, however many words there are.
    * Shells: by bounds of the weights, from float32 distances to all words. About every second proposal is kept. The
      bounds are computed once for all tokens of a draw that are the same word.

    The number of trials before the shells is public: it follows from the vocabulary and epsilon. The number that a
    token takes is random and depends on how far the other words lie from it; the time of the shells depends on the
    number of distinct words. So the running time tells something of the tokens, but a release does not hold the time.
    """

    words: WordPoints
    choice: TruncatedExponential
    rounds: int = field(init=False)
    _length: float = field(init=False)
    _table: Singles = field(init=False)

    def __post_init__(self) -> None:
        points = self.words.points
        fill(self, _length=float(max(points.max(), -points.min())) or 1.0)
        table = np.ones((len(points), points.shape[1] + 2), np.float32)
        table[:, :-2], table[:, -2] = self._scaled(points)
        fill(self, _table=table)
        # Trials that together cost no more than the shells; no trials where most of them would be wasted.
        n_words = len(points)
        rounds = (n_words // _WORDS_A_TRIAL).bit_length()
        probes = np.linspace(0, n_words - 1, min(_PROBES, n_words)).astype(np.int64)
        kept = float(np.mean(1 / self.chances_of_own(probes))) / n_words
        fill(self, rounds=rounds if kept * 2**rounds >= 2 else 0)

    def draw(self, indices: Integers, source: Randomness) -> Integers:
        """Draw a word for each token; -1 stands for an unknown token."""
        result = self._by_trials(indices, source)
        left = np.flatnonzero(result < 0)
        result[left] = self._by_shells(indices[left], source)
        return result

    def chances_of_own(self, words: Integers) -> Floats:
        """Chance that each word comes back; too low for words far closer to each other than to the mean (float32)."""
        chances = np.empty(len(words))
        for block in self._blocks(len(words)):
            least = self._least_distances(words[block])
            least[np.arange(len(least)), words[block]] = 0
            chances[block] = self.choice.chance_of_own(least)
        return chances

    def _blocks(self, n_rows: int) -> Iterator[slice]:
        step = max(1, _DISTANCES_AT_ONCE // len(self.words.points))
        return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))

    def _scaled(self, points: Floats) -> tuple[Floats, Floats]:
        """Return points around the stand-in in units of about 1, and squared norms less the float32 rounding error."""
        unit = points - self.words.standin
        unit /= self._length
        # The terms of |a|^2 + |b|^2 - 2 a.b sum to at most twice the squares.
        slack = 2 * relative_error(unit.shape[1] + 1)
        return unit, (1 - slack) * np.einsum("ij,ij->i", unit, unit)

    def _least_distances(self, indices: Integers) -> Singles:
        """Return lower bounds, close to the distances `(n_indices, n_words)`."""
        unit, squares = self._scaled(self.words.at(indices))
        left = np.column_stack([-2 * unit, np.ones(len(unit)), squares]).astype(np.float32)
        found = left @ self._table.T
        for block in blocks_of(*found.shape):
            part = np.maximum(found[block], 0, out=found[block])
            np.sqrt(part, out=part)
            np.multiply(part, np.float32(self._length), out=part)
        return found

    def keep(self, indices: Integers, proposed: Integers, shells: Integers, source: Randomness) -> Booleans:
        """Decide by distance, at random, which of the words proposed for some tokens, one each, are kept."""
        gaps = self.words.at(indices)
        gaps -= self.words.points[proposed]
        return self.choice.keep(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)), shells, source)

    def _by_trials(self, indices: Integers, source: Randomness) -> Integers:
        result = np.full(len(indices), -1, np.int64)
        for tries in (1 << i for i in range(self.rounds)):
            pending = np.flatnonzero(result < 0)
            step = max(1, _PROPOSED_AT_ONCE // tries)
            for start in range(0, len(pending), step):
                here = pending[start : start + step]
                proposed = uniform_below(len(self.words.points), here.size * tries, source).astype(np.int64)
                kept = self.keep(np.repeat(indices[here], tries), proposed, np.zeros_like(proposed), source)
                kept, proposed = kept.reshape(-1, tries), proposed.reshape(-1, tries)
                found = kept.any(axis=1)
                result[here[found]] = proposed[found, kept[found].argmax(axis=1)]
        return result

    def _by_shells(self, indices: Integers, source: Randomness) -> Integers:
        result = np.empty(len(indices), np.int64)
        distinct, rows = np.unique(indices, return_inverse=True)
        order = np.argsort(rows, kind="stable")
        for block in self._blocks(len(distinct)):
            here = order[slice(*np.searchsorted(rows[order], [block.start, block.stop]))]
            result[here] = self._among_shells(distinct[block], rows[here] - block.start, source)
        return result

    def _among_shells(self, words: Integers, rows: Integers, source: Randomness) -> Integers:
        """Draw a word for each token; `rows` gives the index of the token's word in `words`."""
        from dptext.kernels.counting import counts  # noqa: PLC0415 (numba is slow to load)

        shells = self.choice.shells(self._least_distances(words))
        sizes = np.zeros((len(words), SHELLS), np.int64)
        counts(shells, sizes)
        if sizes.sum() != shells.size:
            raise PrivacyError("Expected each word in a shell: a distance is not a number. Nothing is chosen.")
        weights = proposal_weights(sizes)
        result = np.empty(len(rows), np.int64)
        pending = np.arange(len(rows))
        while pending.size:
            here, pending = pending[:_TOKENS_AT_ONCE], pending[_TOKENS_AT_ONCE:]
            at = rows[here]
            chosen = wide_choice(weights[:, at], source)
            places = uniform_below_each(sizes[at, chosen].astype(np.uint64), source).astype(np.int64)
            proposed = _members(shells, at, chosen, places)
            kept = self.keep(words[at], proposed, chosen, source)
            result[here[kept]] = proposed[kept]
            pending = np.concatenate([here[~kept], pending])
        return result


def _members(shells: UInt8s, rows: Integers, chosen: Integers, places: Integers) -> Integers:
    """Return the option at each place among the options of its row that lie in the chosen shell."""
    result = np.empty(len(rows), np.int64)
    pairs, which = np.unique(rows * SHELLS + chosen, return_inverse=True)
    for i, pair in enumerate(pairs.tolist()):
        row, shell = divmod(pair, SHELLS)
        here = which == i
        result[here] = np.flatnonzero(shells[row] == shell)[places[here]]
    return result
