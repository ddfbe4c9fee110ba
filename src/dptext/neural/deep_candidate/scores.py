"""The utilities of DeepCandidate: how well each public candidate fits a document.

Every utility has sensitivity 1 where one sentence is replaced: a depth by its counts, a likeness as a sum of scores in
[0, 1]. (MATHS 4; `algorithm_1` is the one printed in the paper, `lowest` the one its text describes.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from dptext.embeddings.depth import ProjectedCandidates, Statistic
from dptext.embeddings.likeness import GRID, STEPS, CosineSpace, Evidence, likeness_sums, sums_by_document
from dptext.neural.deep_candidate.recoder import Recoder
from dptext.types import Floats, Integers, Singles

Utility = Literal["lowest", "algorithm_1", "mean_depth", "similarity", "whitened", "evidence", "mixed"]

DEPTHS: dict[str, Statistic] = {"lowest": "lowest", "algorithm_1": "algorithm_1", "mean_depth": "mean"}


@dataclass(frozen=True, slots=True, eq=False)
class DepthScores:
    """The depth of candidates among (recoded) sentences on public directions.

    Attributes:
        recoder: None keeps embeddings as they are.
        directions: `(dim, n_directions)`, unit vectors in whole steps of 2^-11.
        means: the mean of each candidate's (recoded) sentences, `(m, dim)`.
        statistic: over the directions.
    """

    recoder: Recoder | None
    directions: Singles
    means: Floats
    statistic: Statistic
    _candidates: ProjectedCandidates = field(init=False)  # projected once for all documents

    def __post_init__(self) -> None:
        object.__setattr__(self, "_candidates", ProjectedCandidates(_projected(self.means, self.directions)))

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, m)` from the embeddings `(n_sentences, dim)` of documents of these sizes."""
        moved = embeddings if self.recoder is None else self.recoder(embeddings)
        ours = _projected(moved, self.directions)
        depths = self._candidates.depths(ours, sizes, self.statistic, threads=torch.get_num_threads())
        return depths / (self.directions.shape[1] if self.statistic == "mean" else 1)


def _projected(vectors: Floats, directions: Singles) -> Singles:
    # Vectors of length 1 at most and unit directions in steps of 2^-11: float32 holds their products exactly.
    return np.asarray(np.rint(vectors * GRID).astype(np.float32) @ directions)


@dataclass(frozen=True, slots=True, eq=False)
class LikenessScores:
    """Sums over sentences of stretched similarity, of class evidence, or of half of each.

    Attributes:
        space: in which similarities are measured; None where they do not count.
        points: the candidates in this space, `(m, other)` on the grid.
        low: the cosine that counts 0.
        high: the cosine that counts 1.
        evidence: for classes; None where it does not count.
        classes: the class of each candidate, `(m,)`.
    """

    space: CosineSpace | None
    points: Singles
    low: float
    high: float
    evidence: Evidence | None
    classes: Integers

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, m)` from the embeddings `(n_sentences, dim)` of documents of these sizes."""
        parts: list[Floats] = []
        if self.space is not None:
            sums = likeness_sums(self.space(embeddings), sizes, self.points, low=self.low, high=self.high)
            parts.append(sums / STEPS)
        if self.evidence is not None:
            parts.append(np.asarray(sums_by_document(self.evidence(embeddings), sizes)[:, self.classes]) / STEPS)
        return parts[0] if len(parts) == 1 else (parts[0] + parts[1]) / 2
