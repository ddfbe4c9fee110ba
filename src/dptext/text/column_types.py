"""Types of columns. A container with types holds each released text as a value of its column's type.

A type follows from the schema of the input. The type of the labels follows from the public set, too. No record is read,
because the types in a file must reveal nothing of private values.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Final

from dptext.errors import ConfigError, DataError, MissingExtraError
from dptext.text.formats import Format, as_string, file_format, spelled
from dptext.text.inputs import open_input
from dptext.text.labels import meaning
from dptext.text.packed_rows import class_names, load_pyarrow, values_of
from dptext.text.parquet_pages import chunks_of
from dptext.text.thrift import UnreadableError

#: Names of columns with their pyarrow types. Without pyarrow, columns of a data frame have names of types instead.
Types = tuple[tuple[str, Any], ...]
_WHOLE: Final = re.compile(r"u?int(8|16|32|64)")
_UNLIKE: Final = "A value cannot be written: it is not of its column's type. The mechanism has to keep to this type."
_NUMBERS: Final = re.compile(r"u?int(8|16|32|64)|float|double")
_ZONED: Final = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]{1,64})\]")
_DECIMAL: Final = re.compile(r"(decimal\d{2,3})\((\d{1,2}), (-?\d{1,2})\)")
_CATEGORY: Final = re.compile(r"dictionary<values=(.+), indices=int32, ordered=[01]>")
#: Functions that parse a text as a value of a type, by the beginning of the type's name.
_READ: Final[dict[str, Callable[[str], object]]] = {
    "bool": lambda text: as_number(text, "bool"),
    "date32": date.fromisoformat,
    "date64": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "time32": time.fromisoformat,
    "time64": time.fromisoformat,
    "decimal": Decimal,
    "large_string": str,
}


def of_schema(schema: Any) -> dict[str, Any]:
    """Return the types of the columns of a pyarrow schema, by name. The type is None if the values leave as texts.

    Texts leave as texts. Classes leave as their names. Columns of type null, and columns that share a name, are left
    out.
    """
    names, classes = list(schema.names), class_names(schema.metadata or {})
    columns = [each for each in schema if names.count(each.name) == 1 and str(each.type) != "null"]
    return {each.name: None if each.name in classes else _kept(each.type) for each in columns}


def _kept(kind: Any) -> Any:
    """Return the type in which values of the type `kind` leave. None for strings and for types that are not kept."""
    if hasattr(kind, "index_type"):  # a dictionary: its int32 indices are wide enough for all parts of the output
        arrow, _ = load_pyarrow()
        inner = kind.value_type
        known = str(inner) == "string" or (_kept(inner) is not None and not hasattr(inner, "index_type"))
        return arrow.dictionary(arrow.int32(), inner) if known else None
    return kind if _NUMBERS.fullmatch(str(kind)) or str(kind).startswith(tuple(_READ)) else None


def of_parquet(path: Path) -> dict[str, Any] | None:
    """Return the types of a local Parquet file, as `of_schema` does. None if there is no such file or it is damaged."""
    arrow, parquet = load_pyarrow()
    if not path.is_file():
        return None
    with open_input(path) as raw, contextlib.suppress(arrow.ArrowException, OSError, ValueError, UnreadableError):
        chunks_of(raw)  # some damaged footers would end the process
        return of_schema(parquet.read_schema(raw))
    return None


def of_arrow(path: Path) -> dict[str, Any] | None:
    """Return the types of a file with a stream of Arrow, as `of_parquet` does."""
    arrow, _ = load_pyarrow()
    with contextlib.suppress(arrow.ArrowException, OSError, ValueError), arrow.memory_map(str(path)) as file:
        return of_schema(arrow.ipc.open_stream(file).schema)
    return None


def of_data(data: Any) -> dict[str, Any]:
    """Return the types of a data frame or a Dataset in memory, as `of_schema` does. Other data give an empty result.

    Without pyarrow, only numbers and booleans of a data frame have a type.
    """
    features: Any = getattr(data, "features", None)
    if hasattr(features, "arrow_schema"):
        return of_schema(features.arrow_schema)
    if isinstance(data, list | tuple | Iterator | str | PathLike):
        return {}
    import narwhals  # noqa: PLC0415 (slow to load, and most have a list or a file)

    frame = None
    with contextlib.suppress(narwhals.exceptions.DuplicateError):  # the reader of the rows reports this error
        frame = narwhals.from_native(data, pass_through=True)
    if not isinstance(frame, narwhals.DataFrame):
        return {}
    with contextlib.suppress(MissingExtraError):
        arrow, _ = load_pyarrow()
        with contextlib.suppress(arrow.ArrowException, TypeError, ValueError, ImportError):
            return of_schema(data.schema if isinstance(data, arrow.Table) else frame.head(0).to_arrow().schema)
    kinds = {name: str(kind).lower().replace("boolean", "bool") for name, kind in frame.schema.items()}
    names = {"float32": "float", "float64": "double"}
    return {name: names.get(kind, kind) for name, kind in kinds.items() if _NUMBERS.match(kind) or kind == "bool"}


def agreed(found: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return the types by column. The type is None where files disagree. A file without the column has no say."""
    all_: dict[str, set[Any]] = {}
    for each in found:
        for name, kind in (each or {}).items():
            all_.setdefault(name, set()).add(kind)
    return {name: kinds.pop() if len(kinds) == 1 else None for name, kinds in all_.items()}


def written(found: Mapping[str, Any], names: Iterable[str], label: str | None, labels: Sequence[str]) -> Types:
    """Return the types of the columns `names`, and of the column `label` if `label_type` finds one for `labels`."""
    types = [(name, kind) for name in names if (kind := found.get(name)) is not None]
    if label is not None and (kind := label_type(found.get(label), labels)) is not None:
        types.append((label, kind))
    return tuple(types)


def label_type(kind: Any, labels: Sequence[str]) -> Any:
    """Return the type in which labels of a column of the type `kind` leave. None for texts.

    Floats become int64 if all public labels are whole: pandas turns a column of integers into floats if a value is
    missing.
    """
    if kind is None or not labels:
        return None
    if str(kind) in ("float", "double") and all(map(_is_whole, labels)):
        kind = "int64" if isinstance(kind, str) else load_pyarrow()[0].int64()
    with contextlib.suppress(DataError):
        found = [as_number(each, kind) for each in labels] if isinstance(kind, str) else values_of(array(labels, kind))
        means = [meaning(str(spelled(each))) for each in found]
        if means == list(map(meaning, labels)) and len(set(means)) == len(labels):
            return kind
    return None


def of_public(public: Any, format: Format | None = None) -> dict[str, str | None]:
    """Return the names of the types that a public table declares for its columns, None for texts.

    A Parquet file, a data frame and a Dataset declare types. Of a folder the values say them.
    """
    if isinstance(public, str | PathLike) and Path(public).is_dir():
        return {}
    is_file = isinstance(public, str | PathLike)
    if is_file and file_format(Path(public), format) is not Format.PARQUET:
        return {}
    found = (of_parquet(Path(public)) if is_file else of_data(public)) or {}
    return {name: None if kind is None else str(kind) for name, kind in found.items()}


def type_named(kind: str) -> Any:
    """Return the pyarrow type of a name as `str` gives those of `of_schema`. ConfigError: it is no such name."""
    arrow, _ = load_pyarrow()
    with contextlib.suppress(ValueError, AttributeError):
        if parts := _ZONED.fullmatch(kind):
            return arrow.timestamp(parts[1], tz=parts[2])
        if parts := _DECIMAL.fullmatch(kind):
            return getattr(arrow, parts[1])(int(parts[2]), int(parts[3]))
        if parts := _CATEGORY.fullmatch(kind):
            return arrow.dictionary(arrow.int32(), type_named(parts[1]))
        return arrow.type_for_alias(kind)
    raise ConfigError(f"Expected the name of a type of Arrow, such as int64 or date32, found {kind!r:.80}.")


def checked_types(given: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of types of as many columns, "" for texts; none is fine. ConfigError: one is not kept."""
    if isinstance(given, str) or len(given) not in (0, len(names)):
        raise ConfigError(f"Expected a type for each of {len(names)} columns that leave, found {given!r:.80}.")
    known = (*_READ, "dictionary<")
    if wrong := [each for each in given if each and not (_NUMBERS.fullmatch(each) or each.startswith(known))]:
        raise ConfigError(f"Expected names of types such as int64, date32[day] or '', found {wrong[0]!r:.80}.")
    return tuple(given)


def as_typed(values: Sequence[Any], kind: str) -> Sequence[Any]:
    """Return the values as a pyarrow array of the type of this name; numbers and booleans without pyarrow as a list.

    DataError: a value does not fit.
    """
    try:
        found = type_named(kind)
    except MissingExtraError:
        if not is_number(kind):
            raise
        return [as_number(each, kind) if isinstance(each, str) else each for each in values]
    made: Sequence[Any] = array(values, found)
    return made


def of_values(values: Iterable[object]) -> str | None:
    """Return the type of numbers, booleans, dates or times, None among them or not; None for other values, or none."""
    found = [each for each in values if each is not None]
    if any(isinstance(each, int) and not _in_int64(each) for each in found):
        return None  # no type of a column holds them; they leave as texts
    if any(isinstance(each, datetime | time) and each.tzinfo is not None for each in found):
        return None
    kinds = {type(each) for each in found}
    named: Mapping[frozenset[type], str] = {
        frozenset({int}): "int64", frozenset({float}): "double", frozenset({int, float}): "double",
        frozenset({bool}): "bool", frozenset({date}): "date32[day]", frozenset({time}): "time64[us]",
        frozenset({datetime}): "timestamp[us]",
    }  # fmt: skip
    return named.get(frozenset(kinds))


#: The types in which the labels of a corpus can leave, besides texts.
LABEL_TYPES: Final = ("int64", "double", "bool")


def corpus_label_type(found: Mapping[str, Any], column: str | None, labels: Sequence[str]) -> str:
    """Return in which of `LABEL_TYPES` labels of a column of these types leave; "" if they leave as texts."""
    own: Any = found.get(column) if column is not None else None
    own = own.value_type if hasattr(own, "index_type") else own  # a category
    kind = str(label_type(own, labels) or "")
    wide = "int64" if _WHOLE.fullmatch(kind) else "double" if kind == "float" else kind
    return wide if wide in LABEL_TYPES and leave_as(wide, labels) else ""


def leave_as(kind: str, labels: Sequence[str]) -> bool:
    """Return whether labels can leave in one of `LABEL_TYPES`."""
    if label_type(kind, labels) is None:
        return False
    return kind != "int64" or all(_in_int64(as_number(each, kind)) for each in labels)


def _in_int64(number: float) -> bool:
    return -(2**63) <= number < 2**63


def _is_whole(label: str) -> bool:
    return meaning(label).removeprefix("-").isdecimal()


def is_number(kind: object) -> bool:
    """Return whether JSON has values of this type: numbers and booleans."""
    return _NUMBERS.fullmatch(str(kind)) is not None or str(kind) == "bool"


def as_number(text: str, kind: object) -> int | float | bool:
    """Parse a text as a number or boolean of the type `kind`; a whole number becomes an int. DataError: it is none."""
    said = meaning(text)
    with contextlib.suppress(ValueError, LookupError):  # their messages hold the text
        if str(kind) == "bool":
            return {"true": True, "false": False}[said]
        return int(said) if _WHOLE.fullmatch(str(kind)) or _is_whole(said) else float(said)
    raise DataError(_UNLIKE)


def array(values: Sequence[Any], kind: Any) -> Any:
    """Return the values as a pyarrow array of the type `kind`, with texts parsed. DataError: a value does not fit."""
    arrow, _ = load_pyarrow()
    if hasattr(kind, "index_type"):
        return array(values, kind.value_type).dictionary_encode().cast(kind)
    if str(kind) == "string":
        return arrow.array([each if each is None else as_string(each) for each in values], kind)
    read: Callable[[str], object] = next(
        (read for begins, read in _READ.items() if str(kind).startswith(begins)), lambda text: as_number(text, kind)
    )
    with contextlib.suppress(ValueError, ArithmeticError, TypeError):  # their messages hold the text
        return arrow.array([read(each) if isinstance(each, str) else each for each in values], kind)
    raise DataError(_UNLIKE)
