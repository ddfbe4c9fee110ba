"""What a notebook shows of guarantees, certificates, releases and tables: plain HTML, everything escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table with a heading for each name; white space in cells is kept."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    cell = '<td style="white-space: pre-wrap; text-align: left">'
    body = "".join(f"<tr>{''.join(f'{cell}{escape(str(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(text: str) -> str:
    """Plain text as paragraphs, parted where lines are empty."""
    lines = escape(text).replace("\n\n", "</p><p>").replace("\n", "<br>")
    return f"<p>{lines}</p>"
