"""Warnings of too few units for what is measured, by public numbers alone: `about`, numbers of cells, and noise."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dptext._wording import plural
from dptext.synthesis.blocks import COLUMNS, COUNTS, TOPICS, WORDS
from dptext.synthesis.marginals import Axes, Marginal
from dptext.text.labels import in_words

#: Least number of units of a label, in standard deviations of its noise. With 104 texts of a label at epsilon 1, 11 of
#: them, OHSUMED keeps half of what it keeps without noise (docs/results/synthesis.md).
_ENOUGH: Final = 8
#: Largest share of texts that hold a word whose number is worth its noise: hardly a word is in a fifth of texts.
_FREQUENT: Final = 0.2
_INTERVAL: Final = 1.96  # half of one of 95%, in standard deviations


_FOR_MODELS: Final = (
    "no text of the pool, and take a part of epsilon: measure them to read them, or for a language model."
)
_LENGTHS_ALONE: Final = (
    "Lengths without words are numbers to read: texts of the pool are as long as they are, and a language model is "
    "steered by --with words,lengths."
)
_SHORT: Final = re.compile("[A-Za-z]{2,3}")
_ABBREVIATED: Final = (
    "Public texts and language models are read by the labels as they are written: if {!r} is an abbreviation, give "
    "--names LABEL=MEANING,... (names=[...] in Python), in plain words."
)


def without_words(labels: Sequence[str], names: Sequence[str]) -> str:
    """Return a warning of labels such as 1, 2, 3 without `names` in words; empty if there is nothing to warn of."""
    if not labels or (names and tuple(names) != tuple(labels)) or in_words(labels):
        return ""
    return (
        "Warning: the labels say nothing in words. Public texts and language models are read by the names of labels: "
        "give --names LABEL=MEANING,... (names=[...] in the same order in Python), in words."
    )


def abbreviated(labels: Sequence[str], names: Sequence[str]) -> str:
    """Return a sentence on a label such as pos, which may be an abbreviation, without `names`; empty without one."""
    short = (
        next((label for label in labels if _SHORT.fullmatch(label)), "") if tuple(names) in ((), tuple(labels)) else ""
    )
    return short and _ABBREVIATED.format(short)


def read_by_models(marks: int, lengths: Sequence[int], *, pool: bool) -> str:
    """Return a sentence on words and lengths, which choose no text of a pool; empty without them."""
    if not marks:
        return _LENGTHS_ALONE if lengths else ""
    return f"{'Words and lengths choose' if lengths else 'Words choose'} {_FOR_MODELS}" if pool else ""


def leaving_apart(axes: Axes, marginals: Sequence[Marginal]) -> str:
    """Return a warning that no two columns are measured together; empty if some are, or if there are no two."""
    could = [name for name, each in axes.pairs.items() if axes.topic not in each.axes]
    if not could or any(len(each.axes) == 2 and axes.topic not in each.axes for each in marginals):
        return ""
    return (
        "Warning: no two columns are measured together, so their values leave independently of each other. "
        f"--pairs {could[0]} measures two; --dry-run says what noise does."
    )


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a summary is about: about so many units, labels, and topics, beside the noise of its numbers.

    Attributes:
        about, unit: the public statement, such as about 5,000 documents.
        labels, topics: their numbers; 0 without any.
        noise: the standard deviation of the noise of a number of each block, in units.
        columns: the number of cells of each column that is a block.
        pairs: that of each pair of columns.
    """

    about: int
    unit: str
    labels: int
    topics: int
    noise: Mapping[str, float]
    columns: Mapping[str, int]
    pairs: Mapping[str, int]

    def warnings(self) -> list[str]:
        """Return a sentence for each kind of number that noise will hide."""
        found = [self._of_labels(), self._of_topics(), self._of_words()]
        own = [self._of_cells(name, cells, "values") for name, cells in self.columns.items()]
        pairs = [self._of_cells(name, cells, "pairs of values") for name, cells in self.pairs.items()]
        return [said for said in (*found, *own, *pairs) if said]

    def _half(self, block: str, sums: int = 1) -> float:
        """Half of the interval of a number, or of the sum of some."""
        return _INTERVAL * self.noise.get(block, 0.0) * math.sqrt(sums)

    def _of_labels(self) -> str:
        each = self.about // max(1, self.labels)
        if not self.labels or each >= _ENOUGH * self.noise.get(COUNTS, 0.0):
            return ""
        return (
            f"Warning: about {each:,} {self.unit}s for each of {plural(self.labels, 'label')} are few: the number of "
            f"each has noise of ±{self._half(COUNTS):,.0f} (95%), and little else of a label will be seen. Measure "
            "fewer labels or more texts, or take a larger epsilon."
        )

    @property
    def most_topics(self) -> int:
        """The largest number of topics whose noisy numbers can be read, at most that of those that are measured."""
        half = self._half(TOPICS, max(1, self.labels))
        return self.topics if self.about >= self.topics * half else int(self.about / (2 * half))

    def _of_topics(self) -> str:
        half, most = self._half(TOPICS, max(1, self.labels)), self.most_topics
        if most == self.topics:
            return ""
        fewer = f"Take fewer: --set topics={most}." if most > 1 else "Leave topics out, or take a larger epsilon."
        return (
            f"Warning: {self.topics} topics of about {self.about:,} {self.unit}s: a topic has about "
            f"{round(self.about / self.topics):,} {self.unit}s, and its number has noise of ±{half:,.0f} (95%). {fewer}"
        )

    def _of_words(self) -> str:
        each, half = self.about // max(1, self.labels), self._half(WORDS)
        if half <= _FREQUENT * each:
            return ""
        of = " of a label" if self.labels else ""
        return (
            f"Warning: words of about {each:,} {self.unit}s{of}: the number of a word has noise of ±{half:,.0f} (95%), "
            "and hardly a word is in so many. Measure more texts, or take a larger epsilon, or no words."
        )

    def _of_cells(self, name: str, cells: int, what: str) -> str:
        half = self._half(name)
        if self.about >= cells * half:
            return ""
        return (
            f"Warning: {name.removeprefix(f'{COLUMNS} ')} has {cells:,} {what} of about {self.about:,} {self.unit}s: "
            f"one has about {self.about / cells:,.0f}, and its number has noise of ±{half:,.0f} (95%). Declare fewer "
            f"or wider ones{', or leave it out of --pairs' if name in self.pairs else ''}."
        )
