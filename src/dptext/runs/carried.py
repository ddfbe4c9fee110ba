"""Columns of a public pool that leave with its texts: slots, a translation, a rating."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from dptext.errors import ConfigError
from dptext.mechanism import Spec
from dptext.text.column_types import of_public, of_values
from dptext.text.formats import Format, Scalar
from dptext.text.records import Record, Release
from dptext.text.tables import Texts, own_columns

Kind = TypeVar("Kind", bound=Spec)


@dataclass(frozen=True, slots=True)
class Carried:
    """Columns of public texts. They are joined to what leaves after all choices, by the text, and cost nothing.

    Attributes:
        names: the columns.
        by_text: their values by text. Of a text that stands in the pool twice the first ones count.
        types: the types of columns of which the public table says one, by name, for formats with types.
    """

    names: tuple[str, ...] = ()
    by_text: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict, repr=False)
    types: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, pool: Sequence[Record], names: Sequence[str], public: Texts = None, format: Format | None = None
    ) -> Self:
        """Return these columns of the pool, whose records were read with keep=names from `public`; see `types_of`."""
        found: dict[str, Mapping[str, Scalar]] = {}
        for each in pool if names else ():
            found.setdefault(each.text, {name: each.kept.get(name) for name in names})
        types = types_of(pool, names, public, format)
        return cls(tuple(names), found, tuple((name, kind) for name, kind in types.items() if kind))

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


def require_own_names(carry: Sequence[str], written: Sequence[str]) -> None:
    """Raise ConfigError if a column that leaves with texts has a name twice, or that of one that is `written`."""
    if twice := [name for name in carry if name in written or list(carry).count(name) > 1]:
        raise ConfigError(
            f"Expected --carry (carry= in Python) to name columns under names of their own, found {twice[0]!r} twice: "
            f"what is written has {', '.join(written)}. Rename the column in the public file, or name it once."
        )


def types_of(
    pool: Sequence[Record], names: Sequence[str], public: Texts = None, format: Format | None = None
) -> dict[str, str]:
    """Return the names of the Arrow types of these columns of a pool; "" for texts.

    A Parquet file, a data frame and a Dataset declare them. Of other columns the values say it, if they are numbers,
    booleans or, as objects of Python, dates or times alone. The whole pool counts, not only what leaves of it.
    """
    if not names:
        return {}
    declared = {} if public is None else of_public(public, format)
    own = {} if public is None else own_columns(public, names)
    kept = {name: [each.kept.get(name) for each in pool] for name in names}
    return {
        name: (declared[name] if name in declared else of_values(own.get(name, kept[name]))) or "" for name in names
    }


def with_carried_types(spec: Kind, pool: Sequence[Record], public: Texts = None, format: Format | None = None) -> Kind:
    """Return settings whose columns of public texts leave in the types that `types_of` finds, unless they name some.

    Settings of packages without `carry_types` are returned unchanged: their columns leave as texts.
    """
    carries = spec.traits.carries
    if not carries or getattr(spec, "carry_types", True):
        return spec
    found = types_of(pool, carries, public, format)
    return replace(spec, carry_types=tuple(found.values())) if any(found.values()) else spec  # type: ignore[type-var]
