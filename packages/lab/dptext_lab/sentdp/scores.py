"""Scores of candidates by depth on public directions; saving and loading.

A depth has sensitivity 1 under replacement of one sentence, because its counts change by at most 1 (derivations,
"Depths and sums"). The paper prints `algorithm_1`; its text describes `lowest`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dptext.embeddings.likeness import GRID
from dptext.frozen import fill
from dptext.kernels.processors import threads
from dptext.mechanisms.sentences.document_candidates import Arrays, on_whole_steps, shaped
from dptext.types import Floats, Singles
from dptext_lab.sentdp.depth import ProjectedCandidates, Statistic
from dptext_lab.sentdp.recoder import Recoder, read_recoder

Depth = Literal["lowest", "algorithm_1", "mean_depth"]
DEPTHS: dict[Depth, Statistic] = {"lowest": "lowest", "algorithm_1": "algorithm_1", "mean_depth": "mean"}


@dataclass(frozen=True, slots=True, eq=False)
class DepthScores:
    """The depth of candidates among sentences on public directions. A `recoder`, if any, first recodes the sentences.

    `directions` `(dim, n_directions)` are unit vectors in steps of 2^-11. `means` `(m, dim)` are the mean embeddings of
    each candidate's sentences.
    """

    recoder: Recoder | None
    directions: Singles
    means: Floats
    statistic: Statistic
    _candidates: ProjectedCandidates = field(init=False)  # projected once for all documents

    def __post_init__(self) -> None:
        fill(self, _candidates=ProjectedCandidates(_projected(self.means, self.directions)))

    @property
    def arrays(self) -> Arrays:
        """The fitted numbers, by name; the weights of the recoder among them."""
        recoder = {} if self.recoder is None else self.recoder.arrays
        return {"directions": self.directions, "means": self.means, **recoder}

    def released(self, means: Floats) -> Floats:
        """The means of the recoded sentences in the place of `means`."""
        return self.means

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, m)` from the embeddings `(n_sentences, dim)` of documents of these sizes."""
        moved = embeddings if self.recoder is None else self.recoder(embeddings)
        ours = _projected(moved, self.directions)
        depths = self._candidates.depths(ours, sizes, self.statistic, threads=threads())
        return depths / (self.directions.shape[1] if self.statistic == "mean" else 1)


def _projected(vectors: Floats, directions: Singles) -> Singles:
    # Vectors of length at most 1 and unit directions are in steps of 2^-11, so their products are exact in float32.
    return np.asarray(np.rint(vectors * GRID).astype(np.float32) @ directions)


def read_depths(found: Arrays, dim: int, m: int, *, utility: Depth, projections: int, recoded: bool) -> DepthScores:
    """The scores of `m` candidates that were saved as `DepthScores.arrays`. ValueError, LookupError: other numbers."""
    count = projections or found["directions"].shape[1]
    columns: NDArray[np.generic] = found["directions"].T
    directions = np.ascontiguousarray(on_whole_steps(columns, count, dim).T)
    means = shaped(found["means"], m, dim).astype(np.float64)
    recoder = read_recoder(found, dim) if recoded else None
    return DepthScores(recoder, directions, means, DEPTHS[utility])
