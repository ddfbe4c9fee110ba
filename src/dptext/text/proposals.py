"""Declarations of columns that would fit a private table, for its owner alone, as they hold private values."""

from __future__ import annotations

import calendar
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Final

from dptext.errors import ConfigError
from dptext.text.declarations import declared
from dptext.text.schema import DATED, ListedColumn

_MOST_LISTED: Final = 12  # different values
_LONGEST: Final = 40  # characters of a listed value
_BINS: Final = 8  # of numbers, at most about: noise of many bins hides means by other columns
_MOST_DECIMALS: Final = 2
_FEW_STEPS, _MOST_STEPS = 3, 8  # that begin bins of a skewed number: four to nine bins
_QUARTER, _MEDIAN, _REST = 0.25, 0.5, 0.99  # of the numbers are below the first steps, the median, and the high end
_NUMBER: Final = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,9})?", re.ASCII)


@dataclass(slots=True)
class Proposal:
    """What the values of a column have in common. Its repr shows none of them."""

    values: set[str] | None = field(default_factory=set, repr=False)
    numbers: tuple[Decimal, Decimal] | None = field(default=None, repr=False)
    dates: tuple[date, date] | None = field(default=None, repr=False)
    null: bool = False
    rows: int = 0
    _other: bool = False  # a value is neither a number nor a date
    _decimals: int = 0
    _steps: Counter[int] = field(default_factory=Counter, repr=False)  # of numbers above 0

    def add(self, text: str | None) -> None:
        """Look at a value, as `cell_text` gives it."""
        if not text:
            self.null = True
            return
        self.rows += 1
        if self.values is not None:
            self.values.add(text)
            if len(self.values) > _MOST_LISTED or len(text) > _LONGEST:
                self.values = None
        if _NUMBER.fullmatch(text) and not self.dates:
            self._number(text)
        elif (parts := DATED.fullmatch(text)) and parts[3] and not self.numbers:
            self._date(text[:10])
        else:
            self._other = True

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return self.numbers is not None and not self._other

    @property
    def is_measure(self) -> bool:
        """Whether the values are dates, or numbers with decimals: they name nobody, also where all are different."""
        return bool(self.dates) or (self.is_number and self._decimals > 0)

    def _number(self, text: str) -> None:
        try:
            value = Decimal(text)
        except InvalidOperation:
            self._other = True
            return
        self._decimals = max(self._decimals, -int(value.as_tuple().exponent))
        low, high = self.numbers or (value, value)
        self.numbers = min(low, value), max(high, value)
        if value > 0:
            self._steps[_step_of(value)] += 1

    def _date(self, text: str) -> None:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            self._other = True
            return
        low, high = self.dates or (day, day)
        self.dates = min(low, day), max(high, day)

    def line(self, name: str, *, unique: bool) -> str:
        """Return a declaration; empty if none fits. Ends of numbers and dates are rounded outwards; one of
        hundred skewed numbers may be above the end.

        `unique` says that each row has another value.
        """
        head = f"{name}{'?' * self.null}: "
        if not self.rows:
            return ""
        if unique:
            found = f"{name}: id"
        elif self.values is not None:
            found = f"{ListedColumn(name, self.null, tuple(sorted(self.values, key=_order))).declaration}"
        elif self._other:
            return ""
        elif self.dates is not None:
            low, high = self.dates  # ends that are days: so values are written as days, too
            last = high.replace(day=calendar.monthrange(high.year, high.month)[1])
            found = f"{head}{low.replace(day=1).isoformat()}..{last.isoformat()} by month"
        elif self.numbers is not None:
            decimals = min(self._decimals, _MOST_DECIMALS)
            found = head + (self._skewed(decimals) or _range(*self.numbers, decimals=decimals))
        else:
            return ""
        try:
            declared(found)
        except ConfigError:
            return ""
        return found

    def _skewed(self, decimals: int) -> str:
        """Return a range in bins that grow by steps 1, 2, 5, 10, ...; empty if the numbers are not skewed.

        They are if none is below 0 and the median is in the lowest quarter of them. The end is a step that one of
        hundred numbers at most is above: so the range depends on the size of most numbers, not on a single one.
        """
        low, high = self.numbers or (Decimal(0), Decimal(0))
        if low < 0 or not self._steps or _step(self._below(_MEDIAN)) > low + (high - low) / 4:
            return ""
        end = self._below(_REST)
        least = max(-3 * decimals, end - _MOST_STEPS)  # the step of 10^-decimals
        steps = range(max(least, min(self._below(_QUARTER) - 1, end - _FEW_STEPS)), end)
        if len(steps) < _FEW_STEPS:
            return ""
        return f"{0:.{decimals}f}..{_step(end):.{decimals}f} by {','.join(f'{_step(each):f}' for each in steps)}"

    def _below(self, share: float) -> int:
        """Return the first step that this share of the numbers is not above; that of the smallest above 0, at least."""
        passed = self.rows - self._steps.total()  # those that are 0
        for step in sorted(self._steps):
            passed += self._steps[step]
            if passed >= share * self.rows:
                break
        return step


@cache
def _step(number: int) -> Decimal:
    """Return a step: of the numbers -1, 0, 1, 2, 3, 4 they are 0.5, 1, 2, 5, 10, 20."""
    return Decimal((1, 2, 5)[number % 3]).scaleb(number // 3)


def _step_of(value: Decimal) -> int:
    """Return the number of the first step that is not below a value above 0."""
    power = value.adjusted()
    return next(each for each in range(3 * power, 3 * power + 4) if _step(each) >= value)


def _order(value: str) -> tuple[Decimal, str]:
    """Return what values are sorted by: numbers by size, before others in the order of the alphabet."""
    return Decimal(value) if _NUMBER.fullmatch(value) else Decimal("Infinity"), value


def _range(low: Decimal, high: Decimal, *, decimals: int) -> str:
    """Return a range that holds both ends, in four to nine bins of a round width."""
    least = float(high - low) / _BINS
    width = Decimal(10) ** math.floor(math.log10(least)) if least > 0 else Decimal(1)
    width = next((width * factor for factor in (1, 2, 5, 10) if width * factor >= Decimal(least)), width * 10)
    width = max(width, Decimal(1).scaleb(-decimals))
    first, last = math.floor(low / width) * width, math.ceil(high / width) * width
    return f"{first:.{decimals}f}..{last:.{decimals}f} by {width:.{decimals}f}"
