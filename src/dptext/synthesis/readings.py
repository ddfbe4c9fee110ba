"""Readings of a private corpus: for each record its label, its point, its length, its marks and its author.

Each is a public function of the record alone, so that one more record changes the reading of no other.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dptext.synthesis.lengths import ANY_LENGTH, LengthBins
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.space import PublicSpace, says_something
from dptext.text.batches import Batch
from dptext.text.formats import cell_text
from dptext.text.labels import matched
from dptext.text.schema import DeclaredColumn
from dptext.types import Floats, Integers

#: Reads the private corpus from its beginning, in batches. It may be called more than once.
Corpus = Callable[[], Generator[Batch, None, None]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reading:
    """Private records that count: index of the label (0 without labels), point, unlike, marks, author, length, columns.

    `labels` is `(n,)`; `points` is `(n, dim)`; `unlike` is `(n,)`, 1 if a text is unlike the pool; `marks` is
    `(n, most)`, by `Lexicon.marks`; `lengths` is `(n,)`, the bin of a text's length; `columns` is `(n, columns)`, the
    cell of each measured column. Without a space `dim` is 0, and without a lexicon `most` is 0.
    """

    labels: Integers
    points: Floats
    unlike: Floats
    marks: Integers
    authors: list[str | None]
    lengths: Integers
    columns: Integers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PublicReader:
    """The readers of a record: a space for its point, a lexicon for its marks (None for what is not read), and bins.

    `columns` are the declared ones that are measured.
    """

    space: PublicSpace | None = None
    lexicon: Lexicon | None = None
    bins: LengthBins = ANY_LENGTH
    columns: tuple[DeclaredColumn, ...] = ()

    def read(
        self,
        labels: Integers,
        texts: Sequence[str],
        authors: list[str | None],
        fields: Sequence[Mapping[str, object]] | None = None,
    ) -> Reading:
        """Return the reading of texts with these labels and authors.

        `fields` has the values of columns by name; a column that is absent is null.
        """
        points, unlike = np.zeros((len(texts), 0)), np.zeros(len(texts))
        if self.space is not None:
            features = self.space.features(texts)
            points, unlike = self.space.placed(features), self.space.unlike(features)
        marks = np.zeros((len(texts), 0), np.int64) if self.lexicon is None else self.lexicon.marks(texts)
        columns = np.zeros((len(texts), len(self.columns)), np.int64)
        for i, column in enumerate(self.columns):
            columns[:, i] = column.cells([cell_text(each.get(column.name)) for each in fields or [{}] * len(texts)])
        return Reading(labels, points, unlike, marks, authors, self.bins.of(texts), columns)

    def rounding(self, texts: Sequence[str]) -> str:
        """Return the sha256 of the points and marks of public texts on this computer, and of its version of Unicode.

        Which characters are letters, and so which words a text has, follows the version of Unicode.
        """
        found = self.read(np.zeros(len(texts), np.int64), texts, [None] * len(texts))
        version = unicodedata.unidata_version.encode()
        return hashlib.sha256(found.points.tobytes() + found.marks.tobytes() + version).hexdigest()


@runtime_checkable
class ReadsItself(Protocol):
    """A corpus that yields its own readings, which are computed elsewhere."""

    def readings(self, reader: PublicReader, labels: Sequence[str]) -> Iterator[Reading]:
        """Yield the readings, as the function `readings` does."""


def readings(corpus: Corpus, reader: PublicReader, labels: Sequence[str]) -> Iterator[Reading]:
    """Yield the private records that count, in batches. A corpus that `ReadsItself` yields them in any order."""
    if isinstance(corpus, ReadsItself):
        yield from corpus.readings(reader, labels)
        return
    for batch, known, rows in _counted(corpus, labels):
        texts, authors = [batch.texts[i] for i in rows], [batch.authors[i] for i in rows]
        fields = [batch.kept[i] for i in rows] if reader.columns else None
        yield reader.read(known, texts, authors, fields)


def units_of(corpus: Corpus, labels: Sequence[str]) -> Iterator[tuple[Integers, list[str], list[str | None]]]:
    """Yield index of the label (0 without labels), text and author of private records, in batches.

    A record without text, or without one of the labels, adds nothing and is left out.
    """
    for batch, known, rows in _counted(corpus, labels):
        yield known, [batch.texts[i] for i in rows], [batch.authors[i] for i in rows]


def _counted(corpus: Corpus, labels: Sequence[str]) -> Iterator[tuple[Batch, Integers, list[int]]]:
    """Yield batches with the index of the label, and the row, of each record that counts."""
    number = {label: i for i, label in enumerate(labels)}
    with closing(corpus()) as batches:
        for batch in batches:
            known = [number.get(name or "", -1) if number else 0 for name in matched(batch.labels, labels)]
            rows = [i for i, text in enumerate(batch.texts) if known[i] >= 0 and says_something(text)]
            if rows:
                yield batch, np.array([known[i] for i in rows], np.int64), rows
