"""The loops of `dptext.embeddings.depth`, compiled by numba when they are first called, which takes seconds.

The machine code is kept beside this file, or in the user's cache, where either can be written.

The steps taken depend on the numbers of sentences, candidates and directions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit

from dptext.types import Integers, Singles, UInt16s

Counts = UInt16s | Integers
Loops = TypeVar("Loops", bound=Callable[..., None])


def _compiled(loops: Loops) -> Loops:
    try:
        return cast("Loops", njit(nogil=True, cache=True)(loops))
    except RuntimeError:  # there is no place to keep it
        return cast("Loops", njit(nogil=True)(loops))


@_compiled
def _sort(values: UInt16s) -> None:
    """Batcher's odd-even merge network (Knuth, 5.2.2, algorithm M): its steps depend on the length alone."""
    n = len(values)
    top = 1
    while top < n:
        top *= 2
    p = top // 2
    while p > 0:
        q, r, d = top // 2, 0, p
        while True:
            for i in range(n - d):
                a, b = values[i], values[i + d]
                swap = (i & p) == r
                values[i] = min(a, b) if swap else a
                values[i + d] = max(a, b) if swap else b
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


@_compiled
def depths(
    sentences: Singles, ends: Integers, order: Singles, ranks: UInt16s, which: int, counts: Counts, found: Integers
) -> None:
    """Write the depths into `found` `(n_documents, m)`, of projections of all `sentences`, document after document.

    Args:
        sentences: `(n_sentences, directions)`.
        ends: where each document begins, and the end of the last, `(n_documents + 1,)`.
        order: projections of the candidates, sorted on each direction, `(directions, blocks, block width)`.
        ranks: how many candidates lie below each candidate, `(directions, m)`.
        which: place of the statistic in `dptext.embeddings.depth.STATISTICS`.
        counts: memory to count in, `(2, candidates at once)`, wide enough for half the sentences of a document.
        found: the result.
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
            for i in range(size):  # counts the candidates at or below the sentence: whole blocks, then within one
                value = sentences[first + i, j]
                block = np.int32(0)
                for x in range(blocks):
                    block += np.int32(ends_of_blocks[j, x] <= value)
                line = order[j, block]
                count = np.int32(0)
                for x in range(wide):
                    count += np.int32(line[x] <= value)
                below[j, i] = block * wide + count
            _sort(below[j])
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
