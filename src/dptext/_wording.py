"""Words of messages and displays: numbers with nouns, Markdown tables, and escaped HTML for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

#: Said beside numbers of the originals.
NOT_PRIVATE: Final = (
    "These numbers are computed from the originals: they are not private, and no guarantee covers them."
)


def plural(n: int, noun: str) -> str:
    """The number with its noun; the plural ends in s.

    >>> plural(1, "record"), plural(1234, "record")
    ('1 record', '1,234 records')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table whose cells are padded to the width of their column."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, ["-" * width for width in widths], *rows)
    ]


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """An HTML table with a heading for each name. White space in cells is kept."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    cell = '<td style="white-space: pre-wrap; text-align: left">'
    body = "".join(f"<tr>{''.join(f'{cell}{escape(str(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(text: str) -> str:
    """Plain text as HTML paragraphs, split at empty lines."""
    lines = escape(text).replace("\n\n", "</p><p>").replace("\n", "<br>")
    return f"<p>{lines}</p>"
