"""Products with weights in the blocks of their file: bit for bit those with the same weights in panels."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from dptext.kernels import packing, products, tiles
from dptext.kernels.linear import DTYPES, Exactness, Linear, room

FORMATS = {"Q4_1": (16, True), "Q8_0": (32, False)}  # bytes of numbers, and whether there is an offset
EXACT: list[Exactness] = ["float32", *(["bfloat16"] if tiles.HAS_BFLOAT16 else [])]
there = pytest.mark.skipif(not tiles.WIDE, reason="this processor has no AVX-512")


def blocks_of(kind: str, n_out: int, n_in: int) -> packing.Blocks:
    """Blocks with all numbers, and with scales and offsets of all sizes and signs."""
    rng, (size, offset) = np.random.default_rng(n_out + n_in), FORMATS[kind]
    shape = n_out, n_in // 32
    reals = rng.normal(size=(*shape, 1 + offset)) * 10.0 ** rng.integers(-7, 3, (*shape, 1))
    reals[rng.random(reals.shape) < 0.05] = 0
    head = reals.astype(np.float16).view(np.uint8)
    return np.concatenate([head, rng.integers(0, 256, (*shape, size), np.uint8)], axis=2)


def weights_of(kind: str, blocks: packing.Blocks) -> np.ndarray:
    """The formats, as GGUF defines them."""
    _, offset = FORMATS[kind]
    reals = np.ascontiguousarray(blocks[..., : 2 + 2 * offset]).view(np.float16).astype(np.float32)
    last = blocks[..., 2 + 2 * offset :]
    numbers = np.concatenate([last & 15, last >> 4], axis=2) if offset else np.ascontiguousarray(last).view(np.int8)
    found = reals[..., :1] * numbers.astype(np.float32) + (reals[..., 1:] if offset else 0)
    return found.reshape(len(blocks), -1).astype(np.float32)


def multiplied(x: np.ndarray, layer: Linear, exactness: Exactness) -> np.ndarray:
    size = max(-(-len(x) // tiles.ROWS) * tiles.ROWS, products.SPARE)
    wide = x.shape[1] + 34  # what stands behind the inputs counts for nothing
    rows, given = room(size, wide, dtype=DTYPES[exactness]), room(size, wide)
    given[:] = np.nan
    given[: len(x), : x.shape[1]] = x
    tile, out = room(products.SPARE, tiles.COLUMNS), room(size, len(layer.bias))
    multiply, given_rows = products.products, given
    if exactness == "bfloat16":
        products.round_rows(given, size, rows)
        multiply, given_rows = products.rounded_products, rows
    if layer.packed is None:
        multiply(given_rows, len(x), layer.panels, layer.bias, tile, out)
    else:
        panel = room(x.shape[1], tiles.COLUMNS)
        products.packed_products(given_rows, len(x), layer.packed, layer.bias, panel, tile, out)
    return out[: len(x)].copy()


@there
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("exactness", EXACT)
@pytest.mark.parametrize(("n_in", "panels"), [(32, 1), (96, 2), (160, 3)])
def test_products_with_blocks_are_those_with_panels(kind: str, exactness: Exactness, n_in: int, panels: int) -> None:
    rng, n_out = np.random.default_rng(n_in), panels * tiles.COLUMNS
    blocks, bias = blocks_of(kind, n_out, n_in), rng.normal(size=n_out).astype(np.float32)
    weights = weights_of(kind, blocks)
    packed, plain = Linear.padded(weights, bias, blocks).at(exactness), Linear.of(weights, bias, exactness)
    assert packed.packed is not None
    assert packed.packed.nbytes < 0.8 * plain.panels.nbytes  # less is read
    for n in (1, 3, 15, 16, 17, 31, 32, 33, 79):
        x = rng.normal(size=(n, n_in)).astype(np.float32)
        np.testing.assert_array_equal(multiplied(x, packed, exactness), multiplied(x, plain, exactness))


@there
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("exactness", EXACT)
def test_outputs_are_padded_to_whole_panels_with_zeros(kind: str, exactness: Exactness) -> None:
    n_out = tiles.COLUMNS + 5
    blocks = blocks_of(kind, n_out, 64)
    weights = weights_of(kind, blocks)
    layer = Linear.padded(weights, np.zeros(n_out, np.float32), blocks).at(exactness)
    found = multiplied(np.ones((2, 64), np.float32), layer, exactness)
    assert found.shape == (2, 2 * tiles.COLUMNS)
    assert not found[:, n_out:].any()
    np.testing.assert_array_equal(found[:, :n_out].any(axis=0), weights.any(axis=1))


def test_weights_are_scaled_in_blocks_where_no_bit_is_lost() -> None:
    for kind in FORMATS:
        blocks = blocks_of(kind, 16, 64)
        head = blocks[..., : 2 + 2 * FORMATS[kind][1]]
        head[:] = np.full((*blocks.shape[:2], head.shape[2] // 2), 0.37, np.float16).view(np.uint8)
        for factor, kept in ((0.125, True), (2.0, True), (1 / np.sqrt(24), False), (2.0**-24, False), (0.1, False)):
            found = packing.scaled_blocks(blocks, np.float32(factor))
            assert (found is not None) == kept
            if found is not None:
                expected = weights_of(kind, blocks) * np.float32(factor)
                np.testing.assert_array_equal(weights_of(kind, found), expected)


def test_a_factor_that_loses_bits_by_chance_alone_is_refused() -> None:
    """A tenth of 10 / 1024 is a float16 after it was rounded, but no weight is a tenth."""
    blocks = blocks_of("Q8_0", 16, 32)
    blocks[..., :2] = np.full((16, 1, 1), 10 / 1024, np.float16).view(np.uint8)
    assert packing.scaled_blocks(blocks, np.float32(0.1)) is None


@there
def test_too_small_a_panel_is_refused() -> None:
    blocks = blocks_of("Q4_1", tiles.COLUMNS, 64)
    layer = Linear.padded(weights_of("Q4_1", blocks), np.zeros(tiles.COLUMNS, np.float32), blocks)
    rows, out = room(products.SPARE, 64), room(products.SPARE, tiles.COLUMNS)
    tile, panel = room(products.SPARE, tiles.COLUMNS), room(63, tiles.COLUMNS)
    with pytest.raises(ValueError, match="room for a panel of 64 inputs, found 63"):
        products.packed_products(rows, 1, layer.packed, layer.bias, panel, tile, out)


def test_other_processors_and_other_formats_have_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = blocks_of("Q4_1", tiles.COLUMNS, 64)
    weights, bias = weights_of("Q4_1", blocks), np.zeros(tiles.COLUMNS, np.float32)
    other = np.zeros((tiles.COLUMNS, 2, 18), np.uint8)  # Q4_0
    assert Linear.padded(weights, bias, other).packed is None
    monkeypatch.setattr(packing, "WIDE", False)
    layer = Linear.padded(weights, bias, blocks)
    assert layer.packed is None
    np.testing.assert_array_equal(layer.panels, Linear.of(weights, bias, "float32").panels)


@there
@pytest.mark.parametrize("exactness", EXACT)
def test_weights_in_blocks_are_in_memory_in_no_other_form(exactness: Exactness) -> None:
    blocks = blocks_of("Q4_1", 2 * tiles.COLUMNS, 96)
    layer = Linear.padded(weights_of("Q4_1", blocks), np.zeros(2 * tiles.COLUMNS, np.float32), blocks).at(exactness)
    assert layer.n_in == 96
    assert layer.weights is None
    assert layer.panels.nbytes == 0
    assert layer.at(exactness) is layer
