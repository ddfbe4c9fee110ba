"""Compilation of loops by numba at their first call, which takes seconds.

The machine code is cached beside the file of the loops, or in the user's cache.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.runtime.nrt import rtsys
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


@cache
def _sources() -> str:
    """Return a digest of this package's source files."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


class _KeptCode(FunctionCache):
    """Machine code in files. It is loaded without numba's registries of functions, which compiling alone needs.

    They take .3 seconds of each process to import, SciPy's linear algebra among them. Code is compiled anew where its
    file or one of `dptext.kernels` has changed: it contains that of the functions that it calls, which are to be there.
    """

    def __init__(self, loops: Any) -> None:
        super().__init__(loops)  # type: ignore[no-untyped-call]
        kept = self._cache_file
        kept._source_stamp = kept._source_stamp, _sources()  # noqa: SLF001

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature, or None if it is not there."""
        rtsys.initialize(target_context)  # what remains of `target_context.refresh()`, which numba's own method calls
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def compiled_with(**options: Any) -> Callable[[Loops], Loops]:
    """Return a decorator that compiles loops at their first call, with these options of numba."""

    def compiled(loops: Loops) -> Loops:
        found: Any = njit(nogil=True, pipeline_class=_Compiler, **options)(loops)
        with suppress(RuntimeError):  # there is no writable place for the files
            found._cache = _KeptCode(loops)  # noqa: SLF001 (as its enable_caching does)
        return cast("Loops", found)

    return compiled


compiled = compiled_with(fastmath=True, error_model="numpy")
