"""What each block of a summary costs the others, on long texts, through the commands: a CSV.

    python packages/lab/experiments/summary_blocks.py OUT.csv [SPLIT ...] [--epsilons 1] [--seeds 0 1 2]
        [--rows nothing words ...]
    python packages/lab/experiments/summary_blocks.py OUT.csv --tables

Each run is `dptext summarize` and `dptext write --writer pool` in processes of their own. Add or remove one document,
delta 1e-5. Splits are those of `synthesis.py`, and so are the judge and the rows *original* and *public-only* of
docs/results/synthesis.md. A row is named by the blocks that are measured beside counts and points. The first summary of
a row makes the public parts for all seeds. Columns:

- *accuracy*, *macro_f1*: of a classifier that learns from what leaves.
- *reads*: the share of test texts that the noisy numbers themselves read right.
- *counts*, *topics*: deviations of the noise of a number of texts; *words*: of a number of marks.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import append_rows
from summary import DELTA, dptext, got, put
from synthesis import SEED, Judge, as_records
from synthesis_splits import SPLITS
from synthesis_tables import mean, number, table

from dptext.runs.summarizing import read_summary
from dptext.synthesis.blocks import COUNTS, TOPICS, WORDS
from dptext.synthesis.judging import judged
from dptext.types import Floats

Row = dict[str, Any]
TOPIC_NUMBER = 20
WAYS = {
    "nothing": [], "words": ["--with", "words"], "topics": ["--with", "topics", "--set", f"topics={TOPIC_NUMBER}"],
    "words and topics": ["--with", "words,topics", "--set", f"topics={TOPIC_NUMBER}"],
}  # fmt: skip
READ = ("accuracy", "macro_f1", "reads")
NOISE = (COUNTS, TOPICS, WORDS)


def measured(name: str, ways: list[str], epsilons: list[float], seeds: list[int], folder: Path) -> Iterator[Row]:
    """Yield the rows of a split."""
    split = SPLITS[name]
    pool, private, test = split.rows(random.Random(SEED))  # noqa: S311
    judge = Judge([record for record in as_records(test) if record.label in split.names])
    files = {part: put(folder / f"{part}.jsonl", rows) for part, rows in (("pool", pool), ("private", private))}
    lists = folder / "labels.txt", folder / "names.txt"
    for path, lines in zip(lists, (split.names, split.names.values()), strict=True):
        path.write_text("\n".join(lines) + "\n")
    texts, truth = [record.text for record in judge.test], [record.label for record in judge.test]
    public = ["--public", files["pool"], "--labels", f"@{lists[0]}", "--names", f"@{lists[1]}"]
    for way in ways:
        more = WAYS[way]
        first: Path | None = None
        points: Floats | None = None
        for seed, epsilon in itertools.product(seeds, epsilons):
            summary, out = folder / f"{way}, {epsilon:g}, {seed}.summary", folder / "written.jsonl"
            print(dptext(
                "summarize", files["private"], summary, *([*public, *more] if first is None else ["--like", first]),
                "--label-field", "label", "--about", split.settings["about"], "--epsilon", epsilon, "--delta", DELTA,
                "--seed", seed, "--force",
            ))  # fmt: skip
            first = first or summary
            dptext("write", summary, out, "--writer", "pool", "--seed", seed, "--force")
            found = read_summary(summary)[0]
            space = found.public.pool.space
            assert space is not None
            points = space.points(texts) if points is None else points
            best = judged(found, texts, points)[0].argmax(axis=1)
            right = [found.spec.labels[i] == label for i, label in zip(best, truth, strict=True)]
            noise = {block: round(found.known[block].deviation, 2) if block in found.known else "" for block in NOISE}
            yield {
                "split": name, "row": way, "epsilon": epsilon, "seed": seed, **judge(*got(out)),
                "reads": sum(right) / len(right), **noise,
            }  # fmt: skip


def tables(rows: list[dict[str, str]]) -> str:
    """Return the table of all rows."""
    lines = []
    for split, way, epsilon in dict.fromkeys((row["split"], row["row"], row["epsilon"]) for row in rows):
        cells = [number(*mean(rows, split, way, column, float(epsilon))) for column in READ]
        first = next(row for row in rows if (row["split"], row["row"], row["epsilon"]) == (split, way, epsilon))
        lines.append([split, way, f"{float(epsilon):g}", *cells, *(first[block] for block in NOISE)])
    return table("split | measured besides | epsilon | accuracy | macro-F1 | reads | counts | topics | words", lines)


def main() -> None:
    """Measure the splits that are named, or the two of long texts; or print the table of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("splits", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    if given.tables:
        with given.out.open(newline="", encoding="utf-8") as file:
            print(tables(list(csv.DictReader(file))))
        return

    def every() -> Iterator[Row]:
        for name in given.splits or ("20 Newsgroups", "OHSUMED"):
            with TemporaryDirectory() as folder:
                yield from measured(name, given.rows, given.epsilons, given.seeds, Path(folder))

    append_rows(given.out, every())


if __name__ == "__main__":
    main()
