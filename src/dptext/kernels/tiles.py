"""Products of a few rows with a panel of columns, in the vector instructions of this processor.

A tile is `ROWS` rows times `VECTORS` vectors of 16 columns, whose sums stay in registers. All rows go through the same
instructions, so a row's numbers depend neither on its place in the tile nor on the other rows.
"""

from collections.abc import Callable
from typing import Any, Final

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config as numba_config
from numba.extending import intrinsic

LANES: Final = 16


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

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_INTS, _REALS = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES)
_UNDEFINED = ir.Undefined


class _BFloat(ir.types.Type):  # type: ignore[misc]  # llvmlite has no types
    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


_BFLOATS = ir.VectorType(_BFloat(), 2 * LANES)
_HALF, _PAIRS = ir.VectorType(_I32, LANES // 2), ir.VectorType(ir.IntType(16), LANES)
Value = Any  # a value of llvmlite, which has no type hints


def _intrinsic(function: Callable[..., Value]) -> Callable[..., Any]:
    found: Callable[..., Any] = intrinsic(function)
    return found


def _float_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + weights * row, one product per lane."""
    if WIDE or "fma" in FEATURES or "neon" in FEATURES:
        return builder.call(_of_vectors(builder, "llvm.fma.v16f32", _REALS, 3), [row, weights, total])
    return builder.fadd(total, builder.fmul(row, weights))


def _bfloat_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + two products per lane."""
    name, kind = "llvm.x86.avx512bf16.dpbf16ps.512", ir.FunctionType(_REALS, [_REALS, _BFLOATS, _BFLOATS])
    pairs = [builder.bitcast(weights, _BFLOATS), builder.bitcast(row, _BFLOATS)]
    return builder.call(builder.module.declare_intrinsic(name, (), kind), [total, *pairs])


def _int_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + four products per lane, of unsigned weights and signed numbers of the row. Exact."""
    name, kind = "llvm.x86.avx512.vpdpbusd.512", ir.FunctionType(_INTS, [_INTS] * 3)
    return builder.call(builder.module.declare_intrinsic(name, (), kind), [total, weights, row])


def _pair_step(builder: Value, total: Value, weights: Value, row: Value) -> Value:
    """total + two products per lane, of signed numbers of 16 bits. Exact."""
    name, kind = "llvm.x86.avx2.pmadd.wd", ir.FunctionType(_HALF, [_PAIRS, _PAIRS])
    pairs, found = builder.module.declare_intrinsic(name, (), kind), []
    for first in (0, LANES // 2):
        lanes = ir.Constant(_HALF, [*range(first, first + LANES // 2)])
        some = (builder.shuffle_vector(each, ir.Constant(_INTS, _UNDEFINED), lanes) for each in (weights, row))
        found.append(builder.call(pairs, [builder.bitcast(each, _PAIRS) for each in some]))
    return builder.add(total, builder.shuffle_vector(*found, ir.Constant(_INTS, [*range(LANES)])))


#: By the dtype of the rows: the step of the sum, the vector type of panel and row, and the vector type of the sums.
_KINDS = {
    types.float32: (_float_step, _REALS, _REALS),
    types.uint16: (_bfloat_step, _INTS, _REALS),
    types.int8: (_int_step, _INTS, _INTS),
    types.int16: (_pair_step, _INTS, _INTS),
}


def _tile(vectors: int, *, largest: bool = False) -> Callable[..., None]:
    """Make a function, for compiled code, that computes one tile. `largest` keeps stored numbers that are larger.

    The function takes the array of the rows (for its dtype), the address of the first of `ROWS` rows, the bytes from
    one row to the next, the addresses of a panel (16 * `vectors` numbers of 4 bytes per step) and of the output (sums
    row by row), both aligned to 64 bytes, and the number of steps, at least 1. A step reads 4 bytes of each row.
    """

    @_intrinsic
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
            position = builder.phi(_I64)
            totals = [[builder.phi(sums) for _ in some] for _ in range(ROWS)]
            here = builder.add(panel, builder.mul(position, _I64(4 * LANES * vectors)))
            weights = [_load(builder, here, 4 * LANES * i, lanes, align=4 * LANES) for i in some]
            at = builder.add(row, builder.mul(position, _I64(4)))
            found = []
            for i, own in enumerate(totals):
                number = _load(builder, builder.add(at, builder.mul(stride, _I64(i))), 0, lanes.element, align=4)
                everywhere = _spread(builder, number, lanes)
                found.append([step(builder, each, weights[j], everywhere) for j, each in enumerate(own)])
            following = builder.add(position, _I64(1))
            position.add_incoming(_I64(0), before)
            position.add_incoming(following, loop)
            zero = ir.Constant(sums, [0 if sums is _INTS else 0.0] * LANES)
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
                        before_it = _load(builder, out, offset, sums, align=4 * LANES)
                        kept = builder.select(builder.fcmp_ordered(">", total, before_it), total, before_it)
                    place = builder.inttoptr(builder.add(out, _I64(offset)), sums.as_pointer())
                    builder.store(kept, place).align = 4 * LANES

        return signature, generate

    return tile


def _load(builder: Value, address: Value, offset: int, kind: Value, *, align: int) -> Value:
    found = builder.load(builder.inttoptr(builder.add(address, _I64(offset)), kind.as_pointer()))
    found.align = align
    return found


def _spread(builder: Value, number: Value, lanes: Value) -> Value:
    first = builder.insert_element(ir.Constant(lanes, _UNDEFINED), number, _I32(0))
    return builder.shuffle_vector(first, ir.Constant(lanes, _UNDEFINED), ir.Constant(_INTS, [0] * LANES))


row_tile = _tile(VECTORS)
#: For float32 or bfloat16: writes the larger of each sum and the stored number.
largest_tile = _tile(VECTORS, largest=True)
#: For attention: 32 columns, which are coordinates of a head.
head_tile = _tile(2)


@_intrinsic
def to_bfloat(_: Value, number: Value) -> Value:
    """The 16 bits of the nearest bfloat16; ties go to even."""

    def generate(_: Value, builder: Value, __: Value, arguments: Value) -> Value:
        return builder.bitcast(builder.fptrunc(arguments[0], _BFloat()), ir.IntType(16))

    return types.uint16(types.float32), generate


def _largest(builder: Value, row: Value, n: Value, seen: Callable[[Value, Value], Value]) -> Value:
    """The largest of `seen(numbers, place in bytes)` over the n numbers of a row, 16 at a time."""
    before = builder.block
    loop, after = builder.append_basic_block("largest"), builder.append_basic_block("found")
    builder.branch(loop)
    builder.position_at_end(loop)
    position, most = builder.phi(_I64), builder.phi(_REALS)
    place = builder.mul(position, _I64(4))
    numbers = seen(_load(builder, builder.add(row, place), 0, _REALS, align=4), place)
    larger = builder.select(builder.fcmp_ordered(">", numbers, most), numbers, most)
    following = builder.add(position, _I64(LANES))
    lowest = ir.Constant(_REALS, [-3.0e38] * LANES)
    for phi, first, later in ((position, _I64(0), following), (most, lowest, larger)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    builder.position_at_end(after)
    return builder.call(_of_vectors(builder, "llvm.vector.reduce.fmax.v16f32", _F32, 1), [larger])


@_intrinsic
def largest(_: Value, row: Value, n: Value) -> Value:
    """The largest of n numbers at an address; n is a multiple of 16."""

    def generate(_: Value, builder: Value, __: Value, arguments: Value) -> Value:
        row, n = arguments
        return _largest(builder, row, n, lambda numbers, _: numbers)

    return types.float32(types.uintp, types.intp), generate


@_intrinsic
def largest_product(_: Value, row: Value, factors: Value, n: Value) -> Value:
    """The largest |number * factor| of n numbers and n factors at two addresses; n is a multiple of 16."""

    def generate(_: Value, builder: Value, __: Value, arguments: Value) -> Value:
        row, factors, n = arguments

        def product(numbers: Value, place: Value) -> Value:
            times = builder.fmul(numbers, _load(builder, builder.add(factors, place), 0, _REALS, align=4))
            return builder.call(_of_vectors(builder, "llvm.fabs.v16f32", _REALS, 1), [times])

        return _largest(builder, row, n, product)

    return types.float32(types.uintp, types.uintp, types.intp), generate


def _of_vectors(builder: Value, name: str, result: Value, n_arguments: int) -> Value:
    return builder.module.declare_intrinsic(name, (), ir.FunctionType(result, [_REALS] * n_arguments))
