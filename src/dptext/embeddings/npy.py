"""Arrays of .npy files, and public texts that are saved beside them.

A forged file can neither run code in its reader nor fill memory.
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

# numpy reads the header as a Python literal, and raises these errors if the header is not a literal.
_BROKEN_HEADER = (SyntaxError, TypeError, OverflowError, TokenError, RecursionError, MemoryError)


def map_array(path: Path) -> NDArray[np.generic]:
    """Map the array of a .npy file, read-only. ConfigError: the file is absent, cut short, or holds objects."""
    try:
        return np.lib.format.open_memmap(path, mode="r")  # refuses objects
    except (ValueError, EOFError, OSError, *_BROKEN_HEADER) as error:
        raise ConfigError(f"Cannot read {path} as a matrix of numbers: {error}.") from error


def read_array(file: BufferedReader) -> NDArray[Any]:
    """Read the array of an open .npy file. The header is compared with the file's size before memory is taken.

    ValueError: header and size differ, the file is no .npy file, or it holds objects (which may hold code).
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
    """At least two public texts, and the label of each; None if there are no labels."""

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.texts)


def save_pool(folder: Path, name: str, described: Mapping[str, Any], vectors: NDArray[Any] | None) -> None:
    """Write `name.json`, and `name.npy` if there are vectors, as new files into an existing folder."""
    write_private(folder / f"{name}.json", json.dumps(described).encode())
    if vectors is not None:
        with create_private(folder / f"{name}.npy") as file:
            np.save(file, vectors, allow_pickle=False)


def read_pool(
    folder: Path, name: str, *, labels: Collection[str], dtype: DTypeLike, with_vectors: bool = True
) -> tuple[TextPool, dict[str, Any], NDArray[Any]]:
    """Read the texts that `save_pool` wrote, the whole JSON, and the vectors, one per text; `(n, 0)` without vectors.

    `labels` is the public set of labels, or empty. OSError: a file cannot be read. ValueError, TypeError, LookupError:
    texts, labels, vectors or the number k of nearest texts do not fit together.
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
