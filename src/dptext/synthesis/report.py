"""The report: noisy numbers of units by label, topic and word, as data, in sentences, and as one HTML page.

The page needs no network and no JavaScript.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dptext.synthesis.agreement import NORMAL, WRONG, Estimated, Estimates, Known
from dptext.synthesis.column_numbers import ColumnNumbers
from dptext.synthesis.lengths import LengthNumbers
from dptext.types import Floats, Json

_SURE: Final = 3.0  # standard deviations above which a pool is said not to fit
HARDLY_MORE_THAN_NOISE: Final = (
    "The output is hardly more than noise: do not use it. Is the corpus empty, or does it have other fields, labels or "
    "another encoding than was stated? dptext check tells."
)
_NAMED: Final = 8  # labels or topics in a sentence
_NAMED_WORDS: Final = 12  # of a label


@dataclass(frozen=True, slots=True)
class CorpusFit:
    """The fit of a public pool to a private corpus.

    Attributes:
        share: noisy share of private texts that are less like the pool than 90% of the pool's own texts; 0.1 is usual.
        margin: half of the 95% interval of the share.
        fits: False if the share is above twice the usual share, by more than chance explains.
    """

    share: float
    margin: float
    fits: bool

    @classmethod
    def of(
        cls, unlike: float, deviation: float, units: float, deviation_of_units: float, *, usual: float, compared: int
    ) -> CorpusFit:
        """Return the fit from noisy numbers and their deviations; `usual` was estimated from `compared` pool texts."""
        units = max(units, 1.0)
        least = 2 * usual

        # The deviation of unlike - share * units, by both noises and by the sampling of records and of `usual`.
        def spread(share: float) -> float:
            chance = usual * (1 - usual) * (1 / units + 1 / compared) * units**2
            return math.sqrt(deviation**2 + (share * deviation_of_units) ** 2 + chance)

        share = min(max(unlike / units, 0.0), 1.0)
        misfit = unlike - least * units > _SURE * spread(least)
        return cls(share, min(1.0, NORMAL * spread(share) / units), not misfit)

    @property
    def sentence(self) -> str:
        """The finding and its remedy, in words."""
        return (
            f"The pool does not fit: {self.share:.0%} of the texts (within {self.margin:.0%}) are less like it than "
            "nine in ten of its own are. Give public texts of the same kind."
        )


@dataclass(frozen=True, slots=True)
class Shortage:
    """Labels of which a public pool has too few texts for the noisy mix of labels.

    Attributes:
        labels: name, wanted share, and share of the pool that noisy numbers read as this label, of each such label; the
            label that lacks most comes first.
        texts: number of released texts.
        most: number of texts that a pool with enough texts would release.
        others: labels whose released texts are probably mostly of other kinds, as the pool has few of these labels.
    """

    labels: tuple[tuple[str, float, float], ...]
    texts: int
    most: int
    others: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The finding and its remedy, in words."""
        named, by = [], " by the noisy numbers"
        for name, wanted, had in self._shown:
            named.append(f"{name}: {_part(wanted)} wanted, {_part(had)} of the pool is read as {name}{by}")
            by = ""
        few, more = f"The pool seems to have too few texts of some labels: {'; '.join(named)}.", ""
        if self.texts < self.most:
            few += f" {self.texts:,} texts leave, not {self.most:,}, so that the mix of labels is kept."
            more = ", or set size for more"
        if self.others:
            few += (
                f" Texts of {', '.join(self.others[:_NAMED])} are the nearest ones, probably of other kinds: good for"
            )
            few += " training, not for reading."
        return f"{few} Give public texts that are worded like the private ones, of each label{more}."

    @property
    def _shown(self) -> Sequence[tuple[str, float, float]]:
        return self.labels[:_NAMED]


def _part(share: float) -> str:
    return "none" if not share else f"{share:.0%}" if share >= 0.01 else "under 1%"


@dataclass(frozen=True, slots=True)
class LabelWords:
    """The words that each label has more often than public text.

    The words are chosen by their noisy numbers. So intervals of 95% each would hold the number without noise less often
    than in 95%. If R of M words are shown, each interval has the level 1 - .05 R / M. Then the share of shown intervals
    that do not hold their number is at most 5% on average (false coverage rate; Benjamini and Yekutieli 2005).

    Attributes:
        words: word, noisy number of units with it among their marks, and expected number by public text, for at most
            `_NAMED_WORDS` words of each label, those first that exceed the expected number most.
        margin: half of the interval of each number.
    """

    words: tuple[tuple[tuple[str, float, float], ...], ...]
    margin: float

    @classmethod
    def of(
        cls, names: Sequence[str], known: Known, counts: Known, rates: Floats, texts: Floats,
        telling: NDArray[np.bool_],
    ) -> LabelWords:  # fmt: skip
        """Return the words whose numbers exceed the expected ones by more than chance gives any word.

        `known` has the noisy numbers `(labels, width)`, and `counts` those of units `(labels,)`. `rates`
        `(labels, width)` are those of public texts, which vary as those of so many independent `texts` `(labels,)` do.
        `telling` `(width,)` says which words can be shown.
        """
        units = np.maximum(counts.numbers, counts.deviation)[:, None]
        usual = units * rates
        gained = known.numbers - usual
        spread = _spread(known.deviation, counts.deviation, units, rates, texts[:, None])
        candidates = max(2, len(gained) * int(telling.sum()))
        beyond = gained > spread * math.sqrt(2 * math.log(candidates))  # about the largest of so many deviations
        found = []
        for numbers, more, expected, shown in zip(known.numbers, gained, usual, beyond & telling, strict=True):
            order = np.argsort(-more, kind="stable")
            best = order[shown[order]][:_NAMED_WORDS]
            found.append(tuple((names[i], float(numbers[i]), float(expected[i])) for i in best))
        shown = max(1, sum(map(len, found)))
        return cls(tuple(found), NormalDist().inv_cdf(1 - WRONG / 2 * shown / candidates) * known.deviation)

    def interval(self, number: float) -> tuple[float, float]:
        """Return the interval of a number; no number of units is below 0."""
        return max(0.0, number - self.margin), max(0.0, number + self.margin)

    def shown(self, number: float) -> str:
        """Return a number with its interval."""
        low, high = self.interval(number)
        return f"{max(0.0, number):,.0f} ({low:,.0f} to {high:,.0f})"

    def to_dict(self, labels: Sequence[str]) -> dict[str, Json]:
        """Return JSON-able data."""
        each: dict[str, Json] = {
            label: [
                {"word": word, "number": round(n, 3), "interval": [round(end, 3) for end in self.interval(n)],
                 "expected": round(usual, 3)}
                for word, n, usual in own
            ]
            for label, own in zip(labels, self.words, strict=True)
        }  # fmt: skip
        return {"by_label": each, "margin": self.margin}


def _spread(of_number: float, of_units: float, units: Floats, rates: Floats, texts: Floats) -> Floats:
    """Return the deviation `(labels, width)` of number - units * rate, if private and public texts have one rate p.

    Both noises, the sampling of the private texts, n p (1 - p), and that of the public ones, n^2 p (1 - p) / m, are
    independent. p is (m rate + 1) / (m + 2), which is above 0 also for a word that no public text has.
    """
    p = (texts * rates + 1) / (texts + 2)
    sampled = p * (1 - p) * (units + units**2 / texts)
    return np.asarray(np.sqrt(of_number**2 + (rates * of_units) ** 2 + sampled))


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
            "length 1 at most, spread over labels and topics."
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
        said += [] if self.shortage is None else [self.shortage.sentence]
        unseen = [name for name, n in zip(self.shown, numbers, strict=False) if n < margin]
        if unseen:
            named = ", ".join(unseen[:_NAMED]) + " and others" * (len(unseen) > _NAMED)
            said.append(
                f"Hardly more than noise was seen of {named}: do few texts have these labels, or are they spelled "
                "otherwise in the corpus?"
            )
        return tuple(said)

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
            if len(column.cells) <= _NAMED:  # the page and `summary show` have the others
                said.append(_largest(f"Column {column.name}", column.cells, known, counted))
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
