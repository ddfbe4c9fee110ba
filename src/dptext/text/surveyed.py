"""What a survey counts of the values of one column."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from dptext.text import formats
from dptext.text.formats import cell_text, name_of, spelled, string_fault
from dptext.text.lines import Bad
from dptext.text.markup import has_tags
from dptext.text.proposals import Proposal
from dptext.text.reading import MAX_CHARACTERS
from dptext.text.records import Fields, Record
from dptext.text.row_checks import Checks

_MOST_DISTINCT: Final = 10_000  # most different values that are counted, of columns of short values with repetitions
SHORT: Final = 40  #: characters of a short value, on average
Fault = tuple[int, str]  #: the number of a record, and its fault
LONG: Final = 1_500  #: characters, some 256 word pieces: `candidates` reads no more


@dataclass(slots=True)
class Column:
    """Counts of a column's values: all, null, empty, strings, with HTML tags, and of each length.

    `hashes` holds hashes of the different values, or None if there are too many. `named` says whether a value is the
    column's own name.
    """

    rows: int = 0
    nulls: int = 0
    filled: int = 0  #: values that are neither null nor `Bad`; `characters`: the sum of their lengths
    characters: int = 0
    empties: int = 0
    strings: int = 0
    tags: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    hashes: set[int] | None = field(default_factory=set)
    repeated: bool = False
    named: bool = False
    nameless: int = 0  #: values that cannot name a record or an author; `unlabelled`: that cannot be a label
    unlabelled: int = 0
    unfit: int = 0  #: values that are not null and cannot be the text of a record
    proposal: Proposal = field(default_factory=Proposal)  #: a declaration of the column
    fault: Fault | None = None  #: the reason for the first of these, or the first record that lacks the column

    def add(self, name: str, value: object, record: int, *, written: bool = False) -> None:
        """Count a value of the record with the number `record`. `written`: readers turn other values into texts."""
        self.rows += 1
        if isinstance(value, Bad):
            self.nameless, self.unlabelled, self.unfit = self.nameless + 1, self.unlabelled + 1, self.unfit + 1
            self.fault = self.fault or (record, value.reason)
            self.proposal.add(None)
            return
        if isinstance(value, str):
            text, sound = value, string_fault(value) is None
            cell, is_name, is_label, mark = value if sound else None, sound and bool(value), sound, hash(value)
        else:
            text, cell, sound = formats.written(value), cell_text(value), False
            named, label = name_of(value), spelled(value)
            is_name, is_label = named is not None, isinstance(label, str)
            mark = hash(named or text)
        self.proposal.add(cell)
        self.nameless += not is_name
        if value is None:
            self.nulls += 1
            return
        self.unlabelled += not is_label
        if (not sound or len(text) > MAX_CHARACTERS) and (reason := text_fault(name, text if written else value)):
            self.unfit += 1
            self.fault = self.fault or (record, reason)
        self.strings += isinstance(value, str)
        self.empties += not text
        self.named |= text == name
        self.tags += has_tags(text)
        self.lengths[len(text)] += 1
        self.filled, self.characters = self.filled + 1, self.characters + len(text)
        if self.hashes is not None:
            self.repeated |= mark in self.hashes
            self.hashes.add(mark)
            if self.repeated and len(self.hashes) > _MOST_DISTINCT and self.mean <= SHORT:
                self.hashes = None

    @property
    def mean(self) -> float:
        """The mean number of characters of a value."""
        return self.characters / max(1, self.filled)

    @property
    def long(self) -> int:
        """The number of long values. Some mechanisms read only a part of these, others take long."""
        return sum(n for size, n in self.lengths.items() if size > LONG)

    @property
    def largest(self) -> int:
        """The number of characters of the longest value."""
        return max(self.lengths, default=0)

    @property
    def median(self) -> int:
        """The median number of characters of a value."""
        sizes = sorted(self.lengths)
        ends = itertools.accumulate(self.lengths[size] for size in sizes)
        return next((size for size, end in zip(sizes, ends, strict=True) if end > self.lengths.total() // 2), 0)

    @property
    def distinct(self) -> int | None:
        """The number of different values. None if there are too many to count."""
        return None if self.hashes is None else len(self.hashes)

    @property
    def unique(self) -> bool:
        """True if no two rows have the same value."""
        return self.rows > 1 and not (self.repeated or self.nulls or self.empties)


def text_fault(name: str, value: object) -> str | None:
    """Return the reason why a value cannot be the text of a record, in the words of the reader of records; or None."""
    if isinstance(value, str) and len(value) <= MAX_CHARACTERS and string_fault(value) is None:
        return None
    found = Checks(Fields(name), MAX_CHARACTERS).record({name: value}, default_id="")
    return None if isinstance(found, Record) else found.reason
