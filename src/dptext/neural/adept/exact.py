"""The encoder of ADePT's auto-encoder, computed so that a latent is a function of its own text alone, bit for bit.

All products are tiles (see `dptext.embeddings.bert.tiles`), in which a row goes through the same steps at every place
and beside any other row. What stands between the products treats a row alone.
"""

from typing import Final

import numpy as np

from dptext.embeddings.bert import tiles
from dptext.embeddings.bert.loops import Array, F, compiled, exp_minus
from dptext.embeddings.bert.network import Linear, product, rows_for
from dptext.embeddings.processors import each
from dptext.errors import ConfigError
from dptext.types import Floats, Integers, Singles

_ROWS: Final = 64  # so that the numbers of a step stay in the cache
_ONE, _TWO = F(1.0), F(2.0)


@compiled
def _step(gates: Array, of_tokens: Array, tokens: Array, n: int, h: Array, c: Array) -> None:
    """The next state of an LSTM from products with h, and with the vectors of tokens; the gates in torch's order."""
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


class ExactReader:
    """An embedding, an LSTM and perhaps a linear layer after its last state (h, c): left-padded tokens to vectors.

    Weights and biases are those of torch's layers, `inner` `(4 units, embedding)`, `outer` `(4 units, units)`. Raises
    ConfigError where this processor gives a row other last bits at another place.
    """

    def __init__(
        self,
        embedding: Singles,
        inner: tuple[Singles, Singles],
        outer: tuple[Singles, Singles],
        last: tuple[Singles, Singles] | None,
    ) -> None:
        self._embedding = embedding
        self._inner, self._outer = Linear.padded(*inner), Linear.padded(*outer)
        self._last = None if last is None else Linear.padded(*last)
        self._dim = 2 * outer[0].shape[1] if last is None else len(last[1])
        public = np.random.default_rng(0).integers(0, len(embedding), (3 * tiles.ROWS, 4))
        alone = np.concatenate([self.read(row[None]) for row in public])
        for shift in range(tiles.ROWS):
            if not np.array_equal(self.read(public[shift:]), alone[shift:]):
                raise ConfigError(
                    "Expected this processor to compute a text's latent alike in every place, found other last bits. "
                    'Take encoder="distilled", which reads words.'
                )

    def read(self, tokens: Integers) -> Floats:
        """A vector of each row of tokens `(n, length)`, float64 of float32 numbers."""
        blocks = [tokens[start : start + _ROWS] for start in range(0, len(tokens), _ROWS)]
        return np.concatenate([np.empty((0, self._dim)), *each(self._block, blocks)])

    def _block(self, tokens: Integers) -> Singles:
        n, units = len(tokens), self._outer.weights.shape[1]
        known, places = np.unique(tokens, return_inverse=True)
        places = places.reshape(tokens.shape)
        words = rows_for(len(known), self._embedding.shape[1])
        words[: len(known)] = self._embedding[known]
        of_tokens, gates = product(words, len(known), self._inner), rows_for(n, len(self._outer.bias))
        h, c = rows_for(n, units), rows_for(n, units)
        for step in range(tokens.shape[1]):
            product(h, n, self._outer, gates)
            _step(gates, of_tokens, np.ascontiguousarray(places[:, step]), n, h, c)
        state = np.concatenate([h, c], axis=1)
        return (state if self._last is None else product(state, n, self._last))[:n, : self._dim]
