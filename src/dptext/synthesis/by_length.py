"""Writing with a language model in several lengths: each bin of lengths has its own public examples and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np

from dptext.language.reading import TextModel
from dptext.language.writing import Drafts, OnWritten
from dptext.sampling.randomness import Randomness
from dptext.synthesis.lengths import Length, LengthBins, drawn_numbers
from dptext.synthesis.writer import LineWriter, examples_of
from dptext.text.records import Record
from dptext.types import Floats

#: Called with the number of texts that were written since the last call.
More: TypeAlias = Callable[[int], None]
_PROMPT: Final = 600  # tokens of the examples of long texts in a prompt, about
_FEWEST: Final = 2  # examples
_ROOM: Final = 0.75  # of the largest number of tokens, from which on a text may end
_TOKENS: Final = 1.4  # of a word, about, where no text tells


def examples_by_length(
    records: Sequence[Record], bins: LengthBins, n: int, *, tokens: int, seed: int
) -> tuple[Record, ...]:
    """Choose public examples of each bin: `n`, or fewer where texts are long; one bin takes `n` of all texts.

    `tokens` is the largest number of tokens of a written text. ConfigError: there is no text.
    """
    if len(bins) == 1 or not n:
        return examples_of(records, n, seed)
    found: list[Record] = []
    where = bins.of([each.text for each in records])
    for i, length in enumerate(bins.lengths):
        own = [each for each, place in zip(records, where.tolist(), strict=True) if place == i]
        long = tokens if length.below is None else min(tokens, length.below * _TOKENS)
        k = min(n, max(_FEWEST, int(_PROMPT / long)))
        turns = examples_of(own, max(k, len({each.label for each in own})), seed) if own else ()
        # Few examples show few labels: each bin begins with others.
        found += [turns[(i * k + j) % len(turns)] for j in range(min(k, len(turns)))]
    return tuple(found) or examples_of(records, n, seed)


def examples_of_bin(examples: Sequence[Record], bins: LengthBins, place: int) -> list[Record]:
    """Return the examples of the bin at this place; if it has none, those of the nearest bin that has some."""
    where = bins.of([each.text for each in examples])
    if not len(where):
        return []
    nearest = min(where.tolist(), key=lambda own: abs(own - place))
    return [each for each, own in zip(examples, where.tolist(), strict=True) if own == nearest]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ByLength:
    """A writer for each bin of lengths, and the shares of the bins among the texts of each label, `(labels, bins)`."""

    writers: tuple[LineWriter, ...]
    shares: Floats

    @classmethod
    def of(
        cls,
        kind: type[LineWriter],
        model: TextModel,
        names: tuple[str, ...],
        labels: Sequence[str],
        examples: Sequence[Record],
        *,
        bins: LengthBins,
        shares: Floats,
        tokens: int,
        temperature: float,
        options: int,
    ) -> Self:
        """Return writers of this `kind`. `tokens` is the largest number of tokens of any text.

        ConfigError: see `LineWriter.of`.
        """
        words = sum(len(each.text.split()) for each in examples)
        each_word = sum(len(model.tokens(each.text)) for each in examples) / words if words else _TOKENS

        def writer(place: int, length: Length | None) -> LineWriter:
            most, least = tokens, 0
            if length is not None:
                most = tokens if length.below is None else min(tokens, math.ceil(length.below * each_word))
                least = min(int(_ROOM * most), math.ceil(length.least * each_word))
            return kind.of(
                model, names, labels, examples_of_bin(examples, bins, place), tokens=most, temperature=temperature,
                options=options, least=least, length=length,
            )  # fmt: skip

        lengths = bins.lengths if len(bins) > 1 else [None]
        return cls(tuple(writer(i, length) for i, length in enumerate(lengths)), shares)

    def each(self, changed: Callable[[LineWriter], LineWriter]) -> Self:
        """Return the writers, each of them `changed`."""
        return type(self)(tuple(map(changed, self.writers)), self.shares)

    def shifted(
        self, label: int, n: int, shift: Floats, source: Randomness, more: More | None = None
    ) -> Iterator[tuple[LineWriter, Drafts]]:
        """Write `n` texts of a label, in lengths by its shares. Yield writer and texts of each bin that gets some.

        `more` is called as texts are written.
        """
        for writer, k in zip(self.writers, drawn_numbers(self.shares[label], n, source), strict=True):
            if k:
                yield writer, writer.shifted(label, k, shift, source, _steps(more))


def _steps(more: More | None) -> OnWritten | None:
    """Return a function that is called with the number of texts so far, and tells how many more they are."""
    if more is None:
        return None
    before = 0

    def told(done: int) -> None:
        nonlocal before
        more(done - before)
        before = done

    return told


def shares_of_public(texts: Sequence[str], bins: LengthBins, labels: int) -> Floats:
    """Return the shares of the bins among public texts, the same for each label, `(labels, bins)`."""
    numbers = np.bincount(bins.of(texts), minlength=len(bins)).astype(np.float64)
    return np.tile(numbers / max(1.0, numbers.sum()), (labels, 1))
