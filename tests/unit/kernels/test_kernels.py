"""What networks are made of, against NumPy, SciPy and torch."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

import torch
from scipy.special import erf

from dptext.errors import ConfigError
from dptext.kernels import products, tiles
from dptext.kernels.activations import gelu
from dptext.kernels.counting import counts
from dptext.kernels.linear import DTYPES, Linear, best_there_is, room
from dptext.kernels.sorting import sort

EXACT = ["float32", *(["bfloat16"] if tiles.HAS_BFLOAT16 else []), *(["int8"] if tiles.HAS_INT8 else [])]


@pytest.mark.parametrize("exactness", EXACT)
def test_products_are_those_of_numpy(exactness: str) -> None:
    rng = np.random.default_rng(0)
    n, n_in, n_out = 2 * tiles.ROWS + 1, 96, 2 * tiles.COLUMNS
    x, out = room(n + tiles.ROWS, n_in), room(n + tiles.ROWS, n_out)
    x[:n] = rng.normal(size=(n, n_in)) * rng.exponential(size=(n, 1))
    weights, bias = rng.normal(size=(n_out, n_in)).astype(np.float32), rng.normal(size=n_out).astype(np.float32)
    largest = np.abs(x).max(axis=0)
    layer = Linear.of(weights, bias, exactness, largest)
    rows = room(n + tiles.ROWS, n_in, dtype=DTYPES[exactness])
    tile = room(tiles.ROWS, tiles.COLUMNS, dtype=np.int32 if exactness == "int8" else np.float32)
    exact = x[:n].astype(np.float64) @ weights.T.astype(np.float64)
    if exactness == "int8":
        scales, totals = room(n + tiles.ROWS), room(n + tiles.ROWS, dtype=np.int32)
        products.quantize_rows(x, n, layer.smoothing, rows, scales, totals)
        products.int_products(rows, n, layer.panels, layer.units, bias, scales, totals, tile, out)
        steps = np.rint(weights / layer.smoothing / layer.units[:, None]).astype(np.int64)
        assert np.abs(rows[:n]).max(axis=1).tolist() == [127] * n
        assert np.array_equal(totals[:n], tiles.MORE * rows[:n].sum(axis=1, dtype=np.int64))
        whole = rows[:n].astype(np.int64) @ steps.T  # the sums are exact
        assert np.allclose(out[:n], whole * np.outer(scales[:n], layer.units).astype(np.float64) + bias, rtol=1e-5)
    elif exactness == "bfloat16":
        products.round_rows(x, n, rows)
        assert np.array_equal(
            rows[:n], torch.tensor(x[:n]).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        )
        products.products(rows, n, layer.panels, bias, tile, out)
    else:
        products.products(x, n, layer.panels, bias, tile, out)
    error = {"float32": 1e-6, "bfloat16": 4e-3, "int8": 1.5e-2}[exactness]
    assert np.abs(out[:n] - bias - exact).max() < error * np.abs(exact).max()


def test_a_padded_layer_holds_its_weights_once() -> None:
    """In float32 they stand in its panels: other precisions are made of these, to the same bits."""
    rng, n_in = np.random.default_rng(4), 34
    weights = rng.normal(size=(2 * tiles.COLUMNS, n_in)).astype(np.float32)
    weights[0, :3] = -0.0, 1e-40, np.float32(2) ** -126
    bias = np.ones(len(weights), np.float32)
    layer, kept = Linear.padded(weights, bias), Linear.of(weights, bias, "float32")
    assert layer.weights is None
    assert layer.n_in == kept.n_in == n_in
    assert layer.at("float32") is layer
    rounded = layer.at("bfloat16")
    assert rounded.weights is None
    assert rounded.panels.tobytes() == Linear.of(weights, bias, "bfloat16").panels.tobytes()
    assert rounded.at("bfloat16") is rounded
    assert kept.anew("bfloat16").panels.tobytes() == rounded.panels.tobytes()
    assert Linear.of(weights, bias, "bfloat16").at("float32").panels.tobytes() == layer.panels.tobytes()
    with pytest.raises(ConfigError, match="one that is rounded"):
        rounded.at("float32")
    with pytest.raises(ConfigError, match="keeps its weights"):
        layer.anew("float32")


def test_an_odd_number_of_inputs_stays_in_float32() -> None:
    layer = Linear.padded(np.ones((3, 5), np.float32), np.ones(3, np.float32))
    assert layer.at("bfloat16") is layer


@pytest.mark.parametrize("exactness", [each for each in EXACT if each != "int8"])
def test_what_stands_behind_the_inputs_counts_for_nothing(exactness: str) -> None:
    """A layer reads as many columns of its rows as it has inputs: those of the layer before may be padded."""
    rng, n_in, wide = np.random.default_rng(1), 34, 34 + tiles.COLUMNS
    weights, bias = rng.normal(size=(tiles.COLUMNS, n_in)).astype(np.float32), np.ones(tiles.COLUMNS, np.float32)
    layer, found = Linear.of(weights, bias, exactness), []
    for behind in (0, 7, np.nan):
        x, rows = room(tiles.ROWS, wide), room(tiles.ROWS, wide, dtype=DTYPES[exactness])
        x[:], x[:, n_in:] = np.random.default_rng(2).normal(size=x.shape), behind
        if exactness == "bfloat16":
            products.round_rows(x, tiles.ROWS, rows)
        else:
            rows[:] = x
        out = room(tiles.ROWS, tiles.COLUMNS)
        products.products(rows, tiles.ROWS, layer.panels, bias, room(tiles.ROWS, tiles.COLUMNS), out)
        found.append(out)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert np.abs(found[0] - x[:, :n_in] @ weights.T - 1).max() < 0.2


def test_the_functions_between() -> None:
    x = np.linspace(-9, 9, 3 * 96, dtype=np.float32).reshape(3, 96)
    found = x.copy()
    gelu(found, 2)
    exact = x * 0.5 * (1 + erf(x.astype(np.float64) / np.sqrt(2)))
    assert np.abs(found[:2] - exact[:2]).max() < 2e-5
    assert np.array_equal(found[2], x[2])  # beyond the rows


def test_the_precision_is_what_the_processor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for bfloat16, int8, known in (
        (True, True, ("bfloat16", "float32", "bfloat16", "int8")),
        (False, True, ("float32", "float32", "float32", "int8")),
        (False, False, ("float32",) * 4),
    ):
        monkeypatch.setattr(tiles, "HAS_BFLOAT16", bfloat16)
        monkeypatch.setattr(tiles, "HAS_INT8", int8)
        assert tuple(map(best_there_is, ("auto", "float32", "bfloat16", "int8"))) == known


@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 32, 100])
def test_sorting(n: int) -> None:
    values = np.random.default_rng(n).integers(0, 50, n).astype(np.uint16)
    found = values.copy()
    sort(found)
    assert np.array_equal(found, np.sort(values))


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1000, 1003])
def test_counts_are_those_of_numpy(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = np.minimum(rng.integers(0, 52, (5, length)), rng.integers(0, 52, (5, 1))).astype(np.uint8)
    found = np.zeros((5, 52), np.int64)
    counts(rows, found)
    np.testing.assert_array_equal(found, [np.bincount(row, minlength=52) for row in rows])
    fewer = np.zeros((5, 20), np.int64)
    counts(rows, fewer)  # numbers beyond are not counted, nor written anywhere
    np.testing.assert_array_equal(fewer, found[:, :20])
