"""Compilation of loops by numba at their first call, which takes seconds.

The machine code is cached beside the file of the loops, or in the user's cache.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

Loops = TypeVar("Loops", bound=Callable[..., Any])
Array = Any  # numba compiles for the dtype of each call
F = np.float32
# LLVM takes half of a register of 512 bits on many processors, which saved power when few loops used a whole one.
_WHOLE: Final = '"prefer-vector-width"="512"'


class _WholeRegisters(Lower):
    """Lowers a function to LLVM so that its loops may use whole registers."""

    def lower_function_body(self) -> Any:
        set.add(self.function.attributes, _WHOLE)  # llvmlite's own `add` knows attributes without a value alone
        return super().lower_function_body()  # type: ignore[no-untyped-call]  # numba has few types


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Lowering(BaseNativeLowering):
    _name: Any = "lowering_to_whole_registers"

    @property
    def lowering_class(self) -> type[Lower]:
        return _WholeRegisters


class _Compiler(CompilerBase):
    """numba's compiler of functions without Python objects, with `_Lowering`."""

    def define_pipelines(self) -> list[PassManager]:
        found: Any = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        found.passes = [(_Lowering if step is NativeLowering else step, said) for step, said in found.passes]
        found.finalize()
        return [found]


def compiled_with(**options: Any) -> Callable[[Loops], Loops]:
    """Return a decorator that compiles loops at their first call, with these options of numba."""

    def compiled(loops: Loops) -> Loops:
        try:
            return cast("Loops", njit(nogil=True, cache=True, pipeline_class=_Compiler, **options)(loops))
        except RuntimeError:  # no writable place for the cache
            return cast("Loops", njit(nogil=True, pipeline_class=_Compiler, **options)(loops))

    return compiled


compiled = compiled_with(fastmath=True, error_model="numpy")
