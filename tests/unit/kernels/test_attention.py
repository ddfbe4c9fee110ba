"""Self-attention, in vectors and in matrix registers, and the vector instructions that it is made of."""

from __future__ import annotations

import numpy as np
import pytest

from dptext.kernels import attention, lanes, matrix_tiles, products, tiles
from dptext.kernels.compilation import compiled
from dptext.kernels.linear import room

HEADS = 3
LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 50, 7)


def projections(dim: int, lengths: tuple[int, ...] = LENGTHS) -> tuple[np.ndarray, np.ndarray]:
    """Queries, keys and values of texts, with room for whole tiles after them; and the ends of the texts."""
    n = sum(lengths)
    found = room(n + attention.CHUNK, 3 * HEADS * dim)
    found[:n] = np.random.default_rng(0).normal(0, 0.6, (n, found.shape[1]))
    return found, np.cumsum(lengths).astype(np.int64)


def attended(projected: np.ndarray, ends: np.ndarray, dim: int, *, in_tiles: bool) -> np.ndarray:
    n, width = int(ends[-1]), HEADS * dim
    blocks, out = -(-n // 32) + 1, room(len(projected), width)
    if in_tiles:
        rounded = room(*projected.shape, dtype=np.uint16)
        products.round_rows(projected, n, rounded)
        keys, values = room(2 * blocks, dim // 32, 16, 16), room(blocks, dim // 16, 16, 16)
        scores, shares = room(16, 32 * blocks), room(16, 32 * blocks, dtype=np.uint16)
        attention.attend_in_tiles(rounded, ends, HEADS, keys, values, scores, shares, out)
    else:
        keys, values = room(blocks, dim, 32), room(dim // 32, 32 * blocks, 32)
        shares, tile = room(tiles.ROWS, 32 * blocks), room(tiles.ROWS, 32)
        attention.attend(projected, ends, HEADS, keys, values, shares, tile, out)
    return np.asarray(out[:n])


def expected(projected: np.ndarray, ends: np.ndarray, dim: int) -> np.ndarray:
    found, start = np.zeros((int(ends[-1]), HEADS * dim)), 0
    for end in ends:
        parts = projected[start:end].astype(np.float64).reshape(end - start, 3, HEADS, dim)
        for head in range(HEADS):
            queries, keys, values = parts[:, :, head].transpose(1, 0, 2)
            scores = queries @ keys.T
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            found[start:end, head * dim : (head + 1) * dim] = shares / shares.sum(axis=1, keepdims=True) @ values
        start = end
    return found


in_both = pytest.mark.parametrize(
    ("in_tiles", "close"),
    [(False, 2e-5),
     pytest.param(True, 2e-2, marks=pytest.mark.skipif(not matrix_tiles.THERE, reason="no matrix registers"))],
)  # fmt: skip


@in_both
@pytest.mark.parametrize("dim", [32, 64])
def test_attention_is_that_of_numpy(dim: int, close: float, *, in_tiles: bool) -> None:
    projected, ends = projections(dim)
    np.testing.assert_allclose(
        attended(projected, ends, dim, in_tiles=in_tiles), expected(projected, ends, dim), atol=close
    )


@in_both
def test_a_text_is_attended_alike_beside_any_others(close: float, *, in_tiles: bool) -> None:
    """Whatever stands after a text, or stood in the working memory, changes no bit of it."""
    del close
    projected, ends = projections(32)
    together = attended(projected, ends, 32, in_tiles=in_tiles)
    start = 0
    for end in ends:
        length = int(end - start)
        alone = room(length + attention.CHUNK, projected.shape[1])
        alone[:length] = projected[start:end]
        alone[length:] = 1e3
        found = attended(alone, np.array([length]), 32, in_tiles=in_tiles)
        np.testing.assert_array_equal(found, together[start:end])
        start = end


@compiled
def _softmax(row: np.ndarray, n: int, out: np.ndarray) -> None:
    lanes.softmax(row.ctypes.data, n, out.ctypes.data)


@compiled
def _quantized(rows: np.ndarray, x: np.ndarray, factors: np.ndarray, steps: np.float32) -> int:
    return lanes.quantized(rows, x.ctypes.data, factors.ctypes.data, steps, len(x), rows.ctypes.data)  # type: ignore[no-any-return]


@compiled
def _transposed(rows: np.ndarray, out: np.ndarray) -> None:
    lanes.transposed(rows.ctypes.data, rows.shape[1] * 4, out.ctypes.data)


@compiled
def _interleaved(one: np.ndarray, other: np.ndarray, out: np.ndarray) -> None:
    lanes.interleaved(one.ctypes.data, other.ctypes.data, out.ctypes.data)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 48])
def test_shares_are_those_of_numpy_and_padding_gets_none(n: int) -> None:
    row, out = room(64), room(64)
    row[:] = np.random.default_rng(n).normal(0, 20, 64)
    row[n:] = 900.0
    exact = np.exp(row[:n].astype(np.float64) - row[:n].max())
    _softmax(row.copy(), n, out)
    np.testing.assert_allclose(out[:n], exact / exact.sum(), rtol=1e-5, atol=1e-12)
    assert out[n : -(-n // 16) * 16].max(initial=0.0) < 1e-29


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_quantized_numbers_are_rounded_to_even_and_added_up(kind: type) -> None:
    x, factors = room(96), room(96)
    x[:], factors[:] = np.arange(96) - 48, 0.5
    rows = np.zeros(96, kind)
    assert _quantized(rows, x, factors, np.float32(1)) == rows.sum() == np.rint(x / 2).sum()
    np.testing.assert_array_equal(rows, np.rint(x / 2))


def test_rows_become_columns_and_numbers_take_turns() -> None:
    rows, out = np.arange(16 * 20, dtype=np.uint32).reshape(16, 20), room(16, 16, dtype=np.uint32)
    _transposed(rows, out)
    np.testing.assert_array_equal(out, rows[:, :16].T)
    one, other, both = np.arange(16, dtype=np.uint16), np.arange(50, 66, dtype=np.uint16), room(32, dtype=np.uint16)
    _interleaved(one, other, both)
    np.testing.assert_array_equal(both.reshape(16, 2), np.stack([one, other], axis=1))
