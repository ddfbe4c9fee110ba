"""The keys of one table of a TOML file, each taken once and checked; what is left over is unknown."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from dptext.errors import ConfigError
from dptext.types import Json

Choice = TypeVar("Choice", bound=str)

Table = Mapping[str, object]


class Keys:
    """The keys of one TOML table, taken one by one; what is left over at the end is unknown."""

    def __init__(self, where: str, data: Table) -> None:
        self._where, self._data = where, data
        self._known: list[str] = []

    def take(self, key: str, default: object = None) -> object:
        """The value as it stands."""
        self._known.append(key)
        return self._data.get(key, default)

    def _typed(self, key: str, kind: str, *, right: bool, value: object) -> None:
        if not right:
            found = "nothing" if value is None else repr(value)
            raise ConfigError(f"Expected {key!r} of {self._where} to be {kind}, found {found}.")

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default there must be one."""
        value = self.take(key, default)
        right = isinstance(value, str) and (value != "" or value == default) and value.isprintable()
        self._typed(key, "a text that is not empty", right=right, value=value)
        return str(value)

    def whole(self, key: str, default: int, *, least: int = 0) -> int:
        """An integer."""
        value = self.take(key, default)
        right = isinstance(value, int) and not isinstance(value, bool) and value >= least
        self._typed(key, f"a whole number of at least {least}", right=right, value=value)
        return int(str(value))

    def number(self, key: str, default: float | None = None) -> float:
        """A number, as a float."""
        value = self.take(key, default)
        self._typed(key, "a number", right=is_number(value), value=value)
        return float(str(value))

    def numbers(self, key: str) -> list[float]:
        """Different numbers; none where the key is absent."""
        value = self.take(key, [])
        right = isinstance(value, list) and all(map(is_number, value)) and len(set(value)) == len(value)
        self._typed(key, "a list of different numbers", right=right, value=value)
        return [float(item) for item in value] if isinstance(value, list) else []

    def flag(self, key: str) -> bool:
        """True or false; false where the key is absent."""
        value = self.take(key, False)  # noqa: FBT003 (a default, as TOML writes it)
        self._typed(key, "true or false", right=isinstance(value, bool), value=value)
        return value is True

    def table(self, key: str) -> Table:
        """A table; empty where the key is absent."""
        return as_table(f"{key!r} of {self._where}", self.take(key, {}))

    def names(self, key: str, known: Sequence[str], default: tuple[str, ...]) -> tuple[str, ...]:
        """Different names, each a known one."""
        value = self.take(key, list(default))
        right = isinstance(value, list) and all(isinstance(item, str) for item in value)
        self._typed(key, "a list of names", right=right, value=value)
        found = tuple(str(item) for item in value) if isinstance(value, list) else ()
        for item in found:
            if item not in known or found.count(item) > 1:
                raise ConfigError(
                    f"Expected {item!r} in {key!r} of {self._where} to be one of {', '.join(known)}, once: "
                    f"{nearest(item, known)}correct it."
                )
        return found

    def choice(self, key: str, known: tuple[Choice, ...], default: Choice) -> Choice:
        """One of a few words."""
        value = self.take(key, default)
        for item in known:
            if item == value:
                return item
        raise ConfigError(f"Expected {key}={value!r} of {self._where} to be one of {', '.join(known)}.")

    def done(self) -> None:
        """Refuse what nobody asked for."""
        for key in self._data:
            if key not in self._known:
                raise ConfigError(
                    f"Expected {key!r} to be a key of {self._where}: {nearest(key, self._known)}known are "
                    f"{', '.join(dict.fromkeys(self._known))}."
                )


def is_number(value: object) -> bool:
    """Whether it is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def nearest(name: str, known: Sequence[str]) -> str:
    """A question about the known name that is closest, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def as_name(where: str, name: str) -> str:
    """A name that can be shown, or ConfigError."""
    if not name or not name.isprintable() or name != name.strip():
        raise ConfigError(f"Expected name={name!r} of {where} to be a printable text: give each a name.")
    return name


def as_table(where: str, value: object) -> Table:
    """A table, or ConfigError."""
    if not isinstance(value, dict):
        raise ConfigError(f"Expected {where} to be a table, found {value!r}: write KEY = VALUE inside.")
    return value


def as_values(where: str, value: object) -> tuple[Json, ...]:
    """One value, or several of a list, or ConfigError."""
    items = value if isinstance(value, list) else [value]
    if not items:
        raise ConfigError(f"Expected at least one value in {where}.")
    return tuple(as_json(where, item) for item in items)


def as_json(where: str, value: object) -> Json:
    """The value, if JSON can hold it, or ConfigError."""
    try:
        found: Json = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise ConfigError(f"Expected {where} to be text, numbers, lists or tables, found {value!r}.") from None
    return found
