"""Writers that see no logits: a server, or a class of another package. Words are counted in what they write.

A package brings one by an entry point of `dptext.writers`, whose value is a subclass of `FromDrafts`::

    [project.entry-points."dptext.writers"]
    mine = "mine:Mine"
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.synthesis.asking import Examples
from dptext.synthesis.by_length import More, examples_of_bin
from dptext.synthesis.desks import KeepsAnswers, TellsWay
from dptext.synthesis.from_model import FromLanguage, require_price
from dptext.synthesis.judging import believed
from dptext.synthesis.kept_writing import KeptWriting
from dptext.synthesis.lengths import Length, drawn_numbers
from dptext.synthesis.summary import Summary
from dptext.synthesis.word_shifts import plain
from dptext.synthesis.word_targets import Shift, Texts, WordTargets
from dptext.synthesis.writer import is_readable, one_line
from dptext.text.records import Record
from dptext.types import Floats, Json

CHARACTERS: Final = 4  #: of a token, about
_USUAL: Final = 8.0  # pseudo-count: as if this many more drafts had words as public texts have them
_STEP: Final = 0.7  # factor of each update of a shift after the first
_LARGEST: Final = 10.0  # bound on the size of a shift of a word; what is repeated three times is left out
LEAST: Final = 0.05  #: a smaller shift is none
#: What is assumed of a writer of a package.
PACKAGE_IS_PUBLIC: Final = (
    "the model behind the writer was trained on none of the private texts, and looks nothing up in them (the code of "
    "its package was not checked)"
)
SURE: Final = 2.0  # deviations of the noise that a number of marks must surpass for its word to be a key word


@dataclass(frozen=True, slots=True, repr=False)
class Moves:
    """How what is written should differ from what the model writes by itself.

    Attributes:
        shift: words, and by how much the logarithm of their odds should grow; negative where they are to be rarer.
        lift: words that surpass the noise, and how many more of the texts should have them, as a share.
        length: how many words the texts should have, as the examples do; None if they may have any.
    """

    shift: Mapping[str, float]
    lift: Mapping[str, float]
    length: Length | None = None


class Drafter(Protocol):
    """A loaded model that writes texts.

    Attributes:
        weights: sha256 of its weights; empty where nobody here can read them.
    """

    @property
    def weights(self) -> str:
        """sha256 of its weights; empty where nobody here can read them."""

    def draft(
        self, name: str, examples: Examples, n: int, *, moves: Moves, seed: int, more: More | None
    ) -> Sequence[str]:
        """Write about `n` texts.

        Args:
            name: the meaning of the label, in a few words.
            examples: public texts, each after the meaning of its label.
            n: number of texts; fewer may be returned.
            moves: how the texts should differ from what the model writes by itself.
            seed: seed of the choices, for a writer that can repeat them.
            more: called with the number of texts that were written since the last call, if it is not None.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FromDrafts(FromLanguage):
    """Settings of a writer that sees no logits, besides those of `FromLanguage`.

    All settings stand in the certificate: a key of a server must come from elsewhere, such as the environment.

    Attributes:
        drafts: number of texts for each label in which words are counted.
        matches: number of times that drafts are written anew to match the noisy numbers.
    """

    drafts: int = 64
    matches: int = 1

    @abstractmethod
    def drafter(self, by: WordTargets) -> Drafter:
        """Load the model, in the process that writes."""

    def drafted(self, labels: int) -> int:
        """Return the number of drafts for this number of labels; without steering nothing is counted."""
        return labels * self.drafts * (self.matches + 1) if self.steered else 0

    def opened(self, by: WordTargets) -> Counted:
        """Load the model, in the process that writes. ConfigError: its `weights` are no sha256."""
        found = self.drafter(by)
        if found.weights and not re.fullmatch("[0-9a-f]{64}", found.weights):
            raise ConfigError(f"Expected weights of the writer's model to be a sha256, found {found.weights!r:.80}.")
        return Counted(by, found)

    def said(self) -> dict[str, Json]:
        """Return the settings as the certificate has them, and what is assumed of the writer."""
        return {**FromLanguage.said(self), "assumptions": [PACKAGE_IS_PUBLIC]}

    def notes(self, way: Mapping[str, Json]) -> Iterator[str]:
        """Yield sentences on what was not checked."""
        yield (
            f"{type(self).__name__} is a writer of a package, whose code was not checked: it got "
            f"{given_away(steered=self.steered)}, and may have sent them elsewhere."
        )

    def asks(self, summary: Summary, price: tuple[float, float] | None) -> Iterator[str]:
        """Yield sentences on what would be asked of whom. `price` is that of a million tokens read, and written."""
        require_price(price)
        self.require_words(summary)
        drafts = self.drafted(self.moving(summary))
        yield (
            f"{self.size + drafts:,} texts, {drafts:,} of them drafts, would be asked of {type(self).__name__}. What "
            f"leaves this machine is up to its package: it gets {given_away(steered=self.steered)}."
        )
        if price is not None:
            yield "What it costs is up to its package, too: --price says nothing of it."


class Counted:
    """A loaded model that is moved by words, which are counted in its drafts."""

    def __init__(self, by: WordTargets, drafter: Drafter) -> None:
        self.by, self.drafter = by, drafter
        self.shown = {plain(text) for text, _ in by.examples}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.drafter).__name__})"

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model; empty where nobody here can read them."""
        return self.drafter.weights

    @property
    def way(self) -> Mapping[str, Json]:
        """What was found out of a server, as the certificate has it."""
        return self.drafter.way if isinstance(self.drafter, TellsWay) else {}

    def shift(self, label: int, seed: int, more: More | None = None) -> Shift:
        """Return a shift as `Steers` does, `(2, width)`: shifts of the logarithms of the odds of words, and lifts."""
        by, set_ = self.by, self.by.settings
        found = np.zeros((2, len(by.lexicon)))
        if not set_.steered:
            return found, 0.0, 0
        for time in range(set_.matches + 1):
            now = self._rates(label, self._drafted(label, set_.drafts, seed + time, found, more))
            if not time:
                wanted = believed(by.numbers[label], float(by.units[label]), now, by.deviations[label])
                sure = by.numbers[label] - by.units[label] * now > SURE * by.deviations[label]
            found[1] = np.where(sure, np.maximum(found[1] + wanted - now, 0.0), 0.0)
            step = moved(wanted, now)
            found[0] = np.clip(found[0] + step * (_STEP if time else 1.0), -_LARGEST, _LARGEST)
        return found, 0.0, 0

    def keep(self, kept: KeptWriting) -> None:
        """Let a drafter that asks a server keep each answer."""
        if isinstance(self.drafter, KeepsAnswers):
            self.drafter.keep(kept)

    def texts(self, label: int, n: int, seed: int, shift: Floats, more: More | None = None) -> Texts:
        """Return texts as `Steers` does."""
        lines = list(map(one_line, self._drafted(label, n, seed, shift, more)))
        there = [line for line in dict.fromkeys(lines) if is_readable(line)]
        return [line for line in there if plain(line) not in self.shown], 0.0, 0

    def _drafted(self, label: int, n: int, seed: int, shift: Floats, more: More | None) -> Sequence[str]:
        by, words = self.by, self.by.lexicon.words
        moves = Moves(
            {words[i]: float(shift[0, i]) for i in np.flatnonzero(np.abs(shift[0]) >= LEAST).tolist()},
            {words[i]: float(shift[1, i]) for i in np.flatnonzero(shift[1] > 0).tolist()},
        )
        found: list[str] = []
        for place, k in enumerate(drawn_numbers(by.lengths[label], n, seeded(seed))):
            length = by.bins.lengths[place] if len(by.bins) > 1 else None
            drafted: Sequence[str] = ()
            if k:
                own, seed_of = replace(moves, length=length), seed + (place << 32)
                shown = examples_of(by, place)
                drafted = self.drafter.draft(by.names[label], shown, k, moves=own, seed=seed_of, more=more)
            found += drafted
        return found

    def _rates(self, label: int, texts: Sequence[str]) -> Floats:
        """Return the rates of words as marks `(width,)` in texts, pulled towards those of public texts."""
        marks = self.by.lexicon.marks([one_line(text) for text in texts])
        there = np.bincount(marks[marks >= 0], minlength=len(self.by.lexicon))
        return np.asarray((there + _USUAL * self.by.usual[label]) / (len(texts) + _USUAL))


def given_away(*, steered: bool) -> str:
    """Return what a writer gets that asks others, in words."""
    if steered:
        words = "noisy words, each with how much more or less frequent it should be"
        return f"public examples, names of labels, how many texts of each are wanted, and {words}"
    return "public examples, names of labels, and how many texts of each are wanted"


def examples_of(by: WordTargets, place: int = 0) -> list[tuple[str, str]]:
    """Return the public examples of the length at this place, each after the meaning of its label.

    They are cut to about twice as many tokens as texts.
    """
    named, most = dict(zip(by.labels, by.names, strict=False)), 2 * by.settings.tokens * CHARACTERS
    shown = [Record("", text, label) for text, label in by.examples]
    own = examples_of_bin(shown, by.bins, place)
    return [(named.get(each.label or "", each.label or by.names[0]), one_line(each.text)[:most]) for each in own]


def moved(wanted: Floats, now: Floats) -> Floats:
    """Return the first shift of the logarithms of the odds of words, from their rates `(width,)` to those wanted."""
    return np.asarray(np.clip(np.log(_odds(wanted) / _odds(now)), -2.0, 3.0))


def least_rates(usual: Floats, drafts: int) -> Floats:
    """Return the least rates of words `(width,)` that so many drafts can show, beside the `usual` ones."""
    return np.asarray(_USUAL * usual / (drafts + _USUAL))


def _odds(rates: Floats) -> Floats:
    clipped = np.clip(rates, 1e-6, 0.99)
    return np.asarray(clipped / (1 - clipped))
