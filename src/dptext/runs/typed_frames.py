"""Columns of releases as data frames and Datasets, in the Arrow types that a public table declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dptext.errors import needing
from dptext.text.column_types import as_typed, type_named
from dptext.text.packed_rows import load_pyarrow


def typed_columns(columns: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns, as arrays of pyarrow where they have a type; numbers without pyarrow as lists."""
    return {name: as_typed(own, types[name]) if name in types else own for name, own in columns.items()}


def pandas_columns(columns: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns for a pandas data frame."""
    found = typed_columns(columns, types)
    return {name: _pandas(own) if name in types and hasattr(own, "to_pandas") else own for name, own in found.items()}


def _pandas(own: Any) -> Any:
    """Return an array of pyarrow as one of pandas. Whole numbers and booleans with nulls stay what they are."""
    import pandas as pd  # noqa: PLC0415 (an extra)

    kinds = {"bool": "boolean"} | {f"{u}int{n}": f"{u.upper()}Int{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
    if own.null_count and str(own.type) in kinds:
        return pd.array(own.to_pylist(), dtype=kinds[str(own.type)])
    return own.to_pandas().array


def polars_frame(columns: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> Any:
    """Return the columns as a polars data frame. MissingExtraError: polars is not installed."""
    with needing("A polars data frame", "polars"):
        import narwhals as nw  # noqa: PLC0415 (slow to load)

        return nw.from_dict(typed_columns(columns, types), backend="polars").to_native()


def to_dataset(columns: Mapping[str, Sequence[Any]], types: Mapping[str, str], features: Mapping[str, Any]) -> Any:
    """Return a Dataset of Hugging Face in these types and features. Categories are texts or numbers there."""
    with needing("A Dataset", "dptext[frames]"):
        import datasets  # noqa: PLC0415 (an extra)
    arrow, _ = load_pyarrow()
    found = typed_columns(columns, types)
    values = {name: own.to_pylist() if name in types else own for name, own in found.items()}
    kinds = {name: type_named(kind) for name, kind in types.items()}
    plain = [arrow.field(name, getattr(kind, "value_type", kind)) for name, kind in kinds.items()]
    known = datasets.Features.from_arrow_schema(arrow.schema(plain))
    rest = datasets.Dataset.from_dict({name: own for name, own in values.items() if name not in {*known, *features}})
    all_ = {**rest.features, **known, **features}
    return datasets.Dataset.from_dict(values, features=datasets.Features({name: all_[name] for name in columns}))
