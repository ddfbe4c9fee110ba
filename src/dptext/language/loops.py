"""The loops of a Llama that a BERT has not; see `dptext.embeddings.bert.loops`. Each row is treated alone."""

from __future__ import annotations

import math

import numpy as np

from dptext.embeddings.bert.loops import Array, F, compiled, exp_minus

_ONE = F(1.0)


@compiled
def normalize(x: Array, n: int, gain: Array, epsilon: np.float32, out: Array) -> None:
    """Each row over the root of its mean square (RMSNorm), times the gain."""
    width = F(x.shape[1])
    for i in range(n):
        squares = F(0.0)
        for k in range(x.shape[1]):
            squares += x[i, k] * x[i, k]
        factor = _ONE / np.sqrt(squares / width + epsilon)
        for k in range(x.shape[1]):
            out[i, k] = x[i, k] * factor * gain[k]


@compiled
def gate(both: Array, n: int, out: Array) -> None:
    """silu(g) u of rows that hold g and u side by side."""
    width = out.shape[1]
    for i in range(n):
        for k in range(width):
            g = both[i, k]
            out[i, k] = g / (_ONE + exp_minus(g)) * both[i, width + k]


@compiled
def attend(
    projected: Array, owners: Array, places: Array, sines: Array, cosines: Array, keys: Array, values: Array,
    shares: Array, out: Array
) -> None:  # fmt: skip
    """Attention of each row to its own text up to it, into `out`; the row's key and value join the text's.

    `projected` holds queries (already over the root of their dimension), keys and values side by side. Row i is token
    `places[i]` of text `owners[i]`, in order. `keys` and `values` are `(texts, room, heads of keys, dim)`; each serves
    several heads of queries. `shares` is room for a row of numbers.
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


@compiled
def log_totals(x: Array, n: int, out: Array) -> None:
    """ln of the sum of e^x over each row, in float64."""
    for i in range(n):
        most = F(-1e30)
        for k in range(x.shape[1]):
            most = max(most, x[i, k])
        total = 0.0
        for k in range(x.shape[1]):
            total += float(exp_minus(most - x[i, k]))
        out[i] = float(most) + math.log(total)
