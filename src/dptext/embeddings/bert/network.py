"""A BERT with mean pooling, computed on this processor's vectors: packed texts, no padding, a choice of precision.

A text's vector is a function of the text alone. Linear layers, norms and activations treat each row alone (see `tiles`
and `loops`), attention each text; `require_alone` checks that at every place of a tile when a network is made.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from dptext.embeddings.bert import loops, tiles
from dptext.errors import ConfigError
from dptext.types import Floats, Integers, Positions, Singles

Exactness: TypeAlias = Literal["float32", "bfloat16", "int8"]
Pieces: TypeAlias = Sequence[Sequence[int]]

PIECES_AT_ONCE: Final = 256  # so that the numbers between two layers stay in the cache
_ALIGNED = 64  # bytes
_SMOOTHING = 0.5  # of SmoothQuant (Xiao et al. 2023): the share of a channel's range that moves to the weights
_DTYPES: Final[Mapping[str, type[np.generic]]] = {"float32": np.float32, "bfloat16": np.uint16, "int8": tiles.INT_ROWS}


def best_there_is(asked: str) -> Exactness:
    """The precision that is computed where `asked` is: "auto" is bfloat16 where the processor multiplies it.

    A processor without bfloat16 computes in float32, which takes no longer there; int8 needs VNNI or AVX2.
    """
    if asked == "int8" and tiles.HAS_INT8:
        return "int8"
    return "bfloat16" if asked in ("auto", "bfloat16") and tiles.HAS_BFLOAT16 else "float32"


def room(*shape: int, dtype: type[np.generic] = np.float32) -> np.ndarray[Any, Any]:
    """Zeros, aligned as the vectors want them."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(n_bytes + _ALIGNED, np.uint8)
    start = -raw.ctypes.data % _ALIGNED
    return raw[start : start + n_bytes].view(dtype).reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A layer of weights `(n_out, n_in)` and bias `(n_out,)` as its kernel reads it, in `panels` of columns.

    Those of int8 have `units`, a scale for each output, and multiply inputs by `smoothing`, `(n_in,)`.
    """

    weights: Singles
    bias: Singles
    panels: np.ndarray[Any, Any]
    units: Singles
    smoothing: Singles

    @classmethod
    def of(cls, weights: Singles, bias: Singles, exactness: Exactness, largest: Singles | None = None) -> "Linear":
        """The layer for a kernel; `largest` are the largest absolute inputs on public text, for int8."""
        units, smoothing = np.ones(len(bias), np.float32), np.ones(weights.shape[1], np.float32)
        if exactness == "bfloat16":
            bits = np.ascontiguousarray(weights).view(np.uint32)  # the upper 16 are kept, rounded to even
            packed: np.ndarray[Any, Any] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        elif exactness == "int8":
            if largest is not None:
                ratio = np.maximum(largest, 1e-5) / np.maximum(np.abs(weights).max(axis=0), 1e-5)
                smoothing = (ratio**-_SMOOTHING).astype(np.float32)
            moved = weights / smoothing
            units = (np.maximum(np.abs(moved).max(axis=1), 1e-30) / 127).astype(np.float32)
            packed = (np.rint(moved / units[:, None]) + tiles.MORE).astype(tiles.INT_WEIGHTS)
        else:
            packed = weights
        return cls(weights, bias, _panels(packed), units, smoothing)

    @classmethod
    def padded(cls, weights: Singles, bias: Singles) -> "Linear":
        """The layer in float32, with outputs of zeros up to a whole panel."""
        more = -len(bias) % tiles.COLUMNS
        return cls.of(np.pad(weights, ((0, more), (0, 0))), np.pad(bias, (0, more)), "float32")


def rows_for(n: int, width: int) -> Singles:
    """Room for n rows, and for a whole tile after them."""
    return room(n + tiles.ROWS, width)


def product(rows: Singles, n: int, layer: Linear, out: Singles | None = None) -> Singles:
    """What a layer in float32 makes of the first `n` rows, of which it reads as many columns as it has inputs."""
    out = rows_for(n, len(layer.bias)) if out is None else out
    loops.products(rows, n, layer.panels, layer.bias, room(tiles.ROWS, tiles.COLUMNS), out)
    return out


def _panels(weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`(n_out, n_in)` to `(n_panels, n_steps, COLUMNS * per_step)`: the weights of a step stand side by side."""
    n_out, n_in = weights.shape
    per_step = 4 // weights.itemsize  # a step reads 4 bytes of a row
    found = room(n_out // tiles.COLUMNS, n_in // per_step, tiles.COLUMNS * per_step, dtype=weights.dtype.type)
    split = weights.reshape(n_out // tiles.COLUMNS, tiles.COLUMNS, n_in // per_step, per_step)
    found[:] = split.transpose(0, 2, 1, 3).reshape(found.shape)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One layer: attention, what mixes it, the two of the feed-forward part, each norm's gain and shift."""

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
    """Room for the numbers of one batch of pieces, for one thread."""

    def __init__(self, network: "Bert", n_pieces: int) -> None:
        n = -(-n_pieces // tiles.ROWS) * tiles.ROWS + tiles.ROWS
        wide, dtype = network.layers[0].widened.weights.shape[0], _DTYPES[network.exactness]
        self.x, self.more, self.taken = (room(n, network.dim) for _ in range(3))
        self.projected, self.hidden = room(n, 3 * network.dim), room(n, wide)
        self.rows, self.wide_rows = room(n, network.dim, dtype=dtype), room(n, wide, dtype=dtype)
        self.scales, self.totals = room(n), room(n, dtype=np.int32)
        kind = np.int32 if network.exactness == "int8" else np.float32
        self.tile = room(tiles.ROWS, tiles.COLUMNS, dtype=kind)
        head, blocks = network.dim // network.heads, -(-n // 32)
        self.keys, self.values = room(blocks, head, 32), room(head // 32, 32 * blocks, 32)
        self.shares, self.head_tile = room(tiles.ROWS, 32 * blocks), room(tiles.ROWS, 32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bert:
    """A BERT whose vectors are means over word pieces, at norm 1.

    `tables` are the vectors of the word pieces and of their places; `table_norm` is gain and shift of the norm after
    them.
    """

    tables: tuple[Singles, Singles]
    table_norm: tuple[Singles, Singles]
    layers: tuple[Layer, ...]
    heads: int
    epsilon: float
    exactness: Exactness = "float32"

    @property
    def dim(self) -> int:
        """Coordinates of a vector."""
        return int(self.tables[0].shape[1])

    def vectors(self, pieces: Pieces, *, threads: int = 1, on_done: Callable[[int], None] | None = None) -> Singles:
        """Unit vectors `(n_texts, dim)` of texts of one piece at least; none depends on `threads`.

        `on_done` is told how many texts are done. ConfigError: a piece, or a place of a text, has no vector.
        """
        found = np.empty((len(pieces), self.dim), np.float32)
        lengths = np.array([len(own) for own in pieces], np.intp)
        words, places = map(len, self.tables)
        if lengths.max(initial=0) > places or not all(0 <= piece < words for own in pieces for piece in own):
            raise ConfigError(f"Expected texts of at most {places} of {words} word pieces. Take another tokenizer.")
        batches = list(_batches(lengths))
        room = max((int(lengths[batch].sum()) for batch in batches), default=0)
        spaces = [_Workspace(self, room) for _ in range(max(1, min(threads, len(batches))))]

        def compute(batch: Positions) -> int:
            space, out = spaces.pop(), np.empty((len(batch), self.dim), np.float32)
            ends = np.cumsum(lengths[batch]).astype(np.int64)
            for _ in self.inputs(np.concatenate([np.asarray(pieces[i], np.int64) for i in batch]), ends, space):
                pass
            loops.unit_means(space.x, ends, out)
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
        """Compute the last layer's rows in `space.x`; give the input of each linear layer on the way."""
        n, epsilon = len(pieces), np.float32(self.epsilon)
        starts = np.concatenate([[0], ends[:-1]])
        places = np.arange(n) - np.repeat(starts, ends - starts)
        loops.look_up(pieces, places, *self.tables, space.x, space.more)
        loops.add_and_normalize(space.x, space.more, n, *self.table_norm, epsilon)
        for layer in self.layers:
            yield space.x[:n]
            self._linear(layer.attention, space.x, n, space, space.projected)
            room = (space.keys, space.values, space.shares, space.head_tile)
            loops.attend(space.projected, ends, self.heads, *room, space.taken)
            yield space.taken[:n]
            self._linear(layer.mixed, space.taken, n, space, space.more)
            loops.add_and_normalize(space.x, space.more, n, *layer.attention_norm, epsilon)
            yield space.x[:n]
            self._linear(layer.widened, space.x, n, space, space.hidden)
            loops.gelu(space.hidden, n)
            yield space.hidden[:n]
            self._linear(layer.narrowed, space.hidden, n, space, space.more)
            loops.add_and_normalize(space.x, space.more, n, *layer.norm, epsilon)

    def _linear(self, layer: Linear, x: Singles, n: int, space: _Workspace, out: Singles) -> None:
        rows = space.rows if x.shape[1] == self.dim else space.wide_rows
        if self.exactness == "int8":
            loops.quantize_rows(x, n, layer.smoothing, rows, space.scales, space.totals)
            scales = (layer.units, layer.bias, space.scales, space.totals)
            loops.int_products(rows, n, layer.panels, *scales, space.tile, out)
        elif self.exactness == "bfloat16":
            loops.round_rows(x, n, rows)
            loops.products(rows, n, layer.panels, layer.bias, space.tile, out)
        else:
            loops.products(x, n, layer.panels, layer.bias, space.tile, out)

    def at(self, exactness: Exactness, public: Pieces) -> "Bert":
        """The same network in another precision; `public` texts say what range the inputs of int8 layers have."""
        largest: list[Singles] = []
        if exactness == "int8":
            flat = np.concatenate([np.asarray(own, np.int64) for own in public])
            exact = self.at("float32", ())
            space = _Workspace(exact, len(flat))
            ends = np.cumsum([len(own) for own in public]).astype(np.int64)
            largest = [np.abs(rows).max(axis=0) for rows in exact.inputs(flat, ends, space)]
        ranges = iter(largest)

        def again(layer: Linear) -> Linear:
            return Linear.of(layer.weights, layer.bias, exactness, next(ranges, None))

        layers = []
        for layer in self.layers:
            attention, mixed, widened, narrowed = map(again, layer.linear)
            layers.append(replace(layer, attention=attention, mixed=mixed, widened=widened, narrowed=narrowed))
        return replace(self, layers=tuple(layers), exactness=exactness)

    def require_alone(self, public: Pieces) -> None:
        """ConfigError unless vectors of `public` texts have the same bits at every place and beside any other text."""
        alone = np.concatenate([self.vectors([own]) for own in public])
        for shift in range(tiles.ROWS):
            moved = [[0] * (shift + 1), *public]  # sorted by length: the first stands before longer ones
            require_alike(self.vectors(moved)[1:], alone, "vector", 'Take encoder="glove", which reads words.')


def require_alike(found: Floats | Singles, alone: Floats | Singles, what: str, remedy: str) -> None:
    """Raise ConfigError where numbers of public texts, computed at another place, differ in a bit from those alone."""
    if not np.array_equal(found, alone):
        places = f"a text's {what} alike in every place, found other last bits"
        raise ConfigError(f"Expected this processor to compute {places}. {remedy}")


def _batches(lengths: Positions) -> Iterator[Positions]:
    """Positions of texts that are computed together: short ones first, so many pieces, at least one text."""
    order = np.argsort(lengths, kind="stable")
    start, pieces = 0, 0
    for i, length in enumerate(lengths[order].tolist()):
        if i > start and pieces + length > PIECES_AT_ONCE:
            yield order[start:i]
            start, pieces = i, 0
        pieces += length
    if len(order):
        yield order[start:]
