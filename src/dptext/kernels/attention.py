"""Self-attention of texts. Each text is computed on its own."""

from dptext.kernels.activations import exp_minus
from dptext.kernels.compilation import Array, F, compiled
from dptext.kernels.tiles import LANES, ROWS, head_tile, largest

_SCORES = 32  # columns of `head_tile`
_ONE, _NOTHING = F(1.0), F(-1e30)


@compiled
def softmax(shares: Array, r: int, n: int, padded: int) -> None:
    """Softmax of the n scores in row r, in place. The padding up to a multiple of 16 gets shares of nearly 0."""
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
    """Self-attention of each text: write the weighted sum of values of each word piece into `out`.

    `projected` holds queries (already divided by the root of their dimension), keys and values side by side. `ends` are
    the ends of the texts. A head has a multiple of 32 coordinates. The other arrays are working memory: `keys`
    `(n_pieces / 32, dim, 32)` and `values` `(dim / 32, n_pieces, 32)` of a head, `shares` `(ROWS, n_pieces)` of a tile.
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
                    softmax(shares, r, length, padded)
                for part in range(dim // _SCORES):
                    panel = values.ctypes.data + part * values.shape[1] * _SCORES * 4
                    head_tile(shares, shares.ctypes.data, shares.shape[1] * 4, panel, tile.ctypes.data, length)
                    for r in range(n_rows):
                        for c in range(_SCORES):
                            out[start + i + r, first + part * _SCORES + c] = tile[r, c]
        start = end


@compiled
def attend_causally(
    projected: Array, owners: Array, places: Array, sines: Array, cosines: Array, keys: Array, values: Array,
    shares: Array, out: Array
) -> None:  # fmt: skip
    """Causal attention of each row to its own text up to the row, into `out`. Keys and values of the rows are stored.

    `projected` holds queries (already divided by the root of their dimension), keys and values side by side. Row i is
    token `places[i]` of text `owners[i]`, in order. `keys` and `values` are `(texts, room, heads of keys, dim)`. Each
    head of keys serves several heads of queries. `shares` is working memory for a row of numbers.
    """
    kv_heads, dim = keys.shape[2], keys.shape[3]
    width, half = out.shape[1], dim // 2
    per = width // (kv_heads * dim)
    for i in range(len(owners)):
        t, p = owners[i], places[i]
        for head in range(kv_heads):
            first = width + head * dim
            for d in range(half):
                a, b = projected[i, first + d], projected[i, first + half + d]
                keys[t, p, head, d] = a * cosines[p, d] - b * sines[p, d]
                keys[t, p, head, half + d] = b * cosines[p, d] + a * sines[p, d]
            for d in range(dim):
                values[t, p, head, d] = projected[i, first + kv_heads * dim + d]
        for head in range(kv_heads * per):
            first, kv = head * dim, head // per
            for d in range(half):
                a, b = projected[i, first + d], projected[i, first + half + d]
                projected[i, first + d] = a * cosines[p, d] - b * sines[p, d]
                projected[i, first + half + d] = b * cosines[p, d] + a * sines[p, d]
            most = F(-1e30)
            for j in range(p + 1):
                product = F(0.0)
                for d in range(dim):
                    product += projected[i, first + d] * keys[t, j, kv, d]
                shares[j] = product
                most = max(most, product)
            total = F(0.0)
            for j in range(p + 1):
                shares[j] = exp_minus(most - shares[j])
                total += shares[j]
            for d in range(dim):
                out[i, first + d] = F(0.0)
            for j in range(p + 1):
                share = shares[j] / total
                for d in range(dim):
                    out[i, first + d] += share * values[t, j, kv, d]
