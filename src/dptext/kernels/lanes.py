"""Sixteen numbers at a time, in the vector instructions of this processor: what loops of compiled code are made of.

What numba makes of these loops takes two to four times as long: it does not see through their reductions.
"""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic

LANES: Final = 16
PAIR: Final = 2 * LANES
I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
INTS, REALS = ir.VectorType(I32, LANES), ir.VectorType(F32, LANES)
Value = Any  # a value of llvmlite, which has no type hints


class _BFloat(ir.types.Type):  # type: ignore[misc]  # llvmlite has no types
    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


BFLOATS: Final = ir.VectorType(_BFloat(), 2 * LANES)
_HALF_OF_THEM = ir.VectorType(_BFloat(), LANES)
_SHORTS = ir.VectorType(ir.IntType(16), LANES)
_PLACES = ir.Constant(INTS, [*range(LANES)])
_NOTHING = -1e30
_FUSED = ("contract",)  # a product and a sum may be one instruction
# e^x = 2^w 2^f with |f| <= 1/2; a polynomial for 2^f with a relative error of 8e-8.
LOG2_E: Final = 1.4426950408889634
EXP: Final = (1.000000071657404, 0.6931469670420607, 0.2402211970947732, 0.05550713302949038,
              0.009675542136165033, 0.0013276464884749116)  # fmt: skip
LEAST_POWER: Final = -100.0  # 2^-100 is negligible beside the largest share, and the exponent stays in range


def intrinsic(function: Callable[..., Value]) -> Callable[..., Any]:
    """Make a function for compiled code. It gets the types of the arguments, and gives a signature and a generator."""
    found: Callable[..., Any] = numba_intrinsic(function)
    return found


def load(builder: Value, address: Value, offset: int, kind: Value, *, align: int) -> Value:
    """Load a value of this type."""
    found = builder.load(builder.inttoptr(builder.add(address, I64(offset)), kind.as_pointer()))
    found.align = align
    return found


def spread(builder: Value, number: Value, lanes: Value) -> Value:
    """Put a number into all lanes."""
    first = builder.insert_element(ir.Constant(lanes, ir.Undefined), number, I32(0))
    return builder.shuffle_vector(first, ir.Constant(lanes, ir.Undefined), ir.Constant(INTS, [0] * LANES))


def of_vectors(builder: Value, name: str, result: Value, n_arguments: int) -> Value:
    """Return an intrinsic of LLVM that takes so many vectors of float32."""
    return builder.module.declare_intrinsic(name, (), ir.FunctionType(result, [REALS] * n_arguments))


def store(builder: Value, found: Value, address: Value, *, align: int) -> None:
    """Store a value."""
    builder.store(found, builder.inttoptr(address, found.type.as_pointer())).align = align


def fused(builder: Value, number: Value, factor: Value, more: Value) -> Value:
    """number * factor + more, in one instruction where there is one."""
    return builder.fadd(builder.fmul(number, factor, flags=_FUSED), more, flags=_FUSED)


def _all(number: float) -> Value:
    return ir.Constant(REALS, [float(number)] * LANES)


def _at(builder: Value, address: Value, place: Value, size: int) -> Value:
    return builder.add(address, builder.mul(place, I64(size)))


def _each(builder: Value, n: Value, first: Value, body: Callable[[Value, Value], Value], name: str) -> Value:
    """Go through n numbers, 16 at a time, from `first` on by `body(place, before)`. Return what the last one gave."""
    before = builder.block
    loop, after = builder.append_basic_block(name), builder.append_basic_block(f"after_{name}")
    builder.branch(loop)
    builder.position_at_end(loop)
    place, found = builder.phi(I64), builder.phi(first.type)
    following, new = builder.add(place, I64(LANES)), body(place, found)
    for phi, start, later in ((place, I64(0), following), (found, first, new)):
        phi.add_incoming(start, before)
        phi.add_incoming(later, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    builder.position_at_end(after)
    return new


def _exp(builder: Value, x: Value) -> Value:
    """e^x of 16 numbers of at most 0, as `activations.exp_minus`."""
    power = builder.fmul(x, _all(LOG2_E))
    power = builder.select(builder.fcmp_ordered(">", power, _all(LEAST_POWER)), power, _all(LEAST_POWER))
    whole = builder.call(of_vectors(builder, "llvm.rint.v16f32", REALS, 1), [power])
    rest, part = builder.fsub(power, whole), _all(EXP[-1])
    for each in EXP[-2::-1]:
        part = builder.fadd(builder.fmul(part, rest, flags=_FUSED), _all(each), flags=_FUSED)
    bias, bits = (ir.Constant(INTS, [each] * LANES) for each in (127, 23))  # of the exponent of a float32
    scale = builder.shl(builder.add(builder.fptosi(whole, INTS), bias), bits)
    return builder.fmul(part, builder.bitcast(scale, REALS))


def _reduced(builder: Value, name: str, found: Value, *first: Value) -> Value:
    kinds = ir.FunctionType(F32, [*(each.type for each in first), REALS])
    function = builder.module.declare_intrinsic(f"llvm.vector.reduce.{name}.v16f32", (), kinds)
    return builder.call(function, [*first, found], fastmath=("nnan", "reassoc"))


def _softmax(*, rounded: bool) -> Callable[..., None]:
    """Make a function that turns the n scores at an address into shares, and writes them to another address.

    The shares are float32, or are rounded to bfloat16. Up to a multiple of 16 there are more shares of nearly 0. The
    scores are overwritten.
    """

    @intrinsic
    def softmax(_: Value, row: Value, n: Value, out: Value) -> Value:
        def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
            row, n, out = arguments
            last = spread(builder, builder.trunc(n, I32), INTS)

            def known(place: Value) -> Value:
                there = builder.add(_PLACES, spread(builder, builder.trunc(place, I32), INTS))
                numbers = load(builder, _at(builder, row, place, 4), 0, REALS, align=4)
                return builder.select(builder.icmp_signed("<", there, last), numbers, _all(_NOTHING))

            def larger(place: Value, most: Value) -> Value:
                numbers = known(place)
                return builder.select(builder.fcmp_ordered(">", numbers, most), numbers, most)

            most = _reduced(builder, "fmax", _each(builder, n, _all(_NOTHING), larger, "largest"))
            most = spread(builder, most, REALS)

            def summed(place: Value, total: Value) -> Value:
                found = _exp(builder, builder.fsub(known(place), most))
                store(builder, found, _at(builder, row, place, 4), align=4)
                return builder.fadd(total, found)

            total = _reduced(builder, "fadd", _each(builder, n, _all(0), summed, "exp"), F32(0.0))
            factor = spread(builder, builder.fdiv(F32(1.0), total), REALS)

            def scaled(place: Value, nothing: Value) -> Value:
                found = builder.fmul(load(builder, _at(builder, row, place, 4), 0, REALS, align=4), factor)
                if rounded:
                    found = builder.bitcast(builder.fptrunc(found, _HALF_OF_THEM), _SHORTS)
                store(builder, found, _at(builder, out, place, 2 if rounded else 4), align=2)
                return nothing

            _each(builder, n, I32(0), scaled, "scaled")
            return context.get_dummy_value()

        return types.void(types.uintp, types.intp, types.uintp), generate

    return softmax


softmax, rounded_softmax = _softmax(rounded=False), _softmax(rounded=True)


@intrinsic
def largest_product(_: Value, row: Value, factors: Value, n: Value) -> Value:
    """The largest |number * factor| of n numbers and n factors at two addresses; n is a multiple of 16."""

    def generate(_: Value, builder: Value, __: Value, arguments: Value) -> Value:
        row, factors, n = arguments

        def larger(place: Value, most: Value) -> Value:
            numbers = builder.call(
                of_vectors(builder, "llvm.fabs.v16f32", REALS, 1), [_product(builder, row, factors, place)]
            )
            return builder.select(builder.fcmp_ordered(">", numbers, most), numbers, most)

        return _reduced(builder, "fmax", _each(builder, n, _all(0), larger, "largest"))

    return types.float32(types.uintp, types.uintp, types.intp), generate


def _product(builder: Value, row: Value, factors: Value, place: Value) -> Value:
    pair = (load(builder, _at(builder, each, place, 4), 0, REALS, align=4) for each in (row, factors))
    return builder.fmul(*pair)


@intrinsic
def quantized(_: Value, rows: Value, row: Value, factors: Value, steps: Value, n: Value, out: Value) -> Value:
    """Round n products of numbers, factors and `steps` to whole numbers of the dtype of `rows`. Return their sum.

    n is a multiple of 16.
    """
    kind = ir.IntType(rows.dtype.bitwidth)

    def generate(_: Value, builder: Value, __: Value, arguments: Value) -> Value:
        _, row, factors, steps, n, out = arguments
        all_steps = spread(builder, steps, REALS)

        def rounded(place: Value, total: Value) -> Value:
            exact = builder.fmul(_product(builder, row, factors, place), all_steps)
            whole = builder.fptosi(builder.call(of_vectors(builder, "llvm.rint.v16f32", REALS, 1), [exact]), INTS)
            narrow = builder.trunc(whole, ir.VectorType(kind, LANES))
            store(builder, narrow, _at(builder, out, place, kind.width // 8), align=1)
            return builder.add(total, whole)

        total = _each(builder, n, ir.Constant(INTS, [0] * LANES), rounded, "rounded")
        function = ir.FunctionType(I32, [INTS])
        return builder.call(builder.module.declare_intrinsic("llvm.vector.reduce.add.v16i32", (), function), [total])

    signature = types.int32(rows, types.uintp, types.uintp, types.float32, types.intp, types.uintp)
    return signature, generate


def _kept(builder: Value, out: Value, found: Value, address: Value, vector: int) -> None:
    """Store 16 numbers in the dtype of `out`: float32, or the bits of the nearest bfloat16."""
    if out.dtype == types.uint16:
        found = builder.bitcast(builder.fptrunc(found, _HALF_OF_THEM), _SHORTS)
    store(builder, found, builder.add(address, I64(vector * LANES * out.dtype.bitwidth // 8)), align=2)


@intrinsic
def biased(_: Value, out: Value, sums: Value, bias: Value, to: Value) -> Value:
    """Write 32 sums plus their bias in the dtype of `out`, float32 or (as bits) bfloat16."""

    def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
        _, sums, bias, to = arguments
        for i in range(PAIR // LANES):
            pair = (load(builder, each, 4 * LANES * i, REALS, align=4) for each in (sums, bias))
            _kept(builder, out, builder.fadd(*pair), to, i)
        return context.get_dummy_value()

    return types.void(out, types.uintp, types.uintp, types.uintp), generate


def _scaled(vectors: int) -> Callable[..., None]:
    """Make a function, for compiled code, that writes 16 * `vectors` whole sums in the dtype of `out`.

    They are written less `total`, times `scale` and their units, plus their bias.
    """

    @intrinsic
    def scaled(
        _: Value, out: Value, sums: Value, total: Value, scale: Value, units: Value, bias: Value, to: Value
    ) -> Value:
        def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
            _, sums, total, scale, units, bias, to = arguments
            totals, scales = spread(builder, total, INTS), spread(builder, scale, REALS)
            for i in range(vectors):
                own, unit, shift = (
                    load(builder, each, 4 * LANES * i, kind, align=4)
                    for each, kind in ((sums, INTS), (units, REALS), (bias, REALS))
                )
                exact = builder.sitofp(builder.sub(own, totals), REALS)
                found = builder.fmul(exact, builder.fmul(scales, unit), flags=_FUSED)
                _kept(builder, out, builder.fadd(found, shift, flags=_FUSED), to, i)
            return context.get_dummy_value()

        signature = types.void(out, types.uintp, types.int32, types.float32, types.uintp, types.uintp, types.uintp)
        return signature, generate

    return scaled


scaled, scaled_pair = _scaled(1), _scaled(PAIR // LANES)


@intrinsic
def transposed(_: Value, rows: Value, stride: Value, out: Value) -> Value:
    """Write 16 rows of 16 numbers of 4 bytes as columns: 64 bytes a row, one after another, aligned to 64 bytes.

    `stride` is the number of bytes from one row to the next.
    """

    def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
        rows, stride, out = arguments
        at = (builder.add(rows, builder.mul(stride, I64(i))) for i in range(LANES))
        found = [load(builder, each, 0, INTS, align=4) for each in at]
        for apart in (1, 2, 4, 8):  # rows and lanes that differ in one bit change places
            for i in range(LANES):
                if not i & apart:
                    pair = found[i], found[i + apart]
                    first = [c if not c & apart else LANES + c - apart for c in range(LANES)]
                    second = [c + apart if not c & apart else LANES + c for c in range(LANES)]
                    mixed = (builder.shuffle_vector(*pair, ir.Constant(INTS, each)) for each in (first, second))
                    found[i], found[i + apart] = mixed
        for i, each in enumerate(found):
            store(builder, each, builder.add(out, I64(4 * LANES * i)), align=4 * LANES)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp, types.uintp), generate


@intrinsic
def interleaved(_: Value, one: Value, other: Value, out: Value) -> Value:
    """Write 16 numbers of 2 bytes of `one` in turn with those of `other`, aligned to 64 bytes."""
    turns = ir.Constant(ir.VectorType(I32, 2 * LANES), [i // 2 + LANES * (i % 2) for i in range(2 * LANES)])

    def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
        one, other, out = arguments
        both = (load(builder, each, 0, _SHORTS, align=2) for each in (one, other))
        store(builder, builder.shuffle_vector(*both, turns), out, align=4 * LANES)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp), generate


@intrinsic
def to_bfloat(_: Value, number: Value) -> Value:
    """The 16 bits of the nearest bfloat16; ties go to even."""

    def generate(_: Value, builder: Value, __: Value, arguments: Value) -> Value:
        return builder.bitcast(builder.fptrunc(arguments[0], _BFloat()), ir.IntType(16))

    return types.uint16(types.float32), generate
