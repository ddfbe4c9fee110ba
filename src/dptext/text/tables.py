"""Rows of data in memory: data frames and series (pandas, polars, pyarrow ...), Datasets, lists of strings.

Narwhals reads the frames, so that their packages are not needed here. It is loaded for data that are neither a list nor
a stream.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from os import PathLike
from typing import Any, Final

import numpy as np

from dptext.errors import ConfigError
from dptext.text.batches import Batch
from dptext.text.formats import shortest
from dptext.text.lines import Broken, listed, remedy
from dptext.text.packed_rows import NO_MATCH, UNMATCHED, class_names, named_classes

#: Sources of private or public records: records, rows as mappings, or strings; a frame or a series; a Dataset of
#: Hugging Face; the path of a file. Without the packages of frames and Datasets, no narrower type can be written.
Texts = Any
_FIRST_DAY: Final = -719_162  # first day of Python's dates, in days from 1970-01-01; the last day follows
_LAST_DAY: Final = 2_932_896
_SLICE: Final = 1024  # rows of a Dataset that are read at once
Classes = Mapping[str, Sequence[str]]  #: By column of class numbers: the names of the classes, in order of the numbers
EXPECTED: Final = "texts, rows, records, a data frame, a Dataset or the path of a file"


def table_rows(data: Texts, names: Sequence[str]) -> Iterable[object]:
    """Return the rows of data in memory: mappings of the named columns, strings, or the items of an iterable.

    `data` is no path. ConfigError: the data have no rows, or a frame lacks a column.
    """
    if isinstance(data, Mapping):
        raise ConfigError(
            f"Expected {EXPECTED}, found a mapping of {len(data)} keys. Choose a split (data['train']), or make a "
            "frame of columns (pandas.DataFrame(data))."
        )
    rows: Iterable[object] = data
    if isinstance(data, list | tuple | Batch | Iterator):
        return rows
    import narwhals  # noqa: PLC0415 (slow to load, and most have a list or a file)

    try:
        found = narwhals.from_native(data, allow_series=True, pass_through=True)
    except narwhals.exceptions.DuplicateError:
        raise ConfigError("Expected a frame whose columns have different names. Rename what comes twice.") from None
    if isinstance(found, narwhals.LazyFrame):
        raise ConfigError("Expected a frame whose rows are there, found a lazy one. Call .collect() first.")
    if isinstance(found, narwhals.Series):
        return _values(found)
    if isinstance(found, narwhals.DataFrame):
        if not all(isinstance(name, str) for name in found.columns):
            raise ConfigError("Expected columns with names, found numbers. Name them: frame.columns = ['text', ...].")
        _require_columns(found.columns, names)
        classes = class_names(getattr(getattr(data, "schema", None), "metadata", None) or {})
        return _rows({name: _named(_values(found[name]), classes.get(name)) for name in names})
    if hasattr(data, "column_names"):  # a Dataset
        _require_columns(data.column_names, names)
        rows = data.select_columns(list(names))
        classes = {name: kind.names for name, kind in (data.features or {}).items() if hasattr(kind, "int2str")}
        if hasattr(rows, "with_format") and isinstance(rows, Sized):
            return _of_dataset(rows, names, classes)
        return _streamed(rows, classes)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise ConfigError(f"Expected {EXPECTED}, found one {type(data).__name__}. Make a list of one text: [text].")
    return rows


def index_of(data: Texts) -> object:
    """Return the index of a pandas frame or series. None for other data."""
    if isinstance(data, list | tuple | Iterator | str | PathLike):
        return None
    import narwhals  # noqa: PLC0415 (see above)

    found = narwhals.from_native(data, allow_series=True, pass_through=True)
    if isinstance(found, narwhals.DataFrame | narwhals.Series):
        return narwhals.maybe_get_index(found)
    return None


def own_columns(data: Texts, names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of data in memory, unchanged, by name: arrays of pandas, or lists.

    A list of rows has the columns that all of its rows have. Data without columns give an empty result.
    """
    if isinstance(data, list | tuple):
        there = [name for name in names if data and all(isinstance(row, Mapping) and name in row for row in data)]
        return {name: [row[name] for row in data] for name in there}
    if isinstance(data, Iterator | str | PathLike):
        return {}
    import narwhals  # noqa: PLC0415 (see above)

    found = None
    with contextlib.suppress(narwhals.exceptions.DuplicateError):  # the reader of the rows reports this error
        found = narwhals.from_native(data, pass_through=True)
    columns: Sequence[str] = getattr(data, "column_names", None) or getattr(found, "columns", None) or ()
    there = [name for name in names if name in columns]
    if isinstance(found, narwhals.DataFrame):
        pandas = found.implementation.is_pandas()
        return {name: data[name].array.copy() if pandas else found[name].to_list() for name in there}
    if not hasattr(data, "column_names") or not isinstance(data, Sized):
        return {}
    plain: Any = data.with_format(None) if hasattr(data, "with_format") else data
    return {name: list(plain[name]) for name in there}


def _named(values: list[object], names: Sequence[str] | None) -> list[object]:
    """Return names of classes in place of their numbers, which mean nothing without the schema. -1 stands for None."""
    return values if names is None else named_classes(values, names)


def _values(column: Any) -> list[object]:
    """Return the values of a series. `NO_MATCH` takes the place of a value that Python cannot hold."""
    try:
        return _converted(column)
    except UNMATCHED:
        half = len(column) // 2
    return [NO_MATCH] * len(column) if not half else _values(column[:half]) + _values(column[half:])


def _converted(column: Any) -> list[object]:
    import narwhals  # noqa: PLC0415 (see above)

    polars = column.implementation.is_polars()
    if polars and column.dtype.is_nested():  # no record takes nested values, and polars may fail to convert them
        return [None if null else () for null in column.is_null().to_list()]
    if polars and column.dtype == narwhals.Date:
        days = column.drop_nulls().cast(narwhals.Int64)
        if len(days) and not _FIRST_DAY <= days.min() <= days.max() <= _LAST_DAY:
            raise OverflowError  # polars would fail here with a trace on stderr
    values = column.to_list()
    if column.dtype == narwhals.Float32:
        values = _shortest(values)
    if column.is_null().any():
        return [None if null else value for value, null in zip(values, column.is_null().to_list(), strict=True)]
    return list(values)


def _shortest(values: Sequence[Any]) -> list[object]:
    """Return numbers of 32 bits as the shortest decimals that identify them."""
    return [shortest(np.float32(each)) if isinstance(each, float) else each for each in values]


def _exact(values: Iterable[object], kind: str | None) -> list[object]:
    return _shortest(list(values)) if kind in ("float32", "float16") else list(values)


def _rows(columns: Mapping[str, Sequence[object]]) -> Iterator[object]:
    """Yield the rows of columns. A value that Python cannot hold is `NO_MATCH`."""
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _of_dataset(data: Any, names: Sequence[str], classes: Classes) -> Iterator[object]:
    """Yield the rows of a Dataset with random access, or their faults."""
    if data.format["type"] in ("arrow", "pandas", "polars"):  # formats whose rows are tables
        data = data.with_format(None)
    for start in range(0, len(data), _SLICE):
        yield from _of_slice(data, start, min(start + _SLICE, len(data)), names, classes)


def _of_slice(data: Any, start: int, stop: int, names: Sequence[str], classes: Classes) -> Iterator[object]:
    columns = None
    with contextlib.suppress(*UNMATCHED):
        columns = _slice(data, start, stop, names, classes)
    if columns is not None:
        yield from _rows(columns)
    elif stop - start == 1:
        yield {name: _of_cell(data.select_columns([name]), start, name, classes) for name in names}
    else:
        middle = (start + stop) // 2
        yield from _of_slice(data, start, middle, names, classes)
        yield from _of_slice(data, middle, stop, names, classes)


def _slice(data: Any, start: int, stop: int, names: Sequence[str], classes: Classes) -> dict[str, list[object]]:
    """Return the columns of some rows. An error of `UNMATCHED`: Python cannot hold a value."""
    found = data[start:stop]
    kinds = {name: str(getattr(kind, "dtype", "")) for name, kind in (data.features or {}).items()}
    return {name: _named(_exact(found[name], kinds.get(name)), classes.get(name)) for name in names}


def _of_cell(column: Any, row: int, name: str, classes: Classes) -> object:
    """Return one value of a Dataset of one column, or `NO_MATCH`."""
    with contextlib.suppress(*UNMATCHED):
        return _slice(column, row, row + 1, [name], classes)[name][0]
    return NO_MATCH


def _streamed(rows: Iterable[Any], classes: Classes) -> Iterator[object]:
    """Yield the rows of a stream of Hugging Face. The stream ends at a row that cannot be read."""
    stream = iter(rows)
    with contextlib.suppress(*UNMATCHED):
        for row in stream:
            columns = {name: _named([value], classes.get(name)) for name, value in row.items()}
            yield from _rows(columns)
        return
    yield Broken(NO_MATCH.reason)


def _require_columns(found: Sequence[str] | None, names: Sequence[str]) -> None:
    missing = [name for name in names if found is not None and name not in found]
    if missing:
        raise ConfigError(
            f"Expected the column {missing[0]!r}, found {listed(found or ())}: {remedy(missing[0], names)}, or use "
            "dptext.text.reading.as_records(rows, text=...)."
        )
