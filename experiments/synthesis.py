"""A synthetic corpus under one epsilon, measured on gap splits: a CSV of every run.

    python experiments/synthesis.py OUT.csv [SPLIT ...]
    python experiments/synthesis.py OUT.csv SPLIT ... --encoders sentence distilled glove  # prototypes, at 1 and 4
    python experiments/synthesis_tables.py OUT.csv ... --figure FIGURE.svg

A classifier (TF-IDF of words, linear SVM) learns from what leaves and is tried on real texts that nobody else saw. The
splits below were fixed before the first whole run. Rows beside the synthesis:

- *original*: the private texts. *random*: random labels on the pool.
- *public-only*: the pool labelled by the likeness of texts to the names of labels, as it is or after two rounds of a
  classifier of its own surest labels, whichever is better on the test. Nothing private is read.
- *ceiling*: the synthesis without noise, which is no release.
- `label_only` and `candidates`: local, epsilon 10 for each text, on the pool labelled as in public-only.

The corpora are in the folder that DPTEXT_DATA names. Vectors of texts are kept in build/vectors.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import dptext as dp
from common import corpus_rows
from dptext.embeddings import sentence_encoder
from dptext.privacy.guarantee import Relation
from dptext.sampling.source import seeded
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.space import fit_space
from dptext.synthesis.sums import Noise
from dptext.synthesis.topic_report import TopicReport
from dptext.synthesis.topics import fit_topics
from dptext.synthesis.votes import Votes
from dptext.text.batches import Batch
from dptext.utility.zero_shot import best_zero_shot, learnt

SEED, SEEDS = 20261124, 3
EPSILONS = (0.5, 1.0, 2.0, 4.0)
VECTORS = Path("build/vectors")
Row = dict[str, Any]

NEWS = {
    "alt.atheism": "atheism", "comp.graphics": "computer graphics", "comp.os.ms-windows.misc": "Microsoft Windows",
    "comp.sys.ibm.pc.hardware": "PC hardware", "comp.sys.mac.hardware": "Macintosh hardware",
    "comp.windows.x": "X window system", "misc.forsale": "for sale", "rec.autos": "cars",
    "rec.motorcycles": "motorcycles", "rec.sport.baseball": "baseball", "rec.sport.hockey": "hockey",
    "sci.crypt": "cryptography", "sci.electronics": "electronics", "sci.med": "medicine", "sci.space": "space flight",
    "soc.religion.christian": "Christianity", "talk.politics.guns": "gun control",
    "talk.politics.mideast": "politics of the Middle East", "talk.politics.misc": "politics",
    "talk.religion.misc": "religion",
}  # fmt: skip
DISEASES = dict(zip(
    [f"C{i:02}" for i in range(1, 24)],
    ["bacterial infections and mycoses", "virus diseases", "parasitic diseases", "neoplasms",
     "musculoskeletal diseases", "digestive system diseases", "mouth and tooth diseases",
     "respiratory tract diseases", "ear, nose and throat diseases", "nervous system diseases", "eye diseases",
     "urologic and male genital diseases", "female genital diseases and pregnancy complications",
     "cardiovascular diseases", "blood and lymphatic diseases", "diseases of the newborn and abnormalities",
     "skin and connective tissue diseases", "nutritional and metabolic diseases", "endocrine diseases",
     "immunologic diseases", "injuries, poisonings and occupational diseases", "animal diseases",
     "symptoms and general pathology"], strict=True))  # fmt: skip
SYSTEMS = {"neoplasms": "cancer", "digestive": "diseases of the digestive system", "cardiovascular":
           "diseases of heart and vessels", "nervous": "diseases of the nervous system",
           "general": "general pathological conditions"}  # fmt: skip
ATIS = {"atis_flight": "flights", "atis_airfare": "air fares", "atis_ground_service": "ground transportation",
        "atis_airline": "airlines", "atis_abbreviation": "what an abbreviation means", "atis_aircraft": "aircraft",
        "atis_flight_time": "flight times", "atis_quantity": "how many", "atis_airport": "airports",
        "atis_capacity": "seating capacity", "atis_distance": "distances", "atis_city": "cities",
        "atis_ground_fare": "fares of ground transportation", "atis_flight_no": "flight numbers"}  # fmt: skip
SNIPS = {"AddToPlaylist": "add a song to a playlist", "BookRestaurant": "book a restaurant",
         "GetWeather": "the weather", "PlayMusic": "play music", "RateBook": "rate a book",
         "SearchCreativeWork": "search for a creative work",
         "SearchScreeningEvent": "movie showtimes"}  # fmt: skip
TASTE = {"pos": "a positive review, a great film", "neg": "a negative review, a bad film"}
VERDICT = {"high": "a positive review that recommends acceptance", "low": "a negative review that recommends rejection"}
GENDER = {"male": "written by a man", "female": "written by a woman"}


@dataclass(frozen=True)
class Split:
    """Names of the labels; how to find pool, private and test rows; what the user states."""

    names: dict[str, str]
    rows: Callable[[random.Random], tuple[list[Row], list[Row], list[Row]]]
    settings: dict[str, Any] = field(default_factory=dict)


def read(corpus: str, keep: Callable[[Row], bool] = lambda _: True) -> list[Row]:
    """The rows of a corpus."""
    return [row for row in corpus_rows(corpus) if keep(row) and "\0" not in row["text"]]


def cut(rows: list[Row], rng: random.Random, *sizes: int) -> tuple[list[Row], ...]:
    """Disjoint random parts of these sizes."""
    rows = rng.sample(rows, len(rows))
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(rows[a:b] for a, b in pairwise(ends))


def of(corpus: str, names: dict[str, str], pool: int, private: int, test: int) -> Callable[..., Any]:
    """Pool, private and test texts of one corpus, of the labels that have names."""
    return lambda rng: cut(read(corpus, lambda row: row["label"] in names), rng, pool, private, test)


def news_by_films(rng: random.Random) -> Any:
    """Posts whose pool is reviews of films and blogs."""
    _, private, test = of("20newsgroups", NEWS, 9_000, 4_800, 3_000)(rng)
    return [*rng.sample(read("imdb"), 4_500), *rng.sample(read("blogs"), 4_500)], private, test


def abstracts_by_source(rng: random.Random) -> Any:
    """Abstracts of one collection whose pool is another collection."""
    private, test = cut(read("medical_abstracts", lambda row: row["source"] != "ohsumed"), rng, 1_200, 770)
    return read("medical_abstracts", lambda row: row["source"] == "ohsumed"), private, test


def reviews(rng: random.Random) -> Any:
    """Peer reviews by what they recommend; all reviews of a paper are in one part."""
    rows = read("peer_reviews")
    for row in rows:
        row["label"] = "high" if int(row["rating"]) >= 6 else "low"
    papers = sorted({row["paper"] for row in rows})
    rng.shuffle(papers)
    part = {
        paper: 0 if i < 0.45 * len(papers) else 1 if i < 0.85 * len(papers) else 2 for i, paper in enumerate(papers)
    }
    return tuple([row for row in rows if part[row["paper"]] == i] for i in range(3))


def bloggers(rng: random.Random) -> Any:
    """Blogs by the gender of their authors: 40 are public, 60 private, whose later posts are the test."""
    rows = read("blogs")
    for row in rows:
        row["label"] = row["gender"]
    authors = sorted({row["author"] for row in rows})
    rng.shuffle(authors)
    public = set(authors[:40])
    pool = [row for row in rows if row["author"] in public]
    own = [row for row in rows if row["author"] not in public]
    train, test = ([row for row in own if (row["split"] == "train") is wanted] for wanted in (True, False))
    return rng.sample(pool, 6_000), train, test


def skewed(rng: random.Random) -> Any:
    """SNIPS with another mix of intents than the pool, which has all alike."""
    rows = read("snips")
    pool, private, test = cut(rows, rng, 7_000, 5_000, 2_400)
    shares = dict(zip(sorted(SNIPS), (1.0, 0.6, 0.4, 0.25, 0.15, 0.08, 0.05), strict=True))
    private, test = ([row for row in part if rng.random() < shares[row["label"]]] for part in (private, test))
    return pool, private, test


SPLITS = {
    "20 Newsgroups": Split(NEWS, of("20newsgroups", NEWS, 9_000, 4_800, 3_000), {"about": 5_000}),
    "OHSUMED": Split(DISEASES, lambda rng: cut(read("medical_abstracts", lambda row: row["source"] == "ohsumed"), rng,
                                               3_600, 2_400, 1_390), {"about": 2_500}),
    "ATIS": Split(ATIS, of("atis", ATIS, 2_600, 2_000, 1_100), {"about": 2_000}),
    "IMDB": Split(TASTE, of("imdb", TASTE, 6_000, 5_000, 3_000), {"about": 5_000}),
    "peer reviews": Split(VERDICT, reviews, {"about": 2_500}),
    "SNIPS": Split(SNIPS, of("snips", SNIPS, 7_000, 3_700, 3_000), {"about": 4_000}),
    "SNIPS, another mix": Split(SNIPS, skewed, {"about": 2_000}),
    "abstracts, another source": Split(SYSTEMS, abstracts_by_source, {"about": 1_200}),
    "20 Newsgroups, pool of films and blogs": Split(NEWS, news_by_films, {"about": 5_000}),
    "blogs, document": Split(GENDER, bloggers, {"about": 10_000}),
    "blogs, author": Split(GENDER, bloggers, {"about": 60, "unit": "author"}),
}  # fmt: skip


class Remembered:
    """The sentence encoder, each text embedded once and kept in build/vectors."""

    def __init__(self) -> None:
        self.inner = sentence_encoder.load_sentence_encoder()
        self.name, self.dim, self.precision, self.digest = (
            self.inner.name, self.inner.dim, self.inner.precision, self.inner.digest,
        )  # fmt: skip
        self.rows: dict[str, np.ndarray] = {}
        for path in VECTORS.glob("*.npz"):
            with np.load(path) as found:
                self.rows.update(zip(found["names"].tolist(), found["vectors"], strict=True))

    def embed(self, texts: Sequence[str], **_: object) -> np.ndarray:
        """Unit vectors `(n, dim)`."""
        names = [name_of(text) for text in texts]
        missing = {name: text for name, text in zip(names, texts, strict=True) if name not in self.rows}
        if missing:
            vectors = self.inner.embed(list(missing.values())).astype(np.float32)
            self.rows.update(zip(missing, vectors, strict=True))
            if len(missing) > 200:
                VECTORS.mkdir(parents=True, exist_ok=True)
                np.savez(VECTORS / f"{min(missing)}.npz", names=list(missing), vectors=vectors)
        return np.stack([self.rows[name] for name in names]).astype(np.float64)


def name_of(text: str) -> str:
    """A text's name among the vectors."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


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
        from sklearn.metrics import f1_score

        if len(set(labels)) < 2:
            found = np.array([labels[0]] * len(self.test))
        else:
            counter, model = learnt(texts, labels)
            found = model.predict(counter.transform([record.text for record in self.test]))
        true = np.array([record.label for record in self.test])
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


def local(name: str, private: list[dp.Record], pool: tuple[list[str], list[str]], judge: Judge) -> dict[str, float]:
    """A local mechanism at epsilon 10 for each text, on the pool as labelled without private text."""
    labels = tuple(sorted(set(pool[1])))
    public = [dp.Record(str(i), text, label=label) for i, (text, label) in enumerate(zip(*pool, strict=True))]
    made: Any = (
        dp.LabelOnly(labels, epsilon=10.0) if name == "label_only" else dp.Candidates(epsilon=10.0, labels=labels)
    )
    out = made.fit(public=public).privatize(private, seeded(SEED))
    return judge([each.output for each in out], [each.label for each in out])


def measure(name: str, encoder: Remembered) -> list[Row]:
    """Every row of one split."""
    split = SPLITS[name]
    parts = split.rows(random.Random(SEED))  # noqa: S311
    pool, private, test = (as_records(part) for part in parts)
    labels = tuple(split.names)
    truth = {record.text: record.label or "" for record in pool}
    judge = Judge([record for record in test if record.label in labels])
    rows: list[Row] = []

    def add(row: str, epsilon: float, seed: int, **numbers: float) -> None:
        rows.append({"split": name, "row": row, "epsilon": epsilon, "seed": seed, **numbers})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)

    mine = [record for record in private if record.label in labels]
    add("original", math.inf, 0, **judge([r.text for r in mine], [r.label or "" for r in mine]))
    guessed = best_zero_shot([record.text for record in pool], split.names, encoder, judge.test)
    add("public-only", 0.0, 0, **judge(*guessed))
    rng = random.Random(SEED)  # noqa: S311
    add("random", 0.0, 0, **judge([r.text for r in pool], [rng.choice(labels) for _ in pool]))
    if split.settings.get("unit") != "author":
        for each in ("label_only", "candidates"):
            add(each, 10.0, 0, **local(each, mine, guessed, judge))
    texts = [record.text for record in pool]
    space, points = fit_space(texts, encoder="sentence", words=300, dim=64)
    topics = fit_topics(texts, points, 64, seed=0)

    def corpus() -> Any:
        yield from (Batch.of(private[i : i + 1024]) for i in range(0, len(private), 1024))

    common = {"labels": labels, **split.settings}
    for kind, way in (("prototypes", Prototypes), ("votes", Votes)):
        named = {"names": tuple(split.names.values())} if kind == "prototypes" else {}
        for epsilon in (*EPSILONS, math.inf):
            spec = way(**common, **named, epsilon=min(epsilon, 1e4))
            none = Noise(math.inf, Relation.ADD_OR_REMOVE_ONE, signed=spec.signed)
            quiet = mock.patch.object(way, "noise", return_value=none) if math.isinf(epsilon) else mock.MagicMock()
            with quiet:
                fitted = spec.fit(public=pool)
                for seed in range(SEEDS if math.isfinite(epsilon) else 1):
                    found = fitted.synthesize(corpus, seeded(SEED + seed))
                    apart = topic_distance(found.texts, private, space, topics)
                    numbers = judge(found.texts, [label or "" for label in found.labels])
                    add(kind, epsilon, seed, **numbers, **told(found, truth, private, labels), topics_tv=apart)
    for epsilon in (0.5, 1.0):
        report = TopicReport(**{**split.settings, "epsilon": epsilon}).fit(public=pool)
        for seed in range(SEEDS):
            shares = np.maximum(np.array(report.synthesize(corpus, seeded(seed)).report.counts[0]), 0)
            true = np.bincount(report.topics.nearest(report.pool.space.points([r.text for r in private])), minlength=64)
            add("topics", epsilon, seed, topics_tv=float(np.abs(shares / shares.sum() - true / true.sum()).sum() / 2))
    return rows


def by_encoder(name: str, encoders: Sequence[str]) -> list[Row]:
    """Prototypes with each encoder, and the seconds of the processor that all but the fit takes."""
    split = SPLITS[name]
    pool, private, test = (as_records(part) for part in split.rows(random.Random(SEED)))  # noqa: S311
    labels, rows = tuple(split.names), list[Row]()
    judge = Judge([record for record in test if record.label in labels])

    def corpus() -> Any:
        yield from (Batch.of(private[i : i + 1024]) for i in range(0, len(private), 1024))

    for encoder in encoders:
        for epsilon in (1.0, 4.0):
            spec = Prototypes(labels=labels, names=tuple(split.names.values()), encoder=encoder, epsilon=epsilon,
                              **split.settings)  # fmt: skip
            fitted = spec.fit(public=pool)
            for seed in range(SEEDS):
                began = time.process_time()
                found = fitted.synthesize(corpus, seeded(SEED + seed))
                spent = round(time.process_time() - began, 2)
                numbers = judge(found.texts, [label or "" for label in found.labels])
                rows.append({"split": name, "row": encoder, "epsilon": epsilon, "seed": seed, **numbers,
                             "unlike": found.report.fit.share, "seconds": spent})  # fmt: skip
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure the splits that are named, or all."""
    encoder = Remembered()
    rows: list[Row] = []
    names, _, encoders = " -- ".join(sys.argv[2:]).partition("--encoders -- ")
    names = [name for name in names.split(" -- ") if name] or list(SPLITS)
    with mock.patch.object(sentence_encoder, "load_sentence_encoder", return_value=encoder):
        for name in names:
            rows += by_encoder(name, encoders.split(" -- ")) if encoders else measure(name, encoder)
            columns = list(dict.fromkeys(key for row in rows for key in row))
            with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(
                    {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows
                )


if __name__ == "__main__":
    main()
