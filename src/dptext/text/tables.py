"""Rows of what people hold in memory: data frames and series (pandas, polars, pyarrow ...), Datasets, lists of strings.

Narwhals knows the frames, so that none of their packages is needed here. It is loaded when something is neither a list
nor a stream.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Final

from dptext.errors import ConfigError
from dptext.text.batches import Batch
from dptext.text.lines import listed

#: What is read where private or public records are asked for: records, rows as mappings, or strings; a frame or a
#: series; a Dataset of Hugging Face; the path of a file. No type can say it without those packages.
Texts = Any
EXPECTED: Final = "texts, rows, records, a data frame, a Dataset or the path of a file"


def table_rows(data: Texts, names: Sequence[str]) -> Iterable[object]:
    """The rows of data in memory, which is no path: mappings of the named columns, strings, or what its iterator gives.

    ConfigError: it is nothing of which rows can be told, or a frame lacks a column.
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
        columns = [_values(found[name]) for name in names]
        return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    if hasattr(data, "column_names"):  # a Dataset
        _require_columns(data.column_names, names)
        rows = data.select_columns(list(names))
        return rows
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise ConfigError(f"Expected {EXPECTED}, found one {type(data).__name__}. Make a list of one text: [text].")
    return rows


def index_of(data: Texts) -> object:
    """The index of a pandas frame or series; None of anything else."""
    if isinstance(data, list | tuple | Iterator | str | PathLike):
        return None
    import narwhals  # noqa: PLC0415 (see above)

    found = narwhals.from_native(data, allow_series=True, pass_through=True)
    if isinstance(found, narwhals.DataFrame | narwhals.Series):
        return narwhals.maybe_get_index(found)
    return None


def _values(column: Any) -> list[object]:
    values = column.to_list()
    if column.is_null().any():
        return [None if null else value for value, null in zip(values, column.is_null().to_list(), strict=True)]
    return list(values)


def _require_columns(found: Sequence[str] | None, names: Sequence[str]) -> None:
    missing = [name for name in names if found is not None and name not in found]
    if missing:
        raise ConfigError(
            f"Expected the column {missing[0]!r}, found {listed(found or ())}. Name the columns: text=..., label=..., "
            "id=..., author=..., keep=[...], here or in dp.as_records(rows, text=...)."
        )
