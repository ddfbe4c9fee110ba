"""A BERT with mean pooling, in vector instructions of this processor: packed texts, no padding, a choice of precision.

A text's vector is a function of the text alone. Linear layers, norms and activations compute each row on its own (see
`dptext.kernels`), and attention each text. `require_alone` checks this at every place of a tile when a network is made.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from dptext.embeddings.embedder import spread
from dptext.errors import ConfigError
from dptext.kernels import activations, attention, matrix_tiles, norms, pooling, products, tiles
from dptext.kernels.linear import DTYPES, Exactness, Linear, require_alike, room
from dptext.types import Integers, Positions, Singles

Pieces: TypeAlias = Sequence[Sequence[int]]

PIECES_AT_ONCE: Final = 256  # word pieces of a batch, few enough for the cache to hold the numbers between layers


@dataclass(frozen=True, slots=True, eq=False)
class BertLayer:
    """One layer: attention (queries, keys, values) and its output `mixed`, the two feed-forward layers, and both norms.

    A norm is its gain and shift.
    """

    attention: Linear
    mixed: Linear
    attention_norm: tuple[Singles, Singles]
    widened: Linear
    narrowed: Linear
    norm: tuple[Singles, Singles]

    @property
    def linear(self) -> tuple[Linear, Linear, Linear, Linear]:
        """The four linear layers, in the order in which they are computed."""
        return self.attention, self.mixed, self.widened, self.narrowed


class _Workspace:
    """Working memory of one thread for one batch of word pieces."""

    def __init__(self, network: "Bert", n_pieces: int) -> None:
        n = -(-n_pieces // tiles.ROWS) * tiles.ROWS + max(tiles.ROWS, products.SPARE)
        wide, dtype = len(network.layers[0].widened.bias), DTYPES[network.exactness]
        self.x, self.more, self.taken = (room(n, network.dim) for _ in range(3))
        self.hidden = room(n, wide)
        self.rows, self.wide_rows = room(n, network.dim, dtype=dtype), room(n, wide, dtype=dtype)
        self.scales, self.totals = room(n), room(n, dtype=np.int32)
        kind = np.int32 if network.exactness == "int8" else np.float32
        self.tile = room(products.SPARE, tiles.COLUMNS, dtype=kind)
        head, blocks = network.dim // network.heads, -(-n // 32)
        self.in_tiles = (
            network.exactness != "float32"
            and attention.in_tiles(head)
            and matrix_tiles.fits(network.layers[0].attention.panels.shape[1])
        )
        if self.in_tiles:
            self.rounded = room(n, 3 * network.dim, dtype=np.uint16)
            keys, values = room(2 * blocks, head // 32, 16, 16), room(blocks, head // 16, 16, 16)
            self.working = (keys, values, room(16, 32 * blocks), room(16, 32 * blocks, dtype=np.uint16))
        else:
            self.projected = room(n, 3 * network.dim)
            keys, values = room(blocks, head, 32), room(head // 32, 32 * blocks, 32)
            self.working = (keys, values, room(tiles.ROWS, 32 * blocks), room(tiles.ROWS, 32))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bert:
    """A BERT whose vectors are means over word pieces, scaled to norm 1.

    `tables` are the vectors of word pieces and of positions. `table_norm` is the gain and shift of the norm after them.
    """

    tables: tuple[Singles, Singles]
    table_norm: tuple[Singles, Singles]
    layers: tuple[BertLayer, ...]
    heads: int
    epsilon: float
    exactness: Exactness = "float32"

    @property
    def dim(self) -> int:
        """Number of coordinates of a vector."""
        return int(self.tables[0].shape[1])

    def vectors(self, pieces: Pieces, *, threads: int = 1, on_done: Callable[[int], None] | None = None) -> Singles:
        """Unit vectors `(n_texts, dim)` of texts of at least one word piece. They do not depend on `threads`.

        `on_done` gets the number of texts done. ConfigError: a word piece, or a position in a text, has no vector.
        """
        found = np.empty((len(pieces), self.dim), np.float32)
        lengths = np.array([len(own) for own in pieces], np.intp)
        words, places = map(len, self.tables)
        if lengths.max(initial=0) > places or not all(0 <= piece < words for own in pieces for piece in own):
            raise ConfigError(f"Expected texts of at most {places} of {words} word pieces. Take another tokenizer.")
        batches = list(_batches(lengths))
        batches = [batches[i] for i in spread(len(batches))]
        room = max((int(lengths[batch].sum()) for batch in batches), default=0)
        spaces = [_Workspace(self, room) for _ in range(max(1, min(threads, len(batches))))]

        def compute(batch: Positions) -> int:
            space, out = spaces.pop(), np.empty((len(batch), self.dim), np.float32)
            ends = np.cumsum(lengths[batch]).astype(np.int64)
            for _ in self.inputs(np.concatenate([np.asarray(pieces[i], np.int64) for i in batch]), ends, space):
                pass
            pooling.unit_means(space.x, ends, out)
            found[batch] = out
            spaces.append(space)
            return len(batch)

        done = 0
        with ThreadPoolExecutor(len(spaces)) as pool:
            for n in map(compute, batches) if len(spaces) == 1 else pool.map(compute, batches):
                done += n
                if on_done is not None:
                    on_done(done)
        return found

    def inputs(self, pieces: Integers, ends: Integers, space: _Workspace) -> Iterator[Singles]:
        """Compute the last layer's rows in `space.x`. Yield the input of each linear layer on the way, in float32."""
        n, epsilon = len(pieces), np.float32(self.epsilon)
        starts = np.concatenate([[0], ends[:-1]])
        places = np.arange(n) - np.repeat(starts, ends - starts)
        pooling.look_up(pieces, places, *self.tables, space.x, space.more)
        norms.add_and_normalize(space.x, space.more, n, *self.table_norm, epsilon)
        for layer in self.layers:
            yield space.x[:n]
            self._linear(layer.attention, space.x, n, space, space.rounded if space.in_tiles else space.projected)
            if space.in_tiles:
                attention.attend_in_tiles(space.rounded, ends, self.heads, *space.working, space.taken)
            else:
                attention.attend(space.projected, ends, self.heads, *space.working, space.taken)
            yield space.taken[:n]
            self._linear(layer.mixed, space.taken, n, space, space.more)
            norms.add_and_normalize(space.x, space.more, n, *layer.attention_norm, epsilon)
            yield space.x[:n]
            self._linear(layer.widened, space.x, n, space, space.hidden)
            if self.exactness == "float32":
                activations.gelu(space.hidden, n)
            yield space.hidden[:n]
            self._linear(layer.narrowed, space.hidden, n, space, space.more, activated=self.exactness != "float32")
            norms.add_and_normalize(space.x, space.more, n, *layer.norm, epsilon)

    def _linear(
        self, layer: Linear, x: Singles, n: int, space: _Workspace, out: Singles, *, activated: bool = False
    ) -> None:
        """Compute a layer; `activated` applies GELU to its inputs as they are rounded."""
        rows = space.rows if x.shape[1] == self.dim else space.wide_rows
        if self.exactness == "int8":
            quantize = products.quantize_activated if activated else products.quantize_rows
            quantize(x, n, layer.smoothing, rows, space.scales, space.totals)
            scales = (layer.units, layer.bias, space.scales, space.totals)
            products.quantized_products(rows, n, layer.panels, *scales, space.tile, out)
        elif self.exactness == "bfloat16":
            (products.round_activated if activated else products.round_rows)(x, n, rows)
            products.rounded_products(rows, n, layer.panels, layer.bias, space.tile, out)
        else:
            products.products(x, n, layer.panels, layer.bias, space.tile, out)

    def at(self, exactness: Exactness, public: Pieces) -> "Bert":
        """Return this network in a precision. `public` texts give the ranges of the inputs of int8 layers."""
        if exactness == self.exactness != "int8":
            return self
        largest: list[Singles] = []
        if exactness == "int8":
            flat = np.concatenate([np.asarray(own, np.int64) for own in public])
            exact = self.at("float32", ())
            space = _Workspace(exact, len(flat))
            ends = np.cumsum([len(own) for own in public]).astype(np.int64)
            largest = [np.abs(rows).max(axis=0) for rows in exact.inputs(flat, ends, space)]
        ranges = iter(largest)

        def again(layer: Linear) -> Linear:
            return layer.anew(exactness, next(ranges, None))

        layers = []
        for layer in self.layers:
            attention, mixed, widened, narrowed = map(again, layer.linear)
            layers.append(replace(layer, attention=attention, mixed=mixed, widened=widened, narrowed=narrowed))
        return replace(self, layers=tuple(layers), exactness=exactness)

    def require_alone(self, public: Pieces) -> None:
        """Raise ConfigError unless `public` texts have the same vectors, bit for bit, at every place of a batch.

        The first two layers are computed. The others run the same code on arrays of the same shapes.
        """
        first = replace(self, layers=self.layers[:2])
        alone = np.concatenate([first.vectors([own]) for own in public])
        for shift in range(products.SPARE):
            moved = [[0] * (shift + 1), *public]  # batches are sorted by length: the first text precedes longer ones
            require_alike(first.vectors(moved)[1:], alone, "vector", 'Take encoder="glove", which reads words.')


def _batches(lengths: Positions) -> Iterator[Positions]:
    """Yield the positions of each batch's texts, short texts first: at most `PIECES_AT_ONCE` pieces, or one text."""
    order = np.argsort(lengths, kind="stable")
    start, pieces = 0, 0
    for i, length in enumerate(lengths[order].tolist()):
        if i > start and pieces + length > PIECES_AT_ONCE:
            yield order[start:i]
            start, pieces = i, 0
        pieces += length
    if len(order):
        yield order[start:]
