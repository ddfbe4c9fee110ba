"""The report: noisy numbers of units by label, topic and word, as data, in sentences, and as one HTML page.

The page needs no network and no JavaScript.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from dptext.synthesis.agreement import NORMAL, Estimated, Estimates, Known
from dptext.synthesis.column_numbers import ColumnNumbers
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.lengths import LengthNumbers
from dptext.synthesis.pool_findings import CorpusFit, Shortage
from dptext.types import Floats, Json

HARDLY_MORE_THAN_NOISE: Final = (
    "The output is hardly more than noise: do not use it. Is the corpus empty, or does it have other fields, labels or "
    "another encoding than was stated? dptext check tells."
)
_NAMED: Final = 8  # labels or topics in a sentence
_FAR: Final = 3  # times fewer or more units than were announced


@functools.lru_cache(maxsize=4)  # a report is read several times as it is written: each would take 1 ms and more
def _estimated(
    counts: tuple[tuple[float, ...], ...], margin: float, counted: tuple[tuple[float, ...], float] | None
) -> Estimates:
    own = None if counted is None else Known(np.array(counted[0]), counted[1] / NORMAL)
    found = Estimates.of(Known(np.array(counts), margin / NORMAL), own)
    for part in (found.cells, found.by_label, found.by_topic, found.whole):
        part.numbers.flags.writeable = part.unbiased.numbers.flags.writeable = False  # all readers share them
    return found


@dataclass(frozen=True, slots=True)
class Topics:
    """Noisy numbers of units. Rows are labels (one row without any), columns topics (one column without any).

    Attributes:
        counts: noisy numbers, `(labels, topics)`; below 0 by chance.
        margin: half of the interval of each number, at 95%.
        topics: each topic's public words and public texts.
        counted: noisy numbers by label `(labels,)` with less noise than the sums over topics, and half of their
            interval; None without such numbers.
        fit: the fit of the pool; None if it was not estimated.
        shortage: labels of which the pool has too few texts; None if there is no such label.
        names: meanings of the labels, which sentences and the page show; empty if the settings have no names.
        words: words by label; None if no words were measured.
        lengths: numbers by length; None if no lengths were measured.
        columns: numbers by each column of the table.
        followed: columns of which the second follows the first, by more than noise explains.
        about: the number of units that was announced; 0 if it is not known.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    margin: float
    topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    unit: str = "document"
    counted: tuple[tuple[float, ...], float] | None = None
    fit: CorpusFit | None = None
    shortage: Shortage | None = None
    names: tuple[str, ...] = ()
    words: LabelWords | None = None
    lengths: LengthNumbers | None = None
    columns: tuple[ColumnNumbers, ...] = ()
    followed: tuple[tuple[str, str], ...] = ()
    about: int = 0

    @property
    def shown(self) -> tuple[str, ...]:
        """The labels as sentences and the page show them: with their meanings, if these differ from the labels."""
        names = self.names if self.names and self.labels else self.labels  # without labels the name is of all texts
        both = zip(self.labels, names, strict=True)
        return tuple(label if name == label else f"{label} ({name})" for label, name in both)

    @property
    def measure(self) -> str:
        """The unit of the numbers. Records of an author are clipped together, so the numbers do not count authors."""
        return "documents" if self.unit == "document" else "weight of authors"

    @property
    def of_words(self) -> str:
        """A sentence on the meaning of numbers of words."""
        return f"Numbers: {self.measure} for which the word counts; few words of a text count."

    @property
    def note(self) -> str:
        """A sentence on the meaning of the numbers."""
        if self.unit == "document":
            return "Numbers of documents with noise."
        return (
            "Weights of authors with noise, not how many there are: the records of an author count together with "
            "length 1 at most, spread over labels and topics. So one author weighs 1, or more: up to the root of the "
            "number of labels and topics that the records have."
        )

    @property
    def in_all(self) -> str:
        """A sentence on all numbers together."""
        of = " with one of these labels" if self.labels else ""
        number = self.estimates.whole.shown(0)
        return f"In all {number} documents{of}." if self.unit == "document" else f"All authors{of} weigh {number}."

    @property
    def by_label(self) -> tuple[list[float], float]:
        """Noisy numbers by label, and half of the interval of each."""
        if self.counted is not None:
            return list(self.counted[0]), self.counted[1]
        return [sum(row) for row in self.counts], self.margin * math.sqrt(len(self.counts[0]))

    @property
    def estimates(self) -> Estimates:
        """Consistent estimates from all numbers: none is negative, and parts add up to their wholes."""
        return _estimated(self.counts, self.margin, self.counted)

    @property
    def by_length(self) -> Estimated | None:
        """Consistent estimates by length; None if no lengths were measured."""
        if self.lengths is None:
            return None
        counted = self._counted or Known(np.array(self.by_label[0]), self.by_label[1] / NORMAL)
        return self.lengths.estimates(counted, float(self.estimates.whole.numbers[0]))

    @property
    def by_column(self) -> tuple[Estimated, ...]:
        """Consistent estimates by each column."""
        whole = float(self.estimates.whole.numbers[0])
        return tuple(column.estimates(whole) for column in self.columns)

    @property
    def _counted(self) -> Known | None:
        return None if self.counted is None else Known(np.array(self.counted[0]), self.counted[1] / NORMAL)

    @property
    def by_topic(self) -> tuple[list[float], float]:
        """Noisy numbers by topic, and half of the interval of each."""
        return [sum(column) for column in zip(*self.counts, strict=True)], self.margin * math.sqrt(len(self.counts))

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        counts: Floats,
        deviation: float,
        topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
        unit: str,
        fit: CorpusFit | None,
        counted: tuple[Floats, float] | None = None,
    ) -> Topics:
        """Return the report of numbers `(labels, topics)` with noise of this standard deviation; `counted` likewise."""
        rows = tuple(tuple(map(float, row)) for row in counts)
        own = None if counted is None else (tuple(map(float, counted[0])), NORMAL * counted[1])
        return cls(tuple(labels), rows, NORMAL * deviation, topics, unit, own, fit)

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data."""
        return {
            "unit": self.unit,
            "labels": list(self.labels),
            "counts": [[round(n, 3) for n in row] for row in self.counts],
            "margin": self.margin,
            "by_label": [round(n, 3) for n in self.by_label[0]] if self.labels else [],
            "margin_by_label": self.by_label[1],
            "estimates": self.estimates.to_dict(),
            "confidence": 0.95,
            "unlike_pool": None if self.fit is None else asdict(self.fit),
            "pool_shortage": None if self.shortage is None else asdict(self.shortage),
            "warnings": list(self.warnings),
            **({} if self.words is None else {"words": self.words.to_dict(self.labels or ("text",))}),
            **self._lengths(),
            **self._columns(),
            "topics": [{"words": list(words), "examples": list(texts)} for words, texts in self.topics],
            "note": f"{self.note} All names, words and examples are public.",
        }

    def _lengths(self) -> dict[str, Json]:
        if self.lengths is None or (found := self.by_length) is None:
            return {}
        counts: list[Json] = [[round(n, 3) for n in row] for row in self.lengths.counts]
        own: dict[str, Json] = {"lengths": list(self.lengths.names), "counts": counts, "margin": self.lengths.margin}
        return {"lengths": {**own, "estimates": found.to_dict()}}

    def _columns(self) -> dict[str, Json]:
        if not self.columns:
            return {}
        columns: list[Json] = [
            {
                "name": column.name, "cells": list(column.cells), "counts": [round(n, 3) for n in column.counts],
                "margin": column.margin, "estimates": found.to_dict(),
            }
            for column, found in zip(self.columns, self.by_column, strict=True)
        ]  # fmt: skip
        return {"columns": columns, "followed": [list(pair) for pair in self.followed]}

    def to_json(self) -> bytes:
        """Return the report as the bytes of a JSON file."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False).encode()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of little but noise, of a pool that does not fit or lacks texts of labels, and of unseen labels."""
        numbers, margin = self.by_label
        if sum(numbers) < margin * math.sqrt(len(numbers)):
            return (HARDLY_MORE_THAN_NOISE,)
        said = [] if self.fit is None or self.fit.fits else [self.fit.sentence]
        said += filter(None, [self._announced(sum(numbers), margin * math.sqrt(len(numbers)))])
        said += [] if self.shortage is None else [self.shortage.sentence]
        unseen = [name for name, n in zip(self.shown, numbers, strict=False) if n < margin]
        if unseen:
            named = ", ".join(unseen[:_NAMED]) + " and others" * (len(unseen) > _NAMED)
            said.append(
                f"Hardly more than noise was seen of {named}: do few texts have these labels, or are they spelled "
                "otherwise in the corpus?"
            )
        return tuple(said)

    def _announced(self, counted: float, half: float) -> str:
        """Return a warning that far fewer or more units were counted than announced; empty if not, or not for sure.

        Authors weigh at least 1 each, so that nothing is said of more weight.
        """
        fewer, more = counted + half < self.about / _FAR, counted - half > self.about * _FAR
        if not self.about or not (fewer or (more and self.unit == "document")):
            return ""
        of = "number of documents" if self.unit == "document" else self.measure
        return (
            f"About {self.about:,} {self.unit}s were announced (about), and the noisy {of} is {counted:,.0f}: what "
            "is measured was chosen for another number, so look at the intervals. Measuring again costs epsilon again."
        )

    def sentences(self) -> tuple[str, ...]:
        """Return the warnings, then the largest labels and topics, in plain words."""
        said, found = [*self.warnings], self.estimates
        counted = self.measure + ("" if self.unit == "document" else " (not their number)")
        if self.labels:
            said.append(_largest("Labels", self.shown, found.by_label, counted))
        if self.topics:
            named = [" ".join(words[:3]) for words, _ in self.topics]
            said.append(_largest("Topics", named, found.by_topic, counted))
        if self.lengths is not None and (long := self.by_length) is not None:
            shown = "; ".join(f"{name}: {long.shown(i)}" for i, name in enumerate(self.lengths.names))
            said.append(f"Lengths, in {counted}, with 95% intervals: {shown}.")
        for column, known in zip(self.columns, self.by_column, strict=True):
            if len(column.cells) <= _NAMED:
                said.append(_largest(f"Column {column.name}", column.cells, known, counted))
        if many := [column.name for column in self.columns if len(column.cells) > _NAMED]:
            said.append(f"Columns of more than {_NAMED} values are on the page: {', '.join(many)}.")
        if self.followed:
            each = "; ".join(f"{two} follows {one}" for one, two in self.followed)
            said.append(f"In rows that are written, beyond what noise explains: {each}.")
        if self.words is not None:
            said.append(self._of_words(self.words))
        return tuple(said)

    def _of_words(self, words: LabelWords) -> str:
        names = self.shown or ("all texts",)
        each = [
            f"{name}: {', '.join(word for word, *_ in own[:6])}"
            for name, own in zip(names, words.words, strict=True)
            if own
        ]
        if not each:
            return "No word is more frequent than in public text by more than the noise."
        return f"Words more frequent than in public text (few words of a text count): {'; '.join(each[:_NAMED])}."


def _largest(what: str, names: Sequence[str], found: Estimated, measure: str) -> str:
    """Return a sentence with the largest numbers and their intervals, which says how sure these are."""
    places, known = found.largest(_NAMED)
    shown = "; ".join(f"{names[i]}: {known.shown(i)}" for i in places)
    if len(places) == len(names):
        return f"{what}, in {measure}, with 95% intervals: {shown}."
    head = f"{what}, the {len(places)} largest of {len(names):,}, in {measure} (intervals hold in 95% of those shown)"
    return f"{head}: {shown}."
