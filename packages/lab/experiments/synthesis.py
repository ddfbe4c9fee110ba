"""A synthetic corpus under one epsilon, measured on gap splits: a CSV of every run.

    python packages/lab/experiments/synthesis.py OUT.csv [SPLIT ...]
    python packages/lab/experiments/synthesis.py OUT.csv SPLIT ... --encoders sentence distilled glove \
        # prototypes, at 1 and 4
    python packages/lab/experiments/synthesis_tables.py OUT.csv ... --figure FIGURE.svg

A classifier (TF-IDF of words, linear SVM) learns from what leaves and is tried on real texts that nobody else saw. A
row that OUT.csv has already is not measured again. A seed draws the noise. Where there is none, seed 0 has all test
texts, and each other seed draws as many of them with replacement. Rows beside the synthesis:

- *original*: the private texts. *random*: random labels on the pool.
- *public-only*: the pool labelled by the likeness of texts to the names of labels, as it is or after two rounds of a
  classifier of its own surest labels, or by the pool's own labels where they mean the same, whichever is better on the
  test. Nothing private is read.
- *ceiling*: the synthesis without noise (epsilon infinity), which is no release.
- `label_only` and `candidates`: local, epsilon 10 for each text, on the pool labelled as in public-only. By author 10
  is for all texts of one, shared out by the most that any has.

The corpora are in the folder that DPTEXT_DATA names. All of them are public: vectors of texts are kept in memory.
"""

from __future__ import annotations

import csv
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from synthesis_splits import SPLITS, Row

import dptext as dp
from dptext.embeddings.encoders import PublicVectors, load_encoder
from dptext.privacy.guarantee import Relation
from dptext.sampling.randomness import seeded
from dptext.synthesis.pool import fit_topics
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.space import fit_space
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.sums import Draws, Noise
from dptext.synthesis.votes import FittedVotes, TopicReport, Votes, topics_alone
from dptext.text.batches import Batch
from dptext.utility.classification import best_zero_shot, learnt

SEED, SEEDS = 20261124, 3
EPSILONS = (0.5, 1.0, 2.0, 4.0)
VECTORS = 200_000  # that are kept
COLUMNS = ("split", "row", "epsilon", "seed", "accuracy", "macro_f1", "own_label", "mix_l1", "reported_l1", "texts",
           "topics_tv")  # fmt: skip


def as_records(rows: Iterable[Row]) -> list[dp.Record]:
    """Rows as records."""
    return [
        dp.Record(str(i), row["text"], label=str(row.get("label")), author=row.get("author"))
        for i, row in enumerate(rows)
    ]


@dataclass(frozen=True)
class Judge:
    """How good labelled texts are to learn from: accuracy and macro-F1 on the test texts."""

    test: list[dp.Record]

    def __call__(self, texts: Sequence[str], labels: Sequence[str]) -> dict[str, float]:
        """Accuracy and macro-F1 of what was learnt."""
        return self.scored(self.predicted(texts, labels))

    def predicted(self, texts: Sequence[str], labels: Sequence[str]) -> np.ndarray:
        """Labels of the test texts by what was learnt."""
        if len(set(labels)) < 2:
            return np.array([labels[0]] * len(self.test))
        counter, model = learnt(texts, labels)
        return np.asarray(model.predict(counter.transform([record.text for record in self.test])))

    def scored(self, found: np.ndarray, seed: int = 0) -> dict[str, float]:
        """Accuracy and macro-F1 of labels; a seed but 0 draws the test texts with replacement."""
        from sklearn.metrics import f1_score

        n = len(found)
        rows = np.random.default_rng(SEED + seed).integers(n, size=n) if seed else np.arange(n)
        true, found = np.array([record.label for record in self.test])[rows], found[rows]
        return {"accuracy": float((found == true).mean()), "macro_f1": float(f1_score(true, found, average="macro"))}


def told(found: Any, truth: dict[str, str], private: list[dp.Record], labels: Sequence[str]) -> dict[str, float]:
    """What a synthetic corpus keeps: labels that are the texts' own, and the mix of labels."""
    mine = [record.label for record in private if record.label in labels]
    shares = np.array([[mine.count(c) / len(mine), found.labels.count(c) / len(found.labels)] for c in labels])
    counted = np.maximum(found.report.by_label[0], 0)
    reported = float(np.abs(counted / counted.sum() - shares[:, 0]).sum())
    known = [
        truth[text] == label for text, label in zip(found.texts, found.labels, strict=True) if truth[text] in labels
    ]
    return {
        "own_label": float(np.mean(known)) if known else math.nan,
        "mix_l1": float(np.abs(shares[:, 0] - shares[:, 1]).sum()),
        "reported_l1": reported,
        "texts": len(found.texts),
    }


def topic_distance(texts: Sequence[str], private: list[dp.Record], space: Any, topics: Any) -> float:
    """Total variation of the topics of texts and of the private texts."""
    each = [
        np.bincount(topics.nearest(space.points(part)), minlength=len(topics.centres)) / len(part)
        for part in (list(texts), [record.text for record in private])
    ]
    return float(np.abs(each[0] - each[1]).sum() / 2)


def local(name: str, pool: tuple[list[str], list[str]], epsilon: float) -> Any:
    """A local mechanism of this epsilon for each text, on the pool as labelled without private text."""
    labels = tuple(sorted(set(pool[1])))
    public = [dp.Record(str(i), text, label=label) for i, (text, label) in enumerate(zip(*pool, strict=True))]
    made: Any = (
        dp.LabelOnly(labels, epsilon=epsilon) if name == "label_only" else dp.Candidates(epsilon=epsilon, labels=labels)
    )
    return made.fit(public=public, seed=SEED)


NONE = Noise(math.inf, Relation.ADD_OR_REMOVE_ONE)


class ExactSummary(SummarySpec):
    """A summary without noise: no release."""

    def noise(self, share: float = 1.0) -> Noise:
        """None."""
        return NONE


def without_noise(spec: SummarySpec) -> ExactSummary:
    """Return these settings with noise 0."""
    return ExactSummary(**{each.name: getattr(spec, each.name) for each in fields(spec) if each.init})


class ExactPrototypes(Prototypes):
    """Prototypes without noise: no release."""

    def noise(self, share: float = 1.0) -> Noise:
        """None."""
        return NONE

    @property
    def summary(self) -> SummarySpec:
        """Without noise, too."""
        return without_noise(Prototypes.summary.fget(self))  # type: ignore[attr-defined]


class ExactVotes(Votes):
    """Votes without noise: no release."""

    def noise(self, share: float = 1.0) -> Noise:
        """None."""
        return NONE

    def fit(self, *, public: Iterable[dp.Record], seed: int | None = None) -> FittedVotes:
        """Without noise in the first round, too."""
        return FittedVotes(self, without_noise(topics_alone(self, self.dim)).fit(public=public, seed=seed))


@dataclass(frozen=True)
class Measuring:
    """One split; rows that are known are not measured again."""

    name: str
    known: frozenset[tuple[str, ...]]

    def left(self, row: str, epsilon: float, seeds: Iterable[int] = range(SEEDS)) -> list[int]:
        """Seeds of a row that are to be measured."""
        return [seed for seed in seeds if (self.name, row, str(epsilon), str(seed)) not in self.known]

    def row(self, row: str, epsilon: float, seed: int, **numbers: float) -> Row:
        """A row of the table."""
        return {"split": self.name, "row": row, "epsilon": epsilon, "seed": seed, **numbers}

    def rows(self) -> Iterator[Row]:
        """Every row that is not known."""
        split = SPLITS[self.name]
        parts = split.rows(random.Random(SEED))  # noqa: S311
        pool, private, test = (as_records(part) for part in parts)
        labels = tuple(split.names)
        judge = Judge([record for record in test if record.label in labels])
        mine, texts = [record for record in private if record.label in labels], [record.text for record in pool]
        if left := self.left("original", math.inf, range(SEEDS + 1)):
            found = judge.predicted([r.text for r in mine], [r.label or "" for r in mine])
            yield from (self.row("original", math.inf, seed, **judge.scored(found, seed)) for seed in left)
        for seed in self.left("random", 0.0):
            rng = random.Random(SEED + seed)  # noqa: S311
            yield self.row("random", 0.0, seed, **judge(texts, [rng.choice(labels) for _ in pool]))
        yield from self.public_only(split, mine, pool, judge)
        yield from self.synthesis(split, pool, private, judge)

    def public_only(self, split: Any, mine: list[dp.Record], pool: list[dp.Record], judge: Judge) -> Iterator[Row]:
        """What public text teaches, and local mechanisms on it."""
        guessed = best_zero_shot([record.text for record in pool], split.names, load_encoder(), judge.test)
        if own := [(record.text, split.public[record.label]) for record in pool if record.label in split.public]:
            labelled = tuple(map(list, zip(*own, strict=True)))
            guessed = max(guessed, labelled, key=lambda given: judge(*given)["accuracy"])
        if left := self.left("public-only", 0.0, range(SEEDS + 1)):
            found = judge.predicted(*guessed)
            yield from (self.row("public-only", 0.0, seed, **judge.scored(found, seed)) for seed in left)
        by_author = split.settings.get("unit") == "author"
        most = max(Counter(record.author for record in mine).values()) if by_author else 1
        for name in ("label_only", "candidates"):
            if left := self.left(name, 10.0):
                made = local(name, guessed, 10.0 / most)
                for seed in left:
                    out = made.privatize(mine, seeded(SEED + seed))
                    numbers = judge([each.output for each in out], [each.label for each in out])
                    yield self.row(name, 10.0, seed, **numbers)

    def synthesis(self, split: Any, pool: list[dp.Record], private: list[dp.Record], judge: Judge) -> Iterator[Row]:
        """Both ways, and topics alone."""
        labels, texts = tuple(split.names), [record.text for record in pool]
        truth = {record.text: record.label or "" for record in pool}
        plane, features = fit_space(texts, encoder="sentence", words=300, dim=64)
        topics = fit_topics(texts, plane.placed(features), 64, seed=0)

        def corpus() -> Any:
            yield from (Batch.of(private[i : i + 1024]) for i in range(0, len(private), 1024))

        for kind, way, exactly in (("prototypes", Prototypes, ExactPrototypes), ("votes", Votes, ExactVotes)):
            named = {"names": tuple(split.names.values())} if kind == "prototypes" else {}
            for epsilon in (*EPSILONS, math.inf):
                exact = math.isinf(epsilon)
                left = self.left(kind, epsilon, range(SEEDS + exact))
                made: Any = exactly if exact else way
                spec = made(**split.settings, **named, labels=labels, epsilon=min(epsilon, 1e4))
                fitted = spec.fit(public=pool) if left else None
                for seed in left[:1] if exact else left:
                    found = fitted.synthesize(corpus, Draws(seeded(SEED + seed)))
                    apart = topic_distance(found.texts, private, plane, topics)
                    kept = told(found, truth, private, labels)
                    guessed = judge.predicted(found.texts, [label or "" for label in found.labels])
                    for drawn in left if exact else [seed]:
                        numbers = judge.scored(guessed, drawn if exact else 0)
                        yield self.row(kind, epsilon, drawn, **numbers, **kept, topics_tv=apart)
        for epsilon in (0.5, 1.0):
            if left := self.left("topics", epsilon):
                report = TopicReport(**{**split.settings, "epsilon": epsilon}).fit(public=pool)
                points = report.pool.space.points([record.text for record in private])
                true = np.bincount(report.pool.topics.nearest(points), minlength=64) / len(private)
            for seed in left:
                shares = np.maximum(np.array(report.synthesize(corpus, Draws(seeded(seed))).report.counts[0]), 0)
                apart = float(np.abs(shares / shares.sum() - true).sum() / 2)
                yield self.row("topics", epsilon, seed, topics_tv=apart)


def by_encoder(name: str, encoders: Sequence[str]) -> Iterator[Row]:
    """Prototypes with each encoder."""
    split = SPLITS[name]
    pool, private, test = (as_records(part) for part in split.rows(random.Random(SEED)))  # noqa: S311
    labels, truth = tuple(split.names), {record.text: record.label or "" for record in pool}
    judge = Judge([record for record in test if record.label in labels])

    def corpus() -> Any:
        yield from (Batch.of(private[i : i + 1024]) for i in range(0, len(private), 1024))

    for encoder in encoders:
        for epsilon in (1.0, 4.0):
            spec = Prototypes(labels=labels, names=tuple(split.names.values()), encoder=encoder, epsilon=epsilon,
                              **split.settings)  # fmt: skip
            fitted = spec.fit(public=pool)
            for seed in range(SEEDS):
                found = fitted.synthesize(corpus, Draws(seeded(SEED + seed)))
                numbers = judge(found.texts, [label or "" for label in found.labels])
                apart = told(found, truth, private, labels)["reported_l1"]
                yield {"split": name, "row": encoder, "epsilon": epsilon, "seed": seed, **numbers, "reported_l1": apart}


def kept(path: Path, rows: Iterable[Row], columns: Sequence[str]) -> None:
    """Add rows to a table, each as it is measured."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            writer.writeheader()
        for row in rows:
            print(json.dumps(row), file=sys.stderr, flush=True)
            writer.writerow({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
            file.flush()


def main() -> None:
    """Measure the splits that are named, or all."""
    path, known = Path(sys.argv[1]), frozenset[tuple[str, ...]]()
    names, _, encoders = " -- ".join(sys.argv[2:]).partition("--encoders -- ")
    if path.exists():
        with path.open(encoding="utf-8") as file:
            known = frozenset(tuple(row[c] for c in COLUMNS[:4]) for row in csv.DictReader(file))
    with PublicVectors(VECTORS).learning():
        for name in [name for name in names.split(" -- ") if name] or list(SPLITS):
            if encoders:
                kept(path, by_encoder(name, encoders.split(" -- ")), (*COLUMNS[:6], "reported_l1"))
            else:
                kept(path, Measuring(name, known).rows(), COLUMNS)


if __name__ == "__main__":
    main()
