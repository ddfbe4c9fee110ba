"""Draws `before-after.svg`: sample requests, what leaves in their place, and what is guaranteed.

    python docs/assets/before_after.py

Candidates at epsilon 8, fitted on the first 1,200 sample records; the next five are released under a seed, so that the
picture can be drawn again.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import dptext as dp

EPSILON, PUBLIC, SHOWN, SEED = 8.0, 1200, 5, 3
STYLE = """
text { font: 15px system-ui, sans-serif; fill: #1c2733 }
.head { font-weight: 600; font-size: 13px; fill: #5b6b7b }
.said { font-size: 13px; fill: #5b6b7b }
.card { fill: #f4f6f8 } .out { fill: #e2f0e9 } .arrow { stroke: #5b6b7b; stroke-width: 1.5; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e8edf2 } .head, .said { fill: #9fb0c0 } .card { fill: #222c36 } .out { fill: #1d3a2e }
  .arrow { stroke: #9fb0c0 }
}
"""


def rows() -> tuple[list[tuple[str, str]], str]:
    """Originals with their releases, and the guarantee in a sentence."""
    records = dp.sample_records(PUBLIC + SHOWN)
    labels = tuple(sorted({record.label for record in records if record.label}))
    spec = dp.Candidates(epsilon=EPSILON, labels=labels)
    mechanism = spec.fit(public=records[:PUBLIC], seed=1)
    private = records[PUBLIC:]
    released = dp.privatize(private, mechanism, randomness=dp.randomness.seeded(SEED)).to_records()
    return [(a.text, b.output) for a, b in zip(private, released, strict=True)], spec.guarantee().sentence()


def lines(text: str, most: int = 44) -> list[str]:
    """The text in lines of at most so many characters."""
    found = [""]
    for word in text.split():
        if len(found[-1]) + len(word) >= most:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    return found


def drawn(pairs: list[tuple[str, str]], sentence: str) -> str:
    """The picture."""
    parts = ['<text class="head" x="20" y="26">WHAT PEOPLE WROTE</text>']
    parts.append('<text class="head" x="480" y="26">WHAT LEAVES</text>')
    for i, pair in enumerate(pairs):
        top = 40 + 62 * i
        for x, kind, text in ((20, "card", pair[0]), (480, "out", pair[1])):
            parts.append(f'<rect class="{kind}" x="{x}" y="{top}" width="400" height="52" rx="6"/>')
            for n, line in enumerate(found := lines(text)):
                y = top + 31 - 10 * (len(found) - 1) + 20 * n
                parts.append(f'<text x="{x + 14}" y="{y}">{escape(line)}</text>')
        parts.append(f'<path class="arrow" d="M430 {top + 26} h38 m-7 -5 l7 5 l-7 5"/>')
    bottom = 40 + 62 * len(pairs) + 16
    for n, line in enumerate(lines(sentence, 130)):
        parts.append(f'<text class="said" x="20" y="{bottom + 20 * n}">{escape(line)}</text>')
    body = "\n".join(parts)
    size = f'viewBox="0 0 900 {bottom + 30}" width="900" height="{bottom + 30}"'
    title = "<title>Sample requests and what leaves in their place</title>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{title}<style>{STYLE}</style>\n{body}\n</svg>\n'


if __name__ == "__main__":
    Path(__file__).with_name("before-after.svg").write_text(drawn(*rows()), "utf-8")
