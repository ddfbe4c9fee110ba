"""The first pass of `dptext.embeddings.nearest`, in vector instructions that numba compiles at the first call.

Scores are upper bounds: no word e scores less than q.e - |e|^2 / 2 for a query q, apart from the rounding of sums. With
bfloat16 factors q' and e', |q'.e' - q.e| = |(q' - q).e' + q.(e' - e)| <= |q' - q| |e'| + |q| |e' - e| (Cauchy-Schwarz).
This is at most (|q' - q| + s |q|) w, where w is the larger of |e'| and |e' - e| / s, for any s > 0. One more coordinate
adds this bound, with its factors rounded up. |e|^2 / 2 is exactly the sum of three bfloat16 numbers of 8 bits each.
Products of two bfloat16 numbers are exact in float32. The remaining error is the float32 rounding of a sum of dim + 4
terms, and before it of q and e. In any order, this is at most `relative_error(dim + 4)` of the absolute terms,
|q| |e| + |e|^2 / 2 <= |q| + 1/2 up to a hundredth, which the factor 2 of `relative_error` covers. Numbers too small for
bfloat16 count as 0, which costs less than 1e-37.
"""

from typing import Final

import numpy as np

from dptext.kernels.compilation import Array, compiled_with
from dptext.kernels.linear import room
from dptext.kernels.shortlist import Shortlist, relative_error
from dptext.kernels.tiles import COLUMNS, HAS_BFLOAT16, ROWS, WIDE, largest_tile
from dptext.types import Floats, Positions, Singles

#: Whether the processor has AVX-512. On other processors the products of OpenBLAS are faster.
FAST: Final = WIDE
_DEPTH = 32  # words per lane; they share the lane's largest score, and are compared together in the second pass
_GROUP = COLUMNS * _DEPTH
_AT_ONCE = 256  # queries at once: their largest scores over 400,000 words take 13 MB
_LANES_AT_ONCE = 1 << 14
_SHARES = {True: 2.0**-10, False: 2.0**-40}  # s: the relative rounding of bfloat16, about; nearly 0 without it
ROUNDED_UP = 1 + 1e-6  # factor of widths: it exceeds the rounding of their sums, so none is too small
_LEAST = np.float32(-3e38)
_NEVER = 2.0**100  # |e|^2 / 2 of the padding in the last group
_TIES = 2.0**-50  # times n + 4: twice the relative rounding error between two sums of n squares in float64


_compiled = compiled_with(fastmath={"reassoc", "contract"})


@_compiled
def _find_tops(rows: Array, panels: Array, room: Array, tops: Array) -> None:
    """The largest score of each query in each lane, `(n_queries, n_lanes)`: multiples of `ROWS` and of `COLUMNS`."""
    stride, (_, depth, steps, _) = rows.shape[1] * rows.itemsize, panels.shape
    for group in range(len(panels)):
        for i in range(0, len(tops), ROWS):
            for r in range(ROWS):
                for j in range(COLUMNS):
                    room[r, j] = _LEAST
            for p in range(group * depth, (group + 1) * depth):
                panel = panels.ctypes.data + p * steps * COLUMNS * 4
                largest_tile(rows, rows.ctypes.data + i * stride, stride, panel, room.ctypes.data, steps)
            for r in range(ROWS):
                for j in range(COLUMNS):
                    tops[i + r, group * COLUMNS + j] = room[r, j]


@_compiled
def _find_squares(points: Array, vectors: Array, rows: Array, lanes: Array, squares: Array) -> None:
    """Squared distances `(n, _DEPTH)` of points to all words of a lane; infinite for padding after the last word."""
    for i in range(len(rows)):
        for j in range(squares.shape[1]):
            word, total = lanes[i] * squares.shape[1] + j, np.inf
            if word < len(vectors):
                total = 0.0
                for k in range(vectors.shape[1]):
                    gap = vectors[word, k] - points[rows[i], k]
                    total += gap * gap
            squares[i, j] = total


class Screen:
    """A vocabulary prepared for the first pass. `NearestWords` makes it, and finds the same words without it."""

    __slots__ = ("_panels", "_radius", "_vectors")

    def __init__(self, vectors: Singles, radius: float, words: Singles, halves: Singles) -> None:
        """Take `vectors` and their `radius`. In float32: `words`, e (centred, over the radius); `halves`, |e|^2 / 2."""
        packed = _pack(_columns(words, halves))
        per_step = 4 // packed.itemsize
        # The words of a lane are consecutive in the vocabulary; a panel holds one word of each lane.
        split = packed.reshape(-1, COLUMNS, _DEPTH, packed.shape[1] // per_step, per_step).transpose(0, 2, 3, 1, 4)
        self._panels = room(*split.shape[:3], COLUMNS * per_step, dtype=packed.dtype.type)
        self._panels[:] = split.reshape(self._panels.shape)
        self._vectors, self._radius = vectors, radius

    def nearest(self, points: Floats, centred: Floats, norms: Floats) -> Positions:
        """The nearest word of each query. `centred` are the queries in the coordinates of e, `norms` their norms."""
        starts = range(0, len(points), _AT_ONCE)
        parts = (slice(start, start + _AT_ONCE) for start in starts)
        return np.concatenate([self._nearest(points[part], centred[part], norms[part]) for part in parts])

    def _nearest(self, points: Floats, centred: Floats, norms: Floats) -> Positions:
        n, dim = points.shape
        rows = _pack(_rows(centred, norms))
        padded = np.empty((len(rows), len(self._panels) * COLUMNS), np.float32)
        _find_tops(rows, self._panels, room(ROWS, COLUMNS), padded)
        tops = padded[:n]
        every = np.arange(n)
        least = np.empty((n, _DEPTH))
        _find_squares(points, self._vectors, every, tops.argmax(axis=1), least)
        least = least.min(axis=1)
        enough = least * (1 + (dim + 4) * _TIES)
        reached = (norms**2 - least / self._radius**2) / 2
        needed = (reached - relative_error(dim + 4) * (norms + 0.5)).astype(np.float32)
        near, lanes = np.divmod(np.flatnonzero(tops >= needed[:, None]), tops.shape[1])
        shortlist = Shortlist(points, self._vectors)
        for start in range(0, len(near), _LANES_AT_ONCE):  # several slices only if many words are nearly equal
            rows, lane = near[start : start + _LANES_AT_ONCE], lanes[start : start + _LANES_AT_ONCE]
            squares = np.empty((len(rows), _DEPTH))
            _find_squares(points, self._vectors, rows, lane, squares)
            pick, place = np.divmod(np.flatnonzero(squares <= enough[rows, None]), _DEPTH)
            shortlist.add(rows[pick], lane[pick] * _DEPTH + place)
        return shortlist.nearest()


def _columns(words: Singles, halves: Singles) -> Singles:
    """The factors of each word in the products, `(n, dim + 4)`, padded to whole groups and an even width."""
    n, dim = words.shape
    columns = np.zeros((-(-n // _GROUP) * _GROUP, dim + 4 + dim % 2), np.float32)
    columns[n:, dim + 1] = _NEVER
    columns[:n, :dim] = rounded = _cut(words, 0x8000)
    widths = np.maximum(_norms(rounded), _norms(rounded - words) / _SHARES[HAS_BFLOAT16]) * ROUNDED_UP
    columns[:n, dim] = _cut(widths.astype(np.float32), 0xFFFF)
    for column in range(dim + 1, dim + 4):
        columns[:n, column] = _cut(halves, 0)
        halves = halves - columns[:n, column]
    return columns


def _rows(centred: Floats, norms: Floats) -> Singles:
    n, dim = centred.shape
    rows = np.zeros((-(-n // ROWS) * ROWS, dim + 4 + dim % 2), np.float32)
    rows[:n, :dim] = rounded = _cut(centred.astype(np.float32), 0x8000)
    widths = (_norms(rounded - centred) + _SHARES[HAS_BFLOAT16] * norms) * ROUNDED_UP
    rows[:n, dim] = _cut(widths.astype(np.float32), 0xFFFF)
    rows[:n, dim + 1 : dim + 4] = -1
    return rows


def _cut(numbers: Singles, more: int) -> Singles:
    """Round positive numbers to bfloat16: `more` = 0 rounds down, 0x8000 to the nearest, 0xFFFF up."""
    if not HAS_BFLOAT16:
        return numbers
    found: Singles = ((numbers.view(np.uint32) + np.uint32(more)) & np.uint32(0xFFFF0000)).view(np.float32)
    return found


def _pack(numbers: Singles) -> Array:
    return (numbers.view(np.uint32) >> 16).astype(np.uint16) if HAS_BFLOAT16 else numbers


def _norms(rows: Floats | Singles) -> Floats:
    found: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return found
