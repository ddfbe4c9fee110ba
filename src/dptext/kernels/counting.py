"""Counting of small whole numbers."""

from typing import Final

import numpy as np

from dptext.kernels.compilation import compiled_with
from dptext.types import Integers, UInt8s

_APART: Final = 8  # counters of a number: one alone would wait for its last sum where a number comes again and again


@compiled_with()
def counts(rows: UInt8s, found: Integers) -> None:
    """Add to `found` `(n_rows, kinds)` how often each number below `kinds` is in each row; others are not counted."""
    n_rows, length = rows.shape
    kinds = found.shape[1]
    some = np.zeros((_APART, 256), np.int64)  # whatever a byte holds
    for i in range(n_rows):
        some[:] = 0
        for start in range(0, length - length % _APART, _APART):
            for j in range(_APART):
                some[j, rows[i, start + j]] += 1
        for k in range(length - length % _APART, length):
            some[0, rows[i, k]] += 1
        for j in range(_APART):
            for kind in range(kinds):
                found[i, kind] += some[j, kind]
