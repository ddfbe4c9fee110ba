"""Scores of public candidates for a document: each sentence scores in [0, 1], and scores are summed.

Replacing one sentence changes such a sum by at most 1, its sensitivity (derivations, "Depths and sums"). Only whole
numbers are summed, so that a sum depends on its terms alone: vectors are rounded to a grid on which their products are
exact in float32, and scores to steps of 2^-12. All models here are learnt from public sentences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptext.errors import ConfigError, PrivacyError
from dptext.types import Floats, Int32s, Integers, Singles

#: Steps per unit of a coordinate. A product of unit vectors has at most 2^22 steps; float32 is exact up to 2^24.
GRID = 2048
#: Steps per unit of a score.
STEPS = 4096
_ROWS = 256
_SENTENCES_AT_ONCE = 512


def in_blocks(rows: Floats, work: Callable[[Floats], Floats]) -> Floats:
    """Apply `work` to blocks `(256, dim)`, padded with zeros. So no row's result depends on the number of rows."""
    padded = np.zeros((_ROWS, rows.shape[1]))
    parts = []
    for start in range(0, max(len(rows), 1), _ROWS):
        block = rows[start : start + _ROWS]
        padded[: len(block)], padded[len(block) :] = block, 0.0
        parts.append(work(padded)[: len(block)])
    return np.concatenate(parts)


def on_grid(vectors: Floats) -> Singles:
    """Scale vectors `(n, dim)` to norm 1, in whole steps of 2^-11. A zero vector stays zero.

    PrivacyError: NaN or infinity.
    """
    _require_finite(vectors)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.rint(vectors / np.where(norms > 0, norms, 1.0) * GRID).astype(np.float32)


def _require_finite(embeddings: NDArray[np.floating[Any]]) -> None:
    # NaN and infinity become whole numbers that depend on the processor.
    if not np.isfinite(embeddings).all():
        raise PrivacyError("Expected finite embeddings, found NaN or infinity: nothing is scored.")


def mean_by_document(vectors: Floats, sizes: Sequence[int]) -> Floats:
    """The mean of each document's rows, `(n_documents, dim)`; zero for a document without rows."""
    found = sums_by_document(vectors, sizes)
    return np.asarray(found / np.maximum(np.asarray(sizes, np.float64), 1.0)[:, None])


def sums_by_document(rows: NDArray[np.generic], sizes: Sequence[int]) -> NDArray[np.generic]:
    """The sum of each document's rows, `(n_documents, ...)`; `rows` are document after document.

    Whole numbers are summed in 64 bits: with 32, a document of 2^19 sentences would overflow.
    """
    lengths = np.asarray(sizes, np.int64)
    kind = np.dtype(np.int64) if np.issubdtype(rows.dtype, np.integer) else rows.dtype
    found = np.zeros((len(lengths), *rows.shape[1:]), kind)
    filled = np.flatnonzero(lengths)
    if filled.size:
        starts = (np.cumsum(lengths) - lengths)[filled]
        found[filled] = np.add.reduceat(rows, starts, axis=0, dtype=kind)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class CosineSpace:
    """A public affine map, x -> (x - centre) @ root, after which cosines compare meanings.

    `centre` is `(dim,)` and `root` is `(dim, other)`.
    """

    centre: Floats
    root: Floats

    def __call__(self, embeddings: Floats) -> Singles:
        """Unit vectors `(n, other)` on the grid."""
        return on_grid(in_blocks(np.asarray(embeddings, np.float64), lambda rows: (rows - self.centre) @ self.root))


def centred(sentences: Floats) -> CosineSpace:
    """The space that subtracts the mean of public sentences `(n, dim)`, and changes nothing else."""
    return CosineSpace(sentences.mean(axis=0), np.eye(sentences.shape[1]))


def whitened(sentences: Floats, sizes: Sequence[int], *, shrinkage: float = 0.1) -> CosineSpace:
    """The space in which the sentences of a public document have the same variance in all directions.

    The matrix is the inverse root of the covariance within documents, mixed with a share `shrinkage` in (0, 1] of the
    mean variance (LDA in closed form, each document a class). So directions in which sentences of one document differ
    count less than directions in which documents differ. `sentences` `(n, dim)` are document after document, of these
    `sizes`. ConfigError: `shrinkage` is out of range.
    """
    if not 0 < shrinkage <= 1:
        raise ConfigError(f"Expected shrinkage={shrinkage!r} above 0 and at most 1.")
    within = sentences - np.repeat(mean_by_document(sentences, sizes), sizes, axis=0)
    covariance = within.T @ within / max(len(within), 1)
    mean = np.trace(covariance) / len(covariance) or 1.0
    values, vectors = np.linalg.eigh((1 - shrinkage) * covariance + shrinkage * mean * np.eye(len(covariance)))
    return CosineSpace(sentences.mean(axis=0), vectors / np.sqrt(np.maximum(values, 1e-12)) @ vectors.T)


def likeness_sums(
    sentences: Singles, sizes: Sequence[int], candidates: Singles, *, low: float, high: float
) -> Integers:
    """Sums `(n_documents, m)`, over each document's sentences, of clip((cosine - low) / (high - low), 0, 1).

    `sentences` `(n_sentences, dim)`, document after document, and `candidates` `(m, dim)` are unit vectors on the grid.
    The sums are integers in steps of 2^-12. ConfigError: not low < high.
    """
    if not low < high:
        raise ConfigError(f"Expected low={low!r} below high={high!r}.")
    lengths = np.asarray(sizes, np.int64)
    found = np.zeros((len(lengths), len(candidates)), np.int64)
    right = np.ascontiguousarray(candidates.T)
    scale, shift = STEPS / (high - low) / GRID**2, STEPS * low / (high - low)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for start in range(0, len(sentences), _SENTENCES_AT_ONCE):
        stop = min(start + _SENTENCES_AT_ONCE, len(sentences))
        scores = sentences[start:stop] @ right  # exact
        scores *= np.float32(scale)
        scores -= np.float32(shift)
        np.clip(scores, 0, STEPS, out=scores)
        whole = np.floor(scores, out=scores).astype(np.int16)
        first, last = np.searchsorted(ends, start, side="right") - 1, np.searchsorted(ends, stop, side="left")
        here = np.clip(ends[first : last + 1], start, stop) - start
        found[first:last] += sums_by_document(whole, np.diff(here).tolist()).astype(np.int64, copy=False)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Scores of a sentence for each class: clip((log p(class | sentence) + depth) / depth, 0, 1).

    `weights` `(dim, n_classes)` and `bias` belong to a linear classifier trained on public text. `depth` is in nats.
    """

    weights: Floats
    bias: Floats
    depth: float

    def __call__(self, embeddings: Floats) -> Int32s:
        """Scores `(n, n_classes)` in steps of 2^-12."""
        _require_finite(embeddings)
        logits = in_blocks(np.asarray(embeddings, np.float64), lambda rows: rows @ self.weights + self.bias)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        scores = np.clip((logits + self.depth) / self.depth, 0.0, 1.0)
        return np.floor(STEPS * scores).astype(np.int32)
