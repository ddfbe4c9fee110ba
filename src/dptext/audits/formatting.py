"""Results of audits as JSON-able data, and as lines of text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

from dptext.types import Json


def as_json(value: object) -> Json:
    """A result as JSON-able data: a dataclass by the names of its fields, an infinite number as the text "inf".

    >>> as_json((1, math.inf, {"so": None}))
    [1, 'inf', {'so': None}]
    """
    if isinstance(value, float):
        return str(value) if math.isinf(value) else value
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if is_dataclass(value):
        return fields_as_json(value)
    if value is None or isinstance(value, int | str):
        return value
    raise TypeError(f"Expected what JSON can say, found a {type(value).__name__}.")


def fields_as_json(result: object) -> dict[str, Json]:
    """The fields of a dataclass, by name and in their order, as JSON-able data."""
    return {each.name: as_json(getattr(result, each.name)) for each in fields(result)}  # type: ignore[arg-type]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown, all columns padded to their width."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, ["-" * width for width in widths], *rows)
    ]


def signature_line(signature: Mapping[str, Json]) -> str:
    """The settings that made the numbers, in one line."""
    return "[" + "|".join(f"{key}:{json.dumps(value)}" for key, value in signature.items()) + "]"
