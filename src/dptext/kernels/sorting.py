"""Sorting in steps that depend on the length alone."""

from dptext.kernels.compilation import compiled_with
from dptext.types import UInt16s


@compiled_with()
def sort(values: UInt16s) -> None:
    """Sort in place by Batcher's odd-even merge network (Knuth, 5.2.2, algorithm M), in steps fixed by the length."""
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
