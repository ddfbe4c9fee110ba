"""Results of audits as lines of text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from dptext.types import Json


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
