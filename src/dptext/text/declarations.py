"""Declarations of columns, as they are typed: `priority: low|normal|high`, `amount: 0..5000 by 20`, `customer: id`."""

from __future__ import annotations

import calendar
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final

from dptext.errors import ConfigError
from dptext.text.labels import meaning
from dptext.text.schema import (
    MOST_CELLS,
    OTHER,
    PERS,
    DateColumn,
    DeclaredColumn,
    IdColumn,
    ListedColumn,
    NumberColumn,
    escaped,
    looks_like_range,
)

_USUAL_BINS: Final = 20  # of a number whose declaration names no width
_NUMBER: Final = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)"
_RANGE: Final = re.compile(
    rf"({_NUMBER})\s*\.\.\s*({_NUMBER})(?:\s+by\s+({_NUMBER}(?:\s*,\s*{_NUMBER})*))?", re.ASCII | re.IGNORECASE
)
_FEW_DIGITS: Final = re.compile(r"[+-]?\d{0,15}(?:\.\d{1,9})?", re.ASCII)
_DAY: Final = r"\d{4}-\d\d(?:-\d\d)?"
_DATES: Final = re.compile(rf"({_DAY})\s*\.\.\s*({_DAY})(?:\s+by\s+(\w+))?", re.ASCII | re.IGNORECASE)
_MOST_STEPS: Final = 1 << 53  # whole numbers that a fraction holds exactly
#: What looks like a range, or like a list that is parted otherwise.
_DOUBTFUL: Final = re.compile(r"\.\.|,|;|/|^@|^id\b|^\d+\s*-\s*\d+$|\bby\b", re.ASCII | re.IGNORECASE)
_IDS: Final = re.compile(r"id(?:\s+(?:by|BY|By)\s+(\d{1,9}))?", re.ASCII)
_FORMS: Final = (
    "low|normal|high for listed values, @values.txt for those in a file, 0..5000 by 20 for numbers, "
    "0..5000 by 10,100,1000 for bins that begin there, 2024-01..2026-12 by month for dates, id for fresh ids"
)
_DAYS: Final = {"day": 1, "week": 7, "month": 28, "quarter": 90, "year": 365}  # of a bin, at least


def declared(text: str) -> DeclaredColumn:
    """Return the column of a declaration such as "priority: low|normal|high"; a name that ends in ? may be null.

    ConfigError: it is no declaration.
    """
    head, colon, what = text.partition(":")
    name, null = head.strip().removesuffix("?").strip(), head.strip().endswith("?")
    what = what.strip()
    if not colon or not name or not what or not name.isprintable():
        raise ConfigError(f"Expected a column to look like 'NAME: WHAT', found {text!r:.80}. WHAT is {_FORMS}.")
    if each := _IDS.fullmatch(what):
        if null:
            raise ConfigError(f"Expected the ids of {name!r} not to be null: take the ? away.")
        if not (rows := int(each[1] or 1)):
            raise ConfigError(f"Expected an id of {name!r} in at least one row, found {what!r}.")
        return IdColumn(name, null=False, rows=rows)
    if parts := _RANGE.fullmatch(what):
        return _numeric(name, null, *parts.groups())
    if parts := _DATES.fullmatch(what):
        return _dated(name, null, *parts.groups())
    values = _parts(what)
    if ranges := _ranges_among(values):
        raise ConfigError(
            f"Expected {name!r} to be a range or a list of values, found the range {ranges[0]!r:.40} in a list. "
            "Declare the range alone, as 'NAME: 1..5'. If it is a value, name the text for all others, too: 'NAME: "
            f"VALUE|VALUE|*{OTHER}'."
        )
    if len(values) == 1 and _DOUBTFUL.search(what):
        raise ConfigError(
            f"Expected the column {name!r} to be declared as {_FORMS}, found {what!r:.80}. If that is its only value, "
            f"name the text for all others, too: 'NAME: VALUE|*{OTHER}'."
        )
    return _listed(name, values, null=null)


def _ranges_among(values: Sequence[tuple[bool, str]]) -> list[str]:
    """Return the values of a list that look like ranges. None if a text for all others is named, or for one value."""
    if len(values) == 1 or any(starred for starred, _ in values):
        return []
    return [each for _, each in values if looks_like_range(each)]


def _listed(name: str, values: Sequence[tuple[bool, str]], *, null: bool) -> ListedColumn:
    """Return a column of values, of which at most one is starred: the text that *other* is written as.

    ConfigError: there are too few or too many values, or two are alike.
    """
    rests = [each for starred, each in values if starred]
    known = tuple(each for starred, each in values if not starred)
    if len(rests) > 1 or not known:
        raise ConfigError(f"Expected the column {name!r} to list values, and at most one text for all others.")
    rest = rests[0] if rests else OTHER
    found = (*known, rest)
    if not all(each and each.isprintable() and each == each.strip() for each in found):
        raise ConfigError(
            f"Expected the values of {name!r} to be texts without control characters, none of them empty."
        )
    said = Counter(map(meaning, found))
    alike = [each for each in known if said[meaning(each)] > 1]
    if len(set(found)) < len(found) or alike:
        twice = alike[0] if alike else next(each for each in found if found.count(each) > 1)
        raise ConfigError(
            f"Expected the values of {name!r} and the text for all others to differ, found {twice!r} twice or in two "
            f"spellings. Name that text, which is {OTHER!r} by default, as the last value: a|b|*rest."
        )
    _require_few(name, len(known))
    return ListedColumn(name, null, known, rest)


def schema_of(declarations: Iterable[str]) -> tuple[DeclaredColumn, ...]:
    """Return the columns of declarations. ConfigError: one is none, or two have one name."""
    found = tuple(map(declared, declarations))
    names = [column.name for column in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"Expected each column once, found {twice!r} twice.")
    return found


def with_files(declaration: str, read: Callable[[Path], Sequence[str]]) -> str:
    """Return a declaration with the values of the file that it names by @PATH, one a line; others as they are."""
    head, colon, what = declaration.partition(":")
    if not what.strip().startswith("@"):
        return declaration
    values = [escaped(line.strip()) for line in read(Path(what.strip()[1:])) if line.strip()]
    if len(values) == 1 or any(map(looks_like_range, values)):  # so that they are values, whatever they look like
        values.append(f"*{OTHER}")
    return f"{head}{colon} {'|'.join(values)}"


def _numeric(name: str, null: bool, low: str, high: str, by: str | None) -> NumberColumn:
    bins = [each.strip() for each in by.split(",")] if by else []
    if long := [each for each in (low, high, *bins) if not _FEW_DIGITS.fullmatch(each)]:
        raise ConfigError(
            f"Expected the numbers of {name!r} to have at most 15 digits before the point and 9 after it, found "
            f"{long[0]!r:.40}. Declare narrower ends: what lies outside counts as the ends."
        )
    decimals = max(map(_decimals, (low, high, *bins) if len(bins) == 1 else (low, high)))
    first, last = (int(Decimal(each).scaleb(decimals)) for each in (low, high))
    if first >= last:
        raise ConfigError(f"Expected the numbers of {name!r} to grow, found {low}..{high}.")
    if max(abs(first), abs(last)) > _MOST_STEPS:
        raise ConfigError(f"Expected the ends of {name!r} to have fewer digits, found {low}..{high}.")
    if len(bins) > 1:
        return NumberColumn(name, null, first, last, _begins(name, low, high, bins, decimals=decimals), decimals)
    each = int(Decimal(bins[0]).scaleb(decimals)) if bins else max(1, -(-(last - first + 1) // _USUAL_BINS))
    if each < 1:
        raise ConfigError(f"Expected the bins of {name!r} to be wider than 0, found {by}.")
    _require_few(name, (last - first) // each + 1)
    return NumberColumn(name, null, first, last, each, decimals)


def _begins(name: str, low: str, high: str, bins: Sequence[str], *, decimals: int) -> tuple[int, ...]:
    """Return the first steps of the bins after the first.

    ConfigError: they do not grow, are not between the ends, or have more decimals than these.
    """
    _require_few(name, len(bins) + 1)
    numbers = list(map(Decimal, bins))
    if finer := [each for each, n in zip(bins, numbers, strict=True) if n != round(n, decimals)]:
        most = max(map(_decimals, finer))
        ends = "..".join(f"{Decimal(each):.{most}f}" for each in (low, high))
        raise ConfigError(
            f"Expected the bins of {name!r} to begin at numbers with the decimals of its ends, found {finer[0]} in "
            f"{low}..{high}. Write the ends as {ends}, or the bins with fewer decimals."
        )
    if not all(a < b for a, b in itertools.pairwise([Decimal(low), *numbers, Decimal(high)])):
        raise ConfigError(
            f"Expected the bins of {name!r} to begin at numbers that grow, above {low} and below {high}, found "
            f"{','.join(bins)!r:.80}. Name the first number of each bin after the first, the smallest first."
        )
    return tuple(int(each.scaleb(decimals)) for each in numbers)


def _decimals(number: str) -> int:
    return max(0, -int(Decimal(number).as_tuple().exponent))


def _dated(name: str, null: bool, low: str, high: str, per: str | None) -> DateColumn:
    days, chosen = len(low) > len("2024-01"), (per or "month").lower()
    if days != (len(high) > len("2024-01")):
        raise ConfigError(f"Expected both ends of {name!r} to be days, or both months, found {low}..{high}.")
    if chosen not in PERS or (not days and chosen in ("day", "week")):
        known = ", ".join(PERS if days else PERS[2:])
        raise ConfigError(f"Expected the dates of {name!r} by one of {known}, found {chosen!r:.40}.")
    try:
        first, last = (date.fromisoformat(each if days else f"{each}-01") for each in (low, high))
    except ValueError:
        raise ConfigError(f"Expected the ends of {name!r} to be dates, found {low}..{high}.") from None
    if not days:
        last = last.replace(day=calendar.monthrange(last.year, last.month)[1])
    if first >= last or last.year > 9998:
        raise ConfigError(f"Expected the dates of {name!r} to grow, found {low}..{high}.")
    _require_few(name, (last - first).days // _DAYS[chosen])
    return DateColumn(name, null, first, last, chosen, days)  # type: ignore[arg-type]  # it is one of them


def _require_few(name: str, cells: int) -> None:
    if cells > MOST_CELLS:
        raise ConfigError(f"Expected {name!r} to have at most {MOST_CELLS:,} values or bins, found {cells:,}.")


def _parts(text: str) -> list[tuple[bool, str]]:
    r"""Return the parts between bars, and whether each begins with a star; \\, \| and \* are text."""
    parts = [part.strip() for part in re.findall(r"(?:^|\|)((?:\\[\\|*]|[^|])*)", text)]
    return [(part.startswith("*"), re.sub(r"\\([\\|*])", r"\1", part.removeprefix("*"))) for part in parts]
