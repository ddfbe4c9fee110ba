"""What the rows of a written table teach of its columns: from their texts alone, and from texts and columns: a CSV.

    python packages/lab/experiments/table_texts.py OUT.csv [TABLE ...] [--epsilons 1 4] [--seeds 0 1 2]
    python packages/lab/experiments/table_texts.py OUT.csv blogs IMDB --ways nothing "topics alone" --epsilons 1
    python packages/lab/experiments/table_texts.py OUT.csv tickets blogs --ways builtin unsteered chosen --epsilons 1
    python packages/lab/experiments/table_texts.py OUT.csv --tables

Each run is `dptext summarize` and `dptext write --writer pool` in processes of their own. Add or remove one row, delta
1e-5, encoder "distilled". A model learns from rows, and is tried on real rows that nobody else saw. Tables are blogs
(gender, age, words), IMDB (sentiment, rating, words), peer reviews (decision, rating, confidence, words) and tickets,
which are generated (topic, priority, amount). `COLUMN` is the score of a classifier of that column from texts (TF-IDF
of words, linear SVM). `boosted` is that of boosted trees that tell the last listed column from the others and
50 directions of the texts' words. Scores are accuracies, but for the decision of a review, whose classes have equal
weight, as nearly all are accepted. Rows:

- *original*: the private rows. *random*: columns drawn uniformly beside texts of the pool.
- *table*: the command by default. *independent*: without pairs of columns. *nothing*: texts follow no column.
- *alone*: for each column a summary of it as the label, and of nothing else, at the same epsilon.
- With `--ways`: *topics alone*: texts follow no column, but their topics do, by pairs of each listed column and topics.
  *first*: texts follow the first column; *first, topics*: and their topics the other listed ones.
  *builtin*: the built-in model writes 500 texts with their row in the prompt, by a summary with words; *unsteered*: the
  same by a summary whose texts follow no column; *chosen*: 500 rows by the summary of *builtin*, with pool texts.
- *public-only*: the pool, each text with the value whose name ("rating 3") is nearest to it, by the encoder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import append_rows
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.svm import LinearSVC
from summary import DELTA, dptext
from synthesis_splits import read
from synthesis_tables import print_tables, table, with_errors
from tables import NAMES, RENAMED, tickets

from dptext.embeddings.encoders import load_encoder
from dptext.embeddings.tfidf import words_tfidf

Row = dict[str, Any]
SEED, DIRECTIONS = 13, 50
#: Rows of the pool, private rows, and rows to be tried.
SIZES = {"peer reviews": (1_200, 4_000, 1_500)}
SIZE = (3_000, 5_000, 2_000)
AGES = ("20s", "30s", "40s")
LISTED = {
    "blogs": {"gender": ("female", "male"), "age": AGES},
    "IMDB": {"sentiment": ("pos", "neg"), "rating": (*tuple("1234789"), "10")},
    "peer reviews": {"decision": ("accept", "reject"), "confidence": tuple("12345"), "rating": tuple("123456789")},
    "tickets": {"topic": ("health", "travel", "money", "leisure"), "priority": ("low", "normal", "high")},
}
NUMBERS = {
    "blogs": "words: 0..639 by 40", "IMDB": "words: 0..639 by 40", "peer reviews": "words: 0..1199 by 75",
    "tickets": "amount: 0..500 by 25",
}  # fmt: skip
WAYS: dict[str, list[str]] = {
    "table": [], "independent": ["--pairs", "none"], "nothing": ["--text-follows", "none"],
    "topics alone": ["--text-follows", "none", "--with", "topics"], "first": [], "first, topics": ["--with", "topics"],
    "builtin": ["--with", "words"], "unsteered": ["--text-follows", "none", "--with", "words"],
    "chosen": ["--with", "words"],
}  # fmt: skip
#: How rows are written, where not by default from the pool.
WRITTEN = {
    way: ["--writer", writer, "--size", "500"]
    for way, writer in (("builtin", "builtin"), ("unsteered", "builtin"), ("chosen", "pool"))
}
USUAL = ("original", "random", "public-only", "table", "independent", "nothing", "alone")


def rows_of(name: str) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the pool, private rows and rows to be tried; all values are texts."""
    sizes = SIZES.get(name, SIZE)
    found = tickets(sum(sizes)) if name not in NAMES else read(NAMES[name], lambda _: True)
    random.Random(SEED).shuffle(found)  # noqa: S311
    renamed = {own: names[name] for own, names in RENAMED.items() if name in names}
    columns = ("text", *LISTED[name], NUMBERS[name].partition(":")[0])
    made = []
    for row in found:
        own = {**{renamed.get(key, key): value for key, value in row.items()}, "words": len(row["text"].split())}
        if name == "blogs":
            own["age"] = AGES[min(2, own["age"] // 10 - 2)]
        made.append({key: str(own[key]) for key in columns})
    starts = [0, *itertools.accumulate(sizes)]
    pool, private, test = (made[a:b] for a, b in itertools.pairwise(starts))
    return pool, private, test


class Tried:
    """Models that learn from rows, tried on real ones."""

    def __init__(self, name: str, test: list[Row]) -> None:
        self.name, self.test = name, test
        *self.others, self.target = LISTED[name]
        self.number = NUMBERS[name].partition(":")[0]

    def score(self, column: str, found: Sequence[str]) -> float:
        """Return the accuracy; of decisions that of both classes on average."""
        truth = [row[column] for row in self.test]
        how = balanced_accuracy_score if column == "decision" else accuracy_score
        return round(float(how(truth, found)), 4)

    def by_text(self, rows: list[Row], column: str) -> float:
        """Return the score of a classifier of texts alone."""
        given = [str(row[column]) for row in rows]
        if len(set(given)) < 2:
            return self.score(column, [given[0]] * len(self.test))
        vectors = words_tfidf().fit([row["text"] for row in rows])
        model = LinearSVC(C=0.5).fit(vectors.transform([row["text"] for row in rows]), given)
        return self.score(column, model.predict(vectors.transform([row["text"] for row in self.test])))

    def boosted(self, rows: list[Row]) -> float:
        """Return the score of boosted trees of the other columns and the text."""
        vectors = words_tfidf().fit([row["text"] for row in rows])
        learned: csr_matrix = vectors.transform([row["text"] for row in rows])
        ways = TruncatedSVD(DIRECTIONS, random_state=0).fit(learned)
        both = []
        for some in (rows, self.test):
            values = [
                [float(row[self.number] or "nan"), *(self._place(row, name) for name in self.others)] for row in some
            ]
            both.append(np.hstack([values, ways.transform(vectors.transform([row["text"] for row in some]))]))
        given = [str(row[self.target]) for row in rows]
        if len(set(given)) < 2:
            return self.score(self.target, [given[0]] * len(self.test))
        model = HistGradientBoostingClassifier(random_state=0, early_stopping=False).fit(both[0], given)
        return self.score(self.target, model.predict(both[1]))

    def _place(self, row: Row, column: str) -> int:
        listed = LISTED[self.name][column]
        return listed.index(str(row[column])) if str(row[column]) in listed else -1

    def row(self, rows: list[Row]) -> Row:
        """Return the scores of all columns."""
        return {**{column: self.by_text(rows, column) for column in LISTED[self.name]}, "boosted": self.boosted(rows)}


def put(path: Path, rows: list[Row]) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def got(path: Path) -> list[Row]:
    """Read rows of JSON Lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def named(name: str, pool: list[Row]) -> list[Row]:
    """Return the pool with the values whose names are nearest, and random numbers."""
    encoder, rng, number = load_encoder("sentence"), random.Random(SEED), NUMBERS[name].partition(":")[0]  # noqa: S311
    points = np.asarray(encoder.embed([row["text"] for row in pool]))
    found = [{"text": row["text"], number: row[number] if number == "words" else rng.uniform(0, 500)} for row in pool]
    for column, values in LISTED[name].items():
        near = points @ np.asarray(encoder.embed([f"{column} {value}" for value in values])).T
        for row, best in zip(found, (near - near.mean(axis=0)).argmax(axis=1).tolist(), strict=True):
            row[column] = values[best]
    return found


def asked(name: str, way: str) -> list[str]:
    """Return how a way is measured. With topics pairs are named, as usual ones may leave no room for topics."""
    columns, number = [*LISTED[name]], NUMBERS[name].partition(":")[0]
    given = [*WAYS[way], *(["--text-follows", columns[0]] if way.startswith("first") else [])]
    if "topics" not in way:
        return given
    free = columns[1:] if way.startswith("first") else columns
    pairs = [*itertools.combinations(columns, 2), (columns[0], number), *((each, "topics") for each in free)]
    return [*given, "--pairs", ",".join("+".join(pair) for pair in pairs)]


def measured(name: str, ways: list[str], epsilons: list[float], seeds: list[int], folder: Path) -> Iterator[Row]:
    """Yield the rows of a table."""
    pool, private, test = rows_of(name)
    tried, rng = Tried(name, test), random.Random(SEED)  # noqa: S311
    head = {"table": name, "epsilon": "", "seed": ""}
    uniform = [{**row, **{column: rng.choice(values) for column, values in LISTED[name].items()}} for row in pool]
    made = {"original": lambda: private, "random": lambda: uniform, "public-only": lambda: named(name, pool)}
    for way in (way for way in made if way in ways):
        yield {**head, "row": way, **tried.row(made[way]())}
    files = put(folder / "private.jsonl", private), put(folder / "pool.jsonl", [{"text": row["text"]} for row in pool])
    columns = [f"{column}: {'|'.join(values)}" for column, values in LISTED[name].items()]
    declared = [part for each in (*columns, NUMBERS[name]) for part in ("--column", each)]
    out, first = folder / "out.jsonl", dict[str, Path]()

    def written(way: str, epsilon: float, seed: int, given: list[str], *more: str) -> list[Row]:
        summary = folder / f"{way} {epsilon} {seed}.summary"
        public = ["--like", first[way]] if way in first else [
            "--public", files[1], *given, "--set", "encoder=distilled", "--delta", DELTA
        ]  # fmt: skip
        promised = ["--about", len(private), "--epsilon", epsilon, "--seed", seed, "--force"]
        dptext("summarize", files[0], summary, *public, *promised, *more)
        first.setdefault(way, summary)
        how = WRITTEN.get(way, ["--writer", "pool"])
        dptext("write", summary, out, *how, "--seed", seed, *more, "--force")
        return got(out)

    for seed, epsilon in itertools.product(seeds, epsilons):
        head = {"table": name, "epsilon": epsilon, "seed": seed}
        for way in (way for way in WAYS if way in ways):
            yield {**head, "row": way, **tried.row(written(way, epsilon, seed, [*declared, *asked(name, way)]))}
        if "alone" not in ways:
            continue
        alone = dict[str, float]()
        for column, values in LISTED[name].items():
            labels = ["--labels", ",".join(values), "--names", ",".join(f"{column} {value}" for value in values)]
            alone[column] = tried.by_text(written(column, epsilon, seed, labels, "--label-field", column), column)
        yield {**head, "row": "alone", **alone}


def tables(rows: list[dict[str, str]]) -> str:
    """Return the tables of all rows, one for each table: means over seeds, and two standard errors."""
    found = []
    for name in dict.fromkeys(each["table"] for each in rows):
        scores, lines = [*LISTED[name], "boosted"], list[list[str]]()
        own = [each for each in rows if each["table"] == name]
        for row, epsilon in dict.fromkeys((each["row"], each["epsilon"]) for each in own):
            cells = []
            for column in scores:
                same = [each for each in own if (each["row"], each["epsilon"]) == (row, epsilon)]
                cells.append(with_errors(same, column))
            lines.append([row, epsilon and f"{float(epsilon):g}", *cells])
        found.append(f"{name}:\n\n{table(' | '.join(['rows', 'epsilon', *scores]), lines)}")
    return "\n\n".join(found)


def main() -> None:
    """Measure the tables that are named, or all; or print the tables of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("tables", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=[*dict.fromkeys((*USUAL, *WAYS))], default=[*USUAL])
    parser.add_argument("--tables", dest="shown", action="store_true")
    given = parser.parse_args()
    if given.shown:
        print_tables(given.out, tables)
        return
    columns = ("table", "row", "epsilon", "seed", *dict.fromkeys(c for own in LISTED.values() for c in own), "boosted")

    def every() -> Iterator[Row]:
        for name in given.tables or LISTED:
            with TemporaryDirectory() as folder:
                for row in measured(name, given.ways, given.epsilons, given.seeds, Path(folder)):
                    yield {column: row.get(column, "") for column in columns}

    append_rows(given.out, every())


if __name__ == "__main__":
    main()
