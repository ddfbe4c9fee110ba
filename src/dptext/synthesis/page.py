"""The topic report as one HTML page with bars: it needs no network and no JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from dptext.synthesis.report import Topics

_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.25rem .5rem;text-align:left;vertical-align:top}"
    "tr+tr{border-top:1px solid #e4e4e4}.n{text-align:right;white-space:nowrap}.bar{width:30%}"
    "svg{display:block;width:100%;height:1.1rem}.example{color:#666;font-size:.85rem}"
)


def topics_page(found: Topics, said: Sequence[str]) -> str:
    """What a report says, then its labels and its topics, each with a bar and an interval; all names are public."""
    parts = [f"<p>{escape(line)}</p>" for line in said]
    if found.labels:
        numbers, margin = found.by_label
        parts.append(_table("Labels", [(name, "", n) for name, n in zip(found.labels, numbers, strict=True)], margin))
    if found.topics:
        numbers, margin = found.by_topic
        named = [
            (", ".join(words), escape(texts[0]) if texts else "", n)
            for (words, texts), n in zip(found.topics, numbers, strict=True)
        ]
        parts.append(_table("Topics, largest first", sorted(named, key=lambda each: -each[2]), margin))
    note = f"Numbers of {found.unit}s with noise; whiskers hold the true number in 95%. Words and examples are public."
    head = f"<!doctype html><meta charset='utf-8'><title>Topics</title><style>{_STYLE}</style>"
    return f"{head}<h1>What the corpus is about</h1>{''.join(parts)}<p>{note}</p>\n"


def _table(title: str, rows: Sequence[tuple[str, str, float]], margin: float) -> str:
    largest = max([1.0, *(n + margin for _, _, n in rows)])
    lines = []
    for name, example, n in rows:
        left, middle, right = (100 * min(max(at, 0.0), largest) / largest for at in (n - margin, n, n + margin))
        bar = (
            '<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img">'
            f'<rect width="{middle:.2f}" height="10" fill="#7fa8d1"/>'
            f'<rect x="{left:.2f}" y="4.4" width="{max(right - left, 0.2):.2f}" height="1.2" fill="#20456b"/></svg>'
        )
        shown = f"{escape(name)}<div class='example'>{example}</div>"
        lines.append(f"<tr><td>{shown}</td><td class='n'>{max(n, 0):,.0f}</td><td class='bar'>{bar}</td></tr>")
    return f"<h2>{title}</h2><table>{''.join(lines)}</table>"
