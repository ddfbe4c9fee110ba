"""Products of rows with the panels of a layer, in float32, bfloat16 or int8.

Each row is computed on its own. Arrays of rows have memory for a whole tile after the last row.
"""

from typing import Final

from dptext.kernels import matrix_tiles
from dptext.kernels.activations import gelu_of_row
from dptext.kernels.compilation import Array, F, compiled
from dptext.kernels.lanes import LANES, largest_product, quantized, scaled, to_bfloat
from dptext.kernels.packing import LENGTH, unpack
from dptext.kernels.tiles import COLUMNS, MORE, ROWS, VECTORS, row_tile

_MOST, _TINY = F(127.0), F(1e-30)
#: Rows of a tile of `rounded_products`, and the least number of rows of its arrays.
SPARE: Final = matrix_tiles.BLOCK_ROWS if matrix_tiles.THERE else ROWS


@compiled
def _round(x: Array, i: int, rows: Array) -> None:
    for k in range(rows.shape[1]):
        rows[i, k] = to_bfloat(x[i, k])


@compiled
def round_rows(x: Array, n: int, rows: Array) -> None:
    """Round the rows to bfloat16."""
    for i in range(n):
        _round(x, i, rows)


@compiled
def round_activated(x: Array, n: int, rows: Array) -> None:
    """`round_rows` of GELU of the rows, which takes their place: one row after the other, while the cache holds it."""
    for i in range(n):
        gelu_of_row(x, i)
        _round(x, i, rows)


@compiled
def _quantize(x: Array, i: int, smoothing: Array, rows: Array, scales: Array, totals: Array) -> None:
    width = rows.shape[1]
    row, out = x[i].ctypes.data, rows[i].ctypes.data
    most = max(_TINY, largest_product(row, smoothing.ctypes.data, width))
    total = quantized(rows, row, smoothing.ctypes.data, _MOST / most, width, out)
    scales[i], totals[i] = most / _MOST, total * MORE


@compiled
def quantize_rows(x: Array, n: int, smoothing: Array, rows: Array, scales: Array, totals: Array) -> None:
    """Quantize rows times `smoothing` to whole numbers in [-127, 127], with a scale and the sum * `MORE` per row."""
    for i in range(n):
        _quantize(x, i, smoothing, rows, scales, totals)


@compiled
def quantize_activated(x: Array, n: int, smoothing: Array, rows: Array, scales: Array, totals: Array) -> None:
    """`quantize_rows` of GELU of the rows, as `round_activated`."""
    for i in range(n):
        gelu_of_row(x, i)
        _quantize(x, i, smoothing, rows, scales, totals)


@compiled
def products(rows: Array, n: int, panels: Array, bias: Array, tile: Array, out: Array) -> None:
    """The rows times the panels, plus the bias, for float32 or bfloat16."""
    steps = panels.shape[1]
    for p in range(panels.shape[0]):
        _panel_by_all(rows, n, panels.ctypes.data + p * steps * COLUMNS * 4, steps, p, bias, tile, out)


@compiled
def unpacking_products(rows: Array, n: int, packed: Array, bias: Array, panel: Array, tile: Array, out: Array) -> None:
    """`products` with packed weights, which are unpacked to `panel`, of `COLUMNS` numbers of 4 bytes for each step."""
    parts, size, here = packed.shape[1], packed.shape[2], panel.ctypes.data
    steps = parts * LENGTH * rows.itemsize // 4
    for p in range(packed.shape[0] // VECTORS):
        for j in range(VECTORS):
            at = packed.ctypes.data + (p * VECTORS + j) * parts * size
            unpack(packed, rows, at, parts, here + 4 * LANES * j, 4 * COLUMNS)
        _panel_by_all(rows, n, here, steps, p, bias, tile, out)


@compiled
def _panel_by_all(rows: Array, n: int, panel: int, steps: int, p: int, bias: Array, tile: Array, out: Array) -> None:
    """All rows times the panel at an address, which is panel `p`. Of each row the first `steps` are read."""
    stride = rows.shape[1] * rows.itemsize
    for i in range(0, n, ROWS):
        row_tile(rows, rows.ctypes.data + i * stride, stride, panel, tile.ctypes.data, steps)
        for r in range(ROWS):
            for j in range(COLUMNS):
                out[i + r, p * COLUMNS + j] = tile[r, j] + bias[p * COLUMNS + j]


def packed_products(rows: Array, n: int, packed: Array, bias: Array, panel: Array, tile: Array, out: Array) -> None:
    """`unpacking_products` for float32 or bfloat16; the latter as `rounded_products`."""
    if len(panel) < packed.shape[1] * LENGTH:  # it would be written beyond its end
        raise ValueError(f"Expected room for a panel of {packed.shape[1] * LENGTH} inputs, found {len(panel)}.")
    in_registers = rows.itemsize == 2 and matrix_tiles.THERE  # a block fills whole registers
    (matrix_tiles.packed_products if in_registers else unpacking_products)(rows, n, packed, bias, panel, tile, out)


def rounded_products(rows: Array, n: int, panels: Array, bias: Array, tile: Array, out: Array) -> None:
    """`products` for bfloat16, in matrix registers where there are some. All arrays have `SPARE` rows or more.

    In matrix registers `out` may hold the bits of bfloat16, too.
    """
    if matrix_tiles.THERE and matrix_tiles.fits(panels.shape[1]):
        matrix_tiles.products(rows, n, panels, bias, tile, out)
    else:
        products(rows, n, panels, bias, tile, out)


@compiled
def int_products(
    rows: Array, n: int, panels: Array, units: Array, bias: Array, scales: Array, totals: Array, tile: Array, out: Array
) -> None:
    """`products` for int8. Stored weights are offset by `MORE`; subtracting `totals` removes the offset.

    Rows of a tile are written in vector instructions: a compiler may unroll a loop, and round rows differently.
    """
    stride, steps, across = rows.shape[1] * rows.itemsize, panels.shape[1], out.shape[1] * out.itemsize
    for p in range(panels.shape[0]):
        panel = panels.ctypes.data + p * steps * COLUMNS * 4
        for i in range(0, n, ROWS):
            row_tile(rows, rows.ctypes.data + i * stride, stride, panel, tile.ctypes.data, steps)
            for r in range(ROWS):
                for j in range(VECTORS):
                    first = p * COLUMNS + j * LANES
                    own, to = tile.ctypes.data + 4 * (r * COLUMNS + j * LANES), out.ctypes.data + (i + r) * across
                    unit, shift = units.ctypes.data + 4 * first, bias.ctypes.data + 4 * first
                    scaled(out, own, totals[i + r], scales[i + r], unit, shift, to + first * out.itemsize)
