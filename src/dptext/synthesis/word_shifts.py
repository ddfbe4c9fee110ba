"""Steering of a language model by words: noisy numbers, public drafts, and how the model spells each word.

All of it reads noisy numbers and public text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from dptext.language.reading import TextModel
from dptext.language.writing import Drafts
from dptext.sampling.randomness import seeded
from dptext.synthesis.by_length import ByLength, More
from dptext.synthesis.judging import believed
from dptext.synthesis.word_targets import Shift, Texts, WordTargets
from dptext.synthesis.writer import LineWriter, one_line
from dptext.text.records import Record
from dptext.types import Floats, Integers

_LEAST_RATE: Final = 1e-6
_USUAL: Final = 2.0  # pseudo-count: as if this many more drafts had each word, as a mark
_STEP: Final = 0.7  # factor of each update of a shift after the first
_LARGEST: Final = 10.0  # bound on the size of a shift
_MOST_SHARE: Final = 0.99  # of the texts that have a word
_FEWEST: Final = 0.02  # a token keeps at least this part of its expected number


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Steered:
    """A loaded model whose logits are moved, with its drafts, for one process."""

    by: WordTargets
    writers: ByLength
    spelled: Spellings = field(repr=False)
    shown: frozenset[str] = frozenset()  #: the examples of the prompt, as they are and as the model reads them

    @classmethod
    def of(cls, by: WordTargets, model: TextModel, kind: type[LineWriter], options: int) -> Steered:
        """Return a writer of this kind with the model, which chooses each token among `options`.

        ConfigError: see `LineWriter.of`.
        """
        set_, examples = by.settings, [Record(str(i), text, label) for i, (text, label) in enumerate(by.examples)]
        writers = ByLength.of(
            kind, model, by.names, by.labels, examples, bins=by.bins, shares=by.lengths, tokens=set_.tokens,
            temperature=set_.temperature, options=options,
        )  # fmt: skip
        read = {text for writer in writers.writers for _, text in writer.shown}
        shown = {each.text for each in examples} | read
        return cls(by, writers, Spellings.of(model, by.lexicon.words), frozenset(map(plain, shown)))

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model."""
        return self.model.digest

    @property
    def model(self) -> TextModel:
        """The language model."""
        return self.writers.writers[0].model

    def texts(self, label: int, n: int, seed: int, shift: Floats, more: More | None = None) -> Texts:
        """Return texts as `Steers` does, with log-probabilities moved by `shift` `(size,)`."""
        found = list(self.writers.shifted(label, n, shift, seeded(seed), more))
        texts = [text for writer, drafts in found for text in writer.readable(drafts.texts)]
        likely, drawn = sum(drafts.likely for _, drafts in found), sum(drafts.drawn for _, drafts in found)
        return [text for text in dict.fromkeys(texts) if plain(text) not in self.shown], likely, drawn

    def shift(self, label: int, seed: int, more: More | None = None) -> Shift:
        """Return a shift as `Steers` does, of log-probabilities `(size,)`."""
        by, set_, shift, source = self.by, self.by.settings, np.zeros(self.model.size), seeded(seed)
        first = _Drafted.of(self.writers.shifted(label, set_.drafts, shift, source, more))
        if not set_.steered:
            return shift, first.likely, first.drawn
        found, marked = first, self._marked(first.texts)
        now = np.maximum(self._there(found) * marked, _LEAST_RATE)
        wanted = believed(by.numbers[label], float(by.units[label]), now, by.deviations[label])
        for time in range(set_.matches + 1):
            more_of_each = self._more(found, wanted / marked, now / marked)
            step = self.spelled.steps(found.expected, more_of_each) * (_STEP if time else 1.0)
            shift = np.clip(shift + step, -_LARGEST, _LARGEST)
            if time < set_.matches:
                found = _Drafted.of(self.writers.shifted(label, set_.drafts, shift, source, more))
                now = np.maximum(self._there(found) * marked, _LEAST_RATE)
        return shift, first.likely, first.drawn

    def _there(self, found: _Drafted) -> Floats:
        """Return the share of texts that have each word, `(width,)`.

        A short text has a word at most once: the share is the expected number. In a long text a word comes by chance
        (Poisson): with r of them it is there with probability 1 - e^-r, so that rates grow with length as they should.
        """
        if self.by.lengths.shape[1] == 1:
            return self.spelled.rates(found.expected)
        return np.asarray(sum(share * -np.expm1(-self.spelled.rates(each)) for share, each in found.by_length))

    def _more(self, found: _Drafted, wanted: Floats, now: Floats) -> Floats:
        """Return how many more of each word a text should have, so that the share `wanted` of texts has it, not `now`.

        In long texts, the number for a share s grows as -ln(1 - s).
        """
        if self.by.lengths.shape[1] == 1:
            return wanted - now
        most = np.log1p(-np.minimum(wanted, _MOST_SHARE)) / np.log1p(-np.clip(now, _LEAST_RATE, _MOST_SHARE))
        # The tokens of a word that no draft could have are expected nowhere, and yet are made likelier.
        return np.maximum(self.spelled.rates(found.expected), _LEAST_RATE) * (most - 1.0)

    def _marked(self, written: Sequence[Sequence[int]]) -> Floats:
        """Return the share of texts with a word in which it is a mark, `(width,)`, by drafts."""
        lexicon, texts = self.by.lexicon, [self.model.text(tokens) for tokens in written]
        marks = lexicon.marks(texts)
        there = np.bincount([place for text in texts for place in lexicon.known(text)], minlength=len(lexicon))
        marked = np.bincount(marks[marks >= 0], minlength=len(lexicon))
        usual = (marked.sum() + _USUAL) / (there.sum() + _USUAL) if lexicon.drawn else 1.0
        return np.asarray((marked + _USUAL * usual) / (there + _USUAL))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Drafted:
    """Drafts of all lengths.

    Attributes:
        texts: their tokens.
        by_length: the share of the drafts of each length, and how often one of them is expected to have each token.
        likely: sum of the log-probabilities, without shift, of all drawn tokens.
        drawn: number of drawn tokens.
    """

    texts: list[list[int]]
    by_length: list[tuple[float, Floats]]
    likely: float
    drawn: int

    @classmethod
    def of(cls, written: Iterable[tuple[LineWriter, Drafts]]) -> Self:
        """Put together the drafts of all lengths."""
        found = [drafts for _, drafts in written]
        texts = [text for drafts in found for text in drafts.texts]
        shares = [(len(drafts.texts) / max(1, len(texts)), drafts.expected) for drafts in found]
        return cls(texts, shares, sum(each.likely for each in found), sum(each.drawn for each in found))

    @property
    def expected(self) -> Floats:
        """How often a text is expected to have each token, `(size,)`."""
        return np.asarray(sum(share * each for share, each in self.by_length))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Spellings:
    """The spellings of the words of a list within a text: after a space, in small letters or with a capital.

    `tokens` holds the tokens of all spellings one after the other. `starts` `(spellings,)` is where each begins, and
    `words` `(spellings,)` the word that it spells.
    """

    tokens: Integers
    starts: Integers
    words: Integers
    width: int

    @classmethod
    def of(cls, model: TextModel, words: Sequence[str]) -> Spellings:
        """Return the spellings of words by this model."""
        spelled = [(i, model.tokens(f" {each}")) for i, word in enumerate(words) for each in {word, word.capitalize()}]
        spelled = sorted((i, tokens) for i, tokens in spelled if tokens)
        lengths = [len(tokens) for _, tokens in spelled]
        flat = np.array([token for _, tokens in spelled for token in tokens], np.int64)
        return cls(flat, np.cumsum([0, *lengths[:-1]]), np.array([i for i, _ in spelled], np.int64), len(words))

    def _each(self, expected: Floats) -> Floats:
        """Return how often each spelling is expected: as often as its rarest token."""
        return np.asarray(np.minimum.reduceat(expected[self.tokens], self.starts))

    def rates(self, expected: Floats) -> Floats:
        """Return how often a text is expected to have each word `(width,)`, from the numbers of its tokens."""
        return np.asarray(np.bincount(self.words, self._each(expected), minlength=self.width), np.float64)

    def steps(self, expected: Floats, more: Floats) -> Floats:
        """Return the steps of log-probabilities `(size,)` that give texts `more` `(width,)` of each word."""
        each = self._each(expected) + _LEAST_RATE
        part = each / np.bincount(self.words, each, minlength=self.width)[self.words]  # of a word in this spelling
        owner = np.repeat(np.arange(len(self.starts)), np.diff([*self.starts.tolist(), len(self.tokens)]))
        gained = np.bincount(self.tokens, (more[self.words] * part)[owner], minlength=len(expected))
        usual = np.maximum(expected, _LEAST_RATE)
        return np.asarray(np.clip(np.log(np.maximum(usual + gained, _FEWEST * usual) / usual), -2.0, 3.0))


def plain(text: str) -> str:
    """Return a text as it is compared with others: without case, and with one space between words."""
    return one_line(text.casefold())
