"""How often English texts are judged English: single ones, requests of five words, passages, and pools.

DPTEXT_DATA=... python packages/lab/experiments/tell_languages.py
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from common import corpus_rows

from dptext.text.languages import load_identifier, main_language

SETS = ("atis", "snips", "imdb", "20newsgroups", "medical_abstracts", "blogs", "peer_reviews")
SINGLE = 1_000  # texts
POOLS = 60
JOINED = 12  # requests of five words: at least 200 letters


def pools(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield pools of so many texts, one after the other."""
    return islice((texts[i : i + size] for i in range(0, len(texts) - size + 1, size)), POOLS)


def told(texts: Sequence[str], size: int) -> str:
    """Return how many pools are told to be English, of how many, and how many to be in another language."""
    found = Counter(each and each.code for each in map(main_language, pools(texts, size)))
    sure = found["en"] + found[None]
    return f"{found['en']} of {found.total()} | {found.total() - sure}"


def judged(texts: Sequence[str]) -> tuple[str, str]:
    """Return the share of texts that the model judges English, and how many it judges a second."""
    start = time.perf_counter()
    found = [load_identifier().classify(text[:500])[0] for text in texts[:SINGLE]]
    return f"{found.count('en') / len(found):.1%}", f"{len(found) / (time.perf_counter() - start):,.0f}"


def main() -> None:
    """Print a table."""
    start = time.perf_counter()
    load_identifier()
    print(f"The model was loaded in {time.perf_counter() - start:.1f} s.\n")
    print("| set | texts | a second | five words | twelve times five | pools of 100 | other | of 20 | other "
          "| of 400 times five words | other |")  # fmt: skip
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in SETS:
        texts = [row["text"] for row in corpus_rows(name)]
        short = [" ".join(text.lower().split()[:5]) for text in texts]
        joined = ["\n".join(short[i : i + JOINED]) for i in range(0, len(short) - JOINED + 1, JOINED)]
        share, speed = judged(texts)
        print(f"| {name} | {share} | {speed} | {judged(short)[0]} | {judged(joined)[0]} | {told(texts, 100)} "
              f"| {told(texts, 20)} | {told(short, 400)} |")  # fmt: skip


if __name__ == "__main__":
    main()
