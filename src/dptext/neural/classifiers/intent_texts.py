"""Texts as numbers of their words and characters, for the intent classifier."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from dptext.text.tokens import tokenize

#: Share of the words seen once that training hides, so that the vector of the unknown word is trained.
_HIDE: Final = 0.5
_MAX_TOKENS: Final = 64
_MAX_CHARACTERS: Final = 20
#: Word and character number 0; no tokenizer gives the empty word.
_UNKNOWN: Final = ""


class Vocabulary:
    """Numbers of the words and characters of training texts. 0 is the unknown one, and the padding of characters."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(itertools.chain.from_iterable(map(_words, texts)))
        counts.pop(_UNKNOWN, None)
        self._words = {word: i for i, word in enumerate(counts, start=1)}
        characters = sorted({character for word in counts for character in word})
        self._characters = {character: i for i, character in enumerate(characters, start=1)}
        self._once = {word for word, count in counts.items() if count == 1}

    @property
    def words(self) -> int:
        """How many words there are, the unknown one included."""
        return len(self._words) + 1

    @property
    def characters(self) -> int:
        """How many characters there are, the unknown one included."""
        return len(self._characters) + 1

    def word(self, word: str) -> int:
        """Number of a word."""
        return self._words.get(word, 0)

    def spelled(self, word: str) -> list[int]:
        """Numbers of the first 20 characters, padded to 20."""
        numbers = [self._characters.get(character, 0) for character in word[:_MAX_CHARACTERS]]
        return numbers + [0] * (_MAX_CHARACTERS - len(numbers))

    def is_rare(self, word: str) -> bool:
        """Whether the word stands once in the training texts."""
        return word in self._once


def _words(text: str) -> list[str]:
    return [token.casefold() for line in tokenize(text) for token in line][:_MAX_TOKENS] or [_UNKNOWN]


class EncodedTexts:
    """Texts as rows of a table of their distinct words, grouped by length."""

    def __init__(self, texts: Sequence[str], vocabulary: Vocabulary, device: torch.device) -> None:
        table: dict[str, int] = {}
        self._texts = [[table.setdefault(word, len(table)) for word in _words(text)] for text in texts]
        self._words = torch.tensor([vocabulary.word(word) for word in table], device=device)
        self._spelled = torch.tensor([vocabulary.spelled(word) for word in table], device=device)
        self._rare = torch.tensor([vocabulary.is_rare(word) for word in table])
        self._device = device
        self._of_length: dict[int, list[int]] = {}
        for row, words in enumerate(self._texts):
            self._of_length.setdefault(len(words), []).append(row)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[list[int]]:
        """Positions of texts of one length each time. The generator shuffles them within and between batches."""
        found = []
        for rows in self._of_length.values():
            mixed = rows if order is None else [rows[i] for i in torch.randperm(len(rows), generator=order).tolist()]
            found += [mixed[start : start + size] for start in range(0, len(mixed), size)]
        places = range(len(found)) if order is None else torch.randperm(len(found), generator=order).tolist()
        for place in places:
            yield found[place]

    def inputs(self, rows: Sequence[int], hide: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct words of a batch `(d,)`, their characters `(d, 20)`, and where they stand `(batch, length)`.

        The generator `hide` replaces half of the rare words by the unknown one.
        """
        distinct, places = torch.unique(torch.tensor([self._texts[row] for row in rows]), return_inverse=True)
        hidden = torch.zeros(len(distinct), dtype=torch.bool)
        if hide is not None:
            hidden = self._rare[distinct] & (torch.rand(len(distinct), generator=hide) < _HIDE)
        distinct, hidden, places = (tensor.to(self._device) for tensor in (distinct, hidden, places))
        return self._words[distinct].masked_fill(hidden, 0), self._spelled[distinct], places
