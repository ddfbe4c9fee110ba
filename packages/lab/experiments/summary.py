"""One private summary, used by a pool and by a language model, measured through the commands: a CSV.

    python packages/lab/experiments/summary.py OUT.csv [SPLIT ...] [--epsilons 1 4] [--seeds 0 1 2] [--size 2000]

Each run is `dptext summarize` and `dptext write` in processes of their own. A classifier (TF-IDF of words, linear SVM)
learns from the labelled part of the pool, where there is one, and what was written, and is tried on real texts that
nobody else saw. Replace one document, delta 1e-5, 2,000 private texts. Splits are those of `language.py`. The writer's
rules were fixed on the split "public", which no private text enters. Rows:

- *original*: the private texts. *original, as many*: as many of them as are written. *random*: random labels on the
  pool.
- *public-only*: the same model writes as many texts from the same examples, and nothing steers it. They are read by a
  summary of its own drafts, which are public, in the place of private texts. Rows: *as written*; *relabelled* by that
  summary's class means and words; those that *agree* with it; the *half* of each label that fits best. *public-only,
  pool* is the pool by that summary, and *public-only, both* the pool with the best of the others by test score.
- *builtin*, *pool*, *both*: written from one summary by the model, by the pool, and both together.
- *summary reads*: the labels that the noisy numbers themselves give the test texts; no text is written.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import append_rows
from language import KNOWN, SEED, SPLITS, Split, taught
from sklearn.metrics import f1_score
from synthesis_splits import SNIPS, TASTE, cut, read

from dptext.runs.summarizing import read_summary
from dptext.synthesis.judging import judged

Row = dict[str, Any]
Made = tuple[list[str], list[str]]
DELTA = 1e-5
#: From how many tokens of a text on its length is measured.
LONG = 100


def known(rng: random.Random) -> Any:
    """Requests of the four intents that a pool has, half of which this pool has: for choices, no private text."""
    pool, private, test = cut(read("snips", lambda row: row["label"] in KNOWN), rng, 2_000, 1_140, 1_000)
    return [row for row in pool if row["label"] in KNOWN[::2]], private, test


def films(rng: random.Random) -> Any:
    """Reviews, written as paragraphs: the pool has no labels, and no film of the pool is in the private texts."""
    train = read("imdb", lambda row: row["split"] == "train")
    names = sorted({row["movie"] for row in train})
    public = set(rng.sample(names, len(names) * 2 // 5))
    (pool,) = cut([row for row in train if row["movie"] in public], rng, 3_000)
    (private,) = cut([row for row in train if row["movie"] not in public], rng, 5_000)
    (test,) = cut(read("imdb", lambda row: row["split"] == "test"), rng, 2_000)
    return [{"text": row["text"]} for row in pool], private, test


ALL = {
    **SPLITS,
    "public": Split({name: SNIPS[name] for name in KNOWN}, known, KNOWN[::2]),
    "IMDB": Split(TASTE, films, tokens=300),
}


def dptext(*arguments: object) -> str:
    """Run a command of the product, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "dptext", *map(str, arguments)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"dptext {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def put(path: Path, rows: list[Row]) -> Path:
    """Write rows as JSON Lines."""
    kept = [{name: row[name] for name in ("text", "label") if name in row} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    return path


def got(path: Path) -> tuple[list[str], list[str]]:
    """Return texts and labels of a file that was written."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row["text"] for row in rows], [row["label"] for row in rows]


class Case:
    """A split, with its files in a folder."""

    def __init__(self, name: str, folder: Path, size: int, more: Sequence[str], written: Sequence[str] = ()) -> None:
        self.name, self.folder, self.size, self.more, self.written = name, folder, size, more, written
        self.split = ALL[name]
        pool, self.private, self.test = self.split.rows(random.Random(SEED))  # noqa: S311
        self.base = [row for row in pool if row.get("label") in self.split.known]
        names = {**{name: name.removeprefix("atis_") for row in pool if (name := row.get("label"))}, **self.split.names}
        shown = [{**row, "label": names[row["label"]]} if "label" in row else row for row in pool]
        self.pool = put(folder / "pool.jsonl", shown)
        self.given = put(folder / "private.jsonl", self.private)
        labels = folder / "labels.txt", folder / "names.txt"
        for path, lines in zip(labels, (self.split.names, self.split.names.values()), strict=True):
            path.write_text("\n".join(lines) + "\n")
        self.measured = "words,lengths" if self.split.tokens > LONG else "words"
        self.labels = ["--labels", f"@{labels[0]}", "--names", f"@{labels[1]}"]

    def summarized(self, epsilon: float, out: Path, seed: int, like: Path | None) -> str:
        """Summarize the private texts, with the public parts of the summary `like`, if any; return what is said."""
        promised = ["--epsilon", epsilon, "--delta", DELTA, "--about", len(self.private), "--label-field", "label"]
        made = ["--public", self.pool, *self.labels, "--relation", "replace_one", "--with", self.measured, *self.more]
        made += ["--set", f"tokens={self.split.tokens}"]
        public = made if like is None else ["--like", like]
        return dptext("summarize", self.given, out, *public, *promised, "--seed", seed, "--force")

    def drafted(self, like: Path, out: Path, seed: int) -> None:
        """Summarize the model's own drafts, which are public, as if they were private."""
        found, _, _ = read_summary(like)
        drafts = [
            {"text": text, "label": label}
            for label, own in zip(found.spec.labels, found.public.drafts, strict=True)
            for text in own
        ]
        path = put(self.folder / "drafts.jsonl", drafts)
        n = max(1, len(drafts))
        dptext(
            "summarize", path, out, "--like", like, "--label-field", "label", "--epsilon", 1000, "--about", n,
            "--seed", seed, "--force",
        )  # fmt: skip

    def wrote(self, summary: Path, writer: str, seed: int, *more: str) -> tuple[list[str], list[str], str]:
        """Write from a summary; return texts, labels and what is said."""
        out = self.folder / f"written by {writer}.jsonl"
        size = ["--size", self.size, *self.written] if writer == "builtin" else []
        said = dptext("write", summary, out, "--writer", writer, *size, *more, "--seed", seed, "--force")
        return (*got(out), said)

    def public_only(self, like: Path, seed: int, writers: list[str]) -> Iterator[Row]:
        """Measure what public text and the model give alone."""
        alone, began = self.folder / "drafts.summary", time.time()
        self.drafted(like, alone, seed)
        made: dict[str, Made] = {}
        if "builtin" in writers:
            texts, labels, _ = self.wrote(alone, "builtin", seed, "--set", "steered=false")
            made["as written"] = texts, labels
            found, names = read_summary(alone)[0], list(self.split.names)
            space = found.public.pool.space
            assert space is not None
            scores = judged(found, texts, space.points(texts))[0]
            own, best = np.array([names.index(label) for label in labels]), scores.argmax(axis=1)
            made["relabelled"] = texts, [names[i] for i in best]
            fit = scores[np.arange(len(own)), own]
            halves = [
                (rows := np.flatnonzero(own == c))[np.argsort(-fit[rows], kind="stable")[: len(rows) // 2]]
                for c in range(len(names))
            ]
            for row, kept in (("agree", np.flatnonzero(own == best)), ("half", np.concatenate(halves))):
                made[row] = [texts[i] for i in kept], [labels[i] for i in kept]
        rows = {row: self.line(f"public-only, {row}", "", seed, each, began) for row, each in made.items()}
        yield from rows.values()
        if "pool" in writers:
            pool = self.wrote(alone, "pool", seed)[:2]
            yield self.line("public-only, pool", "", seed, pool, began)
            if rows:
                best_row = max(rows, key=lambda row: rows[row]["accuracy"])
                both = made[best_row][0] + pool[0], made[best_row][1] + pool[1]
                yield self.line("public-only, both", "", seed, both, began)

    def line(self, row: str, epsilon: float | str, seed: int, made: Made, began: float) -> Row:
        """Return the measured row of texts with labels."""
        own, given = [each["text"] for each in self.base], [each["label"] for each in self.base]
        found = taught(own + made[0], given + made[1], self.test)
        return {
            "split": self.name, "row": row, "epsilon": epsilon, "seed": seed, "texts": len(made[0]),
            "accuracy": round(found["accuracy"], 4), "macro_f1": round(found["macro_f1"], 4),
            "seconds": round(time.time() - began),
        }  # fmt: skip

    def read(self, path: Path, epsilon: float, seed: int) -> Row:
        """Return the row of the labels that the noisy numbers themselves give the test texts; nothing is written."""
        summary, _, _ = read_summary(path)
        texts, began = [row["text"] for row in self.test], time.time()
        space = summary.public.pool.space
        assert space is not None
        labels, truth = list(self.split.names), [row["label"] for row in self.test]
        found = [labels[i] for i in judged(summary, texts, space.points(texts))[0].argmax(axis=1)]
        right = float(np.mean([a == b for a, b in zip(found, truth, strict=True)]))
        return {
            "split": self.name, "row": "summary reads", "epsilon": epsilon, "seed": seed, "texts": 0,
            "accuracy": round(right, 4), "macro_f1": round(f1_score(truth, found, average="macro"), 4),
            "seconds": round(time.time() - began),
        }  # fmt: skip

    def rows(self, epsilons: list[float], seeds: list[int], writers: list[str], *, alone: bool) -> Iterator[Row]:
        """Measure everything, or what public text gives `alone`, row by row."""
        rng, now = random.Random(SEED), time.time()  # noqa: S311
        texts = [json.loads(line)["text"] for line in self.pool.read_text().splitlines()]
        real = [row["text"] for row in self.private], [row["label"] for row in self.private]
        yield self.line("original", "", 0, real, now)
        if self.size < len(self.private):
            fewer = rng.sample(self.private, self.size)
            yield self.line(
                "original, as many", "", 0, ([row["text"] for row in fewer], [row["label"] for row in fewer]), now
            )
        yield self.line("random", "", 0, (texts, [rng.choice(list(self.split.names)) for _ in texts]), now)
        for seed in seeds:
            for epsilon in epsilons:
                summary, began = self.folder / f"{epsilon}.summary", time.time()
                first = None if epsilon == epsilons[0] else self.folder / f"{epsilons[0]}.summary"
                print(self.summarized(epsilon, summary, seed, first))
                if epsilon == epsilons[0]:
                    yield from self.public_only(summary, seed, writers)
                if alone:
                    break
                yield self.read(summary, epsilon, seed)
                both: Made = ([], [])
                for writer in writers:
                    *made, said = self.wrote(summary, writer, seed)
                    print(said, *(f"    {b}: {a}" for a, b in list(zip(*made, strict=True))[:12]), sep="\n")
                    yield self.line(writer, epsilon, seed, (made[0], made[1]), began)
                    both = both[0] + made[0], both[1] + made[1]
                if len(writers) > 1:
                    yield self.line("both", epsilon, seed, both, began)


def main() -> None:
    """Measure the splits that are named, or the three of `language.py`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("splits", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--size", type=int, default=2_000)
    parser.add_argument("--writers", nargs="+", default=["builtin", "pool"])
    parser.add_argument("--public-only", action="store_true", help="Measure the rows that read nothing private alone.")
    parser.add_argument("--set", dest="more", nargs="*", default=[], help="More settings of the summary, KEY=VALUE.")
    parser.add_argument("--write-set", nargs="*", default=[], help="More settings of the model's writer, KEY=VALUE.")
    given = parser.parse_args()
    more, written = ([part for each in own for part in ("--set", each)] for own in (given.more, given.write_set))

    def every() -> Iterator[Row]:
        for name in given.splits or SPLITS:
            with TemporaryDirectory() as folder:
                case = Case(name, Path(folder), given.size, more, written)
                yield from case.rows(given.epsilons, given.seeds, given.writers, alone=given.public_only)

    append_rows(given.out, every())


if __name__ == "__main__":
    main()
