"""The next states of an LSTM and of a GRU, and what single numbers become between them.

Each row is computed on its own.
"""

from dptext.kernels.activations import exp_minus
from dptext.kernels.compilation import Array, F, compiled

_ZERO, _ONE, _TWO = F(0.0), F(1.0), F(2.0)


@compiled
def tanh(x: Array, n: int) -> None:
    """The hyperbolic tangent, in place."""
    for i in range(n):
        for k in range(x.shape[1]):
            x[i, k] = _TWO / (_ONE + exp_minus(_TWO * x[i, k])) - _ONE


@compiled
def elu(x: Array, n: int) -> None:
    """x if x > 0, else e^x - 1, in place."""
    for i in range(n):
        for k in range(x.shape[1]):
            x[i, k] = max(x[i, k], _ZERO) + exp_minus(max(-x[i, k], _ZERO)) - _ONE


@compiled
def lstm_step(gates: Array, of_tokens: Array, tokens: Array, n: int, h: Array, c: Array) -> None:
    """The next state of an LSTM, in place, from products with h (`gates`) and with the vectors of tokens (`of_tokens`).

    Gates are in torch's order.
    """
    units = c.shape[1]
    for i in range(n):
        given = of_tokens[tokens[i]]
        for k in range(units):
            entered = _ONE / (_ONE + exp_minus(gates[i, k] + given[k]))
            kept = _ONE / (_ONE + exp_minus(gates[i, units + k] + given[units + k]))
            new = _TWO / (_ONE + exp_minus(_TWO * (gates[i, 2 * units + k] + given[2 * units + k]))) - _ONE
            shown = _ONE / (_ONE + exp_minus(gates[i, 3 * units + k] + given[3 * units + k]))
            c[i, k] = kept * c[i, k] + entered * new
            h[i, k] = shown * (_TWO / (_ONE + exp_minus(_TWO * c[i, k])) - _ONE)


@compiled
def gru_step(of_inputs: Array, inputs: Array, gates: Array, n: int, units: int, h: Array) -> None:
    """The next state of a GRU, in place, from products with h (`gates`) and with the inputs (`of_inputs`).

    Gates are in torch's order.
    """
    for i in range(n):
        given = of_inputs[inputs[i]]
        for k in range(units):
            reset = _ONE / (_ONE + exp_minus(gates[i, k] + given[k]))
            kept = _ONE / (_ONE + exp_minus(gates[i, units + k] + given[units + k]))
            new = given[2 * units + k] + reset * gates[i, 2 * units + k]
            new = _TWO / (_ONE + exp_minus(_TWO * new)) - _ONE
            h[i, k] = new + kept * (h[i, k] - new)
