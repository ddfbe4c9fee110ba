"""Checks of public arguments. The message names the argument by its keyword.

``positive(epsilon=-1)`` raises ``Expected epsilon=-1 > 0 and finite.``
"""

import math
from collections.abc import Callable, Iterable, Mapping

from dptext.errors import ConfigError

_LARGEST_COUNT = 10**12  #: more than any real number of texts, coordinates or runs
MOST_TEXTS = 5_000_000  #: that are written at once; a row takes 1.2 KB of memory


def _refuse(name: str, value: object, condition: str) -> ConfigError:
    try:
        shown = repr(value)
    except ValueError:  # Python refuses to print an integer of thousands of digits
        shown = "an integer of thousands of digits"
    return ConfigError(f"Expected {name}={shown} {condition}.")


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.nan  # an integer beyond all floats


def _check(values: Mapping[str, float], holds: Callable[[float], bool], condition: str) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(_float(value)):
            raise _refuse(name, value, "to be a number")
    for name, value in values.items():
        if not holds(value):
            raise _refuse(name, value, condition)


def positive(**values: float) -> None:
    """Raise ConfigError unless every value is a finite number above 0."""
    _check(values, lambda value: 0 < value < math.inf, "> 0 and finite")


def not_negative(**values: float) -> None:
    """Raise ConfigError unless every value is a finite number of at least 0."""
    _check(values, lambda value: 0 <= value < math.inf, ">= 0 and finite")


def probability(**values: float) -> None:
    """Raise ConfigError unless every value lies in [0, 1]."""
    within(0, 1, **values)


def within(low: float, high: float, **values: float) -> None:
    """Raise ConfigError unless every value lies in [low, high]."""
    _check(values, lambda value: low <= value <= high, f"in [{low}, {high}]")


def count(**values: int) -> None:
    """Raise ConfigError unless every value is an integer from 1 to 10^12."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _refuse(name, value, "to be an integer >= 1")
        if value > _LARGEST_COUNT:
            raise _refuse(name, value, f"to be at most {_LARGEST_COUNT}")


def one_of(known: Iterable[str], **values: str) -> None:
    """Raise ConfigError unless every value is in `known`."""
    names = list(known)
    for name, value in values.items():
        if value not in names:
            raise _refuse(name, value, f"to be one of {', '.join(names)}")


def labels(given: object) -> tuple[str, ...]:
    """Return a label set: nonempty texts without control characters, each named once. Else raise ConfigError."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"Expected labels={given!r} to be several labels: give a list.")
    found = tuple(given)
    if not all(isinstance(label, str) and label and label.isprintable() for label in found):
        raise ConfigError(f"Expected labels={found!r} to be texts that are not empty and hold no control character.")
    if len(set(found)) < len(found):
        raise ConfigError(f"Expected labels={found!r} to be different, each named once.")
    return found


def names(**given: object) -> tuple[str, ...]:
    """Return names of columns: nonempty texts, each named once. Else raise ConfigError."""
    ((what, found),) = given.items()
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise ConfigError(f"Expected {what}={found!r} to be several names: give a list.")
    listed = tuple(found)
    if not all(isinstance(name, str) and name for name in listed) or len(set(listed)) < len(listed):
        raise ConfigError(f"Expected {what}={listed!r} to be names of columns, each named once.")
    return listed


def two_labels(given: object, *, otherwise: str = "") -> tuple[str, ...]:
    """Return a label set of at least two `labels`. Else raise ConfigError, whose message ends with `otherwise`."""
    found = labels(given)
    if len(found) < 2:
        wanted = f"Expected labels={found!r} to be at least two, each named once"
        raise ConfigError(f'{wanted}. Name the public set, as in labels=["bad", "good"]{otherwise}.')
    return found


def texts(**values: int) -> None:
    """Raise ConfigError unless every value is a number of texts that are written at once, from 0 to 5 million."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise _refuse(name, value, "to be an integer")
        if not 0 <= value <= MOST_TEXTS:
            raise _refuse(name, value, f"to be from 0 to {MOST_TEXTS:,} texts: write several files for more")
