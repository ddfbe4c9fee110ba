"""Votes in more rounds, and prototypes with topics and votes in one run: tries, as a CSV.

    python packages/lab/experiments/synthesis_rounds.py OUT.csv [SPLIT ...]

Splits, judge and pools are those of packages/lab/experiments/synthesis.py; all that a way reads has one epsilon, of 1.
Ways:

- *prototypes*, *votes*: as they are. *prototypes, topics*: with 64 topics, for a tenth of rho.
- *prototypes, votes* and *prototypes, topics, votes*: half of rho is for prototypes. Then every unit votes for the text
  that is most like it among some of those that were given its label, and its votes are shared by all texts of the label
  that are most like it.
- *neighbours, n rounds*: topics by label, then n - 1 rounds of votes for texts, by label. Before each and at the end,
  the pool texts that are nearest to texts with votes come in: public paraphrases.
- *sentences, n rounds*: what comes in is made of the first half of the sentences of a text with votes, and of the
  second half of those of another.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from synthesis import SEED, SEEDS, VECTORS, Judge, as_records, kept
from synthesis_splits import SPLITS, Split

import dptext as dp
from dptext.embeddings.encoders import PublicVectors
from dptext.privacy.guarantee import Relation
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.blocks import TOPICS as IN_TOPICS
from dptext.synthesis.labelling import class_sizes
from dptext.synthesis.pool import PublicPool, apportioned
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.sums import Draws, Noise
from dptext.synthesis.votes import LEAST_VOTES, FittedVotes, Votes
from dptext.text.batches import Batch
from dptext_lab.baselines.evolution import Population, evolved

EPSILON = 1.0
NAMES = ("ATIS", "OHSUMED", "peer reviews")
COLUMNS = ("split", "way", "epsilon", "seed", "accuracy", "macro_f1", "own_label", "texts", "topics_tv")
TOPICS = 64
Labelled = tuple[list[str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Votes):
    """Topics, then rounds - 1 rounds of votes for texts."""

    rounds: int = 2

    @property
    def shares(self) -> tuple[float, ...]:
        """Of rho."""
        return (self.first_share, *[(1 - self.first_share) / (self.rounds - 1)] * (self.rounds - 1))


class HalvedSummary(SummarySpec):
    """A summary that has half of rho."""

    def noise(self, share: float = 1.0) -> Noise:
        """Of half of rho."""
        return Noise(self.rho * share / 2, Relation(self.relation))


class Halved(Prototypes):
    """Prototypes that have half of rho."""

    @property
    def summary(self) -> HalvedSummary:
        """Of half of rho."""
        spec = Prototypes.summary.fget(self)  # type: ignore[attr-defined]
        return HalvedSummary(**{each.name: getattr(spec, each.name) for each in fields(spec) if each.init})


@dataclass(frozen=True)
class Given:
    """A writer that adds nothing."""

    pool: PublicPool

    def more(self, _label: int, texts: Sequence[str], n: int, _: Randomness, **_how: Any) -> list[str]:
        """The first of the texts."""
        return list(texts[:n])


class Neighbours(Given):
    """A writer that adds pool texts, those nearest to the texts first."""

    def more(self, _label: int, texts: Sequence[str], n: int, _: Randomness, **_how: Any) -> list[str]:
        """At most n texts: these, and their neighbours."""
        known, points = {text: i for i, text in enumerate(self.pool.texts)}, self.pool.points
        least = np.full(len(points), np.inf)
        for text in texts:
            least = np.minimum(least, np.square(points - points[known[text]]).sum(axis=1))
        near = [self.pool.texts[i] for i in np.argsort(least, kind="stable")[:n]]
        return list(dict.fromkeys([*texts, *near]))[:n]


class Sentences(Given):
    """A writer that makes a text of the sentences of two texts."""

    def more(
        self, _label: int, texts: Sequence[str], n: int, randomness: Randomness, *, chances: np.ndarray, varied: bool
    ) -> list[str]:
        """At most n texts: these, and what is made of them."""
        found, rng = dict.fromkeys(texts[:n]), np.random.default_rng(uniform_below(1 << 62, 1, randomness))
        pairs = rng.choice(len(texts), size=(4 * n if varied else 0, 2), p=chances / chances.sum())
        parts = [re.split(r"(?<=[.!?])\s+", text) for text in texts]
        for a, b in pairs.tolist():
            if len(found) < n:
                first, second = parts[a], parts[b]
                found[" ".join([*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]])] = None
        return list(found)


@dataclass(frozen=True)
class Case:
    """A split at one epsilon, and the randomness of a seed."""

    split: Split
    public: list[dp.Record]
    private: list[dp.Record]
    epsilon: float
    seed: int

    def corpus(self) -> Any:
        """The private texts."""
        yield from (Batch.of(self.private[i : i + 1024]) for i in range(0, len(self.private), 1024))

    def spec(self, way: Any, **settings: Any) -> Any:
        """Settings of a way."""
        if issubclass(way, Prototypes):
            settings["names"] = tuple(self.split.names.values())
        return way(labels=tuple(self.split.names), epsilon=self.epsilon, **self.split.settings, **settings)

    def plain(self, way: Any, **settings: Any) -> Any:
        """What a way makes, by itself."""
        return (
            self.spec(way, **settings).fit(public=self.public).synthesize(self.corpus, Draws(seeded(SEED + self.seed)))
        )

    def then_votes(self, topics: int) -> Labelled:
        """Prototypes, then votes for some of the texts of each label."""
        made, labels = self.plain(Halved, topics=topics), tuple(self.split.names)
        fitted = self.spec(Rounds).fit(public=self.public)
        own = [
            Population.alike([t for t, c in zip(made.texts, made.labels, strict=True) if c == name]) for name in labels
        ]
        mix = np.maximum(np.array(made.report.by_label[0]), 1.0)
        source = seeded(SEED + self.seed + SEEDS)
        voted = evolved(Given(fitted.pool), (fitted.pool.space, fitted.spec, self.corpus), own, mix, Draws(source))
        points = dict(zip(fitted.pool.texts, fitted.pool.points, strict=True))
        texts, names, weights = list[str](), list[str](), list[float]()
        for name, before, after, number in zip(labels, own, voted, mix.tolist(), strict=True):
            if before.texts:
                theirs, chosen = (np.stack([points[text] for text in each.texts]) for each in (before, after))
                near = np.stack([np.square(theirs - point).sum(axis=1) for point in chosen]).argmin(axis=0)
                each = after.chances / np.maximum(np.bincount(near, minlength=len(chosen)), 1)
                texts += before.texts
                names += [name] * len(before.texts)
                weights += (number * each[near] / each[near].sum()).tolist()
        copies = apportioned(np.array(weights), len(made.texts)).tolist()
        rows = [i for i, n in enumerate(copies) for _ in range(n)]
        return [texts[i] for i in rows], [names[i] for i in rows]

    def by_rounds(self, writer: Callable[[PublicPool], Given], rounds: int) -> Labelled:
        """Topics by label, then rounds of votes with a writer between them."""
        fitted: FittedVotes = self.spec(Rounds, rounds=rounds, first_share=1 / rounds).fit(public=self.public)
        spec, pool, source = fitted.spec, fitted.pool, seeded(SEED + self.seed)
        first = fitted.measures.measure(self.corpus, Draws(source), spec.first_share).known[IN_TOPICS]
        seen = np.where(first.numbers > LEAST_VOTES * first.deviation, first.numbers, 0.0)
        mix = class_sizes(first.numbers.sum(axis=1), first.deviation * math.sqrt(TOPICS))
        rng, start = np.random.default_rng(SEED + self.seed), []
        for row in seen:
            weights = (row / np.maximum(np.bincount(fitted.topics.of_pool, minlength=TOPICS), 1))[fitted.topics.of_pool]
            weights = weights if weights.any() else np.ones(len(weights))
            rows = rng.choice(len(weights), int((weights > 0).sum()), replace=False, p=weights / weights.sum())
            start.append(Population.alike([pool.texts[i] for i in rows]))
        made = writer(pool)
        voted = evolved(made, (pool.space, spec, self.corpus), start, mix, Draws(source))
        texts, names = list[str](), list[str]()
        sizes = apportioned(mix, spec.size_of(pool.texts)).tolist()
        for label, (each, n) in enumerate(zip(voted, sizes, strict=True)):
            grown = each.grown(made, label, n, source, varied=True)
            texts += grown
            names += [spec.labels[label]] * len(grown)
        return texts, names


def simply(case: Case, way: Any, **settings: Any) -> Labelled:
    """What one way makes."""
    made = case.plain(way, **settings)
    return list(made.texts), list(made.labels)


def with_topics(case: Case) -> tuple[Labelled, float]:
    """What prototypes with topics make, and how far the reported topics are from the true ones."""
    fitted = case.spec(Prototypes, topics=TOPICS).fit(public=case.public)
    made = fitted.synthesize(case.corpus, Draws(seeded(SEED + case.seed)))
    own = fitted.pool.topics.nearest(fitted.pool.space.points([record.text for record in case.private]))
    true, found = np.bincount(own, minlength=TOPICS), np.maximum(made.report.by_topic[0], 0)
    apart = float(np.abs(found / found.sum() - true / true.sum()).sum() / 2)
    return (list(made.texts), list(made.labels)), apart


WAYS: dict[str, Callable[[Case], Labelled]] = {
    "prototypes": lambda case: simply(case, Prototypes),
    "prototypes, votes": lambda case: case.then_votes(0),
    "prototypes, topics, votes": lambda case: case.then_votes(TOPICS),
    "votes": lambda case: simply(case, Votes),
    "neighbours, 2 rounds": lambda case: case.by_rounds(Neighbours, 2),
    "neighbours, 3 rounds": lambda case: case.by_rounds(Neighbours, 3),
    "sentences, 2 rounds": lambda case: case.by_rounds(Sentences, 2),
    "sentences, 3 rounds": lambda case: case.by_rounds(Sentences, 3),
}


def tried(name: str) -> Iterator[dict[str, Any]]:
    """Every row of one split."""
    split = SPLITS[name]
    pool, private, test = (as_records(part) for part in split.rows(random.Random(SEED)))  # noqa: S311
    judge = Judge([record for record in test if record.label in split.names])
    truth = {record.text: record.label or "" for record in pool}
    for seed in range(SEEDS):
        case = Case(split, pool, private, EPSILON, seed)
        found, apart = with_topics(case)
        made = {"prototypes, topics": found} | {way: method(case) for way, method in WAYS.items()}
        for way, (texts, labels) in made.items():
            known = [truth[text] == label for text, label in zip(texts, labels, strict=True) if text in truth]
            row = {"split": name, "way": way, "epsilon": EPSILON, "seed": seed, **judge(texts, labels)}
            row |= {"own_label": float(np.mean(known)), "texts": len(texts)}
            yield row | ({"topics_tv": apart} if way == "prototypes, topics" else {})


def main() -> None:
    """Try all ways on the splits that are named, or on three."""
    with PublicVectors(VECTORS).learning():
        for name in sys.argv[2:] or NAMES:
            kept(Path(sys.argv[1]), tried(name), COLUMNS)


if __name__ == "__main__":
    main()
