"""The utilities of DeepCandidate: how well each public candidate fits a document, fitted and tuned on public text only.

Every utility has sensitivity 1 where one sentence is replaced: a depth by its counts, a likeness as a sum of scores in
[0, 1]. (MATHS 4; `algorithm_1` is the one printed in the paper, `lowest` the one its text describes.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from scipy.cluster.vq import kmeans2

from dptext.embeddings.depth import ProjectedCandidates, Statistic
from dptext.embeddings.likeness import (
    GRID,
    STEPS,
    Evidence,
    Space,
    centred,
    likeness_sums,
    mean_by_document,
    sums_by_document,
    whitened,
)
from dptext.errors import ConfigError
from dptext.neural.deep_candidate.recoder import Recoder, RecoderSchedule, fit_recoder
from dptext.types import Floats, Integers, Singles

Utility = Literal["lowest", "algorithm_1", "mean_depth", "similarity", "whitened", "evidence", "mixed"]

DEPTHS: dict[str, Statistic] = {"lowest": "lowest", "algorithm_1": "algorithm_1", "mean_depth": "mean"}
PROJECTIONS = (5, 10, 20, 50, 100)
_LOW = (0.5, 0.75, 0.9, 0.97)  # quantiles of cosines between public sentences and candidates
_HIGH = (0.99, 0.998, 0.9998)
_EVIDENCE_DEPTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
_DOCUMENTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """Public documents by the embeddings of their sentences.

    Attributes:
        embeddings: `(n_sentences, dim)`, document after document.
        sizes: sentences of each document.
        classes: of each document, from 0; None without labels.
    """

    embeddings: Floats
    sizes: tuple[int, ...]
    classes: Integers | None

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def means(self) -> Floats:
        """The mean embedding of each document, `(n_documents, dim)`."""
        return mean_by_document(self.embeddings, self.sizes)

    def take(self, chosen: Integers) -> Documents:
        """These documents, in this order."""
        rows = np.split(np.arange(len(self.embeddings)), np.cumsum(self.sizes)[:-1])
        picked = np.concatenate([rows[i] for i in chosen]) if len(chosen) else np.empty(0, np.int64)
        classes = None if self.classes is None else self.classes[chosen]
        return Documents(self.embeddings[picked], tuple(self.sizes[i] for i in chosen), classes)


class Scores(Protocol):
    """The utility of every candidate for documents."""

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, n_candidates)` from embeddings `(n_sentences, dim)`; the sensitivity is 1."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DepthScores:
    """The depth of candidates among (recoded) sentences on public directions.

    Attributes:
        recoder: None keeps embeddings as they are.
        directions: `(dim, n_directions)`, unit vectors in whole steps of 2^-11.
        means: of the candidates' (recoded) sentences, `(m, dim)`.
        statistic: over the directions.
    """

    recoder: Recoder | None
    directions: Singles
    means: Floats
    statistic: Statistic
    _candidates: ProjectedCandidates

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """As `Scores`."""
        moved = embeddings if self.recoder is None else self.recoder(embeddings)
        ours = _projected(moved, self.directions)
        depths = self._candidates.depths(ours, sizes, self.statistic, threads=torch.get_num_threads())
        return depths / (self.directions.shape[1] if self.statistic == "mean" else 1)


def depth_scores(recoder: Recoder | None, directions: Singles, means: Floats, statistic: Statistic) -> DepthScores:
    """Candidates projected once."""
    return DepthScores(recoder, directions, means, statistic, ProjectedCandidates(_projected(means, directions)))


def _projected(vectors: Floats, directions: Singles) -> Singles:
    # Vectors of length 1 at most and unit directions in steps of 2^-11: float32 holds their products exactly.
    return np.asarray(np.rint(vectors * GRID).astype(np.float32) @ directions)


def random_directions(dim: int, count: int, seed: int) -> Singles:
    """Unit vectors `(dim, count)` on the grid, drawn once and public."""
    drawn = np.random.default_rng(seed).normal(size=(dim, count))
    return np.asarray(np.rint(drawn / np.linalg.norm(drawn, axis=0) * GRID), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class LikenessScores:
    """Sums over sentences of stretched similarity, of class evidence, or of half of each.

    Attributes:
        space: where similarities are taken; None where they do not count.
        points: of the candidates there, `(m, other)` on the grid.
        low: the cosine that counts 0.
        high: the cosine that counts 1.
        evidence: of classes; None where it does not count.
        classes: of the candidates, `(m,)`.
    """

    space: Space | None
    points: Singles
    low: float
    high: float
    evidence: Evidence | None
    classes: Integers

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """As `Scores`."""
        parts: list[Floats] = []
        if self.space is not None:
            sums = likeness_sums(self.space(embeddings), sizes, self.points, low=self.low, high=self.high)
            parts.append(sums / STEPS)
        if self.evidence is not None:
            parts.append(np.asarray(sums_by_document(self.evidence(embeddings), sizes)[:, self.classes]) / STEPS)
        return parts[0] if len(parts) == 1 else (parts[0] + parts[1]) / 2


def expected_gain(scores: Scores, documents: Documents, pool: Documents, *, epsilon: float) -> float:
    """Expected cosine to the own mean (centred) plus, with classes, share kept, where epsilon chooses exponentially."""
    centre = pool.means.mean(axis=0)
    ours, theirs = (_unit(found.means - centre) for found in (documents, pool))
    gain = ours @ theirs.T
    if documents.classes is not None and pool.classes is not None:
        gain += documents.classes[:, None] == pool.classes[None, :]
    weights = scores(documents.embeddings, documents.sizes) * (epsilon / 2)
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    return float(((weights * gain).sum(axis=1) / weights.sum(axis=1)).mean())


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))


def fit_depth(
    pool: Documents,
    tuning: Documents,
    *,
    statistic: Statistic,
    recoder: Recoder | None,
    projections: int,
    epsilon: float,
    seed: int,
) -> DepthScores:
    """Depth with so many directions; 0 takes the number with the largest expected gain on public documents."""
    moved = pool if recoder is None else Documents(recoder(pool.embeddings), pool.sizes, pool.classes)
    dim = moved.embeddings.shape[1]
    tried = [
        depth_scores(recoder, random_directions(dim, count, seed), moved.means, statistic)
        for count in ((projections,) if projections else PROJECTIONS)
    ]
    return (
        max(tried, key=lambda scores: expected_gain(scores, tuning, pool, epsilon=epsilon))
        if projections == 0
        else tried[0]
    )


def fit_likeness(
    pool: Documents, everything: Documents, tuning: Documents, *, utility: Utility, epsilon: float
) -> LikenessScores:
    """The space from all public sentences, then the stretch, then the depth of evidence, each by expected gain."""
    space, points, low, high = None, np.empty((0, 0), np.float32), 0.0, 1.0
    classes = pool.classes if pool.classes is not None else np.zeros(len(pool), np.int64)

    def gain(scores: LikenessScores) -> float:
        return expected_gain(scores, tuning, pool, epsilon=epsilon)

    if utility != "evidence":
        sentences = everything.embeddings
        space = centred(sentences) if utility == "similarity" else whitened(sentences, everything.sizes)
        points = space(pool.means)
        sample = space(tuning.embeddings[:2000]) @ points.T / GRID**2
        lows, highs = np.quantile(sample, _LOW), np.quantile(sample, _HIGH)
        tried = [LikenessScores(space, points, float(a), float(b), None, classes) for a in lows for b in highs if a < b]
        found = max(tried, key=gain)
        low, high = found.low, found.high
    if utility in ("evidence", "mixed"):
        weights, bias = fit_classifier(everything)
        tried = [
            LikenessScores(space, points, low, high, Evidence(weights, bias, depth), classes)
            for depth in _EVIDENCE_DEPTHS
        ]
        return max(tried, key=gain)
    return found


def fit_classifier(documents: Documents, *, strength: float = 10.0) -> tuple[Floats, Floats]:
    """Weights `(dim, n_classes)` and bias of a logistic regression on the means of public documents.

    Means tell more of a class than single sentences, whose document's class they rarely show.

    Args:
        documents: public, with classes.
        strength: the inverse of the penalty on half the squared weights.
    """
    if documents.classes is None:
        raise ConfigError("Expected public documents with labels for a classifier, found none.")
    inputs, wanted = torch.from_numpy(documents.means), torch.from_numpy(documents.classes)
    count = int(documents.classes.max()) + 1
    weights = torch.zeros(inputs.shape[1], count, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(count, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        found = torch.nn.functional.cross_entropy(inputs @ weights + bias, wanted, reduction="sum")
        found = found + weights.square().sum() / (2 * strength)
        found.backward()  # type: ignore[no-untyped-call]
        return found

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach().numpy(), bias.detach().numpy()


def fit_clusters(means: Floats, count: int, *, seed: int) -> Integers:
    """The k-means cluster of each document's mean `(n_documents,)`."""
    found = kmeans2(means, min(count, len(means)), minit="++", rng=np.random.default_rng(seed))[1]
    return np.asarray(np.unique(found, return_inverse=True)[1], np.int64)


def fit_recoder_for(
    documents: Documents, *, targets: Literal["clusters", "labels"], clusters: int, schedule: RecoderSchedule, seed: int
) -> Recoder:
    """H for clusters of the means, or for public classes."""
    wanted = documents.classes if targets == "labels" else fit_clusters(documents.means, clusters, seed=seed)
    if wanted is None:
        raise ConfigError("Expected public documents with labels for recoder='labels', found none.")
    return fit_recoder(documents.embeddings, documents.sizes, wanted, schedule=schedule, seed=seed)
