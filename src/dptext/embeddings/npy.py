"""Arrays of .npy files. Whoever made a file up cannot make its reader run code or fill memory."""

import math
import os
from io import BufferedReader
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptext.errors import ConfigError

# numpy reads the header as a Python literal. These errors are what it raises where the header is none.
_BROKEN_HEADER = (SyntaxError, TypeError, OverflowError, TokenError, RecursionError, MemoryError)


def map_array(path: Path) -> NDArray[np.generic]:
    """The array of a .npy file, read-only and mapped; ConfigError where it is absent, cut short or holds objects."""
    try:
        return np.lib.format.open_memmap(path, mode="r")  # refuses objects
    except (ValueError, EOFError, OSError, *_BROKEN_HEADER) as error:
        raise ConfigError(f"Cannot read {path} as a matrix of numbers: {error}.") from error


def read_array(file: BufferedReader) -> NDArray[Any]:
    """The array of an open .npy file. Its header is compared with the size of the file before memory is taken.

    ValueError: they differ, it is no .npy file, or it holds objects (which may hold code).
    """
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
        wanted = math.prod(shape) * dtype.itemsize
    except (KeyError, ValueError, *_BROKEN_HEADER):
        raise ValueError("it has no header as numpy writes it") from None
    if dtype.hasobject or min(shape, default=0) < 0 or wanted != os.fstat(file.fileno()).st_size - file.tell():
        raise ValueError("it holds objects, or not what its header says")
    file.seek(0)
    found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found
