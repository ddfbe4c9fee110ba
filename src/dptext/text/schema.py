"""The columns of a table besides its text: what the owner declares of each, and how a value is read and written.

A declaration is public. It alone says which values there are, and how they are written; a private value changes neither
type nor form of what leaves, and no error tells of one.

    >>> from dptext.text.declarations import declared
    >>> column = declared("amount: 0..100 by 20")
    >>> column.cells(["7", "100", "-3", "many"]).tolist()  # outside is clipped to the ends; what is no number is other
    [0, 5, 0, 6]
    >>> declared("priority?: low|high").cells(["high", None, "so so"]).tolist()  # ? allows null
    [1, 3, 2]
    >>> declared("amount: 0..100 by 5,25").names  # narrow bins where most numbers are
    ('0 to 4', '5 to 24', '25 to 100', 'other')
    >>> column.declaration, declared("when: 2024-01..2024-12 by quarter").names[1:]
    ('amount: 0..100 by 20', ('2024-04 to 2024-06', '2024-07 to 2024-09', '2024-10 to 2024-12', 'other'))
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from dptext.sampling.discrete import uniform_below_each
from dptext.sampling.randomness import Randomness
from dptext.text.formats import Fixed, Scalar
from dptext.text.labels import matched
from dptext.types import Floats, Integers

OTHER: Final = "other"  #: what a value is written as that is not listed, unless a declaration names another text
MOST_CELLS: Final = 20_000  #: of a column
Per: TypeAlias = Literal["day", "week", "month", "quarter", "year"]
PERS: Final = get_args(Per)
#: A month, or a day with a time of any zone or without.
DATED: Final = re.compile(
    r"(\d{4})-(\d\d)(?:-(\d\d)(?:[ T]\s?[0-2]?\d(?::?[0-5]\d(?::?[0-6]\d)?)?(?:[.,]\d{1,12})?"
    r"\s?(?:[AP]\.?M\.?)?\s?(?:Z|UTC|MSK|[A-Z]{1,4}T|[+-]\d\d(?::?\d\d){0,2})?(?:\[[\w/+-]{1,40}\])?)?)?",
    re.ASCII | re.IGNORECASE,
)
_RANGE: Final = re.compile(r"[\d.+-]*\d\s*\.\.\s*[\d.+-]*\d(?:\s+by\s.*)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class DeclaredColumn(ABC):
    """A declared column. Its cells are the listed values or bins, then one for what is not listed or does not parse.

    Listed values have a last cell for null, if the column may be null; numbers and dates have one cell for both. An
    empty text is null, as CSV knows no other. Without slots, for what is computed once.

    Attributes:
        name: its name in files.
        null: whether it may be null; if not, null is not listed.
    """

    name: str
    null: bool

    @property
    @abstractmethod
    def shown(self) -> tuple[str, ...]:
        """What the listed values or bins are called in reports, in order."""

    @property
    def arrow(self) -> str:
        """The name of the Arrow type of its values, for formats with types."""
        return "string"

    @property
    @abstractmethod
    def declaration(self) -> str:
        """The declaration, as `declared` reads it."""

    def _place(self, text: str) -> int | None:
        """Return the cell of a spelled value; None if it is no value of the column."""
        return None

    @abstractmethod
    def _written(self, cells: Integers, source: Randomness) -> list[Scalar]:
        """Return values for cells of listed values or bins, drawn uniformly within a bin."""

    @property
    def unlisted(self) -> int:
        """The cell of a value that is not listed, or does not parse."""
        return len(self.shown)

    @property
    def extra(self) -> tuple[str, ...]:
        """What the cells after the listed values or bins are called: one for null, or for what does not parse."""
        return ("null",) if self.null else (OTHER,)

    @property
    def names(self) -> tuple[str, ...]:
        """What all cells are called in reports."""
        return (*self.shown, *self.extra)

    def __len__(self) -> int:
        return len(self.shown) + len(self.extra)

    def cells(self, texts: Sequence[str | None]) -> Integers:
        """Return the cell of each value as `cell_text` gives it, `(n,)`: a function of this value alone."""
        different = [text for text in set(texts) if text]
        places = zip(different, self._places(different), strict=True)
        found: dict[str | None, int] = {text: self.unlisted if place is None else place for text, place in places}
        found |= dict.fromkeys((None, ""), len(self) - 1 if self.null else self.unlisted)
        return np.array([found[text] for text in texts], np.int64)

    def _places(self, texts: Sequence[str]) -> list[int | None]:
        """Return the cells of different spelled values; None for what is no value of the column."""
        return list(map(self._place, texts))

    def values(self, cells: Integers, source: Randomness) -> list[Scalar]:
        """Return the values of cells, in the type of the declaration; what is not listed is null."""
        listed = cells < self.unlisted
        found: list[Scalar] = [None] * len(cells)
        for place, value in zip(np.flatnonzero(listed).tolist(), self._written(cells[listed], source), strict=True):
            found[place] = value
        return found


@dataclass(frozen=True)
class ListedColumn(DeclaredColumn):
    """A column of listed values. `rest` is the text that *other* is written as, which no value equals."""

    listed: tuple[str, ...]
    rest: str = OTHER

    @property
    def shown(self) -> tuple[str, ...]:
        """The values."""
        return self.listed

    @property
    def extra(self) -> tuple[str, ...]:
        """The text of values that are not listed, and null if the column may be null."""
        null = "null" if "null" not in (*self.listed, self.rest) else "no value"
        return (self.rest, null) if self.null else (self.rest,)

    def values(self, cells: Integers, source: Randomness) -> list[Scalar]:
        """Return the values of cells; what is not listed is `rest`."""
        names: list[Scalar] = [*self.listed, self.rest, None]
        return [names[cell] for cell in cells.tolist()]

    @property
    def declaration(self) -> str:
        """The declaration."""
        # One value could look like a range or ids.
        named = self.rest != OTHER or len(self.listed) == 1 or any(map(looks_like_range, self.listed))
        rest = (f"*{escaped(self.rest)}",) if named else ()
        return f"{_head(self)}{'|'.join([*map(escaped, self.listed), *rest])}"

    def _places(self, texts: Sequence[str]) -> list[int | None]:
        known = {value: i for i, value in enumerate(self.listed)}
        return [known.get(text or "") for text in matched(texts, self.listed)]

    def _written(self, cells: Integers, source: Randomness) -> list[Scalar]:
        return self.values(cells, source)


@dataclass(frozen=True)
class NumberColumn(DeclaredColumn):
    """Numbers from `low` to `high`, both included, in steps of 10^-decimals. A bin has `by` of these steps.

    `low`, `high` and `by` are whole numbers of steps. The last bin may have fewer steps. If `by` is a tuple, it has the
    first steps of the bins after the first, which grow and are between the ends.
    """

    low: int
    high: int
    by: int | tuple[int, ...]
    decimals: int

    @property
    def arrow(self) -> str:
        """The name of the Arrow type: whole numbers, or others."""
        return "double" if self.decimals else "int64"

    @cached_property
    def _firsts(self) -> tuple[int, ...]:
        """The first step of each bin."""
        return (self.low, *self.by) if isinstance(self.by, tuple) else (*range(self.low, self.high + 1, self.by),)

    @cached_property
    def _ends(self) -> tuple[Integers, Integers]:
        """The first and the last step of each bin `(bins,)`."""
        firsts = np.array(self._firsts, np.int64)
        return firsts, np.append(firsts[1:] - 1, self.high)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The bins."""
        return tuple(
            self._bin(first, last) for first, last in zip(*(each.tolist() for each in self._ends), strict=True)
        )

    def _bin(self, first: int, last: int) -> str:
        if first == last:  # an end alone beside wider bins: all above it counts there
            return self._text(first) + " and more" * (isinstance(self.by, int) and self.by > 1)
        return f"{self._text(first)} to {self._text(last)}"

    @property
    def middles(self) -> Floats:
        """The middle of each bin `(bins,)`."""
        firsts, lasts = self._ends
        return np.asarray((firsts + lasts) / 2 / 10**self.decimals)

    def _text(self, steps: int) -> str:
        return f"{Decimal(steps).scaleb(-self.decimals):f}"

    @property
    def declaration(self) -> str:
        """The declaration."""
        if isinstance(self.by, tuple):  # without zeros at the end: the ends say how many decimals there are
            by = ",".join(f"{Decimal(step).scaleb(-self.decimals).normalize():f}" for step in self.by)
        else:
            by = self._text(self.by)
        return f"{_head(self)}{self._text(self.low)}..{self._text(self.high)} by {by}"

    def _place(self, text: str) -> int | None:
        try:
            value = Decimal(text.strip()) if len(text) <= 400 else None
        except InvalidOperation:
            return None
        if value is None or not value.is_finite():
            return None
        low, high = (Decimal(each).scaleb(-self.decimals) for each in (self.low, self.high))
        if value <= low or value >= high:
            return 0 if value <= low else len(self._firsts) - 1
        return bisect_right(self._firsts, math.floor(value.scaleb(self.decimals))) - 1

    def _written(self, cells: Integers, source: Randomness) -> list[Scalar]:
        firsts, lasts = (each[cells] for each in self._ends)
        steps = firsts + uniform_below_each((lasts - firsts + 1).astype(np.uint64), source).astype(np.int64)
        return [step if not self.decimals else Fixed.of(step, self.decimals) for step in steps.tolist()]


@dataclass(frozen=True)
class DateColumn(DeclaredColumn):
    """Dates from `low` to `high`, both included, in bins of a day, week, month, quarter or year.

    Without `days`, both ends are months, and months are written.
    """

    low: date
    high: date
    per: Per
    days: bool

    @property
    def arrow(self) -> str:
        """The name of the Arrow type: days are dates, and months are texts."""
        return "date32" if self.days else "string"

    @cached_property
    def _firsts(self) -> tuple[date, ...]:
        """The first day of each bin; the first bin begins at `low`."""
        found, day = [self.low], self.low
        while (day := _next(day, self.per)) <= self.high:
            found.append(day)
        return tuple(found)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The bins."""
        lasts = [first - timedelta(1) for first in (*self._firsts[1:], self.high + timedelta(1))]
        both = zip(map(self._text, self._firsts), map(self._text, lasts), strict=True)
        return tuple(first if first == last else f"{first} to {last}" for first, last in both)

    def _text(self, day: date) -> str:
        return day.isoformat() if self.days else day.isoformat()[:7]

    @property
    def declaration(self) -> str:
        """The declaration."""
        return f"{_head(self)}{self._text(self.low)}..{self._text(self.high)} by {self.per}"

    @cached_property
    def _ordinals(self) -> Integers:
        return np.array([day.toordinal() for day in self._firsts], np.int64)

    def _place(self, text: str) -> int | None:
        parts = DATED.fullmatch(text.strip())
        try:
            day = None if parts is None else date(int(parts[1]), int(parts[2]), int(parts[3] or 1))
        except ValueError:
            return None
        if day is None:
            return None
        day = min(max(day, self.low), self.high)
        return int(np.searchsorted(self._ordinals, day.toordinal(), side="right")) - 1

    def _written(self, cells: Integers, source: Randomness) -> list[Scalar]:
        ends = np.append(self._ordinals[1:], self.high.toordinal() + 1)
        sizes = (ends - self._ordinals)[cells].astype(np.uint64)
        drawn = self._ordinals[cells] + uniform_below_each(sizes, source).astype(np.int64)
        return [self._text(date.fromordinal(day)) for day in drawn.tolist()]


@dataclass(frozen=True)
class IdColumn(DeclaredColumn):
    """A column of ids: no private one is read, and new random ones are written, each in `rows` rows at random places.

    The last id may have fewer rows.
    """

    rows: int = 1

    @property
    def shown(self) -> tuple[str, ...]:
        """Nothing is measured."""
        return ()

    @property
    def declaration(self) -> str:
        """The declaration."""
        return f"{_head(self)}id" + f" by {self.rows}" * (self.rows > 1)

    def _written(self, cells: Integers, source: Randomness) -> list[Scalar]:
        return []

    def values(self, cells: Integers, source: Randomness) -> list[Scalar]:
        """Return a random id of 16 hexadecimal digits for each cell, in no order."""
        ids = [f"{number:016x}" for number in source.uint64(-(-len(cells) // self.rows)).tolist()]
        if self.rows == 1:
            return list[Scalar](ids)
        turns = np.argsort(source.uint64(len(cells)), kind="stable") // self.rows
        return [ids[turn] for turn in turns.tolist()]


def _next(day: date, per: Per) -> date:
    """Return the first day of the bin after that of `day`: weeks begin on Monday."""
    if per in ("day", "week"):
        return day + timedelta(1 if per == "day" else 7 - day.weekday())
    months = {"month": 1, "quarter": 3, "year": 12}[per]
    first = 12 * day.year + (day.month - 1) // months * months + months
    return date(first // 12, first % 12 + 1, 1)


def _head(column: DeclaredColumn) -> str:
    return f"{column.name}{'?' * column.null}: "


def together(names: Iterable[str]) -> str:
    r"""Return the name of columns together, such as "priority+amount"; a + within a name is written as \+."""
    return "+".join(name.replace("\\", "\\\\").replace("+", "\\+") for name in names)


def looks_like_range(value: str) -> bool:
    """Return whether a value looks like a range of numbers or dates, such as 1..5."""
    return _RANGE.fullmatch(value) is not None


def escaped(value: str) -> str:
    """Return a value as a declaration writes it."""
    found = value.replace("\\", "\\\\").replace("|", "\\|")
    return f"\\{found}" if found.startswith("*") else found
