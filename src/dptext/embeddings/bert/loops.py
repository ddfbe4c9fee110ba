"""The loops of a BERT, compiled by numba when they are first called, which takes seconds.

The machine code is kept beside this file, or in the user's cache. Every loop over rows treats a row alone, attention a
text: its steps depend on its own numbers and on public sizes. Rows have room for a whole tile after the last.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from dptext.embeddings.bert.tiles import (
    COLUMNS,
    LANES,
    MORE,
    ROWS,
    head_tile,
    largest,
    largest_product,
    row_tile,
    to_bfloat,
)

Loops = TypeVar("Loops", bound=Callable[..., Any])
Array = Any  # numba decides by the dtype
F = np.float32

_SCORES = 32  # columns of `head_tile`
# exp(x) = 2^w 2^f with |f| <= 1/2; a polynomial for 2^f with a relative error of 8e-8.
_LOG2_E = F(1.4426950408889634)
_EXP = tuple(map(F, (1.000000071657404, 0.6931469670420607, 0.2402211970947732, 0.05550713302949038,
                     0.009675542136165033, 0.0013276464884749116)))  # fmt: skip
_LEAST = F(-100.0)  # 2^-100 is nothing beside the largest share, and the exponent stays in range
_BITS = F(1 << 23)
# erf(z) = z P(z^2) / Q(z^2) for |z| <= 4, with an error of 4e-6; both were fitted by least squares.
_ERF_P = tuple(map(F, (1.128404966835483, 0.16183068592669247, 0.047812788516960546, 0.0011210986840822785,
                       -4.957352112358811e-06)))  # fmt: skip
_ERF_Q = tuple(map(F, (1.0, 0.4769590165912849, 0.10082747423793262, 0.0113418376931375)))
_FARTHEST = F(4.0)
_ROOT_HALF = F(0.7071067811865476)
_ONE, _HALF, _MOST = F(1.0), F(0.5), F(127.0)
_TINY, _NOTHING = F(1e-30), F(-1e30)


def compiled_with(**options: Any) -> Callable[[Loops], Loops]:
    """What turns loops into machine code, with these options of numba, when they are first called."""

    def compiled(loops: Loops) -> Loops:
        try:
            return cast("Loops", njit(nogil=True, cache=True, **options)(loops))
        except RuntimeError:  # there is no place to keep it
            return cast("Loops", njit(nogil=True, **options)(loops))

    return compiled


compiled = compiled_with(fastmath=True, error_model="numpy")


@compiled
def round_rows(x: Array, n: int, rows: Array) -> None:
    """The rows as bfloat16."""
    for i in range(n):
        for k in range(rows.shape[1]):
            rows[i, k] = to_bfloat(x[i, k])


@compiled
def quantize_rows(x: Array, n: int, smoothing: Array, rows: Array, scales: Array, totals: Array) -> None:
    """The rows, each times `smoothing`, as whole numbers from -127 to 127 and a scale a row; their sum times `MORE`."""
    for i in range(n):
        most = max(_TINY, largest_product(x[i].ctypes.data, smoothing.ctypes.data, rows.shape[1]))
        steps, total = _MOST / most, F(0.0)
        for k in range(rows.shape[1]):
            step = np.rint(x[i, k] * smoothing[k] * steps)
            total += step  # a whole number below 2^24: exact
            rows[i, k] = np.int32(step)
        scales[i], totals[i] = most / _MOST, np.int32(total) * MORE


@compiled
def products(rows: Array, n: int, panels: Array, bias: Array, tile: Array, out: Array) -> None:
    """The rows times the panels, plus the bias; of float32 or bfloat16."""
    stride, steps = rows.shape[1] * rows.itemsize, panels.shape[1]
    for p in range(panels.shape[0]):
        panel = panels.ctypes.data + p * steps * COLUMNS * 4
        for i in range(0, n, ROWS):
            row_tile(rows, rows.ctypes.data + i * stride, stride, panel, tile.ctypes.data, steps)
            for r in range(ROWS):
                for j in range(COLUMNS):
                    out[i + r, p * COLUMNS + j] = tile[r, j] + bias[p * COLUMNS + j]


@compiled
def int_products(
    rows: Array, n: int, panels: Array, units: Array, bias: Array, scales: Array, totals: Array, tile: Array, out: Array
) -> None:
    """The same of whole numbers, whose weights are `MORE` than they are."""
    stride, steps = rows.shape[1] * rows.itemsize, panels.shape[1]
    for p in range(panels.shape[0]):
        panel = panels.ctypes.data + p * steps * COLUMNS * 4
        for i in range(0, n, ROWS):
            row_tile(rows, rows.ctypes.data + i * stride, stride, panel, tile.ctypes.data, steps)
            for r in range(ROWS):
                for j in range(COLUMNS):
                    unit = scales[i + r] * units[p * COLUMNS + j]
                    out[i + r, p * COLUMNS + j] = F(tile[r, j] - totals[i + r]) * unit + bias[p * COLUMNS + j]


@compiled
def gelu(x: Array, n: int) -> None:
    """x Phi(x), in place."""
    for i in range(n):
        for k in range(x.shape[1]):
            z = min(max(x[i, k] * _ROOT_HALF, -_FARTHEST), _FARTHEST)
            u = z * z
            p = _ERF_P[0] + u * (_ERF_P[1] + u * (_ERF_P[2] + u * (_ERF_P[3] + u * _ERF_P[4])))
            q = _ERF_Q[0] + u * (_ERF_Q[1] + u * (_ERF_Q[2] + u * _ERF_Q[3]))
            x[i, k] = _HALF * x[i, k] * (_ONE + z * p / q)


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
def look_up(pieces: Array, places: Array, words: Array, positions: Array, x: Array, more: Array) -> None:
    """The vectors of word pieces in x; those of their places in `more`."""
    for i in range(len(pieces)):
        for k in range(x.shape[1]):
            x[i, k] = words[pieces[i], k]
            more[i, k] = positions[places[i], k]


@compiled
def exp_minus(x: np.float32) -> np.float32:
    """e^-x, but for x beyond 69 from 0 that of 69."""
    power = min(max(-x * _LOG2_E, _LEAST), -_LEAST)
    whole = np.rint(power)
    f = power - whole
    part = _EXP[0] + f * (_EXP[1] + f * (_EXP[2] + f * (_EXP[3] + f * (_EXP[4] + f * _EXP[5]))))
    return F(part * np.int32((whole + _MOST) * _BITS).view(np.float32))


@compiled
def _softmax(shares: Array, r: int, n: int, padded: int) -> None:
    """Shares of the n scores in row r, in place. Those after them, up to a multiple of 16, get next to nothing."""
    for j in range(n, padded):
        shares[r, j] = _NOTHING
    most, total = largest(shares.ctypes.data + r * shares.shape[1] * 4, padded), F(0.0)
    for j in range(padded):
        shares[r, j] = exp_minus(most - shares[r, j])
        total += shares[r, j]
    factor = _ONE / total
    for j in range(padded):
        shares[r, j] *= factor


@compiled
def attend(
    projected: Array, ends: Array, heads: int, keys: Array, values: Array, shares: Array, tile: Array, out: Array
) -> None:
    """Attention of each text to itself, into `out`: what each piece takes from the values.

    `projected` holds queries (already over the root of their dimension), keys and values side by side, `ends` where
    each text ends; a head has a multiple of 32 coordinates. The rest is room: `keys` `(n_pieces / 32, dim, 32)`,
    `values` `(dim / 32, n_pieces, 32)` of a head, `shares` `(ROWS, n_pieces)` of a tile.
    """
    width = out.shape[1]
    dim, start = width // heads, 0
    stride = projected.shape[1] * 4
    for end in ends:
        length = end - start
        padded = -(-length // LANES) * LANES
        for head in range(heads):
            first = head * dim
            for j in range(length):
                for part in range(dim // _SCORES):
                    for c in range(_SCORES):
                        values[part, j, c] = projected[start + j, 2 * width + first + part * _SCORES + c]
            for block in range((length + _SCORES - 1) // _SCORES):
                n_keys = min(_SCORES, length - block * _SCORES)
                for d in range(dim):
                    for c in range(n_keys):
                        keys[block, d, c] = projected[start + block * _SCORES + c, width + first + d]
            for i in range(0, length, ROWS):
                queries = projected.ctypes.data + (start + i) * stride + first * 4
                for j in range(0, length, _SCORES):
                    head_tile(projected, queries, stride, keys.ctypes.data + j * dim * 4, tile.ctypes.data, dim)
                    for r in range(ROWS):
                        for c in range(_SCORES):
                            shares[r, j + c] = tile[r, c]
                n_rows = min(ROWS, length - i)
                for r in range(n_rows):
                    _softmax(shares, r, length, padded)
                for part in range(dim // _SCORES):
                    panel = values.ctypes.data + part * values.shape[1] * _SCORES * 4
                    head_tile(shares, shares.ctypes.data, shares.shape[1] * 4, panel, tile.ctypes.data, length)
                    for r in range(n_rows):
                        for c in range(_SCORES):
                            out[start + i + r, first + part * _SCORES + c] = tile[r, c]
        start = end


@compiled
def unit_means(x: Array, ends: Array, out: Array) -> None:
    """The mean over the pieces of each text, at norm 1."""
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
