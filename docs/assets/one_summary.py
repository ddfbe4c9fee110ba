"""Draws `one-summary.svg`: a private corpus, the summary that is measured of it, and what is made of the summary.

    python docs/assets/one_summary.py

The private texts are 600 sample records, and 400 others are public. The noise is seeded, so that the picture can be
drawn again.
"""

from __future__ import annotations

import textwrap
from html import escape
from pathlib import Path

import dptext as dp

EPSILON, SEED, PRIVATE, PUBLIC = 1.0, 3, 600, 400
LABELS = ("health", "travel", "money", "leisure")
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1c2733 }
.head { font-weight: 600; font-size: 13px; fill: #5b6b7b } .said { font-size: 13px; fill: #5b6b7b }
.card { fill: #f4f6f8 } .once { fill: #fdf1d8 } .out { fill: #e2f0e9 }
.arrow { stroke: #5b6b7b; stroke-width: 1.5; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e8edf2 } .head, .said { fill: #9fb0c0 } .card { fill: #222c36 } .once { fill: #3d3320 }
  .out { fill: #1d3a2e } .arrow { stroke: #9fb0c0 }
}
"""
LEFT, MIDDLE, RIGHT, BOTTOM = 20, 330, 632, 350


def drawn() -> str:
    """Return the picture."""
    records = [*{each.text: each for each in dp.sample_records(2 * (PRIVATE + PUBLIC))}.values()]
    private, pool = records[:PRIVATE], [each.text for each in records[PRIVATE : PRIVATE + PUBLIC]]
    noise = dp.randomness.seeded(SEED)
    summary = dp.summarize(
        private, pool, label="label", labels=LABELS, epsilon=EPSILON, about=PRIVATE, seed=SEED, randomness=noise
    )
    corpus = dp.write(summary, writer="pool", size=200, seed=SEED)
    parts = [head(LEFT, "PRIVATE TEXTS"), head(MIDDLE, "SUMMARY"), head(RIGHT, "WHAT IS MADE OF IT, FOR FREE")]
    for i, each in enumerate(private[:4]):
        parts.append(card("card", LEFT, 40 + 72 * i, 240, 62, wrapped(each.text, 29)))
    known = summary.report.estimates.by_label
    said = [f"{name}: {known.shown(i)}" for i, name in enumerate(LABELS)]
    more = ["what texts of a label are like", "words, topics, columns"]
    parts.append(card("once", MIDDLE, 84, 242, 190, ["noisy numbers, measured once", *said, *more]))
    shown = {each.label: each.output for each in reversed(corpus.releases)}
    rows = [line for name in LABELS[:3] for line in wrapped(f"{name} | {shown.get(name, '')}", 29, 1)]
    parts.append(card("out", RIGHT, 40, 248, 112, ["corpora with labels", *rows]))
    parts.append(card("out", RIGHT, 162, 248, 62, ["tables: priority, date, text"]))
    parts.append(card("out", RIGHT, 234, 248, 62, ["reports; texts that your", "language model writes"]))
    for x, y in ((LEFT + 252, 178), (MIDDLE + 254, 178)):
        parts.append(f'<path class="arrow" d="M{x} {y} h36 m-7 -5 l7 5 l-7 5"/>')
    parts.append(f'<text class="said" x="{MIDDLE}" y="296">one pass, one noise, epsilon {EPSILON:g}</text>')
    promised = summary.summary.spec.guarantee()
    for n, line in enumerate(textwrap.wrap(promised.sentence(), 125)):
        parts.append(f'<text class="said" x="{LEFT}" y="{BOTTOM + 20 * n}">{escape(line)}</text>')
    body = "\n".join(parts)
    title = "<title>A private corpus, the summary that is measured of it, and what is made of the summary</title>"
    size = 'viewBox="0 0 900 390" width="900" height="390"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{title}<style>{STYLE}</style>\n{body}\n</svg>\n'


def head(x: int, text: str) -> str:
    """Return the heading of a column."""
    return f'<text class="head" x="{x}" y="26">{text}</text>'


def wrapped(text: str, width: int, most: int = 2) -> list[str]:
    """Return a text in so many lines at most."""
    return textwrap.wrap(text, width, max_lines=most, placeholder=" …")


def card(kind: str, x: int, y: int, width: int, height: int, lines: list[str]) -> str:
    """Return a box with lines of text."""
    top = y + height / 2 - 11 * (len(lines) - 1) + 5
    texts = "".join(f'<text x="{x + 14}" y="{top + 22 * n:g}">{escape(line)}</text>' for n, line in enumerate(lines))
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>{texts}'


if __name__ == "__main__":
    Path(__file__).with_name("one-summary.svg").write_text(drawn(), "utf-8")
