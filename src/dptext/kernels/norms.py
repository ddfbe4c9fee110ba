"""Normalisation of rows. Each row is computed on its own."""

import numpy as np

from dptext.kernels.compilation import Array, F, compiled

_ONE = F(1.0)


@compiled
def add_and_normalize(x: Array, more: Array, n: int, gain: Array, shift: Array, epsilon: np.float32) -> None:
    """LayerNorm(x + more), in place of x."""
    width = F(x.shape[1])
    for i in range(n):
        total = F(0.0)
        for k in range(x.shape[1]):
            x[i, k] += more[i, k]
            total += x[i, k]
        mean, squares = total / width, F(0.0)
        for k in range(x.shape[1]):
            squares += (x[i, k] - mean) * (x[i, k] - mean)
        factor = _ONE / np.sqrt(squares / width + epsilon)
        for k in range(x.shape[1]):
            x[i, k] = (x[i, k] - mean) * factor * gain[k] + shift[k]


@compiled
def normalize(x: Array, n: int, gain: Array, epsilon: np.float32, out: Array) -> None:
    """Each row divided by the root of its mean square (RMSNorm), times the gain."""
    width = F(x.shape[1])
    for i in range(n):
        squares = F(0.0)
        for k in range(x.shape[1]):
            squares += x[i, k] * x[i, k]
        factor = _ONE / np.sqrt(squares / width + epsilon)
        for k in range(x.shape[1]):
            out[i, k] = x[i, k] * factor * gain[k]
