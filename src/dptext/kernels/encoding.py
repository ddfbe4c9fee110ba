"""A layer of a BERT in one call: each call waits for the interpreter's lock where other threads run Python.

What one precision or one kind of processor needs is None for others: numba compiles nothing behind `is not None` of it
then.
"""

from typing import Any

import numpy as np

from dptext.kernels import activations, attention, matrix_tiles, norms, products
from dptext.kernels.compilation import Array, compiled


@compiled
def encode(
    linears: Any, gains: Any, ends: Array, heads: int, epsilon: np.float32, x: Array, more: Array, taken: Array,
    hidden: Array, projected: Array, keys: Array, values: Array, shares: Array, scores: Any, scratch: Any, tile: Array,
    exact: Any, bits: Any, ints: Any, vectors: Any, registers: Any, at: int
) -> None:  # fmt: skip
    """Compute a layer on the rows of `x`, in place. `ends` are the ends of the texts.

    `linears` are the four linear layers, each as panels, bias, units and smoothing, and `gains` the gains and shifts of
    both norms (see `dptext.embeddings.bert.network`). Working memory: `more` and `taken` as `x`, `hidden` of widened
    rows, `projected` of queries, keys and values; `keys`, `values`, `shares`, and `scores` or the tile `scratch` of
    `attention`, in matrix registers or not; all else as of `linear`.
    """
    n = ends[-1]
    queries, mixed, widened, narrowed = linears
    middle, last = gains
    linear(queries, x, n, tile, projected, exact, bits, ints, vectors, registers, at)
    if scores is not None:
        attention.attend_in_tiles(projected, ends, heads, keys, values, scores, shares, taken)
    if scratch is not None:
        attention.attend(projected, ends, heads, keys, values, shares, scratch, taken)
    linear(mixed, taken, n, tile, more, exact, bits, ints, vectors, registers, at + 1)
    norms.add_and_normalize(x, more, n, middle[0], middle[1], epsilon)
    linear(widened, x, n, tile, hidden, exact, bits, ints, vectors, registers, at + 2)
    linear(narrowed, hidden, n, tile, more, exact, bits, ints, vectors, registers, at + 3)
    norms.add_and_normalize(x, more, n, last[0], last[1], epsilon)


@compiled
def linear(
    layer: Any, x: Array, n: int, tile: Array, out: Array, exact: Any, bits: Any, ints: Any, vectors: Any,
    registers: Any, at: int
) -> None:  # fmt: skip
    """Compute linear layer number `at` of all. Every fourth one is narrowed: GELU is computed of its inputs, in place.

    One of three is not None: for float32 `exact` `(n_layers, width)`, which gets the largest absolute inputs of each
    layer, or has no rows; for bfloat16 `bits`, memory for rounded rows, narrow and wide; for int8 `ints`, memory for
    these, and for scales and totals. Of `vectors` and `registers` that one is not None by which products of rounded
    rows are computed. `tile` is working memory of `products`.
    """
    panels, bias, units, smoothing = layer
    wide = at % 4 == 3
    if exact is not None:
        if wide:
            activations.gelu(x, n)
        if len(exact) > 0:
            for i in range(n):
                for k in range(x.shape[1]):
                    exact[at, k] = max(exact[at, k], abs(x[i, k]))
        products.products(x, n, panels, bias, tile, out)
    if bits is not None:
        rows = bits[1] if wide else bits[0]
        if wide:
            products.round_activated(x, n, rows)
        else:
            products.round_rows(x, n, rows)
        if vectors is not None:
            products.products(rows, n, panels, bias, tile, out)
        if registers is not None:
            matrix_tiles.products(rows, n, panels, bias, tile, out)
    if ints is not None:
        rows, scales, totals = ints[1] if wide else ints[0], ints[2], ints[3]
        if wide:
            products.quantize_activated(x, n, smoothing, rows, scales, totals)
        else:
            products.quantize_rows(x, n, smoothing, rows, scales, totals)
        if vectors is not None:
            products.int_products(rows, n, panels, units, bias, scales, totals, tile, out)
        if registers is not None:
            matrix_tiles.int_products(rows, n, panels, units, bias, scales, totals, tile, out)
