"""Products of a few rows with a panel of columns, in the vector instructions of this processor.

A tile is `ROWS` rows times `VECTORS` vectors of 16 columns, whose sums stay in registers. All rows go through the same
instructions, so a row's numbers depend neither on its place in the tile nor on the other rows.
"""

from collections.abc import Callable
from typing import Final

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config as numba_config

from dptext.kernels.lanes import BFLOATS, I32, I64, INTS, LANES, REALS, Value, intrinsic, load, of_vectors, spread


def _features() -> frozenset[str]:
    """The processor's features by LLVM's names. NUMBA_CPU_FEATURES overrules them, as it does for the compiler."""
    overruled: str | None = getattr(numba_config, "CPU_FEATURES")  # noqa: B009  # set when it is loaded
    if overruled is not None:
        return frozenset(name[1:] for name in overruled.split(",") if name.startswith("+"))
    return frozenset(name for name, there in llvmlite.binding.get_host_cpu_features().items() if there)


FEATURES: Final = _features()
WIDE: Final = "avx512f" in FEATURES
HAS_BFLOAT16: Final = WIDE and "avx512bf16" in FEATURES
_AVX2: Final = "avx2" in FEATURES and not WIDE
HAS_INT8: Final = (WIDE and "avx512vnni" in FEATURES) or _AVX2
#: Types of int8 rows and weights, and the offset of stored weights. AVX2 multiplies pairs of 16-bit numbers; VNNI
#: multiplies four 8-bit numbers at once, with unsigned weights, which are offset by 128.
INT_ROWS, INT_WEIGHTS, MORE = (np.int16, np.int16, 0) if _AVX2 else (np.int8, np.uint8, 128)
#: Rows of a tile. With AVX-512, 24 sums of 16 lanes fill three quarters of the 32 registers; with AVX2, 6 sums fill
#: three quarters of the 16 registers of 8 lanes. Other processors have fewer registers.
ROWS: Final = 8 if WIDE else 6 if _AVX2 else 4
VECTORS: Final = 3 if WIDE else 1
#: Columns of a panel.
COLUMNS: Final = LANES * VECTORS

_HALF, _PAIRS = ir.VectorType(I32, LANES // 2), ir.VectorType(ir.IntType(16), LANES)


def _float_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + weights * row, one product per lane."""
    if WIDE or "fma" in FEATURES or "neon" in FEATURES:
        return builder.call(of_vectors(builder, "llvm.fma.v16f32", REALS, 3), [row, weights, total])
    return builder.fadd(total, builder.fmul(row, weights))


def _bfloat_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + two products per lane."""
    name, kind = "llvm.x86.avx512bf16.dpbf16ps.512", ir.FunctionType(REALS, [REALS, BFLOATS, BFLOATS])
    pairs = [builder.bitcast(weights, BFLOATS), builder.bitcast(row, BFLOATS)]
    return builder.call(builder.module.declare_intrinsic(name, (), kind), [total, *pairs])


def _int_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + four products per lane, of unsigned weights and signed numbers of the row. Exact."""
    name, kind = "llvm.x86.avx512.vpdpbusd.512", ir.FunctionType(INTS, [INTS] * 3)
    return builder.call(builder.module.declare_intrinsic(name, (), kind), [total, weights, row])


def _pair_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + two products per lane, of signed numbers of 16 bits. Exact."""
    name, kind = "llvm.x86.avx2.pmadd.wd", ir.FunctionType(_HALF, [_PAIRS, _PAIRS])
    pairs, found = builder.module.declare_intrinsic(name, (), kind), []
    for first in (0, LANES // 2):
        lanes = ir.Constant(_HALF, [*range(first, first + LANES // 2)])
        some = (builder.shuffle_vector(each, ir.Constant(INTS, ir.Undefined), lanes) for each in (weights, row))
        found.append(builder.call(pairs, [builder.bitcast(each, _PAIRS) for each in some]))
    return builder.add(total, builder.shuffle_vector(*found, ir.Constant(INTS, [*range(LANES)])))


#: By the dtype of the rows: the step of the sum, the vector type of panel and row, and the vector type of the sums.
_KINDS = {
    types.float32: (_float_step, REALS, REALS),
    types.uint16: (_bfloat_step, INTS, REALS),
    types.int8: (_int_step, INTS, INTS),
    types.int16: (_pair_step, INTS, INTS),
}


def _tile(vectors: int, *, largest: bool = False) -> Callable[..., None]:
    """Make a function, for compiled code, that computes one tile. `largest` keeps stored numbers that are larger.

    The function takes the array of the rows (for its dtype), the address of the first of `ROWS` rows, the bytes from
    one row to the next, the addresses of a panel (16 * `vectors` numbers of 4 bytes per step) and of the output (sums
    row by row), both aligned to 64 bytes, and the number of steps, at least 1. A step reads 4 bytes of each row.
    """

    @intrinsic
    def tile(_: Value, rows: Value, row: Value, stride: Value, panel: Value, out: Value, steps: Value) -> Value:
        signature = types.void(rows, types.uintp, types.intp, types.uintp, types.uintp, types.intp)
        step, lanes, sums = _KINDS[rows.dtype]

        def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
            for first in range(0, vectors, VECTORS):  # all vectors at once may exceed the registers
                sum_up(builder, range(first, min(first + VECTORS, vectors)), *arguments[1:])
            return context.get_dummy_value()

        def sum_up(
            builder: Value, some: range, row: Value, stride: Value, panel: Value, out: Value, steps: Value
        ) -> None:
            before = builder.block
            loop, after = builder.append_basic_block("step"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            position = builder.phi(I64)
            totals = [[builder.phi(sums) for _ in some] for _ in range(ROWS)]
            here = builder.add(panel, builder.mul(position, I64(4 * LANES * vectors)))
            weights = [load(builder, here, 4 * LANES * i, lanes, align=4 * LANES) for i in some]
            at = builder.add(row, builder.mul(position, I64(4)))
            found = []
            for i, own in enumerate(totals):
                number = load(builder, builder.add(at, builder.mul(stride, I64(i))), 0, lanes.element, align=4)
                everywhere = spread(builder, number, lanes)
                found.append([step(builder, each, weights[j], everywhere) for j, each in enumerate(own)])
            following = builder.add(position, I64(1))
            position.add_incoming(I64(0), before)
            position.add_incoming(following, loop)
            zero = ir.Constant(sums, [0 if sums is INTS else 0.0] * LANES)
            for own, new in zip(totals, found, strict=True):
                for total, more in zip(own, new, strict=True):
                    total.add_incoming(zero, before)
                    total.add_incoming(more, loop)
            builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
            builder.position_at_end(after)
            for i, new in enumerate(found):
                for j, total in zip(some, new, strict=True):
                    offset, kept = 4 * LANES * (i * vectors + j), total
                    if largest:
                        before_it = load(builder, out, offset, sums, align=4 * LANES)
                        kept = builder.select(builder.fcmp_ordered(">", total, before_it), total, before_it)
                    place = builder.inttoptr(builder.add(out, I64(offset)), sums.as_pointer())
                    builder.store(kept, place).align = 4 * LANES

        return signature, generate

    return tile


row_tile = _tile(VECTORS)
#: For float32 or bfloat16: writes the larger of each sum and the stored number.
largest_tile = _tile(VECTORS, largest=True)
#: For attention: 32 columns, which are coordinates of a head.
head_tile = _tile(2)
