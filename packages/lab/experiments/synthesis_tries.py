"""What else could be read from noisy class means, and what else could be summed up: tries, as a CSV.

    python packages/lab/experiments/synthesis_tries.py OUT.csv [SPLIT ...]

Splits, judge and public pools are those of packages/lab/experiments/synthesis.py. Every way of one seed reads the same
noisy sums, but for those that sum up something else. Rows:

- *as it is*: `prototypes` with its default settings. *raw means*: without drawing them anywhere. *James-Stein*: each
  class mean drawn towards its prior by the positive-part rule (James and Stein 1961), all directions alike.
  *two ways*: as it is, with a factor for each class besides.
- *mixture*: the class means move to where the pool's texts are, as in a Gaussian mixture, weighed by their noise.
- *taught*, *taught twice*: self-training. A classifier of words learns from the surest two thirds and labels the pool.
- *halves*: self-training by halves: each half of the pool is labelled by a classifier that learnt from the other half.
- *joined*: the scores of `halves` and of the means, added.
- *2 and 4 prototypes*: a class has a mean for each public cluster of the pool, drawn towards the mean of its class.
- *gradient*: logistic regression by 10 noisy full-batch steps of clipped gradients, from zero-shot labels: 11 passes.
  Its noise is drawn in floats, so that it is no release.
- *taught prior*: means drawn half-way, or .8 of the way, to where the names of the labels put them after self-training.
- *windows*: texts are read in windows of 170 words whose vectors are averaged; as it is, the encoder reads 256 pieces.
"""

from __future__ import annotations

import csv
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from synthesis import SEED, SEEDS, VECTORS, ExactPrototypes, Judge, as_records
from synthesis_splits import SPLITS

from dptext.embeddings.encoders import PublicVectors, load_encoder
from dptext.sampling.randomness import seeded
from dptext.synthesis.blocks import POINTS
from dptext.synthesis.labelling import (
    chosen,
    class_scores,
    class_sizes,
    matched,
    prior_means,
    shrunk,
)
from dptext.synthesis.pool import PublicPool, pool_texts
from dptext.synthesis.prototypes import FittedPrototypes, Prototypes
from dptext.synthesis.public import Public
from dptext.synthesis.readings import PublicReader, readings
from dptext.synthesis.space import fit_space
from dptext.synthesis.summary import FittedSummary, Summary
from dptext.synthesis.sums import Draws, Noise, PrivateSum
from dptext.text.batches import Batch
from dptext.utility.classification import learnt, zero_shot

EPSILONS = (0.5, 1.0, 4.0, math.inf)
NAMES = ("20 Newsgroups", "OHSUMED", "ATIS", "IMDB", "peer reviews", "abstracts, another source")
WINDOW, STEPS, CLIP = 170, 10, 1.0


@dataclass(frozen=True)
class Noisy:
    """What a noisy sum says: class means and sizes, the variance of the means `(classes, dim)`, and of it the noise."""

    means: np.ndarray
    sizes: np.ndarray
    variance: np.ndarray
    noise: np.ndarray


def read_noisy(summary: Summary) -> Noisy:
    """Return noisy class means, sizes, and the variance of the means (see `dptext.synthesis.judging.labelled`)."""
    points, counts, pool = summary.known[POINTS], summary.counts, summary.public.pool.points
    sizes = class_sizes(counts.numbers, counts.deviation)
    noise = (points.deviation / sizes[:, None]) ** 2 + np.zeros((1, pool.shape[1]))
    return Noisy(points.numbers / sizes[:, None], sizes, noise + pool.var(0) / sizes[:, None], noise)


def james_stein(found: Noisy, centre: np.ndarray) -> np.ndarray:
    """Means drawn towards their centres, each by one factor."""
    apart = found.means - centre
    kept = 1 - (apart.shape[1] - 2) * found.variance.mean(axis=1) / np.square(apart).sum(axis=1)
    return np.asarray(centre + np.maximum(kept, 0)[:, None] * apart)


def two_way(found: Noisy, centre: np.ndarray) -> np.ndarray:
    """Means drawn towards their centres: the signal of class c in direction j is t_c s_j."""
    apart, v = found.means - centre, found.variance
    of_class, signal = np.ones((len(apart), 1)), np.zeros(apart.shape[1])
    for _ in range(10):
        expected = of_class * signal + v
        weights = of_class / np.maximum(expected, 1e-12) ** 2
        signal = np.maximum((weights * (apart**2 - v)).sum(0) / np.maximum((weights * of_class).sum(0), 1e-12), 0.0)
        signal = np.convolve(np.pad(signal, 4, mode="edge"), np.full(9, 1 / 9), "valid")
        weights = signal / np.maximum(of_class * signal + v, 1e-12) ** 2
        of_class = np.maximum((weights * (apart**2 - v)).sum(1) / np.maximum((weights * signal).sum(1), 1e-12), 0.0)
        of_class = of_class[:, None] / max(float(of_class.mean()), 1e-12)
    kept = of_class * signal
    return np.asarray(centre + kept / np.maximum(kept + v, 1e-300) * apart)


def mixture(points: np.ndarray, means: np.ndarray, found: Noisy) -> np.ndarray:
    """Means after five rounds of expectation and maximisation on the pool, each weighed by its variance."""
    trusted = 1 / np.maximum(found.noise, 1e-9)
    moved = means
    for _ in range(5):
        belongs = np.exp(class_scores(points, points, moved, found.sizes))
        there = belongs.sum(axis=0)[:, None]
        known = 0.1 * there / points.var(axis=0)  # a tenth: the pool's classes need not lie where the private ones do
        moved = (means * trusted + belongs.T @ points / np.maximum(there, 1) * known) / (trusted + known)
    return moved


def margins(model: tuple[Any, Any], texts: Sequence[str], classes: int) -> np.ndarray:
    """Margins `(n, classes)` of a classifier whose labels are numbers of classes."""
    found = model[1].decision_function(model[0].transform(texts))
    found = np.stack([-found, found], axis=1) if found.ndim == 1 else found
    scores = np.full((len(texts), classes), -3.0)
    scores[:, model[1].classes_] = found
    return scores


def surest(scores: np.ndarray, sizes: np.ndarray, share: float = 2 / 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their classes: of each class by its share."""
    return chosen(scores, sizes, max(2, int(share * len(scores))))


def taught(texts: list[str], scores: np.ndarray, sizes: np.ndarray, rounds: int) -> np.ndarray:
    """Scores after self-training."""
    for _ in range(rounds):
        rows, best = surest(scores, sizes)
        scores = 3 * margins(learnt([texts[i] for i in rows], best), texts, len(sizes))
    return scores


def halves(texts: list[str], scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Scores after self-training by halves."""
    found = np.empty_like(scores)
    half = np.random.default_rng(0).permutation(len(texts)) % 2
    for side in (0, 1):
        mine = np.flatnonzero(half == side)
        rows, best = surest(scores[mine], sizes)
        others = np.flatnonzero(half != side)
        model = learnt([texts[mine[i]] for i in rows], best)
        found[others] = 3 * margins(model, [texts[i] for i in others], len(sizes))
    return found


def several(case: Case, many: int) -> np.ndarray:
    """Scores by one mean a class and public cluster."""
    from sklearn.cluster import KMeans

    fitted, noise = case.fitted, case.noise
    spec, points = fitted.spec, fitted.pool.points
    dim, classes = points.shape[1], len(spec.labels)
    clusters = KMeans(many, n_init=4, random_state=0).fit(points)
    signed = classes * many * dim  # cells of points, before those of counts
    summed = PrivateSum(signed + classes * many, noise, signed=signed)
    part = (1 - 1e-9) / math.sqrt(noise.sign_weight + 1 / 4)  # a count has half of it
    for read in readings(case.corpus, PublicReader(fitted.pool.space), spec.labels):
        rows = (read.labels * many + clusters.predict(read.points))[:, None]
        values = np.concatenate([read.points * part, np.full(rows.shape, part / 2)], axis=1)
        summed.add(np.concatenate([rows * dim + np.arange(dim), signed + rows], axis=1), values)
    noisy = summed.release(Draws(seeded(SEED + case.seed)))
    blocks = np.concatenate([noisy[:signed].reshape(-1, dim), noisy[signed:, None]], 1).reshape(classes, many, dim + 1)
    scale, whole = noise.scale, blocks.sum(axis=1)
    sizes = class_sizes(whole[:, -1] / part * 2, scale / part * 2 * math.sqrt(many))
    variance = many * (scale / part / sizes[:, None]) ** 2 + points.var(axis=0) / sizes[:, None]
    means = whole[:, :-1] / part / sizes[:, None]
    means = shrunk(means, case.centre, variance)
    per = class_sizes(blocks[:, :, -1].reshape(-1) / part * 2, scale / part * 2)
    own = blocks[:, :, :-1].reshape(-1, dim) / part / per[:, None]
    # A part's centre: its class mean, moved as the cluster is moved from the middle of the pool.
    centres = means[:, None] + (clusters.cluster_centers_ - points.mean(axis=0))[None]
    own = shrunk(own, centres.reshape(-1, dim), (scale / part / per[:, None]) ** 2 + points.var(axis=0) / per[:, None])
    scores = class_scores(points, points, own, per).reshape(len(points), classes, many)
    return np.asarray(np.logaddexp.reduce(scores, axis=2))


def gradient(case: Case) -> np.ndarray:
    """Scores of logistic regression by noisy gradients, from zero-shot labels; a twentieth of rho is for the sizes.

    The step was chosen by the labels of OHSUMED's pool: the less noise a class mean has, the longer.
    """
    fitted, rho = case.fitted, case.rho
    spec, points, classes = fitted.spec, fitted.pool.points, len(fitted.spec.labels)
    read = list(readings(case.corpus, PublicReader(fitted.pool.space), spec.labels))
    truth = np.eye(classes)[np.concatenate([each.labels for each in read])]
    rng = np.random.default_rng(case.seed)
    count_noise, noise = 1 / math.sqrt(0.1 * rho), CLIP * math.sqrt(STEPS / (1.9 * rho))
    sizes = class_sizes(truth.sum(axis=0) + count_noise * rng.normal(size=classes), count_noise)
    rate = min(5.0, 0.07 / max(1 / math.sqrt(2 * rho) * classes / spec.about, 1e-9))
    middle = points.mean(axis=0)
    inputs, theirs = (
        np.concatenate([each - middle, np.full((len(each), 1), 0.5)], axis=1)
        for each in (np.concatenate([each.points for each in read]), points)
    )
    centre = case.centre - middle
    covariance = np.cov(points.T)
    covariance += 0.3 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, centre.T)
    offset = np.log(sizes / sizes.sum()) - 0.5 * np.sum(centre.T * weights, axis=0)
    weights = np.concatenate([weights, 2 * offset[None]])
    kept = []
    for _ in range(STEPS):
        logits = inputs @ weights
        left = truth - np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        length = np.linalg.norm(left, axis=1) * np.linalg.norm(inputs, axis=1)
        slope = inputs.T @ (left * np.minimum(1, CLIP / np.maximum(length, 1e-12))[:, None])
        slope += noise * rng.normal(size=slope.shape)
        weights = weights + rate * classes / spec.about * slope
        kept.append(weights)
    logits = theirs @ np.mean(kept[STEPS // 2 :], axis=0)
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1)[:, None])


def taught_prior(texts: list[str], points: np.ndarray, split: Any, encoder: Any, far: float) -> np.ndarray:
    """Where public labels put the classes: those of the names of the labels, after two rounds of self-training."""
    kept, labels = zero_shot(texts, split.names, encoder, rounds=2)
    row = {text: i for i, text in enumerate(texts)}
    rows, middle = np.array([row[text] for text in kept]), points.mean(axis=0)
    named = np.array(labels)
    means = [points[rows[named == each]].mean(axis=0) if (named == each).any() else middle for each in split.names]
    return np.asarray(middle + far * (np.stack(means) - middle))


class Windows:
    """The encoder over windows of words: an `Embedder`."""

    def __init__(self) -> None:
        self.inner = load_encoder()
        self.name, self.dim = f"{self.inner.name} in windows of {WINDOW}", self.inner.dim

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors `(n, dim)`: of the mean of the windows' vectors, on the encoder's grid."""
        parts = [text.split() for text in texts]
        cut = [[" ".join(p[i : i + WINDOW]) for i in range(0, len(p), WINDOW)] or [""] for p in parts]
        cut = [each if len(each) > 1 else [text] for each, text in zip(cut, texts, strict=True)]
        vectors = self.inner.embed([piece for each in cut for piece in each])
        ends = np.cumsum([0, *map(len, cut)])
        found = np.stack([vectors[a:b].mean(axis=0) for a, b in pairwise(ends)])
        return np.asarray(np.rint(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9) * 1024) / 1024)


@dataclass(frozen=True)
class Case:
    """One noisy sum, and what public text says beside it."""

    fitted: FittedPrototypes
    noise: Noise
    rho: float
    corpus: Callable[[], Any]
    found: Noisy
    seed: int
    priors: dict[float, np.ndarray]

    @property
    def texts(self) -> list[str]:
        """Of the pool."""
        return list(self.fitted.pool.texts)

    @property
    def centre(self) -> np.ndarray:
        """Where names put the classes."""
        given = self.fitted.measures.public.centre
        return self.found.means.mean(axis=0) if given is None else given

    def scored(self, means: np.ndarray) -> np.ndarray:
        """Scores of the pool by class means."""
        points = self.fitted.pool.points
        return class_scores(points, points, means, self.found.sizes)

    @property
    def as_it_is(self) -> np.ndarray:
        """Scores as `prototypes` has them."""
        return self.scored(eb(self.found, self.centre))


def eb(found: Noisy, centre: np.ndarray) -> np.ndarray:
    """Means as `prototypes` has them."""
    return shrunk(found.means, centre, found.variance)


def from_prior(far: float, rule: Callable[[Noisy, np.ndarray], np.ndarray]) -> Callable[[Case], np.ndarray]:
    """Means drawn by a rule to the prior of self-training."""
    return lambda case: case.scored(rule(case.found, case.priors[far]))


def joined(case: Case) -> np.ndarray:
    """Scores of self-training by halves and of the means, added."""
    scores = case.as_it_is
    return halves(case.texts, scores, case.found.sizes) + scores


RULES = {"as it is": eb, "James-Stein": james_stein, "two ways": two_way}
WAYS: dict[str, Callable[[Case], np.ndarray]] = {
    "as it is": lambda case: case.as_it_is,
    "raw means": lambda case: case.scored(case.found.means),
    "James-Stein": lambda case: case.scored(james_stein(case.found, case.centre)),
    "two ways": lambda case: case.scored(two_way(case.found, case.centre)),
    **{f"taught prior {far}, {name}": from_prior(far, rule) for far in (0.5, 0.8) for name, rule in RULES.items()},
    "mixture": lambda case: case.scored(mixture(case.fitted.pool.points, eb(case.found, case.centre), case.found)),
    "taught": lambda case: taught(case.texts, case.as_it_is, case.found.sizes, 1),
    "taught twice": lambda case: taught(case.texts, case.as_it_is, case.found.sizes, 2),
    "halves": lambda case: halves(case.texts, case.as_it_is, case.found.sizes),
    "joined": joined,
    "2 prototypes": lambda case: several(case, 2),
    "4 prototypes": lambda case: several(case, 4),
    "gradient": gradient,
}
IN_WINDOWS: dict[str, Callable[[Case], np.ndarray]] = {"windows": WAYS["as it is"], "windows, joined": joined}


def batches(records: list[Any]) -> Iterator[Batch]:
    """Records in batches."""
    yield from (Batch.of(records[i : i + 1024]) for i in range(0, len(records), 1024))


def in_windows(spec: Prototypes, pool: list[Any], encoder: Windows) -> FittedPrototypes:
    """Return prototypes that are fitted to the pool, with an encoder that reads texts in windows."""
    texts = pool_texts(pool)
    measures = spec.summary
    scale = measures.noise().scale / measures.layout(dim=1, width=0).blocks[0].part
    dim = min(measures.directions(scale), max(4, len(texts) // 8))
    space, features = fit_space(texts, encoder=encoder, words=spec.words, dim=dim)
    likeness = features[:, : encoder.dim] @ encoder.embed(spec.names).T
    points = space.placed(features)
    centre = prior_means(points, likeness - likeness.mean(axis=0))
    public = Public(PublicPool(texts, space, points, None), centre, None, None)
    return FittedPrototypes(spec, FittedSummary(measures, public))


def cases(split: Any, windows: Windows | None, pool: list[Any], private: list[Any], epsilon: float) -> Iterator[Case]:
    """The noisy sums of some seeds at one epsilon."""
    exact = math.isinf(epsilon)
    spec = (ExactPrototypes if exact else Prototypes)(
        labels=tuple(split.names), names=tuple(split.names.values()), epsilon=min(epsilon, 1e4), **split.settings
    )
    fitted = spec.fit(public=pool) if windows is None else in_windows(spec, pool, windows)
    known = list(fitted.pool.texts), fitted.pool.points
    priors = {far: taught_prior(*known, split, windows or load_encoder(), far) for far in (0.5, 0.8)}
    for seed in range(1 if exact else SEEDS):
        found = read_noisy(fitted.measures.measure(lambda: batches(private), Draws(seeded(SEED + seed))))
        rho = math.inf if exact else spec.rho
        yield Case(fitted, spec.noise(), rho, lambda: batches(private), found, seed, priors)


def tried(name: str, windows: Windows | None) -> Iterator[dict[str, Any]]:
    """Every row of one split."""
    split = SPLITS[name]
    pool, private, test = (as_records(part) for part in split.rows(random.Random(SEED)))  # noqa: S311
    labels = tuple(split.names)
    judge = Judge([record for record in test if record.label in labels])
    truth = {record.text: record.label or "" for record in pool}
    for epsilon in EPSILONS:
        for case in cases(split, windows, pool, private, epsilon):
            for way, scored in (IN_WINDOWS if windows else WAYS).items():
                result, sizes, texts = scored(case), case.found.sizes, case.texts
                rows, label = chosen(matched(result, sizes), sizes, case.fitted.spec.size_of(texts))
                best = result.argmax(axis=1)
                yield {
                    "split": name, "way": way, "epsilon": epsilon, "seed": case.seed,
                    **judge([texts[i] for i in rows], [labels[i] for i in label]),
                    "own_label": float(np.mean([truth[t] == labels[b] for t, b in zip(texts, best, strict=True)])),
                    "texts": len(rows),
                }  # fmt: skip


def main() -> None:
    """Try all ways on the splits that are named, or on six."""
    rows: list[dict[str, Any]] = []
    with PublicVectors(VECTORS).learning():
        for windows in (None, Windows()):
            for name in sys.argv[2:] or NAMES:
                for row in tried(name, windows):
                    rows.append({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
                with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows)


if __name__ == "__main__":
    main()
