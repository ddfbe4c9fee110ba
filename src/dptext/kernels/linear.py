"""Linear layers in the memory layout of their kernel, in a precision that this processor multiplies."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from dptext.errors import ConfigError
from dptext.kernels import packing, products, tiles
from dptext.types import Floats, Singles

Exactness: TypeAlias = Literal["float32", "bfloat16", "int8"]
#: The precisions that need no ranges of inputs.
Uncalibrated: TypeAlias = Literal["float32", "bfloat16"]

#: The dtype of the rows in each precision.
DTYPES: Final[Mapping[str, type[np.generic]]] = {"float32": np.float32, "bfloat16": np.uint16, "int8": tiles.INT_ROWS}
_ALIGNED = 64  # bytes
_SMOOTHING = 0.5  # share of a channel's range that SmoothQuant (Xiao et al. 2023) moves to the weights


def best_there_is(asked: str) -> Exactness:
    """The precision in which this processor computes a request: "auto" is bfloat16 if the processor multiplies it.

    A processor without bfloat16 computes in float32, which is as fast there. int8 needs VNNI or AVX2, else float32.
    """
    if asked == "int8" and tiles.HAS_INT8:
        return "int8"
    return "bfloat16" if asked in ("auto", "bfloat16") and tiles.HAS_BFLOAT16 else "float32"


def room(*shape: int, dtype: type[np.generic] = np.float32) -> np.ndarray[Any, Any]:
    """Zeros, aligned to 64 bytes for vector instructions."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(n_bytes + _ALIGNED, np.uint8)
    start = -raw.ctypes.data % _ALIGNED
    return raw[start : start + n_bytes].view(dtype).reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A layer of weights `(n_out, n_in)` and bias `(n_out,)`, with `panels` of columns for its kernel.

    Layers of int8 have `units` `(n_out,)`, a scale for each output, and multiply inputs by `smoothing` `(n_in,)`.
    Layers whose weights stay in the `blocks` of their file have them `packed` (see `dptext.kernels.packing`), and
    `panels` without memory. `weights` are kept by layers that may be made anew in any precision.
    """

    bias: Singles
    panels: np.ndarray[Any, Any]
    units: Singles
    smoothing: Singles
    blocks: packing.Blocks | None = None
    packed: np.ndarray[Any, Any] | None = None
    weights: Singles | None = None

    @property
    def n_in(self) -> int:
        """The number of inputs."""
        return len(self.smoothing)

    @classmethod
    def of(cls, weights: Singles, bias: Singles, exactness: Exactness, largest: Singles | None = None) -> "Linear":
        """Make the layer. `largest` `(n_in,)` are the largest absolute inputs on public text, for int8."""
        bias = np.ascontiguousarray(bias, np.float32)  # machine code reads it by its address
        units, smoothing = np.ones(len(bias), np.float32), np.ones(weights.shape[1], np.float32)
        if exactness == "bfloat16":
            bits = np.ascontiguousarray(weights).view(np.uint32)  # the upper 16 are kept, rounded to even
            upper = bits >> 16
            upper &= 1
            upper += bits
            upper += 0x7FFF
            upper >>= 16
            packed: np.ndarray[Any, Any] = upper.astype(np.uint16)
        elif exactness == "int8":
            if largest is not None:
                ratio = np.maximum(largest, 1e-5) / np.maximum(np.abs(weights).max(axis=0), 1e-5)
                smoothing = (ratio**-_SMOOTHING).astype(np.float32)
            moved = weights / smoothing
            units = (np.maximum(np.abs(moved).max(axis=1), 1e-30) / 127).astype(np.float32)
            packed = (np.rint(moved / units[:, None]) + tiles.MORE).astype(tiles.INT_WEIGHTS)
        else:
            packed = weights
        return cls(bias, _panels(packed), units, smoothing, weights=weights)

    def at(self, exactness: Exactness) -> "Linear":
        """Return this layer in bfloat16, which needs an even number of inputs, or else in float32.

        ConfigError: the layer has rounded weights and no others, from which no other precision is made.
        """
        wanted: Uncalibrated = "bfloat16" if exactness == "bfloat16" and self.n_in % 2 == 0 else "float32"
        if self.panels.dtype == DTYPES[wanted]:
            return self
        if self.blocks is not None:
            return Linear.in_blocks(self.bias, self.blocks, wanted)
        if self.weights is not None:
            return self.anew(wanted)
        if self.panels.dtype != np.float32:
            raise ConfigError("Expected a layer of float32, found one that is rounded: load the model again.")
        return Linear.of(_rows(self.panels), self.bias, wanted).alone()

    def anew(self, exactness: Exactness, largest: Singles | None = None) -> "Linear":
        """Make this layer anew of the weights that it keeps; arguments of `of`. ConfigError: it keeps none."""
        if self.weights is None:
            raise ConfigError("Expected a layer that keeps its weights: load the model again.")
        return Linear.of(self.weights, self.bias, exactness, largest)

    def alone(self) -> "Linear":
        """Return this layer without the `weights` that it was made of."""
        return replace(self, weights=None)

    @classmethod
    def padded(cls, weights: Singles, bias: Singles, blocks: packing.Blocks | None = None) -> "Linear":
        """Make the layer in float32, padded with outputs of zero to a whole panel. `blocks` are those of `weights`."""
        more = -len(bias) % tiles.COLUMNS
        if more:
            weights, bias = np.pad(weights, ((0, more), (0, 0))), np.pad(bias, (0, more))
            blocks = None if blocks is None else np.pad(blocks, ((0, more), (0, 0), (0, 0)))
        if blocks is not None and packing.packs(blocks):
            return cls.in_blocks(bias, blocks, "float32")
        return cls.of(weights, bias, "float32").alone()

    @classmethod
    def in_blocks(cls, bias: Singles, blocks: packing.Blocks, exactness: Uncalibrated) -> "Linear":
        """Make the layer of whole panels in float32 or bfloat16, whose weights stay in `blocks`."""
        dtype, n_out, n_in = DTYPES[exactness], len(bias), blocks.shape[1] * packing.LENGTH
        found = packing.pack(blocks, dtype)
        packed = room(*found.shape, dtype=found.dtype.type)
        packed[:] = found
        ones = np.ones(n_out, np.float32), np.ones(n_in, np.float32)
        return cls(bias, np.empty((0, n_in, tiles.COLUMNS), dtype), *ones, blocks, packed)


def rows_for(n: int, width: int) -> Singles:
    """Memory for n rows, and for a whole tile after them."""
    return room(n + tiles.ROWS, width)


def product(rows: Singles, n: int, layer: Linear, out: Singles | None = None) -> Singles:
    """The outputs of a float32 layer for the first `n` rows. The layer reads as many columns as it has inputs."""
    out = rows_for(n, len(layer.bias)) if out is None else out
    products.products(rows, n, layer.panels, layer.bias, room(tiles.ROWS, tiles.COLUMNS), out)
    return out


def _panels(weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Reorder `(n_out, n_in)` to `(n_panels, n_steps, COLUMNS * per_step)`: the weights of a step are side by side."""
    n_out, n_in = weights.shape
    per_step = 4 // weights.itemsize  # a step reads 4 bytes of a row
    found = room(n_out // tiles.COLUMNS, n_in // per_step, tiles.COLUMNS, dtype=np.uint32)
    split = np.ascontiguousarray(weights).view(np.uint32).reshape(-1, tiles.COLUMNS, n_in // per_step)
    found[:] = split.transpose(0, 2, 1)
    return found.view(weights.dtype)


def _rows(panels: Singles) -> Singles:
    """Return the weights `(n_out, n_in)` of panels of float32."""
    n_panels, n_in, _ = panels.shape
    return panels.transpose(0, 2, 1).reshape(n_panels * tiles.COLUMNS, n_in)


def require_alike(found: Floats | Singles, alone: Floats | Singles, what: str, remedy: str) -> None:
    """Raise ConfigError if numbers of public texts, computed at another place in a batch, differ from those alone."""
    if not np.array_equal(found, alone):
        places = f"a text's {what} alike in every place, found other last bits"
        raise ConfigError(f"Expected this processor to compute {places}. {remedy}")
