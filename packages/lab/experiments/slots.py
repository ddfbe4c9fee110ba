"""What the slots teach that leave with public texts: a slot tagger learns from what leaves: a CSV.

    python packages/lab/experiments/slots.py OUT.csv [SPLIT ...] [--epsilons 1 4] [--seeds 0 1 2]
        [--rows original random public-only whole prototypes label_only candidates adept]
    python packages/lab/experiments/slots.py OUT.csv --tables

Each release is made by the product's commands in processes of their own. Utterances have a slot tag for each word. A
tagger (linear SVM on a word, its neighbours, their ends) learns from what leaves, and is tried on other utterances.
*f1* is that of whole slots, of the right words and name. Rows:

- *original*: the private utterances with their own slots. *random*: tags of pool texts at random places.
- *public-only*: `SIZE` random texts of the pool with their slots. *whole*: the whole pool.
- *prototypes*: `dptext synthesize --carry slots`, `SIZE` texts, add or remove one, delta 1e-5, one epsilon for all.
- *candidates*: `dptext fit --carry slots` and `dptext privatize`; each text has an epsilon of its own, 10, which is no
  protection that our legal page accepts. *label_only*: the same with the label alone, slots joined by the text.
- *adept*: utterances whose slots stand in the line ("play slotartist westbam slotend"), private ones too. The decoder
  writes such lines. Each text has an epsilon of its own, 10. What cannot be parsed has no slots.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import append_rows
from sklearn.feature_extraction import FeatureHasher
from sklearn.svm import LinearSVC
from summary import DELTA, dptext
from synthesis_splits import SPLITS
from synthesis_tables import table

Row = dict[str, Any]
SEED, SIZE, EACH = 13, 1_000, 10.0
NAMES = ("ATIS", "SNIPS, another mix", "SNIPS, intents missing in public")
ROWS = ("original", "random", "public-only", "whole", "prototypes", "label_only", "candidates", "adept")
BEGIN, END = "slot", "slotend"


def slots_of(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return begin, end and name of each slot in tags B-x, I-x, O. An I that continues nothing begins a slot."""
    found, begun, name = set(), 0, ""
    for i, tag in enumerate([*tags, "O"]):
        kind, _, own = tag.partition("-")
        if name and (kind != "I" or own != name):
            found.add((begun, i, name))
            name = ""
        if kind != "O" and not name:
            begun, name = i, own
    return found


def f1(given: Sequence[Sequence[str]], truth: Sequence[Sequence[str]]) -> float:
    """Return the F1 score of whole slots."""
    pairs = [(slots_of(found), slots_of(own)) for found, own in zip(given, truth, strict=True)]
    right = sum(len(found & own) for found, own in pairs)
    return 2 * right / max(1, sum(len(found) + len(own) for found, own in pairs))


def features(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the features of each word."""
    padded = ["<s>", "<s>", *words, "</s>", "</s>"]
    for i, word in enumerate(padded[2:-2], start=2):
        near = [f"{at}={padded[i + at]}" for at in (-2, -1, 0, 1, 2)]
        pairs = [f"{padded[i - 1]}|{word}", f"|{word}|{padded[i + 1]}"]
        yield [*near, *pairs, f"s{word[-3:]}", f"p{word[:3]}", f"d{word.isdigit()}", f"f{i == 2}"]


class Tagger:
    """A classifier of each word."""

    def __init__(self, rows: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        self._hashed = FeatureHasher(2**18, input_type="string", alternate_sign=False)
        tags = [tag for _, own in rows for tag in own]
        self._only = tags[0] if len(set(tags)) == 1 else None
        if self._only is None:
            self._model = LinearSVC(C=0.3, max_iter=300, tol=1e-3).fit(self._read([words for words, _ in rows]), tags)

    def _read(self, texts: Sequence[Sequence[str]]) -> Any:
        return self._hashed.transform(each for words in texts for each in features(words))

    def tags(self, texts: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the tags of the words of each text."""
        flat = iter(itertools.repeat(self._only) if self._only is not None else self._model.predict(self._read(texts)))
        return [[str(next(flat)) for _ in words] for words in texts]


def inline(row: Row) -> str:
    """Return an utterance whose slots stand in the line."""
    words, tags, found = row["text"].split(), row["slots"], list[str]()
    ends = {end: name for _, end, name in slots_of(tags)}
    begins = {begin: name for begin, _, name in slots_of(tags)}
    for i, word in enumerate(words):
        found += [END] if i in ends else []
        found += [BEGIN + re.sub("[^a-z]", "", begins[i].lower())] if i in begins else []
        found.append(word)
    return " ".join([*found, *([END] if len(words) in ends else [])])


def parsed(line: str, names: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the words and tags of such a line. Marks of unknown names are left out."""
    words, tags, name, first = list[str](), list[str](), "", False
    for word in line.split():
        if word == END:
            name = ""
        elif word.startswith(BEGIN) and word[len(BEGIN) :] in names:
            name, first = names[word[len(BEGIN) :]], True
        else:
            words.append(word)
            tags.append(f"{'B' if first else 'I'}-{name}" if name else "O")
            first = False
    return words, tags


def tagged(rows: Sequence[Row]) -> list[tuple[list[str], list[str]]]:
    """Return words and tags of rows, where both are equally many."""
    pairs = ((row["text"].split(), row["slots"].split()) for row in rows)
    return [(words, tags) for words, tags in pairs if len(words) == len(tags) and words]


def put(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def got(path: Path) -> list[Row]:
    """Read rows of JSON Lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def flat(rows: Sequence[Row]) -> list[Row]:
    """Return rows whose slots are one text."""
    return [{"text": row["text"], "label": row["label"], "slots": " ".join(row["slots"])} for row in rows]


class Case:
    """A split on disk, and the tagger's test."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.split = name, folder, SPLITS[name]
        parts = self.split.rows(random.Random(SEED))  # noqa: S311
        self.pool, self.private, self.test = (
            [row for row in part if row["label"] in self.split.names] for part in parts
        )
        self.files = put(folder / "private.jsonl", flat(self.private)), put(folder / "pool.jsonl", flat(self.pool))
        for file, lines in (("labels.txt", self.split.names), ("names.txt", self.split.names.values())):
            (folder / file).write_text("\n".join(lines) + "\n")

    def score(self, rows: Sequence[tuple[list[str], list[str]]]) -> Row:
        """Return the score of a tagger that learns from words and tags, and how many texts it saw."""
        if not rows:
            return {"texts": 0, "different": 0, "f1": 0.0}
        found = Tagger(rows).tags([row["text"].split() for row in self.test])
        different = len({" ".join(words) for words, _ in rows})
        return {"texts": len(rows), "different": different, "f1": round(f1(found, [r["slots"] for r in self.test]), 4)}

    def public(self, row: str, seed: int) -> Row:
        """Return the row of a release that reads nothing private, or of the private texts themselves."""
        rng = random.Random(seed)  # noqa: S311
        if row in ("original", "whole"):
            return self.score(tagged(flat(self.private if row == "original" else self.pool)))
        rows = tagged(flat(rng.sample(self.pool, SIZE)))
        if row == "random":
            rows = [(words, rng.sample(tags, len(tags))) for words, tags in rows]
        return self.score(rows)

    def together(self, epsilon: float, seed: int) -> Row:
        """Return the row of a corpus under one epsilon."""
        out = self.folder / "corpus.jsonl"
        dptext(
            "synthesize", self.files[0], out, "--public", self.files[1], "--labels", f"@{self.folder / 'labels.txt'}",
            "--names", f"@{self.folder / 'names.txt'}", "--label-field", "label", "--epsilon", epsilon, "--delta",
            DELTA, "--about", self.split.settings["about"], "--set", f"size={SIZE}", "--carry", "slots", "--seed", seed,
            "--force",
        )  # fmt: skip
        return self.score(tagged(got(out)))

    def each(self, row: str, seed: int) -> Row:
        """Return the row of a mechanism that answers each text."""
        model, out = self.folder / f"{row} {seed}", self.folder / "each.jsonl"
        private, public = self.files
        if row == "adept":
            private, public = (
                put(self.folder / f"line {i}.jsonl", [{**r, "text": inline(r), "slots": ""} for r in rows])
                for i, rows in enumerate((self.private, self.pool))
            )
        labels = json.dumps([*self.split.names])
        carry = ["--carry", "slots"] if row == "candidates" else []
        dptext(
            "fit", "--mechanism", row, "--out", model, "--public", public, "--label-field", "label", "--epsilon", EACH,
            "--set", f"labels={labels}", "--seed", seed, *carry,
        )  # fmt: skip
        dptext("privatize", private, out, "--model", model, "--label-field", "label", "--seed", seed, "--force")
        if row == "candidates":
            return self.score(tagged(got(out)))
        if row == "label_only":
            by_text = {r["text"]: r["slots"] for r in flat(self.pool)}
            return self.score(tagged([{**r, "slots": by_text[r["text"]]} for r in got(out)]))
        every = {name for r in self.pool for _, _, name in slots_of(r["slots"])}
        names = {re.sub("[^a-z]", "", name.lower()): name for name in sorted(every)}
        return self.score([pair for r in got(out) if (pair := parsed(r["text"], names))[0]])


def measured(name: str, rows: Sequence[str], epsilons: list[float], seeds: list[int], folder: Path) -> Iterator[Row]:
    """Yield the rows of a split."""
    case = Case(name, folder)
    for row, seed in itertools.product(rows, seeds):
        head = {"split": name, "row": row, "epsilon": "", "seed": seed}
        if row == "prototypes":
            yield from ({**head, "epsilon": each, **case.together(each, seed)} for each in epsilons)
        elif row in ("label_only", "candidates", "adept"):
            yield {**head, "epsilon": EACH, **case.each(row, seed)}
        elif seed == seeds[0] or row in ("random", "public-only"):
            yield {**head, **case.public(row, seed)}


def tables(rows: list[dict[str, str]]) -> str:
    """Return the table of each split: means over seeds, and two standard errors."""
    found = []
    for name in dict.fromkeys(each["split"] for each in rows):
        lines = []
        own = [each for each in rows if each["split"] == name]
        for row, epsilon in dict.fromkeys((each["row"], each["epsilon"]) for each in own):
            same = [each for each in own if (each["row"], each["epsilon"]) == (row, epsilon)]
            values = np.array([float(each["f1"]) for each in same])
            error = f" ±{2 * values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
            sizes = [f"{np.mean([int(each[column]) for each in same]):,.0f}" for column in ("texts", "different")]
            lines.append([row, epsilon and f"{float(epsilon):g}", *sizes, f"{values.mean():.3f}{error}"])
        found.append(f"{name}:\n\n{table('rows | epsilon | texts | different | slot F1', lines)}")
    return "\n\n".join(found)


def main() -> None:
    """Measure the splits that are named, or all; or print the tables of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("splits", nargs="*", default=NAMES)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    if given.tables:
        with given.out.open(newline="", encoding="utf-8") as file:
            print(tables(list(csv.DictReader(file))))
        return
    for name in given.splits:
        with TemporaryDirectory() as folder:
            append_rows(given.out, measured(name, given.rows, given.epsilons, given.seeds, Path(folder)))


if __name__ == "__main__":
    main()
