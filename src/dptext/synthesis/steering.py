"""Steering: noisy numbers of private texts that have a token move what a language model writes.

The private corpus is read by a tokenizer and summed up once. All else is free: the model writes public texts, the noise
says how far the number of each token is believed, and each log-probability is shifted until what is written has these
tokens as often. As many texts leave as are asked for.
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

_GRID: Final = np.linspace(-6.0, 8.0, 141)  # shifts that a token's rate can have
_LEAST_RATE: Final = 1e-6
_USUAL: Final = 2.0  # as if so many texts more had each token once and counted
_STEP: Final = 0.7  # of a shift, after the first one
_LARGEST: Final = 10.0  # shift
_DRAFTS: Final = 3  # times that more are written, where texts are the same or not readable
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
        noise is added once. Which tokens can count follows what the model writes from public text.

    Attributes:
        marks: different tokens of a text that count at most: those that public texts have most often.
        vocabulary: tokens that can count: those that public texts are expected to have most often.
        drafts: public texts a label that say how often tokens are written.
        matches: times that drafts are written anew, to match the noisy numbers.
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
        """By document with labels, and by author without."""
        small = cls(
            labels=("travel", "money"), about=60, tokens=4, size=6, options=16, examples=2, marks=3, vocabulary=30,
            drafts=4, matches=1,
        )  # fmt: skip
        return small, replace(small, labels=(), names=(), unit="author", relation="replace_one")


class FittedSteering(OnWriter[Steering]):
    """`Steering` with what its writer writes without private text: `tokens` `(vocabulary,)` that can count.

    Likely ones stand first; a public text has each among its marks at `rates` `(labels or 1, vocabulary)`.
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
        self._marked: Floats = marked / there  # how often a token that is there is a mark
        self.rates = self._as_rates(expected)

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the examples, the model's weights, and public rates."""
        rates = hashlib.sha256(self.tokens.tobytes() + self.rates.tobytes() + self._marked.tobytes())
        return {**super().digests, "rates": rates.hexdigest()}

    def _known(self, tokens: Sequence[int]) -> list[int]:
        return [self._places[token] for token in tokens if token in self._places]

    def _marks(self, tokens: Sequence[int]) -> list[int]:
        """Places of the different tokens that count, of the first ones of a text."""
        return sorted(set(self._known(tokens[: self.spec.tokens])))[: self.spec.marks]

    def _as_rates(self, expected: Floats) -> Floats:
        """Of marks, from how often texts are expected to have each token of the model."""
        return np.asarray(np.maximum(expected[..., self.tokens] * self._marked, _LEAST_RATE))

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """One pass; noise once; then the model writes what the noisy numbers say."""
        spec = self.spec
        counts, numbers, scale, deviation = self.numbers(corpus, draws)
        units = np.maximum(counts, scale)
        rates = self.believed_rates(numbers, units, deviation)
        sizes = enumerate(apportioned(units, spec.size).tolist())
        texts = [self._written(label, n, rates[label], draws.randomness) for label, n in sizes]
        return spec.released(texts, counts, scale, draws.randomness, *self._sentences(rates))

    def numbers(self, corpus: Corpus, draws: Draws) -> tuple[Floats, Floats, float, float]:
        """Noisy numbers of units `(labels or 1,)` and marks `(labels or 1, vocabulary)`, and their deviations."""
        spec, width = self.spec, len(self.tokens)
        labels, noise = len(spec.names), spec.noise()
        counted = in_steps(math.sqrt(spec.count_share))
        mark = in_steps(math.sqrt((1 - spec.count_share) / spec.marks))
        spare = labels * (width + 1)  # cells where marks that a text lacks stand as 0
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
        """Of marks in the texts of each label, `(labels or 1, vocabulary)`, by their noisy numbers; see `believed`."""
        return np.array([believed(*each, deviation) for each in zip(numbers, units, self.rates, strict=True)])

    def _written(self, label: int, n: int, rates: Floats, randomness: Randomness) -> list[str]:
        """At most n different texts, whose tokens are as frequent as `rates` say."""
        shift, kept = self.shift(label, rates, randomness), list[str]()
        for _ in range(_DRAFTS):
            if len(kept) < n:
                more, _ = self.writer.shifted(label, n - len(kept), shift, randomness)
                kept = list(dict.fromkeys([*kept, *self.writer.readable(more)]))
        return kept

    def shift(self, label: int, rates: Floats, randomness: Randomness) -> Floats:
        """What moves the log-probabilities so that tokens are expected as often as `rates` say, `(size,)`."""
        shift, now = np.zeros(self.writer.model.size), self.rates[label]
        for time in range(self.spec.matches + 1):
            step = np.clip(np.log(rates / now), -2.0, 3.0) * (_STEP if time else 1.0)
            shift[self.tokens] = np.clip(shift[self.tokens] + step, -_LARGEST, _LARGEST)
            if time < self.spec.matches:
                now = self._as_rates(self.writer.shifted(label, self.spec.drafts, shift, randomness)[1])
        return shift

    def _sentences(self, rates: Floats) -> list[str]:
        """Words that texts of each label have more often than public ones, by noisy numbers."""
        said = []
        for name, mine, public in zip(self.spec.names, rates, self.rates, strict=True):
            gained = mine - public
            words = [self.writer.model.text([int(self.tokens[i])]).strip() for i in np.argsort(-gained)[:_SHOWN]]
            known = [word for word, gain in zip(words, np.sort(gained)[::-1], strict=False) if word and gain > 0]
            if known:
                said.append(f"More often than the model writes them, {name}: {', '.join(known)}.")
        return said


def believed(numbers: Floats, units: float, rates: Floats, deviation: float) -> Floats:
    """The likeliest rates of tokens `(vocabulary,)`: by noisy numbers, and near public rates.

    The logarithm of how far a rate is from the public one has a Laplace prior of scale 1, so that most tokens stay as
    frequent as they are.
    """
    options = np.minimum(rates[:, None] * np.exp(_GRID), 1.0)
    likely = -np.square((numbers[:, None] - units * options) / deviation) / 2 - np.abs(_GRID)
    return np.asarray(options[np.arange(len(rates)), likely.argmax(axis=1)])
