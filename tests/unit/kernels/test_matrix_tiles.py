"""Products in matrix registers: those of NumPy, each row alike at every place, and nothing written beyond the rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from dptext.kernels import activations, matrix_tiles, products, tiles
from dptext.kernels.linear import DTYPES, Linear, room

N_IN, N_OUT = 96, 2 * tiles.COLUMNS
there = pytest.mark.skipif(not matrix_tiles.THERE, reason="this processor has no matrix registers")


def layer_of(n_in: int, n_out: int = N_OUT) -> Linear:
    rng = np.random.default_rng(1)
    weights, bias = rng.normal(size=(n_out, n_in)), rng.normal(size=n_out)
    return Linear.of(weights.astype(np.float32), bias.astype(np.float32), "bfloat16")


def multiplied(x: np.ndarray, layer: Linear, dtype: type[np.generic] = np.float32) -> np.ndarray:
    """The outputs of all rows, in arrays that are as small as they may be."""
    n = max(-(-len(x) // tiles.ROWS) * tiles.ROWS, products.SPARE)
    given, rows = room(n, x.shape[1]), room(n, x.shape[1], dtype=DTYPES["bfloat16"])
    given[: len(x)] = x
    given[len(x) :] = np.nan  # what lies behind the rows counts for nothing
    out = room(n, len(layer.bias), dtype=dtype)
    out[:] = 7
    products.round_rows(given, n, rows)
    products.rounded_products(rows, len(x), layer.panels, layer.bias, room(products.SPARE, tiles.COLUMNS), out)
    if matrix_tiles.THERE and matrix_tiles.fits(layer.panels.shape[1]):
        assert (out[len(x) :] == 7).all()  # vector instructions write whole tiles
    return out[: len(x)].copy()


@pytest.mark.skipif(not tiles.HAS_BFLOAT16, reason="this processor does not multiply bfloat16")
@pytest.mark.parametrize("n", [1, 5, 15, 16, 17, 31, 32, 33, 48, 79])
@pytest.mark.parametrize("n_in", [N_IN, N_IN + 2])
def test_rounded_products_are_those_of_numpy_for_any_number_of_rows(n: int, n_in: int) -> None:
    """Rows of 98 numbers fill no whole registers, and take vector instructions."""
    layer = layer_of(n_in)
    x = np.random.default_rng(n).normal(size=(n, n_in)).astype(np.float32)
    exact = x.astype(np.float64) @ layer.weights.T.astype(np.float64) + layer.bias
    assert np.abs(multiplied(x, layer) - exact).max() < 4e-3 * np.abs(exact).max()


@there
def test_a_row_has_the_same_numbers_at_every_place_and_beside_any_rows() -> None:
    rng, layer = np.random.default_rng(2), layer_of(N_IN)
    row = rng.normal(size=(1, N_IN)).astype(np.float32)
    alone = multiplied(row, layer)
    for n in (2, 16, 40, 67):
        beside = rng.normal(size=(n, N_IN)).astype(np.float32) * 1e3
        for place in range(n):
            some = beside.copy()
            some[place] = row
            np.testing.assert_array_equal(multiplied(some, layer)[place], alone[0])


@there
def test_registers_and_vector_instructions_agree_but_for_the_last_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of(N_IN)
    x = np.random.default_rng(3).normal(size=(70, N_IN)).astype(np.float32)
    found = multiplied(x, layer)
    monkeypatch.setattr(matrix_tiles, "THERE", False)
    np.testing.assert_allclose(found, multiplied(x, layer), rtol=1e-4, atol=1e-4)


@there
@pytest.mark.parametrize("panels", [1, 2, 3])
def test_columns_that_are_no_pairs_of_registers_are_those_of_vector_instructions(
    panels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = layer_of(N_IN, panels * tiles.COLUMNS)
    x = np.random.default_rng(4).normal(size=(37, N_IN)).astype(np.float32)
    found = multiplied(x, layer)
    monkeypatch.setattr(matrix_tiles, "THERE", False)
    np.testing.assert_allclose(found, multiplied(x, layer), rtol=1e-4, atol=1e-4)


@there
def test_no_rows_are_no_work() -> None:
    assert multiplied(np.zeros((0, N_IN), np.float32), layer_of(N_IN)).shape == (0, N_OUT)


@there
def test_outputs_in_bfloat16_are_the_rounded_ones() -> None:
    layer, x = layer_of(N_IN), np.random.default_rng(5).normal(size=(37, N_IN)).astype(np.float32)
    exact, bits = multiplied(x, layer), room(37, N_OUT, dtype=np.uint16)
    products.round_rows(exact, 37, bits)
    np.testing.assert_array_equal(multiplied(x, layer, np.uint16), bits)


@pytest.mark.skipif(not tiles.HAS_BFLOAT16, reason="this processor does not multiply bfloat16")
def test_activated_rows_are_rounded_as_those_that_were_activated_before() -> None:
    x = np.random.default_rng(6).normal(size=(9, N_IN)).astype(np.float32) * 3
    before, both = x.copy(), [room(9, N_IN, dtype=np.uint16) for _ in range(2)]
    activations.gelu(before, 9)
    products.round_rows(before, 9, both[0])
    products.round_activated(x, 9, both[1])
    np.testing.assert_array_equal(*both)
    np.testing.assert_array_equal(x, before)


@pytest.mark.skipif(not tiles.HAS_INT8, reason="this processor does not multiply int8")
def test_activated_rows_are_quantized_as_those_that_were_activated_before() -> None:
    x = np.random.default_rng(7).normal(size=(9, N_IN)).astype(np.float32) * 3
    smoothing, before = np.linspace(0.5, 2, N_IN, dtype=np.float32), x.copy()
    activations.gelu(before, 9)
    found = []
    for quantize, of in ((products.quantize_rows, before), (products.quantize_activated, x)):
        rows, scales, totals = room(9, N_IN, dtype=DTYPES["int8"]), room(9), room(9, dtype=np.int32)
        quantize(of, 9, smoothing, rows, scales, totals)
        found.append((rows, scales, totals))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@there
@pytest.mark.parametrize("n", [1, 5, 15, 16, 17, 31, 32, 33, 79])
def test_products_in_int8_are_those_of_vector_instructions_bit_for_bit(n: int) -> None:
    rng = np.random.default_rng(n)
    weights, bias = rng.normal(size=(N_OUT, 128)).astype(np.float32), rng.normal(size=N_OUT).astype(np.float32)
    layer = Linear.of(weights, bias, "int8")
    size = max(-(-n // tiles.ROWS) * tiles.ROWS, products.SPARE)
    x, rows = room(size, 128), room(size, 128, dtype=DTYPES["int8"])
    x[:n] = rng.normal(size=(n, 128))
    scales, totals = room(size), room(size, dtype=np.int32)
    products.quantize_rows(x, n, layer.smoothing, rows, scales, totals)
    assert rows.min() < 0 <= rows.max()  # signed rows, by unsigned weights
    assert layer.panels.max() > 127
    assert matrix_tiles.fits(layer.panels.shape[1])
    found = []
    for multiply in (products.int_products, matrix_tiles.int_products):
        out, tile = room(size, N_OUT), room(products.SPARE, tiles.COLUMNS, dtype=np.int32)
        multiply(rows, n, layer.panels, layer.units, layer.bias, scales, totals, tile, out)
        found.append(out[:n])
    assert not out[n:].any()
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], x[:n] @ weights.T + bias, atol=0.5)


def test_only_rows_that_fill_whole_registers_fit() -> None:
    assert [n for n in (8, 16, 48, 49, 192) if matrix_tiles.fits(n)] == [16, 48, 192]
