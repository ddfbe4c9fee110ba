"""Is a canary in the corpus? Thousands of runs of a synthesis with it and without it: a CSV, a row a way of synthesis.

    python packages/lab/experiments/synthesis_attack.py OUT.csv [prototypes] [votes] [topics] [whole]

The corpus: 40 texts of SNIPS by 8 authors, a pool of 500, GloVe; delta 1e-5. Canaries are 200 other texts and 40 of
another corpus, under two labels each, and the point opposite to each. An author is 50 texts of one canary. Of all
canaries, or pairs where one takes the place of another, the one that moves the sum of the first round most is taken;
of those that move it alike, the pair whose points are furthest apart, so that it votes for different texts later.

Two attackers know everything but whether the canary is there. One sees the noisy sums, which are no release, and takes
their likelihood ratio; there are 20,000 runs with the canary and as many without. The other sees what leaves of 1,000
and 1,000 runs: how many texts have the canary's label and how near they are to it, what the report says of its cell,
and how the pool fits; of these or their best linear mixture it takes what told most in one half of the runs, and is
judged on the other.

In the last rows every one of 1,000 and 1,000 runs is a whole `dptext.synthesize`: it reads and embeds all texts (60, a
pool of 120, GloVe) with the canary's text among them or not.
"""

from __future__ import annotations

import csv
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from common import corpus_rows

import dptext as dp
from dptext.audits.bounds import epsilon_from_rates
from dptext.runs import synthesizing
from dptext.runs.private import Private
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.prototypes import FittedPrototypes, Prototypes
from dptext.synthesis.public import Public
from dptext.synthesis.readings import PublicReader, Reading
from dptext.synthesis.spec import Synthetic
from dptext.synthesis.summary import FittedSummary
from dptext.synthesis.sums import STEPS, Draws, Noise, PrivateSum, clipped
from dptext.synthesis.votes import FittedTopics, FittedVotes, TopicReport, Votes, topics_alone
from dptext.text.records import Fields

POOL, AUTHORED, STUFFED, STOCK = 500, 5, 50, 1 << 18
RUNS, LEAVING = 20_000, 1_000
FIELDS = (
    "way", "unit", "relation", "epsilon", "delta", "canaries", "moved", "stated_mu", "runs", "mu", "mu_low", "mu_high",
    "epsilon_by_sums", "runs_leaving", "epsilon_by_what_leaves",
)  # fmt: skip
WAYS: dict[str, Any] = {"prototypes": Prototypes, "votes": Votes, "topics": TopicReport}
FITTED: dict[str, Any] = {"prototypes": FittedPrototypes, "votes": FittedVotes, "topics": FittedTopics}
SHARED: dict[str, Any] = {"about": 400, "dim": 32, "words": 100, "encoder": "glove"}
Arrays = np.ndarray


class EnoughError(Exception):
    """All sums of a run are known."""


@dataclass(frozen=True)
class Known:
    """A corpus that was read before: that of the others, then each canary's."""

    parts: Sequence[Reading]

    def readings(self, reader: PublicReader, labels: Sequence[str]) -> Iterator[Reading]:
        """The parts, each a batch."""
        yield from self.parts

    def __call__(self) -> Any:
        """Nothing is left to read."""
        raise NotImplementedError


@dataclass
class Stock:
    """The mechanism's own noise, drawn for many sums at once, as a draw costs most in its beginning."""

    randomness: Randomness
    ready: dict[int, Arrays] = field(default_factory=dict)

    def draw(self, noise: Noise, size: int) -> Arrays:
        """The next of it."""
        left = self.ready.get(noise.sigma, np.empty(0, np.int64))
        if len(left) < size:
            left = DRAW(noise, STOCK, self.randomness)
        self.ready[noise.sigma] = left[size:]
        return left[:size]


DRAW, ADD, RELEASE = Noise.draw, PrivateSum.add, PrivateSum.release


@dataclass
class Watch:
    """A run of a synthesis on the parts of a corpus: the others, one canary, and where it is replaced another.

    Attributes:
        there: whether the first canary is in the corpus that is released.
        sums: after so many the run is stopped; 0 for never.
        first: the first sum after each part, where it is known: it is the same in every run.
        moved: by what the canaries move each sum, in steps.
    """

    there: bool
    sums: int = 0
    first: list[Arrays] = field(default_factory=list)
    cleans: list[Arrays] = field(default_factory=list)
    moved: list[Arrays] = field(default_factory=list)

    def add(self, found: PrivateSum, *given: Any) -> None:
        """Keep the sum after each part."""
        if self.first and not self.moved:
            self.cleans = self.first
            return
        ADD(found, *given)
        self.cleans = [*self.cleans, found._clean()]  # noqa: SLF001

    def release(self, found: PrivateSum, randomness: Randomness) -> Arrays:
        """Release the one corpus or the other."""
        others, inside, *outside = self.cleans
        self.first = self.first or self.cleans
        without = others + (outside[0] - inside if outside else 0)
        move = inside - without
        found._total, found._authors = (inside if self.there else without).copy(), None  # noqa: SLF001
        noisy = RELEASE(found, randomness)
        self.moved.append(move)
        self.cleans = []
        if len(self.moved) == self.sums:
            raise EnoughError
        return noisy


def run(fitted: Any, corpus: Known, watch: Watch, stock: Stock, seed: int) -> Synthetic | None:
    """What leaves a run, unless it is stopped after its sums."""
    with (  # functions, as a bound method would not be given the sum
        mock.patch.object(PrivateSum, "add", lambda *given: watch.add(*given)),  # noqa: PLW0108
        mock.patch.object(PrivateSum, "release", lambda *given: watch.release(*given)),  # noqa: PLW0108
        mock.patch.object(Noise, "draw", lambda noise, size, _: stock.draw(noise, size)),
    ):
        try:
            return fitted.synthesize(corpus, Draws(seeded(seed)))
        except EnoughError:
            return None


def bound(inside: Arrays, outside: Arrays, delta: float, tests: int = 1) -> float:
    """A lower bound of epsilon from what was seen `(runs, features)`, judged on one half; with 95% for all tests."""
    half = len(inside) // 2
    one, two = inside[:half], outside[:half]
    spread = np.cov(np.concatenate([one - one.mean(axis=0), two - two.mean(axis=0)]).T).reshape(2 * (one.shape[1],))
    mixture = np.linalg.lstsq(spread, one.mean(axis=0) - two.mean(axis=0), rcond=1e-9)[0]
    best, found = 0.0, 0.0
    for weights in (mixture, *np.eye(len(mixture))):
        seen = [part @ weights for part in (one, two, inside[half:], outside[half:])]
        for cut in np.quantile(np.concatenate(seen[:2]), np.linspace(0.02, 0.98, 49)):
            for sign in (1, -1):
                hits, false, *judged = (sign * part > sign * cut for part in seen)
                score = math.log(max(hits.mean() - delta, 1e-9) / max(false.mean(), 1 / half))
                if score > best:
                    best, (true, wrong) = score, (int(part.sum()) for part in judged)
                    rest = len(inside) - half
                    found = epsilon_from_rates(
                        true, rest, false_positives=wrong, negatives=rest, delta=delta, tests=tests
                    ).epsilon
    return found


def candidates(
    fitted: Any, texts: Sequence[str], fields: Sequence[Mapping[str, object]] | None = None
) -> list[Reading]:
    """Each text, with its values of columns, under each of two labels, and the points opposite to theirs."""
    zeros, authors = np.zeros(len(texts), np.int64), ["canary"] * len(texts)
    read = fitted.measures.public.reader.read(zeros, texts, authors, fields)
    more = read.unlike, read.marks
    return [
        Reading(np.array([label]), sign * read.points[[i]], *(each[[i]] for each in more), ["canary"], *own)
        for label in range(min(2, max(1, len(fitted.spec.labels))))
        for i, own in enumerate(zip(read.lengths[:, None], read.columns[:, None], strict=True))
        for sign in (1, -1)
    ]


def unit_of(one: Reading, spec: Any, name: str) -> Reading:
    """The canary's document, or all documents of an author who repeats it."""
    n = STUFFED if spec.unit == "author" else 1
    read, more = (one.labels, one.points, one.unlike, one.marks), (one.lengths, one.columns)
    parts, others = ([np.repeat(each, n, axis=0) for each in arrays] for arrays in (read, more))
    return Reading(*parts, [name] * n, *others)


def farthest(rows: Arrays, relation: str) -> list[int]:
    """The longest row of a matrix, or the two that are furthest apart if one unit takes the place of another."""
    lengths = np.square(rows).sum(axis=1)
    if relation == "add_or_remove_one":
        return [int(lengths.argmax())]
    apart = (lengths[:, None] + lengths - 2 * rows @ rows.T).argmax()
    return [int(i) for i in np.unravel_index(apart, (len(rows), len(rows)))]


def worst(fitted: Any, others: Reading, found: Sequence[Reading]) -> list[Reading]:
    """The canary, or the pair, that moves the first sum most."""
    spec, moves, stock = fitted.spec, [], Stock(seeded(0))
    signed = fitted.measures.spec.layout(dim=fitted.pool.space.dim, width=0).signed
    for each in found:
        watch = Watch(there=True, sums=1)
        run(fitted, Known([others, each]), watch, stock, 0)
        move = watch.moved[0]
        weights = np.where(np.arange(len(move)) < signed, spec.noise().sign_weight, 1)
        moves.append((clipped(STUFFED * move, weights) if spec.unit == "author" else move).astype(np.float64))
    rows = np.array(moves)
    if spec.relation == "replace_one":
        rows = np.concatenate([rows, [each.points[0] * (STEPS / 1000) for each in found]], axis=1)
    pair = farthest(rows, spec.relation)
    return [unit_of(found[i], spec, name) for i, name in zip(pair, ("canary", "other"), strict=False)]


def ratios(noise: Noise, moves: Sequence[Arrays], runs: int, *, there: bool, source: Randomness) -> Arrays:
    """ln of the likelihood ratio of a noisy sum in so many runs, of which each has one of the moves.

    Cells that do not move tell nothing, and the noise of all others is alike.
    """
    found, values = np.zeros(runs), [tuple(move[move != 0].tolist()) for move in moves]
    for each in sorted(set(values)):
        at = [i for i in range(runs) if values[i % len(values)] == each]
        move = np.array(each)
        noisy = DRAW(noise, len(at) * len(move), source).reshape(len(at), -1) + there * move
        found[at] = (noisy @ move - move @ move / 2) / noise.sigma**2
    return found


def told_apart(inside: Arrays, outside: Arrays) -> dict[str, float]:
    """mu between the scores of runs with the canary and without it, with its 95% interval."""
    mu = (inside.mean() - outside.mean()) / math.sqrt((inside.var(ddof=1) + outside.var(ddof=1)) / 2)
    error = 1.96 * math.sqrt(2 / len(inside) + mu**2 / (4 * len(inside)))
    return {"mu": mu, "mu_low": mu - error, "mu_high": mu + error}


def seen(fitted: Any, left: Synthetic, units: Sequence[Reading]) -> list[float]:
    """What leaves that tells of these canaries."""
    pool, spec, report = fitted.pool, fitted.spec, left.report
    place = {text: i for i, text in enumerate(pool.texts)}
    told = [report.fit.share if report.fit else 0.0]
    for unit in units:
        label = int(unit.labels[0])
        name = spec.labels[label] if spec.labels else None
        near = pool.points @ unit.points[0]
        rows = [place[text] for text, own in zip(left.texts, left.labels, strict=True) if own == name]
        topic = int(pool.topics.nearest(unit.points[:1])[0]) if spec.topics else 0
        told += [len(rows), float(near[rows].sum()), rows.count(int(near.argmax())), report.counts[label][topic]]
    return told


def attack(fitted: Any, others: Reading, texts: Sequence[str], seed: int) -> dict[str, Any]:
    """The row of a way of synthesis."""
    spec = fitted.spec
    found = candidates(fitted, texts)
    units = worst(fitted, others, found)
    stock = Stock(seeded(100 + seed))
    corpus, first, moved = Known([others, *units]), list[Arrays](), []
    told: list[list[list[float]]] = [[], []]
    for number in range(2 * LEAVING):
        watch = Watch(bool(number % 2), first=first)
        left = run(fitted, corpus, watch, stock, number)
        first = watch.first
        moved.append(watch.moved)
        told[number % 2].append(seen(fitted, left, units))
    noises, source = [spec.noise(share) for share in spec.shares], seeded(seed)
    reach = max(
        math.sqrt(sum(float(move @ move) / noise.sigma**2 for move, noise in zip(moves, noises, strict=True)))
        for moves in moved
    )
    outside, inside = (
        sum(
            ratios(noise, moves, RUNS, there=there, source=source)
            for noise, moves in zip(noises, zip(*moved, strict=True), strict=True)
        )
        for there in (False, True)
    )
    stated = math.sqrt(2 * spec.rho)
    return {
        "canaries": len(found), "moved": reach / stated, "stated_mu": stated, "runs": RUNS,
        **told_apart(inside, outside),
        "epsilon_by_sums": bound(inside[:, None], outside[:, None], spec.delta), "runs_leaving": LEAVING,
        "epsilon_by_what_leaves": bound(np.array(told[1]), np.array(told[0]), spec.delta),
    }  # fmt: skip


def whole(records: list[dp.Record], labels: tuple[str, ...], epsilon: float) -> dict[str, Any]:
    """The row of whole runs of `dptext.synthesize`."""
    pool, private = records[:120], records[120:180]
    canary = dp.Record("canary", next(iter(corpus_rows("atis")))["text"], label=labels[0])
    spec = Prototypes(labels=labels, epsilon=epsilon, about=60, dim=8, words=0, size=60, encoder="glove")
    fitted = spec.fit(public=pool)
    unit = candidates(fitted, [canary.text])[0]
    told: list[list[list[float]]] = [[], []]
    for number in range(2 * LEAVING):
        given = [*private, canary] if number % 2 else private
        out = synthesizing.run(Private(given, Fields(), {}), fitted, randomness=seeded(number))
        texts, names = tuple(each.output for each in out.releases), tuple(each.label for each in out.releases)
        told[number % 2].append(seen(fitted, Synthetic(texts, names, out.report), [unit]))
    return {
        "canaries": 1, "stated_mu": math.sqrt(2 * spec.rho), "runs_leaving": LEAVING,
        "epsilon_by_what_leaves": bound(np.array(told[1]), np.array(told[0]), spec.delta),
    }  # fmt: skip


def corpus() -> tuple[list[dp.Record], list[dp.Record], list[str]]:
    """The pool, the private texts, and the texts of canaries."""
    given = [
        dp.Record(str(i), row["text"], label=row["label"], author=f"author {(i - POOL) // AUTHORED}")
        for i, row in enumerate(itertools.islice(corpus_rows("snips"), 740))
    ]
    foreign = [row["text"] for row in itertools.islice(corpus_rows("atis"), 40)]
    return given[:POOL], given[POOL:540], [*(record.text for record in given[540:]), *foreign]


def labels_of(records: Sequence[dp.Record]) -> tuple[str, ...]:
    """Their labels, in order."""
    return tuple(sorted({str(record.label) for record in records}))


def reading(fitted: Any, private: Sequence[dp.Record]) -> Reading:
    """What is read of private texts."""
    places = {label: i for i, label in enumerate(fitted.spec.labels)}
    own = np.array([places[str(record.label)] if places else 0 for record in private])
    texts, authors = [record.text for record in private], [record.author for record in private]
    return fitted.measures.public.reader.read(own, texts, authors, [record.kept for record in private])


def rows(asked: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of the ways, one after another; each has its own noise, whichever others are asked for."""
    given, private, texts = corpus()
    labels = labels_of(given)
    pool = TopicReport(topics=16, **SHARED).fit(public=given).pool
    cases = itertools.product(WAYS, (1.0, 4.0), ("document", "author"), ("add_or_remove_one", "replace_one"))
    for seed, (way, epsilon, unit, relation) in enumerate(cases):
        if way not in asked:
            continue
        labelled = way == "prototypes"
        more = {"labels": labels, "size": 200} if labelled else {"topics": 16}
        spec = WAYS[way](epsilon=epsilon, unit=unit, relation=relation, **SHARED, **more)
        measures = spec.summary if labelled else topics_alone(spec, spec.dim)
        public = Public(replace(pool, topics=None) if labelled else pool, None, None, None)
        fitted = FITTED[way](spec, FittedSummary(measures, public))
        about = {"way": way, "unit": unit, "relation": relation, "epsilon": epsilon, "delta": spec.delta}
        yield about | attack(fitted, reading(fitted, private), texts, seed)
    for epsilon in (1.0, 4.0) if "whole" in asked else ():
        about = {"way": "prototypes, whole runs", "unit": "document", "relation": "add_or_remove_one"}
        yield about | {"epsilon": epsilon, "delta": 1e-5} | whole(given, labels, epsilon)


def main() -> None:
    """Write the rows as they are found."""
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        written = csv.DictWriter(file, FIELDS, lineterminator="\n")
        written.writeheader()
        for row in rows(sys.argv[2:] or [*WAYS, "whole"]):
            written.writerow({key: f"{each:.4g}" if isinstance(each, float) else each for key, each in row.items()})
            file.flush()


if __name__ == "__main__":
    main()
