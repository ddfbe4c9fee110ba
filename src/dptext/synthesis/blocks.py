"""The vector that a unit adds to a summary: blocks of cells, one kind of number each.

A document adds its point in the row of its label, one in the count of its label, one in the cell of its label and
nearest topic, one in the cell of its label and length, one for each of its marks in the row of its label, one if it is
unlike the pool, and one in its cell of each marginal of its columns. A column that texts follow has points and marks as
the label has: a row for each of its cells. Each block takes a share of the squared length of
a document's vector, so that all blocks together have length at most 1, by the weights of `dptext.synthesis.sums`. The
vectors of an author are added up and scaled by one factor to length at most 1, so that a block of an author may have
more than its share. One noise is added to the sum of all vectors. A block's noise, in its own units, is therefore
smaller the larger its share is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.errors import PrivacyError
from dptext.synthesis.agreement import Known
from dptext.synthesis.marginals import Marginal
from dptext.synthesis.readings import Reading
from dptext.synthesis.sums import Noise, in_steps
from dptext.types import Floats, Integers

POINTS: Final = "points"
COUNTS: Final = "counts"
TOPICS: Final = "topics"
LENGTHS: Final = "lengths"
WORDS: Final = "words"
UNLIKE: Final = "unlike"
#: All marginals together; each is a block of its own.
COLUMNS: Final = "columns"
_ORDER: Final = (POINTS, COUNTS, TOPICS, LENGTHS, WORDS, UNLIKE)
_BELOW_ONE: Final = 1 - 2.0**-30  # so that rounding makes no vector too long


def block_of(kind: str, column: Marginal | None) -> str:
    """Return the name of the points or words of a column that texts follow; of the label if it is None."""
    return kind if column is None else f"{kind} {column.name.removeprefix(f'{COLUMNS} ')}"


def kind_of(name: str) -> str:
    """Return what the numbers of a block are, from its name."""
    return name.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class SumBlock:
    """Cells `(rows, width)` of the vector, from the cell `start` on. `part` is the value of one of its numbers.

    A block of columns has their `marginal`. The rows of others are cells of an `axis`: of the label, 0, or of a column.
    """

    name: str
    start: int
    rows: int
    width: int
    part: float
    marginal: Marginal | None = None
    axis: int = 0

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.rows * self.width

    @property
    def kind(self) -> str:
        """What its numbers are, such as "points" of "points priority"."""
        return kind_of(self.name)


@dataclass(frozen=True, slots=True)
class SumLayout:
    """The blocks of a vector, points first, and the largest number of marks of a text."""

    blocks: tuple[SumBlock, ...]
    marks: int

    @classmethod
    def of(
        cls,
        widths: Mapping[str, int],
        shares: Mapping[str, float],
        noise: Noise,
        *,
        rows: int,
        marks: int,
        marginals: Sequence[Marginal] = (),
        followed: Sequence[Marginal] = (),
    ) -> SumLayout:
        """Return the layout for blocks of these `widths`, and marginals.

        `shares` are those of a document's squared length, by name.
        `rows` is the number of labels, or 1 without any. A text has at most `marks` marks. Shares add up to at most 1.
        `followed` are the columns that texts follow, whose points and words have widths under their names.
        """
        blocks, start = list[SumBlock](), 0
        axes = {block_of(kind, own): (own.axes[0], own.size) for kind in (POINTS, WORDS) for own in followed}
        for name in sorted(widths, key=lambda name: _ORDER.index(kind_of(name))):
            kind, (axis, each) = kind_of(name), axes.get(name, (0, 1 if name == UNLIKE else rows))
            if kind == POINTS:
                part = math.sqrt(shares[name] / noise.sign_weight) * _BELOW_ONE
            else:
                part = in_steps(math.sqrt(shares[name] / (marks if kind == WORDS else 1)))
            blocks.append(SumBlock(name, start, each, widths[name], part, axis=axis))
            start += blocks[-1].size
        for own in marginals:
            blocks.append(SumBlock(own.name, start, 1, own.size, in_steps(math.sqrt(shares[own.name])), own))
            start += own.size
        if len({each.name for each in blocks}) < len(blocks):
            raise PrivacyError("Two blocks have one name, so that they would share what one pays for.")
        return cls(tuple(blocks), marks)

    @property
    def size(self) -> int:
        """The number of cells that hold a number."""
        return self.blocks[-1].start + self.blocks[-1].size

    @property
    def cells(self) -> int:
        """The number of all cells. Behind the others is a cell for each mark that a text does not have."""
        return self.size + self.marks * sum(each.kind == WORDS for each in self.blocks)

    @property
    def signed(self) -> int:
        """The number of the first cells, which may be negative."""
        return sum(each.size for each in self.blocks if each.kind == POINTS)

    def vectors(self, read: Reading, topics: Callable[[Floats], Integers] | None) -> tuple[Integers, Floats]:
        """Return cells and values of the vectors of texts, both `(n, m)`. `topics` gives the topic of points."""
        n, absent = len(read.labels), self.size
        column = {COUNTS: np.zeros(n, np.int64), LENGTHS: read.lengths}
        if topics is not None:
            column[TOPICS] = topics(read.points)
        places = np.column_stack([read.labels, read.columns, *([column[TOPICS]] if TOPICS in column else [])])
        width = sum(self._width(each) for each in self.blocks)
        cells, values, end = np.empty((n, width), np.int64), np.empty((n, width)), 0
        for block in self.blocks:
            own = slice(end, end := end + self._width(block))
            row = block.start + places[:, block.axis, None] * (0 if block.name == UNLIKE else block.width)
            values[:, own] = block.part
            if block.marginal is not None:
                cells[:, own] = block.start + block.marginal.cells(places)[:, None]
            elif block.kind == POINTS:
                np.add(row, np.arange(block.width), out=cells[:, own])
                np.multiply(read.points, block.part, out=values[:, own])
            elif block.kind == WORDS:
                there = read.marks >= 0
                cells[:, own] = np.where(there, row + read.marks, absent + np.arange(self.marks))
                values[:, own] *= there
                absent += self.marks
            elif block.name == UNLIKE:
                cells[:, own] = row
                values[:, own] *= read.unlike[:, None]
            else:
                cells[:, own] = row + column[block.name][:, None]
        return cells, values

    def _width(self, block: SumBlock) -> int:
        """The number of values that a text has in a block."""
        return {POINTS: block.width, WORDS: self.marks}.get(block.kind, 1) if block.marginal is None else 1

    def known(self, noisy: Floats, scale: float) -> dict[str, Known]:
        """Return the numbers of each block `(rows, width)`, with the standard deviation of their noise, by name.

        `noisy` `(cells,)` is the noisy sum and `scale` the deviation of its noise, both in units of length 1.
        """
        return {
            each.name: Known(
                noisy[each.start : each.start + each.size].reshape(each.rows, each.width) / each.part, scale / each.part
            )
            for each in self.blocks
        }
