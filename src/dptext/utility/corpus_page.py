"""The page that judges a corpus: a headline, pictures of shares beside the originals, and what attacks show.

The page needs no network and no JavaScript. It is computed from private texts and not protected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.5rem}h2{font-size:1.2rem;margin:1.6rem 0 .3rem}.head li{font-size:1.05rem}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.2rem .5rem;text-align:left;vertical-align:middle}"
    "th{font-weight:normal;overflow-wrap:anywhere}thead th{font-weight:bold}tr+tr{border-top:1px solid #e4e4e4}"
    "td.n,th.n{white-space:nowrap;text-align:right;overflow-wrap:normal}.wide{overflow-x:auto}.bar{width:50%;min-width:8rem}"
    ".bar svg{display:block;width:100%}.warn{background:#fdf1d8;padding:.5rem .8rem}"
    ".key span{display:inline-block;width:.8rem;height:.8rem;margin:0 .3rem 0 .8rem;vertical-align:-.05rem}"
    "@media(max-width:40rem){.bar{width:40%;min-width:5rem}}"
)
_COLOURS: Final = ("#20456b", "#3f8f6b", "#c9a24b")


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of each of some names, by row of the table.

    Attributes:
        title: what is shared out.
        names: the names, in the order of the page.
        rows: a share for each name, by row: original first.
    """

    title: str
    names: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of texts: a title, heads, lines, and a sentence above it."""

    title: str
    heads: tuple[str, ...]
    lines: Sequence[Sequence[str]]
    said: str = ""


def corpus_page(title: str, headline: Sequence[str], parts: Sequence[Shares | PageTable], notes: Sequence[str]) -> str:
    """Return the page. `notes` stand at its end."""
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    head += f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    listed = "".join(f"<li>{escape(line)}</li>" for line in headline)
    shown = "".join(_shares(part) if isinstance(part, Shares) else _grid(part) for part in parts)
    ends = "".join(f"<p>{escape(line)}</p>" for line in notes)
    return f"{head}<main><h1>{escape(title)}</h1><ul class='head'>{listed}</ul>{shown}{ends}</main></html>\n"


def _shares(part: Shares) -> str:
    largest = max([0.01, *(share for row in part.rows.values() for share in row)])
    keys = "".join(
        f"<span style='background:{colour}'></span>{escape(row)}"
        for row, colour in zip(part.rows, _COLOURS, strict=False)
    )
    heads = "".join(f"<th scope='col' class='n'>{escape(row)}</th>" for row in part.rows)
    lines = []
    for i, name in enumerate(part.names):
        bars = "".join(
            f'<rect x="0" y="{4 * n}" width="{100 * row[i] / largest:.2f}" height="3.4" fill="{_COLOURS[n]}"/>'
            for n, row in enumerate(part.rows.values())
        )
        high = 4 * len(part.rows)
        size = f'viewBox="0 0 100 {high}" height="{3 * high}" preserveAspectRatio="none"'
        picture = f'<svg {size} aria-hidden="true">{bars}</svg>'
        cells = "".join(f"<td class='n'>{row[i]:.1%}</td>" for row in part.rows.values())
        lines.append(f"<tr><th scope='row'>{escape(name)}</th>{cells}<td class='bar'>{picture}</td></tr>")
    table = (
        f"<table><thead><tr><th scope='col'></th>{heads}<td></td></tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )
    return f"<h2>{escape(part.title)}</h2><p class='key'>{keys}</p><div class='wide'>{table}</div>"


def _grid(part: PageTable) -> str:
    heads = "".join(f"<th scope='col'>{escape(head)}</th>" for head in part.heads)
    lines = []
    for name, *cells in part.lines:
        shown = "".join(f"<td>{escape(each)}</td>" for each in cells)
        lines.append(f"<tr><th scope='row'>{escape(name)}</th>{shown}</tr>")
    said = f"<p>{escape(part.said)}</p>" if part.said else ""
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<h2>{escape(part.title)}</h2>{said}<div class='wide'>{table}</div>"
