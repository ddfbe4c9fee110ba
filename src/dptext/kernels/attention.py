"""Self-attention of texts. Each text is computed on its own."""

from dptext.kernels.activations import exp_minus
from dptext.kernels.compilation import Array, F, compiled
from dptext.kernels.tiles import LANES, ROWS, head_tile, largest

BLOCK = _SCORES = 32  # columns of `head_tile`
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
    table: Array, queries: Array, shares: Array, tile: Array, out: Array
) -> None:  # fmt: skip
    """Causal attention of each row to its own text up to the row, into `out`. Keys and values of the rows are stored.

    `projected` holds queries (already divided by the root of their dimension), keys and values side by side. Row i is
    token `places[i]` of text `owners[i]`, in order. Tokens stand in blocks of `BLOCK`: `keys` are
    `(blocks, heads of keys, dim, BLOCK)` and `values` `(blocks, heads of keys, dim / BLOCK, BLOCK, BLOCK)`, tokens by
    coordinates, with zeros where no token stands yet. `table` `(texts, blocks of a text)` names the blocks of each
    text; texts with the same beginning share its blocks. Each head of keys serves several heads of queries. The other
    arrays are working memory, aligned to 64 bytes: `queries` `(ROWS, dim)`, `shares` `(ROWS, tokens)` with room for
    whole blocks, and `tile` `(ROWS, BLOCK)`.
    """
    kv_heads, dim, parts = keys.shape[1], keys.shape[2], values.shape[2]
    width, half, stride = out.shape[1], dim // 2, shares.shape[1] * 4
    per = width // (kv_heads * dim)
    for kv in range(kv_heads):  # a head at a time, as the cache holds what texts share of one
        for i in range(len(owners)):
            t, p = owners[i], places[i]
            n, place, first = p // BLOCK + 1, p % BLOCK, width + kv * dim
            last = table[t, n - 1]
            for d in range(half):
                a, b = projected[i, first + d], projected[i, first + half + d]
                keys[last, kv, d, place] = a * cosines[p, d] - b * sines[p, d]
                keys[last, kv, half + d, place] = b * cosines[p, d] + a * sines[p, d]
            for d in range(dim):
                values[last, kv, d // BLOCK, place, d % BLOCK] = projected[i, first + kv_heads * dim + d]
            for start in range(kv * per, (kv + 1) * per, ROWS):
                rows = min(ROWS, (kv + 1) * per - start)
                for r in range(rows):
                    first = (start + r) * dim
                    for d in range(half):
                        a, b = projected[i, first + d], projected[i, first + half + d]
                        queries[r, d] = a * cosines[p, d] - b * sines[p, d]
                        queries[r, half + d] = b * cosines[p, d] + a * sines[p, d]
                for k in range(n):
                    panel = keys.ctypes.data + (table[t, k] * kv_heads + kv) * dim * BLOCK * 4
                    head_tile(queries, queries.ctypes.data, dim * 4, panel, tile.ctypes.data, dim)
                    for r in range(rows):
                        for c in range(BLOCK):
                            shares[r, k * BLOCK + c] = tile[r, c]
                for r in range(rows):
                    softmax(shares, r, p + 1, n * BLOCK)
                    for d in range(dim):
                        out[i, (start + r) * dim + d] = F(0.0)
                for k in range(n):
                    for part in range(parts):
                        panel = values.ctypes.data + ((table[t, k] * kv_heads + kv) * parts + part) * BLOCK * BLOCK * 4
                        head_tile(shares, shares.ctypes.data + k * BLOCK * 4, stride, panel, tile.ctypes.data, BLOCK)
                        columns = min(BLOCK, dim - part * BLOCK)
                        for r in range(rows):
                            for c in range(columns):
                                out[i, (start + r) * dim + part * BLOCK + c] += tile[r, c]
