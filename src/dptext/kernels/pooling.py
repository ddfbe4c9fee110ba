"""Look-up of the vectors of word pieces (one row per piece), and means of a text's rows."""

import numpy as np

from dptext.kernels.compilation import Array, F, compiled

_ZERO, _ONE, _TINY = F(0.0), F(1.0), F(1e-30)


@compiled
def look_up(pieces: Array, places: Array, words: Array, positions: Array, x: Array, more: Array) -> None:
    """Write the vectors of word pieces into `x`, and the vectors of their positions into `more`."""
    for i in range(len(pieces)):
        for k in range(x.shape[1]):
            x[i, k] = words[pieces[i], k]
            more[i, k] = positions[places[i], k]


@compiled
def unit_means(x: Array, ends: Array, out: Array) -> None:
    """The mean over the word pieces of each text, scaled to norm 1."""
    start = 0
    for t in range(len(ends)):
        for k in range(x.shape[1]):
            out[t, k] = F(0.0)
        for i in range(start, ends[t]):
            for k in range(x.shape[1]):
                out[t, k] += x[i, k]
        squares = F(0.0)
        for k in range(x.shape[1]):
            squares += out[t, k] * out[t, k]
        factor = _ONE / max(np.sqrt(squares), _TINY)
        for k in range(x.shape[1]):
            out[t, k] *= factor
        start = ends[t]


@compiled
def means(x: Array, n: int, out: Array) -> None:
    """The mean of each text's rows `(n, length, width)`."""
    for i in range(n):
        for k in range(x.shape[2]):
            out[i, k] = _ZERO
        for t in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, k] += x[i, t, k]
        for k in range(x.shape[2]):
            out[i, k] /= F(x.shape[1])
