"""Annotated utterances (`@Label text`) as token ids, cut and padded to a public length.

The vocabulary is made from public text. The labels are public settings, and depend on no text.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.text.tokens import detokenize, words_of
from dptext.types import Integers

PAD, UNKNOWN, BEGIN, END = range(4)
_SPECIAL = 4


def batches(rows: Integers, lengths: Integers, size: int, source: np.random.Generator) -> list[Integers]:
    """Batches of rows in random order, with similar lengths in a batch: rows are sorted within windows of 16 batches.

    `lengths` are those of all rows.
    """
    shuffled = source.permutation(rows)
    shuffled = shuffled[np.lexsort((lengths[shuffled], np.arange(len(shuffled)) // (16 * size)))]
    found = [shuffled[start : start + size] for start in range(0, len(shuffled), size)]
    return [found[i] for i in source.permutation(len(found))]


def require_converging(loss: float) -> None:
    """Raise ConfigError if the loss of a training is not finite."""
    if not math.isfinite(loss):
        raise ConfigError("Expected a loss that is a number: the training diverged. Choose a smaller learning_rate.")


@dataclass(frozen=True, slots=True)
class Tokens:
    """A public vocabulary: four special tokens, one token per label (the paper's `@Label`), then words by frequency."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    max_tokens: int
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = _SPECIAL + len(self.labels)
        object.__setattr__(self, "_index", {word: first + i for i, word in enumerate(self.words)})

    @classmethod
    def from_public(
        cls, texts: Iterable[str], *, labels: tuple[str, ...], max_tokens: int, min_count: int, max_words: int
    ) -> "Tokens":
        """Make the vocabulary of words that occur at least `min_count` times in public texts, at most `max_words`."""
        counts = Counter(word for document in texts for word in words_of(document, max_tokens))
        ranked = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
        return cls(tuple(ranked[:max_words]), labels, max_tokens)

    def __len__(self) -> int:
        return _SPECIAL + len(self.labels) + len(self.words)

    @property
    def length(self) -> int:
        """Positions of a sequence: one for the label if there are labels, `max_tokens` for words, one for the end."""
        return bool(self.labels) + self.max_tokens + 1

    def label_rows(self, labels: Sequence[str | None]) -> Integers:
        """The position of each label among `labels`, `(n,)`; -1 for a missing or unknown label."""
        index = {label: i for i, label in enumerate(self.labels)}
        return np.asarray([-1 if label is None else index.get(label, -1) for label in labels], np.int64)

    def sequences(self, records: Sequence[Record]) -> Integers:
        """The decoder's targets `(n, length)`: label, words, end, padding.

        UNKNOWN stands for a missing or unknown label, and for an unknown word.
        """
        found = np.full((len(records), self.length), PAD, np.int64)
        offset = int(bool(self.labels))
        if self.labels:
            rows = self.label_rows([record.label for record in records])
            found[:, 0] = np.where(rows < 0, UNKNOWN, rows + _SPECIAL)
        for i, record in enumerate(records):
            ids = [self._index.get(word, UNKNOWN) for word in words_of(record.text, self.max_tokens)]
            found[i, offset : offset + len(ids)] = ids
            found[i, offset + len(ids)] = END
        return found

    def inputs(self, sequences: Integers) -> Integers:
        """The encoder's inputs: the sequences, padded on the left, so that all end at the last position."""
        lengths = (sequences != PAD).sum(axis=1)
        positions = np.arange(sequences.shape[1])[None, :] - (sequences.shape[1] - lengths)[:, None]
        return np.where(positions < 0, PAD, np.take_along_axis(sequences, np.maximum(positions, 0), axis=1))

    def label_ids(self) -> range:
        """The ids of the labels' tokens."""
        return range(_SPECIAL, _SPECIAL + len(self.labels))

    def read(self, ids: Sequence[int]) -> tuple[str | None, str]:
        """Label and text of one decoded sequence, up to its end. Special tokens are left out."""
        label: str | None = None
        words: list[str] = []
        for position, token in enumerate(ids):
            if token in (END, PAD):
                break
            if position == 0 and token in self.label_ids():
                label = self.labels[token - _SPECIAL]
            elif token >= _SPECIAL + len(self.labels) and len(words) < self.max_tokens:
                words.append(self.words[token - _SPECIAL - len(self.labels)])
        return label, detokenize([words])
