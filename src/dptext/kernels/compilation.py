"""Compilation of loops by numba at their first call, which takes seconds.

The machine code is cached beside the file of the loops, or in the user's cache.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Loops = TypeVar("Loops", bound=Callable[..., Any])
Array = Any  # numba compiles for the dtype of each call
F = np.float32


def compiled_with(**options: Any) -> Callable[[Loops], Loops]:
    """Return a decorator that compiles loops at their first call, with these options of numba."""

    def compiled(loops: Loops) -> Loops:
        try:
            return cast("Loops", njit(nogil=True, cache=True, **options)(loops))
        except RuntimeError:  # no writable place for the cache
            return cast("Loops", njit(nogil=True, **options)(loops))

    return compiled


compiled = compiled_with(fastmath=True, error_model="numpy")
