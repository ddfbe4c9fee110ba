"""Columns of a public pool that leave with its texts: slots, a translation, a rating."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from dptext.errors import ConfigError
from dptext.text.column_types import of_values
from dptext.text.formats import Scalar
from dptext.text.records import Record, Release


@dataclass(frozen=True, slots=True)
class Carried:
    """Columns of public texts. They are joined to what leaves after all choices, by the text, and cost nothing.

    Attributes:
        names: the columns.
        by_text: their values by text. Of a text that stands in the pool twice the first ones count.
    """

    names: tuple[str, ...] = ()
    by_text: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, pool: Iterable[Record], names: Sequence[str]) -> Self:
        """Return these columns of the pool, whose records were read with keep=names."""
        found: dict[str, Mapping[str, Scalar]] = {}
        for each in pool if names else ():
            found.setdefault(each.text, {name: each.kept.get(name) for name in names})
        return cls(tuple(names), found)

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        """The types of columns that hold numbers or booleans alone. Their values are public, so they may say it."""
        found = ((name, of_values(each[name] for each in self.by_text.values())) for name in self.names)
        return tuple((name, kind) for name, kind in found if kind is not None)

    def joined(self, releases: Iterable[Release[str]]) -> tuple[Release[str], ...]:
        """Return the releases with these columns behind those that they have.

        ConfigError: a text is none of the pool's, or a release has such a column.
        """
        found = tuple(releases)
        if not self.names:
            return found
        if any(each.output not in self.by_text for each in found):
            raise ConfigError("Expected texts of this pool for columns that leave with them, found others.")
        if any(each.kept.keys() & set(self.names) for each in found):
            raise ConfigError(
                f"Expected columns under names of their own, found {', '.join(self.names)} there already."
            )
        return tuple(replace(each, kept={**each.kept, **self.by_text[each.output]}) for each in found)
