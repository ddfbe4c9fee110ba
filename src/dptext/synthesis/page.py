"""The HTML page of a report: labels, words, lengths, topics and cells, with intervals. All names are public."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np

from dptext.synthesis.agreement import Estimated
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.report import Topics

_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;min-width:100%}td,th{padding:.25rem .5rem;text-align:left;vertical-align:top}"
    "th{font-weight:normal}thead th{font-weight:bold}tr+tr{border-top:1px solid #e4e4e4}"
    "caption{text-align:left;font-weight:bold;font-size:1.3rem;padding:1.2rem 0 .4rem}"
    "td.n,th.n{text-align:right;white-space:nowrap}.n small{display:block;color:#444}.bar{width:40%}"
    "svg{display:block;width:100%;height:1.1rem}.example{color:#666;font-size:.85rem}"
    "p,th[scope],td{overflow-wrap:anywhere}.words th[scope=row]{width:20%;min-width:6.5rem}"
    ".wide{overflow-x:auto;max-width:100%}"
    ".wide th[scope=row]{position:sticky;left:0;background:#fff;min-width:9rem}"
    ".wide th.n{white-space:normal;overflow-wrap:normal;min-width:5rem}"
    "@media(max-width:40rem){.bar{display:none}.wide th[scope=row]{min-width:6.5rem;max-width:9rem}}"
)
_TITLE: Final = "Summary of a private corpus"
_ADD_UP: Final = "Parts add up to their wholes but for rounding."
_DARKEST: Final = 0.6  # of the colour behind a number: the text on it stays readable


def topics_page(found: Topics, said: Sequence[str]) -> str:
    """Return an HTML page: sentences, then labels, words, topics and cells, with intervals. Names are public."""
    known, by_length = found.estimates, found.by_length
    drawn = [*found.by_column, *([] if by_length is None else [by_length])]
    drawn += [*([known.by_label] if found.labels else []), *([known.by_topic] if found.topics else [])]
    largest = max([1.0, *(float(each.high.max()) for each in drawn)])  # of the whole page: bars can be compared
    unit, parts = found.measure, [f"<p>{escape(line)}</p>" for line in said]
    parts.append(f"<p>{found.in_all}</p>")
    if found.labels:
        parts.append(_table("Labels", "label", [escape(name) for name in found.shown], known.by_label, unit, largest))
    if found.words is not None:
        parts.append(_words(found.shown or ("all texts",), found.words, unit))
    if found.lengths is not None and by_length is not None:
        parts.append(_table("Lengths", "length", found.lengths.names, by_length, unit, largest))
    for column, numbers in zip(found.columns, found.by_column, strict=True):
        names = [escape(name) for name in column.cells]
        shown_first = None if column.in_order else np.argsort(-numbers.numbers, kind="stable").tolist()
        parts.append(_table(f"Column {escape(column.name)}", "value", names, numbers, unit, largest, shown_first))
    if found.topics:
        order = np.argsort(-known.by_topic.numbers, kind="stable").tolist()
        shown = []
        for words, texts in found.topics:
            example = f"<div class='example'>{escape(texts[0])}</div>" if texts else ""
            shown.append(f"{escape(', '.join(words))}{example}")
        parts.append(_table("Topics, largest first", "topic", shown, known.by_topic, unit, largest, order))
        if found.labels:
            parts.append(_cells(found, known.cells, order))
    note = f"{found.note} {_ADD_UP} Tables of labels and topics show all of them: each interval holds the "
    note += "number without noise in 95%. Words and examples are public."
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    head += f"<title>{_TITLE}</title><style>{_STYLE}</style>"
    return f"{head}<main><h1>{_TITLE}</h1>{''.join(parts)}<p>{note}</p></main></html>\n"


def _number(known: Estimated, *place: int) -> str:
    n, low, high = (float(each[place]) for each in (known.numbers, known.low, known.high))
    return f"{n:,.0f}<small>{low:,.0f} to {high:,.0f}</small>"


def _table(
    title: str,
    what: str,
    names: Sequence[str],
    known: Estimated,
    unit: str,
    largest: float,
    order: Sequence[int] | None = None,
) -> str:
    """Return a table with bars, of which one of the number `largest` is whole."""
    head = f"<th scope='col'>{what}</th><th scope='col' class='n'>{unit}</th><td class='bar'></td>"
    lines = [f"<thead><tr>{head}</tr></thead><tbody>"]
    for i in range(len(names)) if order is None else order:
        left, middle, right = (100 * float(each[i]) / largest for each in (known.low, known.numbers, known.high))
        bar = (
            '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect width="{middle:.2f}" height="10" fill="#7fa8d1"/>'
            f'<rect x="{left:.2f}" y="4.4" width="{max(right - left, 0.2):.2f}" height="1.2" fill="#20456b"/></svg>'
        )
        shown = f"<td class='n'>{_number(known, i)}</td><td class='bar'>{bar}</td>"
        lines.append(f"<tr><th scope='row'>{names[i]}</th>{shown}</tr>")
    return f"<table><caption>{title}</caption>{''.join(lines)}</tbody></table>"


def _words(labels: Sequence[str], found: LabelWords, unit: str) -> str:
    """Return a table of the words that each label has more often than public text, with noisy numbers."""
    title = "Words more frequent than in public text"
    lines = ["<thead><tr><th scope='col'>label</th><th scope='col'>words</th></tr></thead><tbody>"]
    for label, own in zip(labels, found.words, strict=True):
        shown = ", ".join(f"{escape(word)}: {found.shown(n)}" for word, n, _ in own) or "none beyond the noise"
        lines.append(f"<tr><th scope='row'>{escape(label)}</th><td>{shown}</td></tr>")
    note = (
        f"<p>Numbers: {unit} for which the word counts. The largest of many numbers are shown, and these are often too "
        "large. The intervals are wider for that: on average 95% of those shown hold the number without noise. Only a "
        "few words of a text count.</p>"
    )
    return f"<table class='words'><caption>{title}</caption>{''.join(lines)}</tbody></table>{note}"


def _cells(found: Topics, known: Estimated, order: Sequence[int]) -> str:
    """Return a table of topics, in this order, by labels. Larger numbers are darker; white if the interval holds 0."""
    title = "Topics by label"
    largest = max(1.0, float(known.numbers.max()))
    heads = "".join(f"<th scope='col' class='n'>{escape(name)}</th>" for name in found.shown)
    lines = [f"<thead><tr><th scope='col'>topic</th>{heads}</tr></thead><tbody>"]
    for topic in order:
        numbers = []
        for label in range(len(found.labels)):
            sure = known.low[label, topic] > 0
            shade = _DARKEST * float(known.numbers[label, topic]) / largest if sure else 0.0
            shown = _number(known, label, topic)
            numbers.append(f"<td class='n' style='background:rgba(127,168,209,{shade:.2f})'>{shown}</td>")
        words = ", ".join(found.topics[topic][0][:3])
        lines.append(f"<tr><th scope='row'>{escape(words)}</th>{''.join(numbers)}</tr>")
    table = f"<table><caption>{title}</caption>{''.join(lines)}</tbody></table>"
    return f"<div class='wide' role='region' tabindex='0' aria-label='{title}'>{table}</div>"
