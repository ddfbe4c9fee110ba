"""Which words of long texts should count, and how many of them: what noisy numbers of words say of labels, as a CSV.

    python packages/lab/experiments/marks.py OUT.csv [SET ...] [--seeds 0 1 2]

Sets are IMDB (two labels, 5,000 private texts) and 20 Newsgroups (20 labels, 6,000). The pool has 4,000 texts of the
training part, without labels; the list of words is made of it. Words have .42 of rho, as `--with words,lengths` gives
them beside points, at epsilon 1, add or remove one document. A text marks the first of its words in the list, or those
that its digest draws. Naive Bayes by the noisy numbers, and the true numbers of texts by label, labels 1,500 texts of
the test part. Nothing else of a summary is measured.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import append_rows
from synthesis_splits import read

from dptext.synthesis.blocks import WORDS
from dptext.synthesis.judging import believed
from dptext.synthesis.lexicon import fit_lexicon, mark_rates
from dptext.synthesis.summary import SummarySpec
from dptext.types import Floats, Integers

Row = dict[str, Any]
POOL, TEST, SHARE = 4_000, 1_500, 0.42
PRIVATE = {"imdb": 5_000, "20newsgroups": 6_000}
MARKS, WIDTHS = (5, 20, 40, 60, 160), (2_000, 8_000)


def numbers_of(marks: Integers, labels: Integers, width: int) -> Floats:
    """Numbers of marks by label, `(labels, width)`, without noise."""
    found = np.zeros((int(labels.max()) + 1, width))
    for row, label in zip(marks, labels, strict=True):
        found[label, row[row >= 0]] += 1
    return found


def measured(name: str, seeds: list[int]) -> Iterator[Row]:
    """Yield a row for each rule, number of marks, size of the list and seed."""
    rows, order = read(name), random.Random(3)  # noqa: S311 (no secret)
    parts = {part: [row for row in rows if row["split"] == part] for part in ("train", "test")}
    for part in parts.values():
        order.shuffle(part)
    pool, private = [row["text"] for row in parts["train"][:POOL]], parts["train"][POOL : POOL + PRIVATE[name]]
    names = tuple(sorted({str(row["label"]) for row in parts["train"]}))
    own, truth = (
        np.array([names.index(str(row["label"])) for row in part]) for part in (private, parts["test"][:TEST])
    )
    sizes = np.bincount(own, minlength=len(names)).astype(np.float64)
    for width in WIDTHS:
        for most in MARKS:
            spec = SummarySpec(
                labels=names, epsilon=1.0, delta=1e-5, about=len(private), marks=most, points=False, word_share=SHARE
            )
            noise = spec.deviations()[WORDS]
            for drawn in (False, True):
                lexicon = fit_lexicon(pool, size=width, most=most, drawn=drawn)
                usual = mark_rates(lexicon, pool, [], 1)[0]
                clean = numbers_of(lexicon.marks([row["text"] for row in private]), own, len(lexicon))
                known = [sorted(lexicon.known(row["text"])) for row in parts["test"][:TEST]]
                for seed in seeds:
                    noisy = clean + np.random.default_rng(seed).normal(0, noise, clean.shape)
                    each = zip(noisy, sizes, strict=True)
                    logs = np.log(np.array([believed(numbers, n, usual, noise) for numbers, n in each]))
                    said = np.array([logs[:, words].sum(axis=1).argmax() for words in known])
                    rule = "drawn" if drawn else "first of the list"
                    yield {
                        "set": name, "words": len(lexicon), "marks": most, "rule": rule, "noise": round(noise, 1),
                        "seed": seed, "accuracy": round(float((said == truth).mean()), 4),
                    }  # fmt: skip


def main() -> None:
    """Append a row for each setting to the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="*", default=list(PRIVATE))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    for name in given.sets:
        append_rows(given.out, measured(name, given.seeds))


if __name__ == "__main__":
    main()
