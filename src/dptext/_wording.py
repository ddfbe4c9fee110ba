"""Numbers with their nouns, for messages, and tables in plain text."""

from collections.abc import Sequence


def plural(n: int, noun: str) -> str:
    """The number with its noun, which takes an s in the plural.

    >>> plural(1, "record"), plural(1234, "record")
    ('1 record', '1,234 records')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown, all columns padded to their width."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, ["-" * width for width in widths], *rows)
    ]
