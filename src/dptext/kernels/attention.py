"""Self-attention of texts. Each text is computed on its own."""

from typing import Final

from dptext.kernels.compilation import Array, F, compiled
from dptext.kernels.lanes import LANES, interleaved, rounded_softmax, softmax, transposed
from dptext.kernels.matrix_tiles import THERE, configure, release, tile_product
from dptext.kernels.tiles import ROWS, head_tile

BLOCK = _SCORES = 32  # columns of `head_tile`
CHUNK: Final = 32  #: numbers of a row that a matrix register holds
TILE: Final = 1024  #: bytes of a register


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
                    row = shares.ctypes.data + r * shares.shape[1] * 4
                    softmax(row, length, row)
                for part in range(dim // _SCORES):
                    panel = values.ctypes.data + part * values.shape[1] * _SCORES * 4
                    head_tile(shares, shares.ctypes.data, shares.shape[1] * 4, panel, tile.ctypes.data, length)
                    for r in range(n_rows):
                        for c in range(_SCORES):
                            out[start + i + r, first + part * _SCORES + c] = tile[r, c]
        start = end


def in_tiles(dim: int) -> bool:
    """Whether this processor computes the attention of heads of so many coordinates in matrix registers."""
    return THERE and dim % CHUNK == 0


@compiled
def attend_in_tiles(
    rounded: Array, ends: Array, heads: int, keys: Array, values: Array, scores: Array, shares: Array, out: Array
) -> None:
    """`attend` in matrix registers: queries, keys, values and shares are bfloat16, and their products float32.

    A head has a multiple of `CHUNK` coordinates. `rounded` and `out` have `CHUNK` rows after the last word piece. The
    working memory of a head, aligned to 64 bytes: `keys` `(n_pieces / 16, dim / CHUNK, 16, 16)` and `values`
    `(n_pieces / CHUNK, dim / 16, 16, 16)` of pairs of numbers, `scores` and `shares` `(16, n_pieces)` of a tile. The
    number of pieces is the next multiple of `CHUNK`.
    """
    configure(LANES)
    width, start = out.shape[1], 0
    stride, dim = 2 * rounded.shape[1], width // heads
    chunks, halves = dim // CHUNK, dim // LANES
    across, along = scores.shape[1] * 4, shares.shape[1] * 2
    for end in ends:
        length = end - start
        blocks, pairs = (length + LANES - 1) // LANES, (length + CHUNK - 1) // CHUNK
        for head in range(heads):
            queries = rounded.ctypes.data + start * stride + head * dim * 2
            own_keys, own_values = queries + 2 * width, queries + 4 * width
            for b in range(blocks):
                for c in range(chunks):
                    at = own_keys + b * LANES * stride + c * CHUNK * 2
                    transposed(at, stride, keys.ctypes.data + (b * chunks + c) * TILE)
            for p in range(pairs):
                for j in range(LANES):
                    at = own_values + (p * CHUNK + 2 * j) * stride
                    for h in range(halves):
                        to = values.ctypes.data + (p * halves + h) * TILE + j * LANES * 4
                        interleaved(at + h * LANES * 2, at + stride + h * LANES * 2, to)
            for i in range(0, length, LANES):
                for b in range(blocks):
                    panel, to = keys.ctypes.data + b * chunks * TILE, scores.ctypes.data + b * LANES * 4
                    tile_product(queries + i * stride, stride, panel, TILE, chunks, to, across)
                for r in range(min(LANES, length - i)):
                    rounded_softmax(scores.ctypes.data + r * across, length, shares.ctypes.data + r * along)
                    for j in range(blocks * LANES, pairs * CHUNK):
                        shares[r, j] = 0
                for h in range(halves):  # rows after the text's last are those of the next text, which come later
                    panel = values.ctypes.data + h * TILE
                    to = out.ctypes.data + ((start + i) * width + head * dim + h * LANES) * 4
                    tile_product(shares.ctypes.data, along, panel, halves * TILE, pairs, to, width * 4)
        start = end
    release()


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
                    row = shares.ctypes.data + r * stride
                    softmax(row, p + 1, row)
                    for j in range(p + 1, n * BLOCK):
                        shares[r, j] = F(0.0)
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
