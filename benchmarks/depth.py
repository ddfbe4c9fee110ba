"""Depths of 5,000 candidates against plain NumPy: `OMP_NUM_THREADS=2 python benchmarks/depth.py`.

Projections of sentences included, two threads each, interleaved, the median of several rounds; the three give the same
numbers. The plain ways take one document at a time and compare (sentences, candidates, directions) by broadcasting; one
projects the candidates anew for each document, the other once. Exits 1 unless ours is 50 times as fast as the
one and 20 times as fast as the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from _timing import Rows, paired, seconds
from dptext.embeddings.likeness import on_grid
from dptext.types import Integers, Singles
from dptext_lab.sentdp.depth import ProjectedCandidates

M, DIM, K, P, DOCUMENTS, PLAIN, ROUNDS = 5000, 768, 10, 100, 512, 6, 5
MIN_RATIOS = (50.0, 20.0)


def plain(sentences: Singles, candidates: Singles, directions: Singles, projected: Singles | None) -> Integers:
    """`lowest` of one document; `projected` are the candidates on the directions, where they are kept."""
    ours = sentences @ directions
    theirs = candidates @ directions if projected is None else projected
    beyond = (ours[:, None, :] >= theirs[None, :, :]).sum(axis=0)
    found: Integers = np.minimum(beyond, len(sentences) - beyond).min(axis=1)
    return found


def main() -> int:
    """Print the table; 1 where we are too slow."""
    rng = np.random.default_rng(0)
    candidates, directions = (
        on_grid(rng.normal(size=(M, DIM))),
        np.ascontiguousarray(on_grid(rng.normal(size=(P, DIM))).T),
    )
    means = on_grid(rng.normal(size=(DOCUMENTS, DIM))).repeat(K, axis=0)
    sentences = on_grid((means + 1500.0 * rng.normal(size=means.shape) / DIM**0.5 * 2).astype(np.float64))
    kept = candidates @ directions
    ready = ProjectedCandidates(kept)
    documents = np.split(sentences, DOCUMENTS)

    def ours() -> Integers:
        return ready.depths(sentences @ directions, [K] * DOCUMENTS, "lowest", threads=2)

    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "NumPy, candidates projected for each document": (
            PLAIN,
            lambda: [plain(d, candidates, directions, None) for d in documents[:PLAIN]],
        ),
        "NumPy, candidates projected once": (
            PLAIN,
            lambda: [plain(d, candidates, directions, kept) for d in documents[:PLAIN]],
        ),
        "dptext_lab.sentdp.depth": (DOCUMENTS, ours),
    }
    found = ours()
    for row, document in enumerate(documents[:PLAIN]):
        if not (found[row] == plain(document, candidates, directions, None)).all():
            raise SystemExit("The depths differ.")
    times = seconds({name: work for name, (_, work) in ways.items()}, ROUNDS)
    *others, (_, fastest) = times.items()
    rows = Rows()
    for least, (name, taken) in zip(MIN_RATIOS, others, strict=True):
        rows.add(
            "dptext_lab.sentdp.depth",
            f"times as fast as {name}",
            paired(taken, fastest, DOCUMENTS / PLAIN),
            least=least,
        )
    rows.add(others[1][0], f"times as fast as {others[0][0]}", paired(others[0][1], others[1][1]))
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
