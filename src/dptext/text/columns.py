"""The columns of a file of releases, and the values of each release in their order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from dptext.errors import ConfigError, DataError
from dptext.text.batches import Kept, Releases
from dptext.text.column_types import Types, as_number, is_number
from dptext.text.formats import READ_ONLY, Format, Scalar, is_scalar, string_fault
from dptext.text.packed_rows import plain_scalars, plain_texts
from dptext.text.records import ID_FIELD, LABEL_FIELD, TEXT_FIELD, Fields, Release
from dptext.types import Floats, Singles

VECTOR_FIELD: Final = "embedding"
Values = Sequence[Scalar] | Sequence[Singles]
WITHOUT_VECTORS: Final = frozenset({Format.CSV, Format.TSV, Format.TEXT})  #: Formats whose files hold no vectors
TEXTS_ONLY: Final = frozenset({Format.TEXT})  #: Formats whose files hold no labels or kept fields
_DEFAULT: Final = Fields()


@dataclass(frozen=True, slots=True)
class Columns:
    """Which parts of a release are written, and under which names and types."""

    text: bool = True  #: True if texts are written; `vector` and `label`: True if vectors and labels are written
    vector: bool = False
    label: bool = False
    keep: tuple[str, ...] = ()  #: the kept fields, in the order of the columns
    dim: int = 0  #: length of the vectors; 0 while the length is unknown
    #: True puts an apostrophe before texts that a spreadsheet would take for formulas; CSV only
    safe_csv: bool = False
    fields: Fields = _DEFAULT  #: names of the columns
    types: Types = ()  #: types of columns whose values are not texts, for formats with types; see `text.column_types`

    def names(self, format: Format) -> tuple[str, ...]:
        """Return the names of a file's columns: id, released columns, kept fields. Plain text has the texts alone.

        The names come from `fields`. A field without a name gives `id` or `label`. ConfigError: two columns would have
        one name; neither text nor vectors are released; or the format cannot hold vectors, labels or kept fields.
        """
        if format in READ_ONLY:
            raise ConfigError(
                f"Expected a format that is written, found {str(format)!r}. Write CSV, JSON Lines or Parquet."
            )
        if not self.text and not self.vector:
            raise ConfigError(
                "Expected text=True or vector=True: a release must have a text or a vector. A label alone is a text."
            )
        if self.vector and format in WITHOUT_VECTORS:
            raise ConfigError(
                f"Expected format={str(format)!r} to hold vectors, which CSV and plain text do not. Write Parquet or "
                "JSON Lines."
            )
        if format in TEXTS_ONLY:
            if self.label or self.keep:
                raise ConfigError("Expected no labels or kept fields: plain text has none. Write JSON Lines or CSV.")
            return (TEXT_FIELD,)
        fields = self.fields
        released = ((fields.text, self.text), (VECTOR_FIELD, self.vector), (fields.label or LABEL_FIELD, self.label))
        columns = (fields.id or ID_FIELD, *(name for name, there in released if there), *self.keep)
        own = columns[: len(columns) - len(self.keep)]
        if len(set(own)) < len(own):
            raise ConfigError(
                f"Expected columns of different names in the output, found {', '.join(own)}: rename the column of the "
                "texts or the labels."
            )
        if len(set(columns)) < len(columns):
            raise ConfigError(
                f"Expected --keep (keep= in Python) to name no field twice and none of the columns that are written "
                f"anyway ({', '.join(own)}), found {', '.join(self.keep)}. To keep the ids, name the field of the ids."
            )
        return columns

    @property
    def renamed(self) -> dict[str, str]:
        """The names of the renamed columns, by the default names `id`, `text` and `label`."""
        fields = self.fields
        own = {ID_FIELD: fields.id, TEXT_FIELD: self.text and fields.text, LABEL_FIELD: self.label and fields.label}
        return {default: name for default, name in own.items() if name and name != default}

    def after(self, releases: Sequence[Release[str]]) -> "Columns":
        """Return the columns after these releases are written, with `dim` known. Without releases, nothing changes."""
        return replace(self, dim=len(releases[0].vector or ())) if releases else self

    def values(self, releases: Sequence[Release[str]]) -> list[Values]:
        """Return the values of each column, in the order of the columns. All vectors must be as long as the first."""
        found = self._of_columns(releases) if isinstance(releases, Releases) else None
        if found is None:
            found = self._of_rows(releases)
        if isinstance(releases, Releases) and releases.whole is not None:
            ids = zip(releases.ids, releases.whole, strict=True)
            found[0] = [int(each) if whole else each for each, whole in ids]
        return found

    def _of_rows(self, releases: Sequence[Release[str]]) -> list[Values]:
        rows, dim = [], self.dim
        for number, release in enumerate(releases, start=1):
            rows.append(self._row(release, f"Release {number} of the batch", dim))
            dim = dim or len(release.vector or ())
        n_columns = 1 + self.text + self.vector + self.label + len(self.keep)
        return [[row[place] for row in rows] for place in range(n_columns)]  # type: ignore[misc]  # a column is of one type

    def as_json(self, values: Sequence[Values]) -> list[Values]:
        """Return the columns, in their order. Ids and labels of a numeric or boolean type become such values again."""
        found, types = list(values), dict(self.types)
        label = self.fields.label or LABEL_FIELD
        for name, place in ((self.fields.id or ID_FIELD, 0), (label, len(found) - len(self.keep) - 1)):
            kind = types.get(name)
            if is_number(kind) and (place == 0 or self.label):
                column = cast("Sequence[Scalar]", found[place])
                found[place] = [as_number(each, kind) if isinstance(each, str) else each for each in column]
        return found

    def _of_columns(self, releases: Releases) -> list[Values] | None:
        """Return the columns of releases that fit. None if a column is doubtful: then `_row` checks each release."""
        kept = releases.kept
        labels = releases.labels if releases.labels is not None else [None] * len(releases)
        outputs = [releases.outputs] if self.text else []
        if not len(releases) or not isinstance(kept, Kept) or set(kept.columns) != set(self.keep):
            return None
        if (not self.text and any(releases.outputs)) or (not self.label and set(labels) != {None}):
            return None
        scalars: list[Sequence[Scalar]] = [labels] if self.label else []
        scalars += [kept.columns[name] for name in self.keep]
        if not all(map(plain_texts, (releases.ids, *outputs))) or not all(map(plain_scalars, scalars)):
            return None
        if not self.vector:
            return None if releases.vectors is not None else [releases.ids, *outputs, *scalars]
        vectors = _vectors(releases.vectors, self.dim)
        return None if vectors is None else [releases.ids, *outputs, vectors, *scalars]

    def _row(self, release: Release[str], where: str, dim: int) -> list[Scalar | Singles]:
        """Return the values of one release. A release that does not fit is refused, because it would be changed."""
        if set(release.kept) != set(self.keep):
            raise ConfigError(f"{where} has other kept fields than {self.keep!r}. Write what the records keep.")
        for name, there, written in (
            ("label", release.label is not None, self.label),
            ("text", release.output != "", self.text),
            ("vector", release.vector is not None, self.vector),
        ):
            if there and not written:
                raise ConfigError(f"{where} has a {name}, and {name}=False says that {name}s are not written.")
        if release.vector is None and self.vector:
            raise ConfigError(f"{where} has no vector, and vector=True says that vectors are written.")
        values: list[Scalar | Singles] = [release.id, *((release.output,) if self.text else ())]
        strings = len(values)
        if release.vector is not None:
            values.append(vector_of(release.vector, where, dim))
        values += [*((release.label,) if self.label else ()), *(release.kept[name] for name in self.keep)]
        for column, value in enumerate(values):
            if self.vector and column == strings:
                continue  # the vector
            wrong_type = not is_scalar(value) or (column < strings and not isinstance(value, str))
            if wrong_type or (isinstance(value, str) and string_fault(value) is not None):
                raise DataError(f"{where} cannot be written: value {column + 1} is no text in UTF-8 or plain number.")
        return values


def _vectors(vectors: Floats | None, dim: int) -> list[Singles] | None:
    """Return the vectors in float32, as files hold them. None if a vector is doubtful."""
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        return None
    with np.errstate(over="ignore"):
        found = vectors.astype(np.float32)
    return list(found) if found.shape[1] and dim in (0, found.shape[1]) and np.isfinite(found).all() else None


def vector_of(vector: tuple[float, ...], where: str, dim: int) -> Singles:
    """Return a vector in float32, `(dim,)`; any length if `dim` is 0.

    DataError: the vector has another length, is no tuple of floats, or is not finite.
    """
    # Checked before numpy sees it, because numpy's errors quote what is not a number.
    if not isinstance(vector, tuple) or not vector or not all(isinstance(number, float) for number in vector):
        raise DataError(f"{where} cannot be written: its vector is not a tuple of floats.")
    if dim not in (0, len(vector)):
        raise DataError(f"{where} cannot be written: its vector has another length than the first.")
    with np.errstate(over="ignore"):
        found = np.array(vector, np.float32)
    if not np.isfinite(found).all():
        raise DataError(f"{where} cannot be written: its vector is not finite, or not in float32.")
    return found
