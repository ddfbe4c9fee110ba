"""Functions of single numbers, and of the numbers of a row. Each row is computed on its own."""

import math

import numpy as np

from dptext.kernels.compilation import Array, F, compiled
from dptext.kernels.lanes import EXP, LEAST_POWER, LOG2_E

_LOG2_E, _EXP, _LEAST = F(LOG2_E), tuple(map(F, EXP)), F(LEAST_POWER)
_BITS = F(1 << 23)
# erf(z) = z P(z^2) / Q(z^2) for |z| <= 4, with an error of 4e-6; both were fitted by least squares.
_ERF_P = tuple(map(F, (1.128404966835483, 0.16183068592669247, 0.047812788516960546, 0.0011210986840822785,
                       -4.957352112358811e-06)))  # fmt: skip
_ERF_Q = tuple(map(F, (1.0, 0.4769590165912849, 0.10082747423793262, 0.0113418376931375)))
_FARTHEST = F(4.0)
_ROOT_HALF = F(0.7071067811865476)
_HALF, _ONE, _MOST = F(0.5), F(1.0), F(127.0)


@compiled
def exp_minus(x: np.float32) -> np.float32:
    """e^-x, with x clipped to [-69, 69]."""
    power = min(max(-x * _LOG2_E, _LEAST), -_LEAST)
    whole = np.rint(power)
    f = power - whole
    part = _EXP[0] + f * (_EXP[1] + f * (_EXP[2] + f * (_EXP[3] + f * (_EXP[4] + f * _EXP[5]))))
    return F(part * np.int32((whole + _MOST) * _BITS).view(np.float32))


@compiled
def gelu_of_row(x: Array, i: int) -> None:
    """x Phi(x) of one row, in place."""
    for k in range(x.shape[1]):
        z = min(max(x[i, k] * _ROOT_HALF, -_FARTHEST), _FARTHEST)
        u = z * z
        p = _ERF_P[0] + u * (_ERF_P[1] + u * (_ERF_P[2] + u * (_ERF_P[3] + u * _ERF_P[4])))
        q = _ERF_Q[0] + u * (_ERF_Q[1] + u * (_ERF_Q[2] + u * _ERF_Q[3]))
        x[i, k] = _HALF * x[i, k] * (_ONE + z * p / q)


@compiled
def gelu(x: Array, n: int) -> None:
    """x Phi(x), in place."""
    for i in range(n):
        gelu_of_row(x, i)


@compiled
def gate(both: Array, n: int, out: Array) -> None:
    """silu(g) * u for rows that hold g and u side by side."""
    width = out.shape[1]
    for i in range(n):
        for k in range(width):
            g = both[i, k]
            out[i, k] = g / (_ONE + exp_minus(g)) * both[i, width + k]


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
