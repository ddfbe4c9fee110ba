"""Arrays of .npy files, and public texts that are saved beside them.

Whoever made a file up cannot make its reader run code or fill memory.
"""

import json
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dptext.errors import ConfigError
from dptext.text.files import create_private, write_private

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextPool:
    """At least two public texts, and the label of each, None without labels."""

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.texts)


def save_pool(folder: Path, name: str, described: Mapping[str, Any], vectors: NDArray[Any] | None) -> None:
    """Write `name.json`, and `name.npy` where there are vectors, into an existing folder that has no such files."""
    write_private(folder / f"{name}.json", json.dumps(described).encode())
    if vectors is not None:
        with create_private(folder / f"{name}.npy") as file:
            np.save(file, vectors, allow_pickle=False)


def read_pool(
    folder: Path, name: str, *, labels: Collection[str], dtype: DTypeLike, with_vectors: bool = True
) -> tuple[TextPool, dict[str, Any], NDArray[Any]]:
    """The texts that `save_pool` wrote, all of its JSON, and the vectors, one a text; `(n, 0)` without vectors.

    The `labels` are the public set, or empty. OSError: a file cannot be read. ValueError, TypeError, LookupError:
    texts, labels, the number k of the nearest or the vectors do not belong together.
    """
    described = json.loads((folder / f"{name}.json").read_bytes())
    found = TextPool(tuple(described["texts"]), tuple(described["labels"]))
    vectors = np.empty((len(found), 0), dtype)
    if with_vectors:
        with (folder / f"{name}.npy").open("rb") as file:
            vectors = read_array(file)
    if not (
        all(isinstance(text, str) for text in found.texts)
        and set(found.labels) <= set(labels or (None,))
        and len(found.labels) == len(vectors) == len(found)
        and isinstance(described.get("k", 1), int)
        and 1 <= described.get("k", 1) < len(found)
        and vectors.dtype == dtype
        and bool(np.isfinite(vectors).all())
    ):
        raise ValueError
    return found, described, vectors
