"""Steering: for each token, the noisy number of private texts that have it moves the output of a language model.

A tokenizer reads the private corpus, which is summed up once. Everything else costs no privacy: the model writes public
texts, the noise says how far the number of each token is believed, and log-probabilities are shifted until written
texts have these tokens as often. Any number of texts can be written.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

import numpy as np

from dptext import _validate
from dptext.language.reading import LanguageModel, load_language_model
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.space import Corpus, says_something, units_of
from dptext.synthesis.spec import Synthetic
from dptext.synthesis.sums import Draws, PrivateSum, in_steps
from dptext.synthesis.votes import apportioned
from dptext.synthesis.writer import OnWriter, WritingSpec
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.types import Floats, Integers

_GRID: Final = np.linspace(-6.0, 8.0, 141)  # possible shifts of the logarithm of a token's rate
_LEAST_RATE: Final = 1e-6
_USUAL: Final = 2.0  # pseudo-count: as if this many more texts had each token, as a mark
_STEP: Final = 0.7  # factor of each update of a shift after the first
_LARGEST: Final = 10.0  # bound on the size of a shift
_DRAFTS: Final = 3  # most rounds of writing, as texts can be repeats or not readable
_SHOWN: Final = 6  # tokens of a label that a report names


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering(WritingSpec):
    """Settings of a synthesis that writes new texts, steered by noisy numbers of tokens.

    Use:
        Take it for short texts with labels, of a kind that public text lacks, and for any number of texts.
        Set first: labels, names, epsilon, about, tokens.

    Guarantee:
        A unit adds a vector of length at most 1: its count, and for at most `marks` different tokens of its text one
        number each, in the row of its label; all vectors of an author together have length at most 1. Discrete Gaussian
        noise is added once. Which tokens can count depends on the model and public text alone.

    Attributes:
        marks: largest number of distinct tokens of a text that count: those most frequent in public texts.
        vocabulary: number of tokens that can count: those with the largest expected frequency in public texts.
        drafts: number of public texts for each label, which show how often the model writes each token.
        matches: number of times that drafts are written anew to match the noisy numbers.
    """

    marks: int = 12
    vocabulary: int = 2_048
    drafts: int = 48
    matches: int = 3
    kind: Literal["steering"] = field(default="steering", init=False)

    def __post_init__(self) -> None:
        WritingSpec.__post_init__(self)
        _validate.count(marks=self.marks, vocabulary=self.vocabulary, drafts=self.drafts)
        _validate.not_negative(matches=self.matches)

    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> FittedSteering:
        """Choose public examples, and write public drafts."""
        records = [record for record in as_records(public) if says_something(record.text)]
        return FittedSteering(self, load_language_model(self.model), self.examples_of(records, seed or 0), seed or 0)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with labels, and by author without labels."""
        small = cls(
            labels=("travel", "money"), about=60, tokens=4, size=6, options=16, examples=2, marks=3, vocabulary=30,
            drafts=4, matches=1,
        )  # fmt: skip
        return small, replace(small, labels=(), names=(), unit="author", relation="replace_one")


class FittedSteering(OnWriter[Steering]):
    """`Steering` with its writer and the `tokens` `(vocabulary,)` that can count, the most likely first.

    `rates` `(labels or 1, vocabulary)` are the rates at which public texts have each token among their marks.
    """

    __slots__ = ("_marked", "_places", "rates", "tokens")

    def __init__(self, spec: Steering, model: LanguageModel, examples: tuple[Record, ...], seed: int) -> None:
        super().__init__(spec, model, examples)
        none, source = np.zeros(model.size), seeded(seed)
        drafts = [self.writer.shifted(label, spec.drafts, none, source) for label in range(len(spec.names))]
        expected = np.array([each for _, each in drafts])
        likely = expected.mean(axis=0)
        likely[self.writer.end] = -1.0
        self.tokens: Integers = np.argsort(-likely, kind="stable")[: min(spec.vocabulary, model.size - 1)]
        self._places = {int(token): i for i, token in enumerate(self.tokens)}
        written = [text for texts, _ in drafts for text in texts]
        counts = ([i for text in written for i in places(text)] for places in (self._known, self._marks))
        there, marked = (np.bincount(found, minlength=len(self.tokens)) + _USUAL for found in counts)
        self._marked: Floats = marked / there  # share of a token's occurrences that are marks
        self.rates = self._as_rates(expected)

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the examples, the model's weights, and public rates."""
        rates = hashlib.sha256(self.tokens.tobytes() + self.rates.tobytes() + self._marked.tobytes())
        return {**super().digests, "rates": rates.hexdigest()}

    def _known(self, tokens: Sequence[int]) -> list[int]:
        return [self._places[token] for token in tokens if token in self._places]

    def _marks(self, tokens: Sequence[int]) -> list[int]:
        """Return the sorted indices in `tokens` of a text's marks, among its first `spec.tokens` tokens."""
        return sorted(set(self._known(tokens[: self.spec.tokens])))[: self.spec.marks]

    def _as_rates(self, expected: Floats) -> Floats:
        """Return the rates of marks, from how often texts are expected to have each token of the model."""
        return np.asarray(np.maximum(expected[..., self.tokens] * self._marked, _LEAST_RATE))

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Read the corpus once, add noise once, and let the model write texts by the noisy numbers."""
        spec = self.spec
        counts, numbers, scale, deviation = self.numbers(corpus, draws)
        units = np.maximum(counts, scale)
        rates = self.believed_rates(numbers, units, deviation)
        sizes = enumerate(apportioned(units, spec.size).tolist())
        texts = [self._written(label, n, rates[label], draws.randomness) for label, n in sizes]
        return spec.released(texts, counts, scale, draws.randomness, *self._sentences(rates))

    def numbers(self, corpus: Corpus, draws: Draws) -> tuple[Floats, Floats, float, float]:
        """Return noisy numbers of units `(labels or 1,)` and marks `(labels or 1, vocabulary)`, with deviations."""
        spec, width = self.spec, len(self.tokens)
        labels, noise = len(spec.names), spec.noise()
        counted = in_steps(math.sqrt(spec.count_share))
        mark = in_steps(math.sqrt((1 - spec.count_share) / spec.marks))
        spare = labels * (width + 1)  # from here on: cells for the zeros of a text with fewer marks
        summed = PrivateSum(spare + spec.marks, noise, by_author=spec.unit == "author")
        for label, texts, authors in units_of(corpus, spec.labels):
            cells = np.tile(np.arange(spare - 1, spare + spec.marks), (len(texts), 1))
            values = np.zeros(cells.shape)
            cells[:, 0], values[:, 0] = labels * width + label, counted
            for i, text in enumerate(texts):
                marks = self._marks(self.writer.read(text))
                cells[i, 1 : len(marks) + 1] = label[i] * width + np.array(marks, np.int64)
                values[i, 1 : len(marks) + 1] = mark
            summed.add(cells, values, authors)
        noisy = summed.release(draws)
        numbers = noisy[: labels * width].reshape(labels, width) / mark
        return noisy[labels * width : spare] / counted, numbers, noise.scale / counted, noise.scale / mark

    def believed_rates(self, numbers: Floats, units: Floats, deviation: float) -> Floats:
        """Return the rates of marks for each label, `(labels or 1, vocabulary)`, each row by `believed`."""
        return np.array([believed(*each, deviation) for each in zip(numbers, units, self.rates, strict=True)])

    def _written(self, label: int, n: int, rates: Floats, randomness: Randomness) -> list[str]:
        """Return at most `n` distinct texts, whose tokens have about these rates."""
        shift, kept = self.shift(label, rates, randomness), list[str]()
        for _ in range(_DRAFTS):
            if len(kept) < n:
                more, _ = self.writer.shifted(label, n - len(kept), shift, randomness)
                kept = list(dict.fromkeys([*kept, *self.writer.readable(more)]))
        return kept

    def shift(self, label: int, rates: Floats, randomness: Randomness) -> Floats:
        """Return the shift of log-probabilities `(size,)` that gives tokens these expected rates."""
        shift, now = np.zeros(self.writer.model.size), self.rates[label]
        for time in range(self.spec.matches + 1):
            step = np.clip(np.log(rates / now), -2.0, 3.0) * (_STEP if time else 1.0)
            shift[self.tokens] = np.clip(shift[self.tokens] + step, -_LARGEST, _LARGEST)
            if time < self.spec.matches:
                now = self._as_rates(self.writer.shifted(label, self.spec.drafts, shift, randomness)[1])
        return shift

    def _sentences(self, rates: Floats) -> list[str]:
        """Return sentences with the words that each label has more often than public texts, by noisy numbers."""
        said = []
        for name, mine, public in zip(self.spec.names, rates, self.rates, strict=True):
            gained = mine - public
            words = [self.writer.model.text([int(self.tokens[i])]).strip() for i in np.argsort(-gained)[:_SHOWN]]
            known = [word for word, gain in zip(words, np.sort(gained)[::-1], strict=False) if word and gain > 0]
            if known:
                said.append(f"More often than the model writes them, {name}: {', '.join(known)}.")
        return said


def believed(numbers: Floats, units: float, rates: Floats, deviation: float) -> Floats:
    """Return the most likely rates of tokens `(vocabulary,)`, given noisy numbers and public rates.

    ln(rate / public rate) has a Laplace prior of scale 1, so that most tokens keep their public rate.
    """
    options = np.minimum(rates[:, None] * np.exp(_GRID), 1.0)
    likely = -np.square((numbers[:, None] - units * options) / deviation) / 2 - np.abs(_GRID)
    return np.asarray(options[np.arange(len(rates)), likely.argmax(axis=1)])
