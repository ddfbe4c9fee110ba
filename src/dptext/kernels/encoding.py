"""The layers of a BERT in one call, so that a batch of texts waits for the interpreter's lock once.

Calls of single loops would each wait for it where other threads run Python. What one precision or one kind of processor
needs is None for others: numba compiles nothing behind `is not None` of it then.
"""

from typing import Any

import numpy as np

from dptext.kernels import activations, attention, matrix_tiles, norms, products
from dptext.kernels.compilation import Array, compiled

_rounded, _quantized = products.products, products.int_products
if matrix_tiles.THERE:
    _rounded, _quantized = matrix_tiles.products, matrix_tiles.int_products


@compiled
def encode(
    layers: Any, ends: Array, heads: int, epsilon: np.float32, x: Array, more: Array, taken: Array, hidden: Array,
    projected: Array, of_head: Any, tile: Array, exact: Any, bits: Any, ints: Any
) -> None:  # fmt: skip
    """Compute the layers on the rows of `x`, in place. `ends` are the ends of the texts.

    A layer is its four linear layers, each as panels, bias, units and smoothing, and the gains and shifts of both its
    norms (`dptext.embeddings.bert.network.BertLayer`). All else is working memory: `more` and `taken` as `x`, `hidden`
    of widened rows, `projected` of queries, keys and values, `of_head` of `_attend`, and `tile` of `products`. Of the
    last three one is not None. For float32 `exact` `(4 * layers, width)` gets the largest absolute inputs of each
    linear layer, or has no rows. For bfloat16 `bits` has memory for rounded rows, narrow and wide; for int8 `ints` has
    that, and for scales and totals.
    """
    n = ends[-1]
    for i in range(len(layers)):
        queries, mixed, widened, narrowed, middle, last = layers[i]
        _linear(*queries, x, n, False, tile, projected, exact, bits, ints, 4 * i)
        _attend(projected, ends, heads, *of_head, taken)
        _linear(*mixed, taken, n, False, tile, more, exact, bits, ints, 4 * i + 1)
        norms.add_and_normalize(x, more, n, *middle, epsilon)
        _linear(*widened, x, n, False, tile, hidden, exact, bits, ints, 4 * i + 2)
        _linear(*narrowed, hidden, n, True, tile, more, exact, bits, ints, 4 * i + 3)
        norms.add_and_normalize(x, more, n, *last, epsilon)


@compiled
def _linear(
    panels: Array, bias: Array, units: Array, smoothing: Array, x: Array, n: int, wide: bool, tile: Array, out: Array,
    exact: Any, bits: Any, ints: Any, at: int
) -> None:  # fmt: skip
    """Compute a linear layer. Of `wide` rows GELU is its input, which is computed as they are rounded."""
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
        if matrix_tiles.fits(panels.shape[1]):
            _rounded(rows, n, panels, bias, tile, out)
        else:
            products.products(rows, n, panels, bias, tile, out)
    if ints is not None:
        rows, scales, totals = ints[1] if wide else ints[0], ints[2], ints[3]
        if wide:
            products.quantize_activated(x, n, smoothing, rows, scales, totals)
        else:
            products.quantize_rows(x, n, smoothing, rows, scales, totals)
        if matrix_tiles.fits(panels.shape[1]):
            _quantized(rows, n, panels, units, bias, scales, totals, tile, out)
        else:
            products.int_products(rows, n, panels, units, bias, scales, totals, tile, out)


@compiled
def _attend(
    projected: Array, ends: Array, heads: int, keys: Array, values: Array, scores: Any, shares: Array, tile: Any,
    out: Array
) -> None:  # fmt: skip
    """`attention.attend_in_tiles` if there is memory for `scores`, or `attention.attend` if there is a `tile`."""
    if scores is not None:
        attention.attend_in_tiles(projected, ends, heads, keys, values, scores, shares, out)
    if tile is not None:
        attention.attend(projected, ends, heads, keys, values, shares, tile, out)
