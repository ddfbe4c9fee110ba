"""Depth of public candidates among private sentences (Tukey 1975; Meehan et al. 2022, algorithm 1).

Sentences and candidates are projected on p public directions. A document has k sentences. On one direction, h of these
lie at or beyond the candidate, and the candidate's depth is min(h, k - h). Replacing one sentence changes each h by at
most 1. So each statistic below has sensitivity 1, except `mean`, a sum over the directions: sensitivity p.

The running time depends on the numbers of sentences, candidates and directions alone: nothing stops early.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dptext.errors import ConfigError
from dptext.frozen import fill
from dptext.kernels.compilation import compiled_with
from dptext.kernels.processors import each
from dptext.kernels.sorting import sort
from dptext.types import Integers, Singles, UInt16s

Counts = UInt16s | Integers
_compiled = compiled_with()


@_compiled
def _depths(
    sentences: Singles, ends: Integers, order: Singles, ranks: UInt16s, which: int, counts: Counts, found: Integers
) -> None:
    """Write the depths into `found` `(n_documents, m)`.

    `sentences` `(n_sentences, directions)` are projections, document after document. `ends` `(n_documents + 1,)` is 0
    and the end of each document. `order` `(directions, blocks, block width)` are the candidates, sorted on each
    direction. `ranks` `(directions, m)` are the numbers of candidates below each candidate. `which` is an index into
    `STATISTICS`. `counts` `(2, candidates at once)` is working memory, whose dtype must hold half the number of a
    document's sentences.
    """
    directions, m = ranks.shape
    _, blocks, wide = order.shape
    ends_of_blocks = np.ascontiguousarray(order[:, :, wide - 1])
    depth, worst = counts[0], counts[1]
    tile = len(depth)
    total = np.empty(tile, np.int64)
    for document in range(len(ends) - 1):
        first, last = ends[document], ends[document + 1]
        size = last - first
        half = size // 2
        below = np.empty((directions, size), np.uint16)
        for j in range(directions):
            for i in range(size):  # count the candidates at or below the sentence: whole blocks, then within a block
                value = sentences[first + i, j]
                block = np.int32(0)
                for x in range(blocks):
                    block += np.int32(ends_of_blocks[j, x] <= value)
                line = order[j, block]
                count = np.int32(0)
                for x in range(wide):
                    count += np.int32(line[x] <= value)
                below[j, i] = block * wide + count
            sort(below[j])
        for start in range(0, m, tile):
            width = min(tile, m - start)
            worst[:width] = half if which == 0 else 0
            total[:width] = 0
            for j in range(directions):
                rank = ranks[j, start : start + width]
                # A candidate is deeper than t if it lies between the t-th sentence from below and the t-th from above.
                depth[:width] = 0
                for t in range(0, half // 2 * 2, 2):
                    low, room = below[j, t], np.uint16(below[j, size - 1 - t] - below[j, t])
                    low2, room2 = below[j, t + 1], np.uint16(below[j, size - 2 - t] - below[j, t + 1])
                    for f in range(width):
                        r = rank[f]
                        depth[f] += np.uint16(np.uint16(r - low) < room) + np.uint16(np.uint16(r - low2) < room2)
                if half % 2:
                    low, room = below[j, half - 1], np.uint16(below[j, size - half] - below[j, half - 1])
                    for f in range(width):
                        depth[f] += np.uint16(np.uint16(rank[f] - low) < room)
                if which == 0:
                    for f in range(width):
                        worst[f] = min(worst[f], depth[f])
                elif which == 1:
                    for f in range(width):
                        worst[f] = max(worst[f], depth[f])
                else:
                    for f in range(width):
                        total[f] += depth[f]
            if which == 2:
                found[document, start : start + width] = total[:width]
            else:
                found[document, start : start + width] = worst[:width]


#: `lowest`: the smallest depth over the directions (the paper's text). `algorithm_1`: the largest depth (the paper's
#: printed algorithm, which also adds k/2; this changes no choice). `mean`: the sum over the directions.
Statistic = Literal["lowest", "algorithm_1", "mean"]
STATISTICS: tuple[Statistic, ...] = ("lowest", "algorithm_1", "mean")
_MOST = 65_535  # candidates
_MOST_IN_16_BITS = 131_071  # sentences; depths are at most half as large, so 16 bits hold them
_DOCUMENTS_AT_ONCE = 64
_CANDIDATES_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedCandidates:
    """Public candidates, projected on public directions, `(n_candidates, n_directions)`, and sorted for comparisons."""

    projections: Singles
    _order: Singles = field(init=False, repr=False)
    _ranks: UInt16s = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = np.asarray(self.projections, np.float32)
        if values.ndim != 2 or not 0 < len(values) <= _MOST or values.shape[1] < 1 or not np.isfinite(values).all():
            wanted = f"1 to {_MOST} candidates on 1 direction or more"
            raise ConfigError(f"Expected finite projections of {wanted}, found shape {values.shape}.")
        m, directions = values.shape
        order = np.sort(values, axis=0).T
        ranks = np.stack([np.searchsorted(row, column) for row, column in zip(order, values.T, strict=True)])
        width = math.isqrt(m) + 1  # width and number of blocks; the padding of the last block is infinity
        order = np.pad(order, [(0, 0), (0, width**2 - m)], constant_values=np.inf).reshape(directions, width, width)
        fill(self, projections=values, _order=order, _ranks=ranks.astype(np.uint16))

    def __len__(self) -> int:
        return len(self.projections)

    def depths(self, sentences: Singles, sizes: Sequence[int], statistic: Statistic, *, threads: int = 1) -> Integers:
        """The depth of every candidate in every document, `(n_documents, n_candidates)`, for any number of threads.

        `sentences` `(n_sentences, n_directions)` are projections, document after document. `sizes` are the documents'
        numbers of sentences. Depths are 0 in a document of fewer than two. ConfigError: shapes or sizes do not fit, or
        a number is not finite.
        """
        if statistic not in STATISTICS:
            raise ConfigError(f"Expected statistic={statistic!r} to be one of {', '.join(STATISTICS)}.")
        values = np.ascontiguousarray(sentences, np.float32)
        if values.ndim != 2 or values.shape[1] != len(self._order) or not np.isfinite(values).all():
            raise ConfigError(f"Expected finite projections on {len(self._order)} directions, found others.")
        lengths = np.asarray(sizes, np.int64)
        if lengths.sum() != len(values) or (lengths < 0).any():
            raise ConfigError("Expected sizes of 0 or more that sum to the number of sentences, found others.")
        found = np.empty((len(lengths), len(self)), np.int64)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        which = STATISTICS.index(statistic)
        step = min(_DOCUMENTS_AT_ONCE, -(-len(lengths) // threads) or 1)

        def one(start: int) -> None:
            here = slice(start, start + step)
            # 16-bit counts are twice as fast. Documents with too many sentences for 16 bits get 64 bits.
            narrow = lengths[here].max() <= _MOST_IN_16_BITS
            counts = np.empty((2, _CANDIDATES_AT_ONCE), np.uint16 if narrow else np.int64)
            _depths(values, ends[start : start + step + 1], self._order, self._ranks, which, counts, found[here])

        each(one, range(0, len(lengths), step), threads)
        return found
