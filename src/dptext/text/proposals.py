"""Declarations of columns that would fit a private table, for its owner alone, as they hold private values."""

from __future__ import annotations

import calendar
import math
import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Final

from dptext.errors import ConfigError
from dptext.text.declarations import declared
from dptext.text.schema import DATED, ListedColumn

_MOST_LISTED: Final = 12  # different values
_LONGEST: Final = 40  # characters of a listed value
_BINS: Final = 8  # of numbers, at most about: noise of many bins hides means by other columns
_MOST_DECIMALS: Final = 2
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

    def _date(self, text: str) -> None:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            self._other = True
            return
        low, high = self.dates or (day, day)
        self.dates = min(low, day), max(high, day)

    def line(self, name: str, *, unique: bool) -> str:
        """Return a declaration; empty if none fits. Ends of numbers and dates are rounded outwards.

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
            found = head + _range(*self.numbers, decimals=min(self._decimals, _MOST_DECIMALS))
        else:
            return ""
        try:
            declared(found)
        except ConfigError:
            return ""
        return found


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
