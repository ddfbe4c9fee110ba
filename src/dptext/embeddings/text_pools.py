"""Public texts of which one leaves in the place of a private one: candidates, or the codebook of ADePT."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dptext.embeddings.npy import read_array
from dptext.text.files import create_private


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextPool:
    """At least two public texts, and the label of each, None without labels."""

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.texts)


def save_pool(folder: Path, name: str, described: Mapping[str, Any], vectors: NDArray[Any] | None) -> None:
    """Write `name.json`, and `name.npy` where there are vectors, into an existing folder that has no such files."""
    with create_private(folder / f"{name}.json") as file:
        file.write(json.dumps(described).encode())
    if vectors is not None:
        with create_private(folder / f"{name}.npy") as file:
            np.save(file, vectors, allow_pickle=False)


def read_pool(
    folder: Path, name: str, *, labels: Collection[str], dtype: DTypeLike, with_vectors: bool = True
) -> tuple[TextPool, dict[str, Any], NDArray[Any]]:
    """The texts that `save_pool` wrote, all of its JSON, and the vectors, one a text; `(n, 0)` without vectors.

    The `labels` are the public set, empty where texts have none. OSError: a file cannot be read. ValueError, TypeError,
    LookupError: texts, labels, the number k of the nearest or the vectors do not belong together.
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
