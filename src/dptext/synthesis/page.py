"""The topic report as one HTML page with bars: it needs no network and no JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from dptext.synthesis.report import Topics

_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;min-width:100%}td,th{padding:.25rem .5rem;text-align:left;vertical-align:top}"
    "th{font-weight:normal}thead th{font-weight:bold}tr+tr{border-top:1px solid #e4e4e4}"
    "caption{text-align:left;font-weight:bold;font-size:1.3rem;padding:1.2rem 0 .4rem}"
    "td.n,th.n{text-align:right;white-space:nowrap}.n small{display:block;color:#444}.bar{width:30%}"
    "svg{display:block;width:100%;height:1.1rem}.example{color:#666;font-size:.85rem}"
    ".wide{overflow-x:auto}.wide th[scope=row]{position:sticky;left:0;background:#fff;min-width:9rem}"
)
_DARKEST: Final = 0.6  # of the colour behind a number: the text on it stays readable


def topics_page(found: Topics, said: Sequence[str]) -> str:
    """What a report says; then labels, topics and their cells, each number with its interval; all names are public."""
    unit, parts = found.measure, [f"<p>{escape(line)}</p>" for line in said]
    if found.labels:
        numbers, margin = found.by_label
        named = [(escape(name), n) for name, n in zip(found.labels, numbers, strict=True)]
        parts.append(_table("Labels", "label", named, margin, unit))
    if found.topics:
        numbers, margin = found.by_topic
        order = sorted(range(len(numbers)), key=lambda i: -numbers[i])
        shown = []
        for words, texts in found.topics:
            example = f"<div class='example'>{escape(texts[0])}</div>" if texts else ""
            shown.append(f"{escape(', '.join(words))}{example}")
        parts.append(_table("Topics, largest first", "topic", [(shown[i], numbers[i]) for i in order], margin, unit))
        if found.labels:
            parts.append(_cells(found, order))
    note = f"{found.note} Each interval holds the number without noise in 95%. Words and examples are public."
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    head += f"<title>What the corpus is about</title><style>{_STYLE}</style>"
    return f"{head}<main><h1>What the corpus is about</h1>{''.join(parts)}<p>{note}</p></main></html>\n"


def _number(n: float, margin: float) -> str:
    return f"{max(n, 0):,.0f}<small>{max(n - margin, 0):,.0f} to {max(n + margin, 0):,.0f}</small>"


def _table(title: str, what: str, rows: Sequence[tuple[str, float]], margin: float, unit: str) -> str:
    largest = max([1.0, *(n + margin for _, n in rows)])
    lines = [
        f"<thead><tr><th scope='col'>{what}</th><th scope='col' class='n'>{unit}</th><td></td></tr></thead><tbody>"
    ]
    for name, n in rows:
        left, middle, right = (100 * min(max(at, 0.0), largest) / largest for at in (n - margin, n, n + margin))
        bar = (
            '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect width="{middle:.2f}" height="10" fill="#7fa8d1"/>'
            f'<rect x="{left:.2f}" y="4.4" width="{max(right - left, 0.2):.2f}" height="1.2" fill="#20456b"/></svg>'
        )
        lines.append(
            f"<tr><th scope='row'>{name}</th><td class='n'>{_number(n, margin)}</td><td class='bar'>{bar}</td></tr>"
        )
    return f"<table><caption>{title}</caption>{''.join(lines)}</tbody></table>"


def _cells(found: Topics, order: Sequence[int]) -> str:
    """Topics in this order by labels; the darker, the larger, and white where the interval holds 0."""
    title, margin = "Topics by label", found.margin
    largest = max(1.0, *(n for row in found.counts for n in row))
    heads = "".join(f"<th scope='col' class='n'>{escape(name)}</th>" for name in found.labels)
    lines = [f"<thead><tr><th scope='col'>topic</th>{heads}</tr></thead><tbody>"]
    for topic in order:
        numbers = []
        for row in found.counts:
            n = row[topic]
            shade = _DARKEST * n / largest if n > margin else 0.0
            numbers.append(f"<td class='n' style='background:rgba(127,168,209,{shade:.2f})'>{_number(n, margin)}</td>")
        words = ", ".join(found.topics[topic][0][:3])
        lines.append(f"<tr><th scope='row'>{escape(words)}</th>{''.join(numbers)}</tr>")
    table = f"<table><caption>{title}</caption>{''.join(lines)}</tbody></table>"
    return f"<div class='wide' role='region' tabindex='0' aria-label='{title}'>{table}</div>"
