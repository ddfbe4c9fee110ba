"""The writer's choices, made on a split of public texts alone: tables on the screen.

    python packages/lab/experiments/summary_choices.py rates                 # marks, and how numbers become rates
    python packages/lab/experiments/summary_choices.py labels --epsilon 1    # which label a written text leaves under
    python packages/lab/experiments/summary_choices.py shares                # which share of rho each block has
    python packages/lab/experiments/summary_choices.py pool                  # which label a text of the pool gets
    python packages/lab/experiments/summary_choices.py weight                # what words weigh beside the class means

The split is "public" of `summary.py`: requests of four intents, of which the pool has two. The "private" half is
public, too. `rates` reads test texts by naive Bayes with the believed rates. `labels` writes texts with the built-in
model, labels them in several ways, and tries a classifier that learns from them on test texts, on this split, and
with `--split sentences` on sentences of six newsgroups whose pool is SNIPS. `shares` reads test texts by class means,
words and both, and tries a classifier that learns from the pool writer's texts. `pool` labels texts of
the pool, on this split and on halves of the public part of 20 Newsgroups, whose pool has all labels or two thirds.
`weight` reads test texts by class means and words of this split, with its pool and with one of ATIS, and of the posts.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import synthesis_splits
from language import SEED, records, taught
from summary import ALL
from synthesis_splits import SNIPS, read

from dptext.sampling.randomness import seeded
from dptext.synthesis.blocks import WORDS
from dptext.synthesis.from_model import FromModel
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.judging import believed, judged, labelled, word_scores
from dptext.synthesis.pool import apportioned
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.synthesis.sums import Draws
from dptext.synthesis.word_targets import WordTargets
from dptext.text.batches import Batch
from dptext.types import Floats

NEWS_SEED = 20261124  # of `synthesis.py`: the private part of its split is not read
GRID = np.linspace(-4.0, 8.0, 61)
Rates = Callable[[Floats, float, Floats, float], Floats]


def most_likely(prior: float) -> Rates:
    """Rates that are most likely, with a Laplace prior of the logarithm."""

    def found(numbers: Floats, units: float, rates: Floats, deviation: float) -> Floats:
        options = np.minimum(rates[:, None] * np.exp(GRID), 1.0)
        likely = -np.square((numbers[:, None] - units * options) / deviation) / 2 - prior * np.abs(GRID)
        return np.asarray(options[np.arange(len(rates)), likely.argmax(axis=1)])

    return found


def mean_logarithm(numbers: Floats, units: float, rates: Floats, deviation: float) -> Floats:
    """The rule of the product with shifts up to e^8 alone: a word that public text lacks stays rare at any number."""
    options = np.minimum(rates[:, None] * np.exp(GRID), 1.0)
    likely = -np.square((numbers[:, None] - units * options) / deviation) / 2 - 0.3 * np.abs(GRID)
    weights = np.exp(likely - likely.max(axis=1, keepdims=True))
    return np.asarray(np.exp((weights * np.log(options)).sum(axis=1) / weights.sum(axis=1)))


class Case:
    """The split, and summaries of it."""

    def __init__(self) -> None:
        self.split = ALL["public"]
        self.pool, self.private, self.test = self.split.rows(random.Random(SEED))  # noqa: S311
        self.labels, self.names = tuple(self.split.names), tuple(self.split.names.values())
        self.base = [row for row in self.pool if row["label"] in self.split.known]
        self.texts = [row["text"] for row in self.test]
        self.truth = np.array([self.labels.index(row["label"]) for row in self.test])

    def spec(self, **changes: Any) -> SummarySpec:
        """The settings."""
        found = SummarySpec(
            labels=self.labels, names=self.names, relation="replace_one", about=len(self.private), marks=5, tokens=16
        )
        return replace(found, **changes)

    def summaries(self, spec: SummarySpec, seeds: int) -> Iterator[Summary]:
        """Summaries with other noise."""
        shown = [{**row, "label": SNIPS.get(row["label"], row["label"])} for row in self.pool]
        fitted = spec.fit(public=records(shown), seed=SEED)
        for seed in range(seeds):
            yield fitted.measure(self.corpus, Draws(seeded(seed)))

    def corpus(self) -> Any:
        """The texts that stand for private ones, in batches."""
        found = records(self.private)
        yield from (Batch.of(found[start : start + 256]) for start in range(0, len(found), 256))

    def right(self, scores: Floats) -> float:
        """The share of test texts whose largest score is that of their label."""
        return float((scores.argmax(axis=1) == self.truth).mean())


def by_rates(case: Case) -> None:
    """Print the share of test texts that naive Bayes reads right, by epsilon, marks and the rule for rates."""
    rules: dict[str, Rates] = {
        "public rates": lambda _, __, rates, ___: rates,
        **{f"most likely, prior {prior}": most_likely(prior) for prior in (1.5, 1.0, 0.7)},
        "mean of the logarithm, prior .3, up to e^8": mean_logarithm,
        "mean of the logarithm, prior .3": believed,
    }
    for epsilon in (1.0, 4.0):
        for marks in (3, 4, 5, 6, 8, 12):
            found = list(case.summaries(case.spec(epsilon=epsilon, marks=marks), 3))
            known = [found[0].public.lexicon.known(text) for text in case.texts]  # type: ignore[union-attr]
            line = []
            for name, rule in rules.items():
                read = []
                for each in found:
                    words, units = each.known[WORDS], each.sizes
                    rates = zip(words.numbers, units, each.public.rates, strict=True)  # type: ignore[arg-type]
                    logs = np.log(np.array([rule(numbers, n, usual, words.deviation) for numbers, n, usual in rates]))
                    read.append(case.right(np.array([logs[:, sorted(places)].sum(axis=1) for places in known])))
                line.append(f"{name}: {np.mean(read):.3f}")
            means = [case.right(labelled(each, each.public.pool.space.points(case.texts))[0]) for each in found]  # type: ignore[union-attr]
            both = [
                case.right(judged(each, case.texts, each.public.pool.space.points(case.texts))[0]) for each in found
            ]  # type: ignore[union-attr]
            line += [f"class means: {np.mean(means):.3f}", f"both: {np.mean(both):.3f}"]
            print(f"epsilon {epsilon}, {marks} marks: {'; '.join(line)}", flush=True)


def by_shares(case: Case, seeds: int) -> None:
    """Print what is read right, and what the pool writer's texts teach, by the shares of points, counts and words."""
    own, given = [row["text"] for row in case.base], [row["label"] for row in case.base]
    for weights in ((4, 1, 4), (4, 0.5, 4), (4, 2, 4), (6, 1, 2), (3, 1, 6), (2, 1, 6)):
        point, count, word = (0.99 * weight / sum(weights) for weight in weights)
        spec = case.spec(epsilon=1.0, point_share=point, count_share=count, word_share=word)
        right: dict[str, list[float]] = {}
        for found in case.summaries(spec, seeds):
            points = found.public.pool.space.points(case.texts)  # type: ignore[union-attr]
            made = FromPool().write(found, seeded(0))
            taken = own + list(made.texts), given + [label or "" for label in made.labels]
            for name, share in (
                ("class means", case.right(labelled(found, points)[0])),
                ("words", case.right(word_scores(found, case.texts))),
                ("both", case.right(judged(found, case.texts, points)[0])),
                ("pool", taught(*taken, case.test)["accuracy"]),
            ):
                right.setdefault(name, []).append(share)
        told = "; ".join(f"{name} {np.mean(each):.3f} ±{np.std(each, ddof=1):.3f}" for name, each in right.items())
        print(f"{' : '.join(f'{weight:g}' for weight in weights)}: {told}", flush=True)


class Sentences(Case):
    """Sentences of six newsgroups, from the public part of the split of 20 Newsgroups; the pool is SNIPS."""

    def __init__(self) -> None:
        news = synthesis_splits.SPLITS["20 Newsgroups"]
        rows = news.rows(random.Random(NEWS_SEED))[0]  # noqa: S311
        self.labels = ("comp.graphics", "rec.autos", "rec.sport.hockey", "sci.med", "sci.space", "talk.politics.guns")
        self.names = tuple(news.names[label] for label in self.labels)
        cut = [
            {"text": " ".join(sentence.split()), "label": row["label"]}
            for row in rows
            if row["label"] in self.labels
            for sentence in re.split(r"(?<=[.!?])\s+", row["text"])
            if 6 <= len(sentence.split()) <= 16 and sentence.isascii()
        ]
        cut = random.Random(SEED).sample(cut, 3_000)  # noqa: S311
        self.private, self.test = cut[:2_000], cut[2_000:]
        self.pool, self.base = random.Random(SEED).sample(read("snips"), 2_000), []  # noqa: S311
        self.texts = [row["text"] for row in self.test]
        self.truth = np.array([self.labels.index(row["label"]) for row in self.test])


def by_labels(case: Case, epsilon: float, size: int, noise: int) -> None:
    """Print the accuracy of a classifier that learns from written texts, by the rule for their labels."""
    own, given = [row["text"] for row in case.base], [row["label"] for row in case.base]
    *_, found = case.summaries(case.spec(epsilon=epsilon), noise + 1)
    wanted = apportioned(found.shares, size)
    writer = FromModel(size=size)
    texts = writer.written(WordTargets.of(found, writer), wanted, seeded(0), None).texts
    flat, written = [text for each in texts for text in each], np.repeat(np.arange(len(texts)), list(map(len, texts)))
    points = found.public.pool.space.points(flat)  # type: ignore[union-attr]
    words, means = word_scores(found, flat), labelled(found, points)[0]
    every, agree = np.arange(len(flat)), words.argmax(axis=1) == written
    likeness = words[every, written] - np.logaddexp.reduce(words, axis=1)
    best = np.concatenate([
        (rows := np.flatnonzero(written == label))[np.argsort(-likeness[rows], kind="stable")[: len(rows) // 2]]
        for label in range(len(texts))
    ])  # fmt: skip
    agreeing = means.argmax(axis=1) == written
    nearness = means[every, written]
    nearest = np.concatenate([
        (rows := np.flatnonzero(written == label))[np.argsort(-nearness[rows], kind="stable")[: len(rows) * 2 // 3]]
        for label in range(len(texts))
    ])  # fmt: skip
    for name, kept, labels in (
        ("as written", every, written),
        ("labels of words", every, words.argmax(axis=1)),
        ("labels of class means", every, means.argmax(axis=1)),
        ("labels of both", every, judged(found, flat, points)[0].argmax(axis=1)),
        ("those whose words agree", every[agree], written),
        ("those whose class means agree", every[agreeing], written),
        ("the two thirds of each label that fit its mean best", nearest, written),
        ("the half of each label that fits best", best, written),
    ):
        taken = [flat[i] for i in kept], [case.labels[labels[i]] for i in kept]
        score = taught(own + taken[0], given + taken[1], case.test)
        print(f"epsilon {epsilon}, noise {noise}, {name}: {len(kept):,} texts, {score['accuracy']:.3f}", flush=True)


class Posts(Case):
    """Halves of the public part of 20 Newsgroups; with `lacking` the pool has two labels of three."""

    def __init__(self, *, lacking: bool) -> None:
        news = synthesis_splits.SPLITS["20 Newsgroups"]
        rows = news.rows(random.Random(NEWS_SEED))[0]  # noqa: S311
        rows = random.Random(SEED).sample(rows, len(rows))  # noqa: S311
        half, most = len(rows) // 2, int(len(rows) * 0.9)
        self.pool, self.private, self.test = rows[:half], rows[half:most], rows[most:]
        self.labels, self.names = tuple(news.names), tuple(news.names.values())
        known = [label for i, label in enumerate(self.labels) if i % 3]
        if lacking:
            self.pool = [row for row in self.pool if row["label"] in known]
        self.base = self.pool if lacking else []
        self.texts = [row["text"] for row in self.test]
        self.truth = np.array([self.labels.index(row["label"]) for row in self.test])

    def spec(self, **changes: Any) -> SummarySpec:
        """The settings."""
        found = SummarySpec(labels=self.labels, names=self.names, about=len(self.private), encoder="glove")
        return replace(found, **changes)


def by_pool(seeds: int) -> None:
    """Print the accuracy of a classifier that learns from labelled texts of the pool, by the rule for their labels."""
    cases = {
        "SNIPS, two intents lacking": Case(),
        "posts": Posts(lacking=False),
        "posts, seven groups lacking": Posts(lacking=True),
    }
    for name, case in cases.items():
        own, given = [row["text"] for row in case.base], [row["label"] for row in case.base]
        for epsilon in (1.0, 4.0):
            right: dict[str, list[float]] = {"best label": [], "as much of each label as is wanted": []}
            for found in case.summaries(case.spec(epsilon=epsilon), seeds):
                pool = found.public.pool
                best = judged(found, pool.texts, pool.points)[0].argmax(axis=1)
                made = FromPool().write(found, seeded(0))
                for each, texts, labels in (
                    ("best label", pool.texts, [case.labels[i] for i in best]),
                    ("as much of each label as is wanted", made.texts, made.labels),
                ):
                    taken = own + list(texts), given + [label or "" for label in labels]
                    right[each].append(taught(*taken, case.test)["accuracy"])
            told = "; ".join(f"{each} {' '.join(f'{a:.3f}' for a in found)}" for each, found in right.items())
            print(f"{name}, epsilon {epsilon}: {told}", flush=True)


class OtherPool(Case):
    """The split with a pool of another kind: questions on air travel, none of which has one of the labels."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.base = random.Random(SEED).sample(read("atis"), 2_000), []  # noqa: S311


def fitted(words: Floats, labels: Any) -> float:
    """The weight of scores `(n, labels)` that makes `labels` `(n,)` most likely: the rule of before."""

    def likelihood(weight: float) -> float:
        scores = weight * words
        return float((scores[np.arange(len(labels)), labels] - np.logaddexp.reduce(scores, axis=1)).mean())

    return max((0.0, *np.geomspace(0.003, 4.0, 40)), key=likelihood)


def by_weight(seeds: int) -> None:
    """Print the share of test texts that are read right, by what their words weigh beside the class means."""
    cases = {"requests": Case(), "requests, pool of ATIS": OtherPool(), "posts": Posts(lacking=False)}
    for name, case in cases.items():
        for drafts in (0,) if name == "posts" else (48, 0):
            for epsilon in (0.25, 1.0, 4.0):
                right: dict[str, list[float]] = {}
                for found in case.summaries(case.spec(epsilon=epsilon, marks=5, drafts=drafts), seeds):
                    pool, lexicon = found.public.pool, found.public.lexicon
                    means, given = labelled(found, pool.space.points(case.texts))[0], labelled(found, pool.points)[0]  # type: ignore[union-attr]
                    known, there = (
                        np.array([max(1, len(lexicon.known(text))) for text in texts])[:, None]  # type: ignore[union-attr]
                        for texts in (case.texts, pool.texts)
                    )
                    words = word_scores(found, case.texts) / np.minimum(1.0, 5 / known)
                    public = word_scores(found, pool.texts) / np.minimum(1.0, 5 / there)
                    rules = {
                        "class means alone": 0 * words, "all words": words,
                        "fitted on the pool": fitted(public, given.argmax(axis=1)) * words,
                        "fitted on the test texts": fitted(words, means.argmax(axis=1)) * words,
                        **{f"as {most} words at most": np.minimum(1.0, most / known) * words for most in (2.5, 5, 8)},
                    }  # fmt: skip
                    for rule, scores in rules.items():
                        right.setdefault(rule, []).append(case.right(means + scores))
                told = "; ".join(f"{rule} {np.mean(each):.3f}" for rule, each in right.items())
                print(f"{name}, {drafts} drafts, epsilon {epsilon}: {told}", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["rates", "labels", "shares", "pool", "weight"])
    parser.add_argument("--split", choices=["requests", "sentences"], default="requests")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--size", type=int, default=1_600)
    given = parser.parse_args()
    if given.table == "rates":
        by_rates(Case())
    elif given.table == "pool":
        by_pool(2)
    elif given.table == "weight":
        by_weight(4)
    elif given.table == "shares":
        by_shares(Case(), 5)
    else:
        case = Case() if given.split == "requests" else Sentences()
        for noise in given.seeds:
            by_labels(case, given.epsilon, given.size, noise)


if __name__ == "__main__":
    main()
