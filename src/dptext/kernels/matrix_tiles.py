"""Products in the matrix registers of a processor that has them (Intel AMX), in bfloat16 or int8.

A register holds 16 rows of 64 bytes. A block is 32, 16 or fewer rows times 32 columns, whose sums stay in two or four
registers, so that each register that is loaded is multiplied twice. All rows of a register go through the same
instructions, so a row's numbers depend neither on its place in a block nor on the other rows. The panels are those of
`dptext.kernels.products`.
"""

import ctypes
import platform
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from dptext.kernels.compilation import Array, compiled
from dptext.kernels.lanes import LANES, PAIR, Value, biased, intrinsic, scaled_pair
from dptext.kernels.packing import unpack
from dptext.kernels.tiles import COLUMNS, FEATURES, VECTORS, WIDE

#: Rows of a register, and of the largest block.
ROWS: Final = 16
BLOCK_ROWS: Final = 2 * ROWS
_WIDTH: Final = 64  # bytes of a row of a register
_PER_STEP: Final = _WIDTH // 4  # steps of 4 bytes that a register has of each row
_ASK: Final = (158, 0x1023, 18)  # arch_prctl(ARCH_REQ_XCOMP_PERM, tile data) of Linux on x86-64
_I8, _I64, _VOID = ir.IntType(8), ir.IntType(64), ir.VoidType()
_A, _B = 4, 6  # the first registers of rows and of weights, after those of sums


def _allowed() -> bool:
    """Whether Linux lets this process use the registers; it must be asked once."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return bool(ctypes.CDLL(None).syscall(*_ASK) == 0)


THERE: Final = WIDE and {"amx-tile", "amx-bf16", "amx-int8"} <= FEATURES and _allowed()


def fits(n_steps: int) -> bool:
    """Whether rows of this many steps of 4 bytes fill whole registers."""
    return n_steps > 0 and n_steps % _PER_STEP == 0


def _shapes() -> np.ndarray[Any, Any]:
    """The configurations of eight registers of 64 bytes a row: 1 to 16 rows of numbers and sums, and 16 of weights."""
    found = np.zeros((ROWS, _WIDTH), np.uint8)
    found[:, 0] = 1  # the palette
    found[:, 16:32].view(np.uint16)[:] = _WIDTH
    found[:, 48 : 48 + _B] = np.arange(1, ROWS + 1)[:, None]
    found[:, 48 + _B : 56] = ROWS
    return found


_SHAPES: Final = _shapes()


def _call(builder: Value, name: str, *given: Value) -> None:
    kinds = [each.type for each in given]
    builder.call(builder.module.declare_intrinsic(f"llvm.x86.{name}", (), ir.FunctionType(_VOID, kinds)), given)


def _pointer(builder: Value, address: Value, offset: int = 0) -> Value:
    return builder.inttoptr(builder.add(address, _I64(offset)), _I8.as_pointer())


@intrinsic
def _configure(_: Value, shapes: Value) -> Value:
    """Set the shapes of the registers, from the address of a configuration."""

    def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
        _call(builder, "ldtilecfg", _pointer(builder, arguments[0]))
        return context.get_dummy_value()

    return types.void(shapes), generate


@intrinsic
def release(_: Value) -> Value:
    """Give the registers back, so that the system does not save them any more."""

    def generate(context: Value, builder: Value, _: Value, __: Value) -> Value:
        _call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


def _each_part(builder: Value, parts: Value, row: Value, body: Callable[[Value, Value], None]) -> None:
    """Go through the parts of a row, of at least one register, by `body(part, address of the part in the row)`."""
    before = builder.block
    loop, after = builder.append_basic_block("part"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    part = builder.phi(_I64)
    body(part, builder.add(row, builder.mul(part, _I64(_WIDTH))))
    following = builder.add(part, _I64(1))
    part.add_incoming(_I64(0), before)
    part.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, parts), loop, after)
    builder.position_at_end(after)


def _block(height: int, multiply: str) -> Callable[..., None]:
    """Make a function, for compiled code, that computes 16 * `height` rows times 32 columns by an instruction.

    The function takes the address of the first row, the bytes from one row to the next, the addresses of the first and
    of the last 16 columns in their panels and of the output (sums row by row, `PAIR` each), and the number of registers
    that a row fills, at least 1.
    """

    @intrinsic
    def block(_: Value, row: Value, stride: Value, first: Value, second: Value, out: Value, parts: Value) -> Value:
        signature = types.void(row, stride, first, second, out, parts)

        def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
            row, stride, first, second, out, parts = arguments
            for i in range(2 * height):
                _call(builder, "tilezero", _I8(i))

            def multiplied(part: Value, at: Value) -> None:
                below = builder.mul(part, _I64(4 * COLUMNS * _PER_STEP))
                for j, columns in enumerate((first, second)):
                    weights = _pointer(builder, builder.add(columns, below))
                    _call(builder, "tileloadd64", _I8(_B + j), weights, _I64(4 * COLUMNS))
                    for i in range(height):
                        if j == 0:
                            here = builder.add(at, builder.mul(stride, _I64(ROWS * i)))
                            _call(builder, "tileloadd64", _I8(_A + i), _pointer(builder, here), stride)
                        _call(builder, multiply, _I8(2 * i + j), _I8(_A + i), _I8(_B + j))

            _each_part(builder, parts, row, multiplied)
            for i in range(height):
                for j in range(2):
                    place = _pointer(builder, out, 4 * (PAIR * ROWS * i + LANES * j))
                    _call(builder, "tilestored64", _I8(2 * i + j), place, _I64(4 * PAIR))
            return context.get_dummy_value()

        return signature, generate

    return block


one_block, two_blocks = _block(1, "tdpbf16ps"), _block(2, "tdpbf16ps")
one_int_block, two_int_blocks = _block(1, "tdpbsud"), _block(2, "tdpbsud")  # signed rows, unsigned weights: exact


@intrinsic
def tile_product(
    _: Value, row: Value, stride: Value, panel: Value, step: Value, parts: Value, out: Value, across: Value
) -> Value:
    """Compute 16 rows times 16 columns in bfloat16, and write the sums `across` bytes from one row to the next.

    A part is 32 numbers of each row; in the panel it is 16 rows of 16 pairs, `step` bytes from those of the next part.
    """
    signature = types.void(row, stride, panel, step, parts, out, across)

    def generate(context: Value, builder: Value, _: Value, arguments: Value) -> Value:
        row, stride, panel, step, parts, out, across = arguments
        _call(builder, "tilezero", _I8(0))

        def multiplied(part: Value, at: Value) -> None:
            weights = builder.add(panel, builder.mul(part, step))
            _call(builder, "tileloadd64", _I8(_A), _pointer(builder, at), stride)
            _call(builder, "tileloadd64", _I8(_B), _pointer(builder, weights), _I64(_WIDTH))
            _call(builder, "tdpbf16ps", _I8(0), _I8(_A), _I8(_B))

        _each_part(builder, parts, row, multiplied)
        _call(builder, "tilestored64", _I8(0), _pointer(builder, out), across)
        return context.get_dummy_value()

    return signature, generate


@compiled
def configure(n: int) -> None:
    """Set the shapes of the registers for n rows, or for 16 if there are more."""
    _configure(_SHAPES.ctypes.data + _WIDTH * (max(1, min(n, ROWS)) - 1))


@compiled
def _place(panels: Array, sixteen: int) -> Any:
    """The address of 16 columns in their panel."""
    within = (sixteen // VECTORS) * panels.shape[1] * COLUMNS + (sixteen % VECTORS) * LANES
    return panels.ctypes.data + 4 * within


@compiled
def products(rows: Array, n: int, panels: Array, bias: Array, sums: Array, out: Array) -> None:
    """`dptext.kernels.products.rounded_products`. `sums` has `BLOCK_ROWS` rows."""
    configure(n)
    parts, last = panels.shape[1] // _PER_STEP, panels.shape[0] * VECTORS - 2
    for c in range(0, last + 2, 2):
        sixteen = min(c, last)  # the last block computes some columns again, as it does some rows
        _two_by_all(rows, n, _place(panels, sixteen), _place(panels, sixteen + 1), parts, sixteen, bias, sums, out)
    release()


@compiled
def packed_products(rows: Array, n: int, packed: Array, bias: Array, panel: Array, sums: Array, out: Array) -> None:
    """`products` with packed weights, which are unpacked to `panel` for all rows."""
    configure(n)
    parts, size, here = packed.shape[1], packed.shape[2], panel.ctypes.data
    last = packed.shape[0] - 2
    for c in range(0, last + 2, 2):
        sixteen = min(c, last)
        for j in range(2):
            at = packed.ctypes.data + (sixteen + j) * parts * size
            unpack(packed, rows, at, parts, here + 4 * LANES * j, 4 * COLUMNS)
        _two_by_all(rows, n, here, here + 4 * LANES, parts, sixteen, bias, sums, out)
    release()


@compiled
def _two_by_all(
    rows: Array, n: int, one: int, other: int, parts: int, sixteen: int, bias: Array, sums: Array, out: Array
) -> None:
    """All rows times two by sixteen columns at two addresses, which are those from 16 * `sixteen` on."""
    stride, across = rows.shape[1] * rows.itemsize, out.shape[1] * out.itemsize
    shift, to, i = bias.ctypes.data + sixteen * LANES * 4, out.ctypes.data + sixteen * LANES * out.itemsize, 0
    while i < n:
        height = BLOCK_ROWS if n - i >= BLOCK_ROWS else ROWS
        first = max(0, min(i, n - height))
        at = rows.ctypes.data + first * stride
        if height == ROWS:
            one_block(at, stride, one, other, sums.ctypes.data, parts)
        else:
            two_blocks(at, stride, one, other, sums.ctypes.data, parts)
        for r in range(min(height, n)):
            biased(out, sums.ctypes.data + r * 4 * PAIR, shift, to + (first + r) * across)
        i = first + height


@compiled
def int_products(
    rows: Array, n: int, panels: Array, units: Array, bias: Array, scales: Array, totals: Array, sums: Array, out: Array
) -> None:
    """`dptext.kernels.products.int_products`, with the same numbers. `sums` has `BLOCK_ROWS` rows.

    `out` may hold the bits of bfloat16, too.
    """
    configure(n)
    stride, parts, across = rows.shape[1] * rows.itemsize, panels.shape[1] // _PER_STEP, out.shape[1] * out.itemsize
    last = panels.shape[0] * VECTORS - 2
    for c in range(0, last + 2, 2):
        sixteen, i = min(c, last), 0
        one, other = _place(panels, sixteen), _place(panels, sixteen + 1)
        unit, shift = units.ctypes.data + sixteen * LANES * 4, bias.ctypes.data + sixteen * LANES * 4
        to = out.ctypes.data + sixteen * LANES * out.itemsize
        while i < n:
            height = BLOCK_ROWS if n - i >= BLOCK_ROWS else ROWS
            first = max(0, min(i, n - height))
            at = rows.ctypes.data + first * stride
            if height == ROWS:
                one_int_block(at, stride, one, other, sums.ctypes.data, parts)
            else:
                two_int_blocks(at, stride, one, other, sums.ctypes.data, parts)
            for r in range(min(height, n)):
                own = sums.ctypes.data + r * 4 * PAIR
                scaled_pair(out, own, totals[first + r], scales[first + r], unit, shift, to + (first + r) * across)
            i = first + height
    release()
