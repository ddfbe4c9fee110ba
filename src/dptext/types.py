"""Shared type names: arrays by their elements, and JSON values. Conversion of results into JSON-able data."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Positions = NDArray[np.intp]
Int32s = NDArray[np.int32]
Int16s = NDArray[np.int16]
UInt8s = NDArray[np.uint8]
UInt16s = NDArray[np.uint16]
UInt64s = NDArray[np.uint64]
Booleans = NDArray[np.bool_]

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def jsonable(value: object) -> Json:
    """Convert a result into JSON-able data. A dataclass becomes a dict by field names, infinity the text "inf".

    >>> jsonable((1, math.inf, {"so": None}))
    [1, 'inf', {'so': None}]
    """
    if isinstance(value, float):
        return str(value) if math.isinf(value) else value
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    if is_dataclass(value):
        return fields_as_json(value)
    if value is None or isinstance(value, int | str):
        return value
    raise TypeError(f"Expected what JSON can say, found a {type(value).__name__}.")


def fields_as_json(result: object) -> dict[str, Json]:
    """The fields of a dataclass, by name and in their order, as JSON-able data."""
    return {each.name: jsonable(getattr(result, each.name)) for each in fields(result)}  # type: ignore[arg-type]
