"""Weights that stay in the 4 or 8 bits of their file until a product needs them.

A block is 32 weights of one output in the formats Q4_1 and Q8_0 of GGUF: a scale, an offset (Q4_1), and whole numbers.
Weights are `scale * number + offset`. A product unpacks 16 outputs at a time to a panel in the precision of its rows,
which holds the same numbers as one that was made before. For a few rows this is faster, as less memory is read.
Weights of several formats in one product stay in panels, and so do those whose blocks cannot be scaled without loss.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types

from dptext.kernels.lanes import BFLOATS, I32, I64, INTS, LANES, PAIR, REALS, Value, fused, intrinsic, load, store
from dptext.kernels.tiles import WIDE

#: Blocks `(n_out, n_in / 32, bytes)` of uint8, as they stand in a file.
Blocks: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

LENGTH: Final = PAIR  # weights of a block
_OF_Q4, _OF_Q8 = 4 + LENGTH // 2, 2 + LENGTH  # bytes of a block
_PER_WORD: Final = 8  # numbers of 4 bits in 32
_WORDS: Final = LENGTH // _PER_WORD
_HALVES: Final = ir.VectorType(ir.HalfType(), LANES)
_BYTES: Final = ir.VectorType(ir.IntType(8), LANES)
_HEAD: Final = 2 * 2 * LANES  # bytes of 16 scales and 16 offsets
_AHEAD: Final = 4096  # bytes: a processor's own guesses end with a page of memory
_DIGITS: Final = ir.Constant(REALS, [float(number) for number in range(LANES)])


def packs(blocks: Blocks) -> bool:
    """Whether this processor unpacks these blocks: it needs AVX-512."""
    return WIDE and blocks.shape[2] in (_OF_Q4, _OF_Q8)


def scaled_blocks(blocks: Blocks, factor: np.float32) -> Blocks | None:
    """The blocks of all weights times `factor`; None unless it is a power of two by which none loses a bit."""
    if math.frexp(float(factor))[0] != 0.5:
        return None
    found, n = blocks.copy(), _n_reals(blocks)
    before = found[..., :n].view(np.float16).astype(np.float32)
    after = (before * factor).astype(np.float16)
    found[..., :n] = after.view(np.uint8)
    return found if np.array_equal(after.astype(np.float32), before * factor) else None


def pack(blocks: Blocks, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
    """Reorder blocks for rows of `dtype`, float32 or (uint16) bfloat16. The number of outputs is a multiple of 16.

    Returns `(n_out / 16, n_in / 32, bytes)`: 16 scales, 16 offsets and 32 x 16 numbers, uint8 for those of 4 bits, two
    to a byte, and int8 for those of 8.
    """
    n_out, parts, _ = blocks.shape
    n = _n_reals(blocks)
    small = blocks.shape[2] == _OF_Q4
    numbers: np.ndarray[Any, Any] = blocks[..., n:]
    if small:  # a byte has a number of the first half of its block and one of the second
        numbers = np.concatenate([numbers & 15, numbers >> 4], axis=2)
    # The vectors that are unpacked one after another: 16 outputs of one input, or 8 outputs of two for bfloat16.
    lanes, vectors = np.arange(LANES), np.arange(LENGTH)[:, None]
    outputs, inputs = lanes + 0 * vectors, vectors + 0 * lanes
    if dtype == np.uint16:
        outputs, inputs = LANES // 2 * (vectors % 2) + lanes // 2, vectors // 2 * 2 + lanes % 2
    ordered = numbers.reshape(-1, LANES, parts, LENGTH).transpose(0, 2, 1, 3)[:, :, outputs, inputs]
    if small:  # vector 4 s + w has the bits from 4 s on of the words w
        pairs = ordered.reshape(-1, parts, _PER_WORD // 2, 2, _WORDS, LANES)
        ordered = (pairs[:, :, :, 0] | pairs[:, :, :, 1] << 4).transpose(0, 1, 3, 4, 2)
    head = np.zeros((n_out // LANES, parts, 2, LANES, 2), np.uint8)
    reals = blocks[..., :n].reshape(-1, LANES, parts, n // 2, 2)
    head[:, :, : n // 2] = reals.transpose(0, 2, 3, 1, 4)
    whole = (head.reshape(*head.shape[:2], -1), ordered.reshape(*head.shape[:2], -1))
    return np.concatenate(whole, axis=2).view(np.uint8 if small else np.int8)


def _prefetch(builder: Value, address: Value) -> None:
    """Ask for the memory at an address, which need not be there, before it is read."""
    pointer, kinds = ir.IntType(8).as_pointer(), [ir.IntType(8).as_pointer(), I32, I32, I32]
    ask = builder.module.declare_intrinsic("llvm.prefetch.p0i8", (), ir.FunctionType(ir.VoidType(), kinds))
    builder.call(ask, [builder.inttoptr(address, pointer), I32(0), I32(3), I32(1)])


def _n_reals(blocks: Blocks) -> int:
    """Bytes of a block's scale and offset."""
    return 4 if blocks.shape[2] == _OF_Q4 else 2


def _doubled(builder: Value, found: Value, first: int) -> Value:
    """Eight lanes from `first` on, each twice."""
    lanes = ir.Constant(INTS, [first + lane // 2 for lane in range(LANES)])
    return builder.shuffle_vector(found, ir.Constant(REALS, ir.Undefined), lanes)


def _from_words(builder: Value, at: Value) -> Iterator[Value]:
    """The 32 vectors of numbers of 4 bits, by a table that looks at no other bits."""
    kind = ir.FunctionType(REALS, [REALS, INTS])
    look_up = builder.module.declare_intrinsic("llvm.x86.avx512.permvar.sf.512", (), kind)
    words = [load(builder, at, _HEAD + 4 * LANES * w, INTS, align=4) for w in range(_WORDS)]
    shifts = [ir.Constant(INTS, [4 * s] * LANES) for s in range(_PER_WORD)]
    return (builder.call(look_up, [_DIGITS, builder.lshr(word, shift)]) for shift in shifts for word in words)


def _from_bytes(builder: Value, at: Value) -> Iterator[Value]:
    """The 32 vectors of numbers of 8 bits."""
    each = (load(builder, at, _HEAD + LANES * i, _BYTES, align=1) for i in range(LENGTH))
    return (builder.sitofp(builder.sext(found, INTS), REALS) for found in each)


@intrinsic
def unpack(_: Value, packed: Value, rows: Value, at: Value, parts: Value, out: Value, across: Value) -> Value:
    """Write 16 outputs to a panel for rows of the dtype of `rows`, `across` bytes from one step to the next.

    `at` is the address of their parts, of which there is at least one, in `packed` (see `pack`).
    """
    small, narrow = packed.dtype == types.uint8, rows.dtype == types.uint16
    size = _HEAD + LANES * LENGTH // (2 if small else 1)
    steps = LENGTH // (2 if narrow else 1)

    def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
        _, _, at, parts, out, across = arguments
        before = builder.block
        loop, after = builder.append_basic_block("part"), builder.append_basic_block("unpacked")
        builder.branch(loop)
        builder.position_at_end(loop)
        part = builder.phi(I64)
        here = builder.add(at, builder.mul(part, I64(size)))
        to = builder.add(out, builder.mul(part, builder.mul(across, I64(steps))))
        for i in range(0, size, 4 * LANES):
            _prefetch(builder, builder.add(here, I64(_AHEAD + i)))
        reals = [builder.fpext(load(builder, here, 2 * LANES * i, _HALVES, align=2), REALS) for i in range(2)]
        # scales and offsets for the lanes of even and of odd vectors
        lanes = [[_doubled(builder, real, LANES // 2 * i) if narrow else real for real in reals] for i in range(2)]
        numbers = (_from_words if small else _from_bytes)(builder, here)
        weights = (fused(builder, number, *lanes[i % 2]) for i, number in enumerate(numbers))
        for i in range(steps):
            found = _rounded(builder, next(weights), next(weights)) if narrow else next(weights)
            store(builder, found, builder.add(to, builder.mul(across, I64(i))), align=4 * LANES)
        following = builder.add(part, I64(1))
        part.add_incoming(I64(0), before)
        part.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, parts), loop, after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.void(packed, rows, at, parts, out, across), generate


def _rounded(builder: Value, low: Value, high: Value) -> Value:
    """Round two vectors to bfloat16; ties go to even. Numbers that are not normal become 0: weights have none.

    Each weight is a multiple of 2^-24, as scales and offsets are.
    """
    kind = ir.FunctionType(BFLOATS, [REALS, REALS])
    narrowed = builder.module.declare_intrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512", (), kind)
    return builder.call(narrowed, [high, low])
