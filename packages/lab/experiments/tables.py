"""How near the rows that are written from a summary of columns come to those of the private table: a CSV.

    python packages/lab/experiments/tables.py OUT.csv [TABLE ...] [--epsilons 1 4] [--seeds 0 1 2 3 4]
    python packages/lab/experiments/tables.py OUT.csv blogs --unit author --relations add_or_remove_one
    python packages/lab/experiments/tables.py OUT.csv --tables

Each run is `dptext summarize --shares columns=.25 --text-follows none` and `dptext write`: 5,000 rows are read,
and 5,000 are written. Delta 1e-5. Units are rows; with `--unit author` they are the authors of blogs, and `about` is
their number. Tables are blogs (gender, age, words), IMDB (rating, label, words), peer reviews (rating, confidence,
decision, day, words) and tickets, which are generated here. Rows:

- *table*: the usual pairs of columns. *rounded*: the same numbers, apportioned and not drawn.
- *independent*: each column alone, at the same epsilon.
  `--tables` shows means over seeds, and two standard errors.
- *true, redrawn*: private rows drawn with replacement. *true, independent*: each true column shuffled.

*one*: the mean total variation of a column from the private one. *two*: of a pair of columns. Values are compared by
the cells of their declarations.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import append_rows
from summary import DELTA, dptext
from synthesis_splits import read
from synthesis_tables import print_tables, table, with_errors

from dptext.text.declarations import schema_of
from dptext.text.formats import cell_text
from dptext.text.samples import sample_records

Row = dict[str, Any]
SIZE, SEED = 5_000, 11
COLUMNS = {
    "blogs": ["gender: female|male", "age: 20..49 by 5", "words: 0..639 by 40"],
    "IMDB": ["rating: 1..10 by 1", "sentiment: pos|neg", "words: 0..639 by 40"],
    "peer reviews": [
        "rating: 1..10 by 1", "confidence: 1..5 by 1", "decision: accept|reject", "date: 2023-06-01..2023-08-31 by day",
        "words: 0..1199 by 75",
    ],
    "tickets": [
        "topic: health|travel|money|leisure", "priority: low|normal|high", "amount: 0..500 by 25",
        "created: 2024-01..2026-12 by month",
    ],
}  # fmt: skip
NAMES = {"blogs": "blogs", "IMDB": "imdb", "peer reviews": "peer_reviews"}
RENAMED = {"label": {"IMDB": "sentiment", "peer reviews": "decision"}}
WAYS: dict[str, tuple[list[str], list[str]]] = {
    "table": ([], []), "rounded": ([], ["--rounded"]), "independent": (["--pairs", "none"], []),
}  # fmt: skip


def tickets(n: int) -> list[Row]:
    """Generated tickets: the priority follows the topic, and the amount the priority."""
    rng = random.Random(SEED)  # noqa: S311
    weights = {"health": (1, 2, 5), "travel": (4, 3, 1), "money": (1, 3, 2), "leisure": (6, 2, 1)}
    found = []
    for record in sample_records(n, seed=SEED):
        priority = rng.choices(("low", "normal", "high"), weights[record.label or ""])[0]
        amount = round(rng.lognormvariate({"low": 3, "normal": 4, "high": 5}[priority], 0.7), 2)
        day = dt.date(2024, 1, 1) + dt.timedelta(int(rng.betavariate(2, 4) * 900))
        row = {"topic": record.label, "priority": priority, "amount": amount, "created": day.isoformat()}
        found.append({**row, "text": record.text})
    return found


def rows_of(name: str) -> list[Row]:
    """Return private rows."""
    if name not in NAMES:
        return tickets(SIZE)
    found = read(NAMES[name], lambda _: True)
    random.Random(SEED).shuffle(found)  # noqa: S311
    renamed = {own: names[name] for own, names in RENAMED.items() if name in names}
    return [
        {**{renamed.get(key, key): value for key, value in row.items()}, "words": len(row["text"].split())}
        for row in found[:SIZE]
    ]


def cells_of(name: str, rows: Sequence[Row]) -> np.ndarray:
    """Return the cells of rows, `(n, columns)`."""
    schema = schema_of(COLUMNS[name])
    return np.stack([each.cells([cell_text(row[each.name]) for row in rows]) for each in schema], axis=1)


def apart(name: str, one: np.ndarray, other: np.ndarray) -> Row:
    """Return the mean total variation of columns, and of pairs."""
    sizes, found = [len(each) for each in schema_of(COLUMNS[name])], {}
    for what, k in (("one", 1), ("two", 2)):
        each = []
        for axes in itertools.combinations(range(len(sizes)), k):
            shape = [sizes[axis] for axis in axes]
            shares = [
                np.bincount(np.ravel_multi_index(rows[:, axes].T, shape), minlength=int(np.prod(shape))) / len(rows)
                for rows in (one, other)
            ]
            each.append(np.abs(shares[0] - shares[1]).sum() / 2)
        found[what] = round(float(np.mean(each)), 4)
    return found


def measured(
    name: str, epsilons: list[float], relations: list[str], seeds: list[int], folder: Path, *, by_author: bool = False
) -> Iterator[Row]:
    """Yield the rows of a table."""
    rows = rows_of(name)
    about, units = SIZE, list[str]()
    if by_author:
        about, units = len({row["author"] for row in rows}), ["--unit", "author", "--author-field", "author"]
    truth, rng = cells_of(name, rows), np.random.default_rng(SEED)
    for seed in seeds:
        yield {"table": name, "row": "true, redrawn", "epsilon": "", "relation": "", "seed": seed,
               **apart(name, truth, truth[rng.integers(0, len(truth), SIZE)])}  # fmt: skip
        shuffled = np.stack([rng.permutation(column) for column in truth.T], axis=1)
        yield {"table": name, "row": "true, independent", "epsilon": "", "relation": "", "seed": seed,
               **apart(name, truth, shuffled)}  # fmt: skip
    private, pool, out = folder / "private.jsonl", folder / "pool.jsonl", folder / "out.jsonl"
    private.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pool.write_text("".join(json.dumps({"text": each.text}) + "\n" for each in sample_records(36)), "utf-8")
    columns = [part for each in COLUMNS[name] for part in ("--column", each)]
    for seed, epsilon, relation in itertools.product(seeds, epsilons, relations):
        for row, (measuring, writing) in WAYS.items():
            summary = folder / f"{'none' if measuring else 'usual'}.summary"
            if row != "rounded":
                dptext(
                    "summarize", private, summary, "--public", pool, *columns, *measuring, "--shares", "columns=.25",
                    "--text-follows", "none", *units,
                    "--about", about, "--epsilon", epsilon, "--delta", DELTA, "--relation", relation, "--seed", seed,
                    "--force",
                )  # fmt: skip
            dptext("write", summary, out, "--size", SIZE, "--seed", seed, *writing, "--force")
            made = cells_of(name, [json.loads(line) for line in out.read_text("utf-8").splitlines()])
            yield {"table": name, "row": row, "epsilon": epsilon, "relation": relation, "seed": seed,
                   **apart(name, truth, made)}  # fmt: skip


def tables(rows: list[dict[str, str]]) -> str:
    """Return the table of all rows."""
    lines = []
    for name, row, epsilon, relation in dict.fromkeys(
        (each["table"], each["row"], each["epsilon"], each["relation"]) for each in rows
    ):
        own = [
            each for each in rows
            if (each["table"], each["row"], each["epsilon"], each["relation"]) == (name, row, epsilon, relation)
        ]  # fmt: skip
        cells = [with_errors(own, column) for column in ("one", "two")]
        lines.append([name, row, epsilon and f"{float(epsilon):g}", relation, *cells])
    return table("table | rows | epsilon | relation | one column | two", lines)


def main() -> None:
    """Measure the tables that are named, or all; or print the table of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("tables", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--relations", nargs="+", default=["add_or_remove_one", "replace_one"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--unit", choices=["document", "author"], default="document")
    parser.add_argument("--tables", dest="shown", action="store_true")
    given = parser.parse_args()
    if given.shown:
        print_tables(given.out, tables)
        return

    def every() -> Iterator[Row]:
        for name in given.tables or COLUMNS:
            with TemporaryDirectory() as folder:
                yield from measured(
                    name, given.epsilons, given.relations, given.seeds, Path(folder), by_author=given.unit == "author"
                )

    append_rows(given.out, every())


if __name__ == "__main__":
    main()
