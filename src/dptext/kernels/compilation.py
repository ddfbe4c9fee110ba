"""Loops compiled by numba when they are first called, which takes seconds.

The machine code is kept beside the file of the loops, or in the user's cache.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Loops = TypeVar("Loops", bound=Callable[..., Any])
Array = Any  # numba decides by the dtype
F = np.float32


def compiled_with(**options: Any) -> Callable[[Loops], Loops]:
    """What turns loops into machine code, with these options of numba, when they are first called."""

    def compiled(loops: Loops) -> Loops:
        try:
            return cast("Loops", njit(nogil=True, cache=True, **options)(loops))
        except RuntimeError:  # there is no place to keep it
            return cast("Loops", njit(nogil=True, **options)(loops))

    return compiled


compiled = compiled_with(fastmath=True, error_model="numpy")
