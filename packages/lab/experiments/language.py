"""New texts by a language model under one epsilon, measured on splits whose pool lacks what is private: a CSV.

    python packages/lab/experiments/language.py OUT.csv [SPLIT ...] [--epsilons 1 4] [--seeds 0 1 2] [--ways ...]

A classifier (TF-IDF of words, linear SVM) learns from the labelled part of the pool, where there is one, and what
leaves, and is tried on real texts that nobody else saw. The splits were fixed before the first private run. Replace one
document, delta 1e-5. Rows beside the synthesis:

- *original*: the private texts. *random*: random labels on the pool.
- *public-only*: what the same model writes from the names of labels and the same public examples, without private text.
  *public-only, grown*: the same, where texts that were written stand in the prompts for more.
- *prototypes*, *votes*: the pool labelled by noisy means or votes. *steering*, *prediction*: written by the model;
  *evolution* begins with public-only texts and has two rounds of votes. All at the same epsilon and relation.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import append_rows
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC
from synthesis_splits import ATIS, SNIPS, cut, read

import dptext as dp
from dptext.embeddings.tfidf import words_tfidf
from dptext.language.reading import load_language_model
from dptext.sampling.randomness import seeded
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.steering import FittedSteering, Steering
from dptext.synthesis.sums import Draws
from dptext.synthesis.votes import Votes
from dptext.synthesis.writer import Writer
from dptext.text.batches import Batch
from dptext.text.records import Record
from dptext_lab.baselines.prediction import Prediction

SEED = 20261125
KNOWN = ("BookRestaurant", "GetWeather", "PlayMusic", "SearchScreeningEvent")
Row = dict[str, Any]


@dataclass(frozen=True)
class Split:
    """Names of the labels; pool, private and test rows; the labels that the pool's own labels teach."""

    names: dict[str, str]
    rows: Callable[[random.Random], tuple[list[Row], list[Row], list[Row]]]
    known: tuple[str, ...] = ()
    tokens: int = 16


def lacking(rng: random.Random) -> Any:
    """Requests of seven intents whose pool has four of them."""
    pool, private, test = cut(read("snips"), rng, 4_000, 2_000, 1_500)
    return [row for row in pool if row["label"] in KNOWN], private, test


def flights(rng: random.Random) -> Any:
    """Questions to an airline whose pool is requests to a voice assistant."""
    rows = {row["text"]: row for row in read("atis", lambda row: row["label"] in ATIS)}
    private, test = cut(list(rows.values()), rng, 2_000, 1_500)
    return rng.sample(read("snips"), 2_000), private, test


def requests(rng: random.Random) -> Any:
    """Requests to a voice assistant whose pool is questions to an airline."""
    private, test = cut(read("snips"), rng, 2_000, 1_500)
    return read("atis"), private, test


SPLITS = {
    "SNIPS, three intents lacking": Split(SNIPS, lacking, KNOWN),
    "ATIS, pool of SNIPS": Split(ATIS, flights, tokens=20),
    "SNIPS, pool of ATIS": Split(SNIPS, requests),
}


def records(rows: list[Row], labels: bool = True) -> list[Record]:
    """Rows as records."""
    return [Record(str(i), row["text"], label=row["label"] if labels else None) for i, row in enumerate(rows)]


def taught(texts: list[str], labels: list[str], test: list[Row]) -> dict[str, float]:
    """What a classifier that learned from these says of the test texts."""
    if len(set(labels)) < 2:
        return {
            "accuracy": float(np.mean([row["label"] == labels[0] for row in test])) if labels else 0.0,
            "macro_f1": 0.0,
        }
    vectors = words_tfidf().fit(texts)
    model = LinearSVC(C=0.5).fit(vectors.transform(texts), labels)
    found, truth = model.predict(vectors.transform([row["text"] for row in test])), [row["label"] for row in test]
    return {"accuracy": float(np.mean(found == truth)), "macro_f1": float(f1_score(truth, found, average="macro"))}


def measured(name: str, epsilons: list[float], seeds: list[int], size: int, ways: list[str]) -> Any:
    """The rows of a split, one by one."""
    split = SPLITS[name]
    pool, private, test = split.rows(random.Random(SEED))  # noqa: S311
    labels, names = tuple(split.names), tuple(split.names.values())
    base = [row for row in pool if row["label"] in split.known]
    own, given = [row["text"] for row in base], [row["label"] for row in base]

    def line(row: str, epsilon: float | str, seed: int, texts: list[str], found: list[str], began: float) -> Row:
        words = [word for text in texts for word in text.lower().split()]
        kept = {"texts": len(texts), "distinct_words": len(set(words)), "seconds": round(time.process_time() - began)}
        return {
            "split": name,
            "row": row,
            "epsilon": epsilon,
            "seed": seed,
            **taught(own + texts, given + found, test),
            **kept,
        }

    rng = random.Random(SEED)  # noqa: S311
    texts, now = [row["text"] for row in pool], time.process_time()
    yield line("original", "", 0, [row["text"] for row in private], [row["label"] for row in private], now)
    yield line("random", "", 0, texts, [rng.choice(labels) for _ in texts], now)
    about = {"labels": labels, "about": len(private), "relation": "replace_one"}
    written = {**about, "names": names, "tokens": split.tokens, "size": size}
    shown = records(
        [{**row, "label": split.names.get(row["label"], row["label"].removeprefix("atis_"))} for row in pool]
    )
    bare = records(pool, labels=False)
    made = {
        "prototypes": (Prototypes(**about, names=names), bare),
        "votes": (Votes(**about), bare),
        "steering": (Steering(**written), shown),
        "prediction": (Prediction(**written), shown),
        "evolution": (Prediction(**written, rounds=2, per_text=0), shown),
    }

    def corpus() -> Any:
        yield from (Batch.of(records(private)[start : start + 256]) for start in range(0, len(private), 256))

    alike = np.full(len(labels), len(private) / len(labels))
    for way, what in (("steering", "public-only"), ("prediction", "public-only, grown")):
        for seed in seeds if way in ways else ():
            began = time.process_time()
            fitted = made[way][0].fit(public=shown, seed=SEED)
            if way == "steering":
                writer = unsteered(fitted)
                each = [writer.shifted(i, size // len(labels), np.zeros(writer.model.size), seeded(seed))
                        for i in range(len(labels))]  # fmt: skip
                own_texts = [writer.readable(texts) for texts, _ in each]
                found = fitted.spec.released(own_texts, alike, 1.0, seeded(seed))
            else:
                found = fitted.written(alike, lambda: (_ for _ in ()), seeded(seed))
            yield line(what, "", seed, list(found.texts), list(found.labels), began)
            samples(found)
    for way in ways:
        spec, public = made[way]
        for epsilon in epsilons:
            for seed in seeds:
                began = time.process_time()
                fitted = replace(spec, epsilon=epsilon).fit(public=public, seed=SEED)
                found = fitted.synthesize(corpus, Draws(seeded(seed)))
                yield line(way, epsilon, seed, list(found.texts), list(found.labels), began)
                samples(found)


def unsteered(fitted: FittedSteering) -> Writer:
    """The writer of a synthesis, with its public examples, which no number steers."""
    spec, examples = fitted.spec, fitted.measures.public.examples
    how = {"tokens": spec.tokens, "temperature": spec.temperature, "options": spec.options}
    return Writer.of(load_language_model(spec.model), spec.names, spec.labels, examples, **how)


def samples(found: Any) -> None:
    """Print some of what leaves."""
    for text, label in list(zip(found.texts, found.labels, strict=True))[:12]:
        print(f"    {label}: {text}")


def main() -> None:
    """Measure the splits that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("splits", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--size", type=int, default=700)
    parser.add_argument("--ways", nargs="+", default=["prototypes", "votes", "steering", "prediction", "evolution"])
    given = parser.parse_args()
    for name in given.splits or SPLITS:
        append_rows(given.out, measured(name, given.epsilons, given.seeds, given.size, given.ways))


if __name__ == "__main__":
    print(f"dptext {dp.__version__}")
    main()
