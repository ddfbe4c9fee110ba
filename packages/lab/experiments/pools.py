"""Which public texts to put in the place of private ones, and how to choose among them: Markdown tables.

    python packages/lab/experiments/pools.py

What is said of a release is its mean cosine to its own original by all-MiniLM-L6-v2, for 300 private texts: the exact
expectation of the choice of `candidates`, made on public texts, without labels; "limit" is the best of any choice.
"First" is the chance that the own original ranks first among 100. The corpora are those of limit.toml, in the folder
that DPTEXT_DATA names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import Remembering

from dptext.embeddings.embedder import embed_distinct
from dptext.embeddings.encoders import load_encoder
from dptext.embeddings.likeness import STEPS
from dptext.errors import ConfigError
from dptext.sampling.envelope import limit, tuned_response
from dptext.text.tokens import sentences
from dptext.types import Booleans, Floats
from dptext.utility.corpus import pool_fit
from dptext_lab.compare.corpora import load_corpus
from dptext_lab.compare.experiment import read_experiment

POOL, LARGE, PRIVATE = 1000, 3000, 300
SIZES = (50, 100, 250, 500, POOL, LARGE)
EPSILONS = (1.0, 3.0, 5.0, 10.0)
DOCUMENTS = ("blogs", "imdb", "20newsgroups")  # of several sentences
DRAWS, CHECKED = 40, 100
ENCODER = Remembering(load_encoder)
Rank = Callable[[Floats, Floats], Floats]  # queries and pool as vectors, to scores `(n, m)`


@dataclass(frozen=True)
class Part:
    """Texts with their labels and unit vectors `(n, 384)`."""

    texts: list[str]
    labels: np.ndarray
    vectors: Floats


@dataclass(frozen=True)
class Room:
    """A corpus: up to 3,000 public texts, 300 private ones, and the 99 rivals of each of these `(300, 99)`."""

    public: Part
    private: Part
    rivals: np.ndarray

    def first(self, i: int, vectors: Floats) -> Booleans:
        """Which releases `(m, 384)` are as near to a private text as to any of its rivals `(m,)`."""
        own = self.private.vectors
        return np.asarray(vectors @ own[i] >= (vectors @ own[self.rivals[i]].T).max(axis=1))


def encoded(texts: Sequence[str]) -> Floats:
    """Unit vectors `(n, 384)`; each text is encoded once."""
    return embed_distinct(texts, ENCODER).at(texts)


def unit(vectors: Floats) -> Floats:
    """Vectors of norm 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))


def plain(queries: Floats, pool: Floats) -> Floats:
    """Cosines `(n, m)`."""
    return queries @ pool.T


def chances(
    pool: Floats, private: Floats, epsilon: float, rank: Rank = plain, made_on: Any = None, own: Any = None
) -> Floats:
    """The chance of each option for each private text; the choice is made on 1,000 texts, by default of the pool."""
    asked = (pool if made_on is None else made_on)[:POOL]
    own = np.eye(len(asked), len(pool), dtype=bool) if own is None else own
    known, given = (np.rint(rank(queries, pool) * STEPS).astype(np.int16) for queries in (asked, private))
    return tuned_response(known, own, epsilon=epsilon, seed=0).distribution(given)


def mean(chance: Floats, gains: Floats) -> float:
    """What is gained on average."""
    return float((chance * gains).sum(axis=1).mean())


def gained(pool: Floats, private: Floats, **how: Any) -> list[float]:
    """The expected cosine at each epsilon."""
    return [mean(chances(pool, private, e, **how), private @ pool.T) for e in EPSILONS]


def limits(pool: Floats, private: Floats) -> list[float]:
    """The best of any choice at each epsilon."""
    return [limit(private @ pool.T, epsilon=e).value for e in EPSILONS]


def nearest(pool: Floats, private: Floats) -> float:
    """Mean cosine to the nearest text of the pool."""
    return float((private @ pool.T).max(axis=1).mean())


def at(*names: str) -> list[str]:
    """A column for each name and epsilon."""
    return [f"{name} {epsilon:g}".strip() for name in names for epsilon in EPSILONS]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table, numbers without their leading zero."""
    shown = [[f"{cell:.3f}".lstrip("0") if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    lines = [columns, ["---"] * len(columns), *shown]
    print(f"\n**{title}**\n", *("| " + " | ".join(line) + " |" for line in lines), sep="\n", flush=True)


def domain(rooms: dict[str, Room]) -> None:
    """Each pool for each corpus; sizes of the pool; half of the pool of another domain."""
    rows, sizes, mixed = [], [], []
    names, every = list(rooms), np.concatenate([room.private.vectors for room in rooms.values()])
    for k, (pool, room) in enumerate(rooms.items()):
        texts, public, mine = room.public.texts, room.public.vectors, room.private.vectors
        made = [(chances(public[:POOL], every, e) * (every @ public[:POOL].T)).sum(axis=1) for e in EPSILONS]
        for i, (name, other) in enumerate(rooms.items()):
            fit, own = pool_fit(texts[:POOL], other.private.texts, embedder=ENCODER), other.private.vectors
            found = [float(gain[i * PRIVATE : (i + 1) * PRIVATE].mean()) for gain in made]
            judged = (fit.nearest.value, fit.among.value, fit.nearer, "yes" if fit.fits else "no")
            rows.append([pool, name, *judged, *found, *limits(public[:POOL], own)])
        for size in SIZES:
            fit, some = pool_fit(texts[:size], room.private.texts, embedder=ENCODER), public[:size]
            sizes.append([pool, len(some), fit.nearest.value, fit.nearer, *gained(some, mine), *limits(some, mine)])
        other_name = names[(k + 1) % len(names)]
        half = public[: POOL // 2]
        both = np.concatenate([half, rooms[other_name].public.vectors[: POOL // 2]])
        mixed.append([pool, "500 own", *gained(half, mine)])
        mixed.append([pool, f"+ 500 {other_name}", *gained(both, mine)])
        mixed.append([pool, "the same, made on the 500 own", *gained(both, mine, made_on=half)])
    columns = ["pool", "private", "nearest", "among", "nearer", "fits", *at("", "limit")]
    table("Each pool of 1,000 for each corpus", columns, rows)
    table("Size", ["corpus", "texts", "nearest", "nearer", *at("", "limit")], sizes)
    table("Mixed pools", ["corpus", "pool", *at("")], mixed)


def halves(text: str) -> tuple[str, str]:
    """The first and the last sentences, or words where there is one sentence; of one word twice that word."""
    units = sentences(text)
    units = units if len(units) > 1 else text.split()
    middle = max(1, len(units) // 2)
    return " ".join(units[:middle]), " ".join(units[middle:] or units)


def by_halves(texts: Sequence[str]) -> list[Floats]:
    """The vectors of first and of last halves."""
    return [encoded(part) for part in zip(*map(halves, texts), strict=True)]


def recombined(rooms: dict[str, Room]) -> None:
    """1,000 public texts with others made of their sentences; what is made of a text does not count for it."""
    rng, rows = np.random.default_rng(0), []
    for name, room in rooms.items():
        own, pool, texts = room.private.vectors, room.public.vectors[:POOL], room.public.texts[:POOL]
        parts = [(i, sentence) for i, text in enumerate(texts) for sentence in sentences(text)]
        drawn = [[parts[i] for i in rng.choice(len(parts), n, replace=False)] for n in (2, 3) for _ in range(POOL)]
        made = {"2,000 pairs and triples": [([i for i, _ in one], " ".join(said for _, said in one)) for one in drawn]}
        near = np.argsort(-(pool @ pool.T), axis=1)[:, 1:6]
        pairs = [(i, int(rng.choice(near[i]))) for i in range(len(pool))]
        if name in DOCUMENTS:
            crossed = [([i, j], f"{halves(texts[i])[0]} {halves(texts[j])[1]}") for i, j in pairs]
            made["1,000 halves of neighbours"] = crossed
        rows.append([name, "nothing", nearest(pool, own), *gained(pool, own), *limits(pool, own)])
        for added, new in made.items():
            without = np.hstack([np.eye(len(pool), dtype=bool), np.zeros((len(pool), len(new)), bool)])
            for column, (sources, _) in enumerate(new):
                without[sources, len(pool) + column] = True
            both = np.concatenate([pool, encoded([text for _, text in new])])
            found = gained(both, own, made_on=pool, own=without)
            rows.append([name, added, nearest(both, own), *found, *limits(both, own)])
        rest = room.public.vectors
        found = gained(rest, own, made_on=pool)
        rows.append([name, f"{len(rest) - POOL:,} real", nearest(rest, own), *found, *limits(rest, own)])
    table("Recombined sentences", ["corpus", "added", "nearest", *at("", "limit")], rows)


def joined(first: Floats, second: Floats, private: Floats, pools: Sequence[Floats]) -> float:
    """Mean cosine of two independent choices joined: the sum of two unit vectors, made one again."""
    inverse = 1 / np.sqrt(np.maximum(2 + 2 * pools[0] @ pools[1].T, 1e-9))
    gains = first * (private @ pools[0].T) * (second @ inverse.T) + second * (private @ pools[1].T) * (first @ inverse)
    return float(gains.sum(axis=1).mean())


def two_texts(rooms: dict[str, Room]) -> None:
    """Two texts for a record, which share its budget."""
    rng, rows, checked = np.random.default_rng(0), [], []
    for name, room in rooms.items():
        own, pool, texts = room.private.vectors, room.public.vectors[:POOL], room.public.texts[:POOL]
        one, two = ([chances(pool, own, e / share) for e in EPSILONS] for share in (1, 2))
        sure = np.array([room.first(i, pool) for i in range(PRIVATE)])
        rows.append([name, "one", *(mean(chance, own @ pool.T) for chance in one), *(mean(c, sure) for c in one)])
        drawn = [np.array([rng.choice(len(pool), (DRAWS, 2), p=row / row.sum()) for row in chance]) for chance in two]
        sums = [unit(pool[pairs].sum(axis=2)) for pairs in drawn]
        firsts = [float(np.mean([room.first(i, z) for i, z in enumerate(found)])) for found in sums]
        rows.append([name, "two", *(joined(chance, chance, own, (pool, pool)) for chance in two), *firsts])
        if name in DOCUMENTS:
            mine, parts = by_halves(room.private.texts), by_halves(texts)
            both = [[chances(parts[i], mine[i], e / 2) for i in (0, 1)] for e in EPSILONS]
            found = [joined(first, second, own, parts) for first, second in both]
            rows.append([name, "by halves", *found, *[""] * len(EPSILONS)])
        # What the encoder says of joined texts, at epsilon 5, beside the sum of two vectors.
        said = encoded([" ".join(texts[j] for j in pair) for pair in drawn[2][:CHECKED, 0]])
        checked.append([name, *(mean(z, own[:CHECKED]) for z in (sums[2][:CHECKED, 0], said))])
    table("Two texts, half the budget each", ["corpus", "texts", *at("", "first")], rows)
    table("Two texts at epsilon 5, 100 records: sum of vectors, or encoded", ["corpus", "sum", "encoded"], checked)


def whitening(vectors: Floats, shrinkage: float) -> Rank:
    """Cosines after PCA whitening; the shrinkage is added to variances, in shares of their mean."""
    centre = vectors.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov(vectors.T))
    scale = axes / np.sqrt(values + shrinkage * values.mean())
    return lambda queries, pool: unit((queries - centre) @ scale) @ unit((pool - centre) @ scale).T


def ridge(given: Floats, wanted: Floats) -> Rank:
    """Cosines of what a linear map guesses of a query; the penalty is the mean variance."""
    gram = given.T @ given
    found = np.linalg.solve(gram + np.trace(gram) / len(gram) * np.eye(len(gram)), given.T @ wanted)
    return lambda queries, pool: unit(queries @ found) @ pool.T


def rankers(rooms: dict[str, Room]) -> None:
    """Other rankings of whole texts, learnt on the public texts alone; what leaves is judged by plain cosine.

    For any envelope no ranking gains more cosine than cosine does: it raises the best options first. Another ranking
    can only lead to a better envelope. So it is also judged by own first, and by the share of labels kept.
    """
    rows = []
    for name, room in rooms.items():
        own, pool = room.private.vectors, room.public.vectors[:POOL]
        one, other = by_halves(room.public.texts[:POOL])
        near = np.argsort(-(pool @ pool.T), axis=1)[:, 1:11]
        ways = {
            "plain": plain,
            "whitened, .1": whitening(pool, 0.1),
            "whitened, 1": whitening(pool, 1.0),
            "ridge to the other half": ridge(np.vstack([one, other]), np.vstack([other, one])),
            "ridge to ten neighbours": ridge(pool, pool[near].mean(axis=1)),
        }
        worth = [own @ pool.T, np.array([room.first(i, pool) for i in range(PRIVATE)])]
        if name != "blogs":  # which has no labels
            worth.append(room.private.labels[:, None] == room.public.labels[None, :POOL])
        for way, rank in ways.items():
            by = [chances(pool, own, e, rank=rank) for e in EPSILONS]
            found = [mean(chance, gains) for gains in worth for chance in by]
            rows.append([name, way, *found, *[""] * (3 * len(EPSILONS) - len(found))])
    table("Other rankings", ["corpus", "ranked by", *at("", "first", "label")], rows)


def load() -> dict[str, Room]:
    """The five corpora, each text encoded once."""
    experiment = read_experiment(Path(__file__).with_name("limit.toml"))
    rooms, rng = {}, np.random.default_rng(0)
    for name, plan in experiment.corpora.items():
        assert plan.public is not None
        larger = plan.model_copy(update={"public": plan.public.model_copy(update={"limit": LARGE})})
        corpus = load_corpus(name, larger, seed=experiment.seed)
        parts = []
        for records in (corpus.public, corpus.private[:PRIVATE]):
            texts = [record.text for record in records]
            parts.append(Part(texts, np.array([record.label for record in records]), encoded(texts)))
        others = [np.delete(np.arange(PRIVATE), i) for i in range(PRIVATE)]
        rooms[name] = Room(parts[0], parts[1], np.array([rng.choice(some, 99, replace=False) for some in others]))
    return rooms


if __name__ == "__main__":
    try:
        corpora = load()
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    for question in (domain, recombined, two_texts, rankers):
        question(corpora)
