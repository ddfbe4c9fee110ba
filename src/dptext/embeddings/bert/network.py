"""A BERT with mean pooling, in vector instructions of this processor: packed texts, no padding, a choice of precision.

A text's vector is a function of the text alone. Linear layers, norms and activations compute each row on its own (see
`dptext.kernels`), and attention each text. `require_alone` checks this at every place of a tile when a network is made.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from dptext.embeddings.embedder import spread
from dptext.errors import ConfigError
from dptext.kernels import attention, encoding, matrix_tiles, norms, pooling, products, tiles
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
        exact, whole = network.exactness == "float32", network.exactness == "int8"
        rows = [] if exact else [room(n, width, dtype=dtype) for width in (network.dim, wide)]
        self.x, self.more, self.taken = (room(n, network.dim) for _ in range(3))
        self.hidden = room(n, wide)
        self.exact = room(0, wide) if exact else None
        self.bits = None if exact or whole else tuple(rows)
        self.ints = (*rows, room(n), room(n, dtype=np.int32)) if whole else None
        self.tile = room(products.SPARE, tiles.COLUMNS, dtype=np.int32 if whole else np.float32)
        first = network.layers[0].linear  # all layers have these shapes
        fits = matrix_tiles.THERE and all(matrix_tiles.fits(each.panels.shape[1]) for each in first)
        self.vectors, self.registers = (None if fits else True), (True if fits else None)
        head, blocks = network.dim // network.heads, -(-n // 32)
        if fits and not exact and attention.in_tiles(head):
            self.projected: np.ndarray[Any, Any] = room(n, 3 * network.dim, dtype=np.uint16)
            keys, values = room(2 * blocks, head // 32, 16, 16), room(blocks, head // 16, 16, 16)
            shares, scores = room(16, 32 * blocks, dtype=np.uint16), room(16, 32 * blocks)
            self.of_head: tuple[Any, Any, Any, Any, Any] = (keys, values, shares, scores, None)
        else:
            self.projected = room(n, 3 * network.dim)
            keys, values = room(blocks, head, 32), room(head // 32, 32 * blocks, 32)
            self.of_head = (keys, values, room(tiles.ROWS, 32 * blocks), None, room(tiles.ROWS, 32))


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
            self._encode(np.concatenate([np.asarray(pieces[i], np.int64) for i in batch]), ends, space)
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

    def _encode(self, pieces: Integers, ends: Integers, space: _Workspace, largest: Singles | None = None) -> None:
        """Compute the last layer's rows in `space.x`; `largest` is `exact` of `encoding.linear`."""
        n, epsilon = len(pieces), np.float32(self.epsilon)
        starts = np.concatenate([[0], ends[:-1]])
        places = np.arange(n) - np.repeat(starts, ends - starts)
        pooling.look_up(pieces, places, *self.tables, space.x, space.more)
        norms.add_and_normalize(space.x, space.more, n, *self.table_norm, epsilon)
        memory = (space.x, space.more, space.taken, space.hidden, space.projected, *space.of_head, space.tile)
        exact = space.exact if largest is None else largest
        kind = (exact, space.bits, space.ints, space.vectors, space.registers)
        for i, layer in enumerate(self.layers):
            linears = tuple((each.panels, each.bias, each.units, each.smoothing) for each in layer.linear)
            gains = (layer.attention_norm, layer.norm)
            encoding.encode(linears, gains, ends, self.heads, epsilon, *memory, *kind, 4 * i)

    def at(self, exactness: Exactness, public: Pieces) -> "Bert":
        """Return this network in a precision. `public` texts give the ranges of the inputs of int8 layers."""
        if exactness == self.exactness != "int8":
            return self
        largest: list[Singles] = []
        if exactness == "int8":
            flat = np.concatenate([np.asarray(own, np.int64) for own in public])
            exact = self.at("float32", ())
            ends = np.cumsum([len(own) for own in public]).astype(np.int64)
            widths = [linear.n_in for layer in self.layers for linear in layer.linear]
            found = np.zeros((len(widths), max(widths)), np.float32)
            exact._encode(flat, ends, _Workspace(exact, len(flat)), found)  # noqa: SLF001  # of its own kind
            largest = [row[:width] for row, width in zip(found, widths, strict=True)]
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
