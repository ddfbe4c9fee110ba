"""The answer of a study: one table a paper, in words, in numbers, and on a screen of 100 columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import zip_longest
from textwrap import wrap
from typing import Final

from dptext.estimates import Estimate
from dptext.types import Json, jsonable
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, RANDOM

#: The rows that every table has, except that of the refutation, which rewrites no text.
REFERENCES: Final = (ORIGINAL, PUBLIC_ONLY, RANDOM)
NOT_DECIDED: Final = "not decided"
NOT_PRIVATE: Final = (
    "These numbers are computed from the originals: they are not private, and no guarantee covers them."
)
#: The heading of the verdicts.
AGAINST: Final = "than public-only"

WIDTH: Final = 100  #: columns of a screen
_GAP: Final = "  "
_WHOLE: Final = 2.0**53  # from here on, a float has no digits after the point

Number = Estimate | float | None


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One way to release the texts, or one case of a claim.

    `epsilon` says in one or two short lines what is guaranteed. `numbers` are by the columns of the table; None where
    nothing can be measured. `sound` is None for a reference.
    """

    name: str
    epsilon: tuple[str, ...] = ()
    numbers: Mapping[str, Number] = field(default_factory=dict)
    sound: bool | None = None


@dataclass(frozen=True, slots=True)
class Paper:
    """The findings of a study of one paper.

    `source` cites the paper, `claim` is what it says, `instead` what dptext does. `answer` holds the first lines, the
    shortest answer first. `kept` and `leaks` are the columns whose numbers are compared with those of *public-only*:
    a larger number keeps more, and leaks more. `notes` say how it was measured. `facts` are further numbers.
    """

    name: str
    source: str
    claim: str
    instead: str
    answer: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    kept: str = ""
    leaks: str = ""
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)

    def row(self, name: str) -> PaperRow:
        """Return the row of a name; KeyError for an unknown name."""
        return {row.name: row for row in self.rows}[name]

    def against_public(self, row: PaperRow) -> tuple[str, ...]:
        """Say whether a row keeps more, and leaks more, than public text alone; empty for public text itself."""
        base = next((each for each in self.rows if each.name == PUBLIC_ONLY), None)
        if base is None or row is base:
            return ()
        verbs = ((self.kept, "keeps"), (self.leaks, "leaks"))
        return tuple(beside(row.numbers.get(name), base.numbers.get(name), verb) for name, verb in verbs if name)

    def without_interval(self) -> tuple[str, ...]:
        """Return the columns that hold numbers without an interval."""
        return tuple(
            name for name in self.columns if any(isinstance(row.numbers.get(name), float) for row in self.rows)
        )

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, without any text of the study."""
        rows: list[Json] = []
        for row in self.rows:
            numbers: dict[str, Json] = {name: jsonable(value) for name, value in row.numbers.items()}
            told: dict[str, Json] = {"row": row.name, "epsilon": [*row.epsilon], "numbers": numbers, "sound": row.sound}
            rows.append({**told, AGAINST: [*self.against_public(row)]})
        words = {name: getattr(self, name) for name in ("name", "source", "claim", "instead")}
        said: dict[str, Json] = {"answer": [*self.answer], "columns": [*self.columns], "notes": [*self.notes]}
        return {**words, **said, "rows": rows, "facts": dict(self.facts)}

    def lines(self) -> list[str]:
        """Return the screen: answer, what is compared, and the table. No line of the table has over 100 columns."""
        told = (("The paper", self.source), ("It claims", self.claim), ("In dptext", self.instead))
        answer = [line for said in self.answer for line in wrap(said, WIDTH, break_on_hyphens=False)]
        about = [f"{name + ':':<12}{line}" for name, line in told]
        return [*answer, "", *about, "", *self._table()]

    def _table(self) -> list[str]:
        verdicts = {row.name: self.against_public(row) for row in self.rows}
        is_judged = any(verdicts.values())
        lines = [("", "epsilon", *self.columns, *([AGAINST] if is_judged else []))]
        for row in self.rows:
            cells = [shown(row.numbers.get(name)) for name in self.columns]
            stacked = [
                (row.name,),
                row.epsilon or ("-",),
                *cells,
                *([verdicts[row.name] or ("-",)] if is_judged else []),
            ]
            lines += [*zip_longest(*stacked, fillvalue="")]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return [_GAP.join(cell.ljust(n) for cell, n in zip(line, widths, strict=True)).rstrip() for line in lines]


def beside(own: Number, other: Number, verb: str) -> str:
    """Compare two numbers by their intervals: more, less or, if the intervals overlap, not decided."""
    if not isinstance(own, Estimate) or not isinstance(other, Estimate):
        return "-"
    if own.low > other.high:
        return f"{verb} more"
    return f"{verb} less" if own.high < other.low else NOT_DECIDED


def shown(number: Number) -> tuple[str, ...]:
    """Return a number in two lines, the value and its interval; a number without an interval in one.

    The ends are rounded outwards: the interval that is shown contains the one that was computed.
    """
    if number is None:
        return ("-",)
    if isinstance(number, Estimate):
        low, high = brief(number.low, ROUND_FLOOR), brief(number.high, ROUND_CEILING)
        return (brief(number.value), f"{low} to {high}" if "-" in low else f"{low}-{high}")
    return (brief(number),)


def brief(value: float, rounding: str | None = None) -> str:
    """Return a number with three digits at most, without a leading zero. `rounding` is a name of `decimal`.

    >>> brief(0.4), brief(1.0), brief(12.345), brief(339.4), brief(-0.001)
    ('.40', '1', '12.3', '339', '0')
    """
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 9.995 else 2
    if rounding is not None and abs(value) < _WHOLE:
        value = float(Decimal(repr(float(value))).quantize(Decimal(10) ** -digits, rounding))
    text = f"{abs(value):.{digits}f}".removeprefix("0").removesuffix(".00") or "0"
    return f"-{text}" if value < 0 and text != "0" else text


def percent(number: Number) -> str:
    """Return a share as a sentence has it, such as "52%"; "-" where nothing was measured."""
    value = number.value if isinstance(number, Estimate) else number
    return "-" if value is None else f"{value:.0%}"


def told(name: str, number: Number) -> str:
    """Return a number with its name, as a sentence has it."""
    return f"{name} {brief(number.value if isinstance(number, Estimate) else number or 0.0)}"


def compared(first: PaperRow, second: PaperRow, names: Sequence[str]) -> str:
    """Return the numbers of two rows as "A .40 (B .20)", for sentences."""
    pairs = ((told(name, first.numbers.get(name)), second.numbers.get(name)) for name in names)
    return ", ".join(f"{own} ({told(second.name, other)})" for own, other in pairs)
