"""What a topic report says: noisy numbers of units by label and topic; as data, in words, and as one HTML page.

The page needs no network and no JavaScript.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Final

from dptext.types import Floats, Json

_SURE: Final = 3.0  # deviations beyond which a pool is said not to fit
_NOTHING: Final = (
    "There is hardly more than noise: is the corpus empty, or are its fields named otherwise? See dptext check."
)
_NORMAL: Final = 1.959964  # a normal variable is within so many deviations in 95%


@dataclass(frozen=True, slots=True)
class PoolFit:
    """Whether a public pool fits a private corpus.

    Attributes:
        share: noisy share of texts that are less like the pool than nine in ten of its own texts are; .1 is usual.
        margin: half of its interval, at 95%.
        fits: False where the share is above twice the usual, beyond chance.
    """

    share: float
    margin: float
    fits: bool

    @classmethod
    def of(
        cls, unlike: float, deviation: float, units: float, deviation_of_units: float, *, usual: float, compared: int
    ) -> PoolFit:
        """From noisy numbers and their deviations. `usual` was found with `compared` pool texts."""
        units = max(units, 1.0)
        least = 2 * usual

        def spread(share: float) -> float:  # of unlike - share * units: noise of both, chance of records and of `usual`
            chance = usual * (1 - usual) * (1 / units + 1 / compared) * units**2
            return math.sqrt(deviation**2 + (share * deviation_of_units) ** 2 + chance)

        share = min(max(unlike / units, 0.0), 1.0)
        misfit = unlike - least * units > _SURE * spread(least)
        return cls(share, min(1.0, _NORMAL * spread(share) / units), not misfit)

    @property
    def sentence(self) -> str:
        """What it says and what helps."""
        return (
            f"The pool does not fit: {self.share:.0%} of the texts (within {self.margin:.0%}) are less like it than "
            "nine in ten of its own are. Give public texts of the same kind."
        )


@dataclass(frozen=True, slots=True)
class Topics:
    """Noisy numbers of units. Rows are labels (one row without any), columns topics (one column without any).

    Attributes:
        counts: noisy numbers, `(labels, topics)`; below 0 by chance.
        margin: half of the interval of each number, at 95%.
        topics: each topic's public words and public texts.
        counted: noisy numbers by label that have less noise than the sums over the topics, `(labels,)`, where there are
            some, and half of their interval.
        fit: whether the pool fits, where that was asked.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    margin: float
    topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    unit: str = "document"
    counted: tuple[tuple[float, ...], float] | None = None
    fit: PoolFit | None = None

    @property
    def measure(self) -> str:
        """What the numbers are of; records of an author are clipped together, so that authors are not counted."""
        return "documents" if self.unit == "document" else "weight of authors"

    @property
    def note(self) -> str:
        """What the numbers are."""
        if self.unit == "document":
            return "Numbers of documents with noise."
        return (
            "Weights of authors with noise, not how many there are: the records of an author count together with "
            "length 1 at most, spread over labels and topics."
        )

    @property
    def by_label(self) -> tuple[list[float], float]:
        """Noisy numbers by label, and half of the interval of each."""
        if self.counted is not None:
            return list(self.counted[0]), self.counted[1]
        return [sum(row) for row in self.counts], self.margin * math.sqrt(len(self.counts[0]))

    @property
    def by_topic(self) -> tuple[list[float], float]:
        """Noisy numbers by topic, and half of the interval of each."""
        return [sum(column) for column in zip(*self.counts, strict=True)], self.margin * math.sqrt(len(self.counts))

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        counts: Floats,
        deviation: float,
        topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
        unit: str,
        fit: PoolFit | None,
        counted: tuple[Floats, float] | None = None,
    ) -> Topics:
        """The report of numbers `(labels, topics)` whose noise has this standard deviation; `counted` likewise."""
        rows = tuple(tuple(map(float, row)) for row in counts)
        own = None if counted is None else (tuple(map(float, counted[0])), _NORMAL * counted[1])
        return cls(tuple(labels), rows, _NORMAL * deviation, topics, unit, own, fit)

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "unit": self.unit,
            "labels": list(self.labels),
            "counts": [[round(n, 3) for n in row] for row in self.counts],
            "margin": self.margin,
            "by_label": [round(n, 3) for n in self.by_label[0]] if self.labels else [],
            "margin_by_label": self.by_label[1],
            "confidence": 0.95,
            "unlike_pool": None if self.fit is None else asdict(self.fit),
            "warnings": list(self.warnings),
            "topics": [{"words": list(words), "examples": list(texts)} for words, texts in self.topics],
            "note": f"{self.note} All names, words and examples are public.",
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """That there is little but noise, and that the pool does not fit, where it is so."""
        numbers, margin = self.by_label
        said = [_NOTHING] if sum(numbers) < margin * math.sqrt(len(numbers)) else []
        return (*said, *(() if self.fit is None or self.fit.fits else (self.fit.sentence,)))

    def sentences(self) -> tuple[str, ...]:
        """The largest labels and topics in plain words; before them, warnings."""
        said, (numbers, margin) = [*self.warnings], self.by_label
        if self.labels:
            named = ", ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(self.labels, numbers))
            said.append(f"Labels, in {self.measure}, each within {margin:,.0f} at 95%: {named}.")
        if self.topics:
            numbers, margin = self.by_topic
            names = [" ".join(words[:3]) for words, _ in self.topics]
            named = "; ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(names, numbers))
            said.append(f"Topics, each within {margin:,.0f} at 95%: {named}.")
        return tuple(said)


def _largest(names: Sequence[str], numbers: Sequence[float]) -> list[tuple[str, float]]:
    return sorted(zip(names, numbers, strict=True), key=lambda each: -each[1])[:8]


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
    head = f"<th scope='col'>{what}</th><th scope='col' class='n'>{unit}</th><td></td>"
    lines = [f"<thead><tr>{head}</tr></thead><tbody>"]
    for name, n in rows:
        left, middle, right = (100 * min(max(at, 0.0), largest) / largest for at in (n - margin, n, n + margin))
        bar = (
            '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect width="{middle:.2f}" height="10" fill="#7fa8d1"/>'
            f'<rect x="{left:.2f}" y="4.4" width="{max(right - left, 0.2):.2f}" height="1.2" fill="#20456b"/></svg>'
        )
        shown = f"<td class='n'>{_number(n, margin)}</td><td class='bar'>{bar}</td>"
        lines.append(f"<tr><th scope='row'>{name}</th>{shown}</tr>")
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
