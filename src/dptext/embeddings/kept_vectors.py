"""Vectors of public texts in a hidden file beside the file of these texts, so that the next command reads them there.

Only vectors of the texts that are named at first are written, whatever else is embedded, and only if computing them
took seconds. Who can read the file can read its texts beside it, so it tells nothing new, and it is deleted with them.
It holds for one encoder, precision, processor and version. Without a place to write to, nothing is kept.
"""

import contextlib
import hashlib
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.text.files import Target
from dptext.types import Int16s, Singles, UInt8s
from dptext.version import __version__

LEAST_SECONDS: Final = 5.0  #: What takes less to compute is not written.
MOST_TEXTS: Final = 100_000  #: Of more texts no vectors are kept.
SUFFIX: Final = ".vectors"
_GRID: Final = 2.0**-10  # of vectors that an encoder gives, which are at most 1
_FORMAT: Final = "1"
_MOST_BYTES: Final = 2**28
_SUM: Final = 32  # bytes of the sha256 at the end of a file


class KeptVectors:
    """The file of vectors beside the file or folder `public` of these texts. `repr` shows no text.

    Attributes:
        written: the file that was written, if one was.
    """

    def __init__(self, public: Path, texts: Iterable[str]) -> None:
        self.written: Path | None = None
        self._public = public if public.name not in {"", ".."} else public.resolve()
        named = set(texts)
        self._rows = {text: _digest(text) for text in sorted(named)} if len(named) <= MOST_TEXTS else {}
        self._known: dict[Path, dict[bytes, Int16s]] = {}
        self._seconds: dict[Path, float] = {}

    def of(self, texts: Iterable[str], dim: int, *, digest: str, precision: str) -> dict[str, Singles]:
        """Return the vectors `(dim,)` of the texts that are kept, by an encoder with this digest."""
        kept = self._kept(digest, precision)
        there = {text: own for text in texts if (own := kept.get(self._rows.get(text, b""))) is not None}
        return {text: np.asarray(own * _GRID, np.float32) for text, own in there.items() if own.shape == (dim,)}

    def computed(self, texts: Sequence[str], vectors: Singles, seconds: float, *, digest: str, precision: str) -> None:
        """Keep vectors `(n_texts, dim)` that took so many seconds. Those of texts that were not named are ignored."""
        place, kept = self._place(digest, precision), self._kept(digest, precision)
        own = [i for i, text in enumerate(texts) if text in self._rows]
        if not own:
            return
        kept |= {self._rows[texts[i]]: np.rint(vectors[i] / _GRID).astype(np.int16) for i in own}
        self._seconds[place] = self._seconds.get(place, 0.0) + seconds * len(own) / len(texts)

    def write(self) -> None:
        """Write what took long to compute. Nothing happens where no file can be written."""
        from safetensors.numpy import save  # noqa: PLC0415 (slow to load)

        for place, seconds in self._seconds.items():
            if seconds < LEAST_SECONDS:
                continue
            kept = {row: own for row in self._rows.values() if (own := self._known[place].get(row)) is not None}
            rows: UInt8s = np.frombuffer(b"".join(kept), np.uint8).reshape(len(kept), -1)
            with contextlib.suppress(ConfigError, OSError, ValueError):
                with Target(place, force=True).opened() as file:
                    data = save({"texts": rows.copy(), "vectors": np.stack([*kept.values()])})
                    file.write(data + hashlib.sha256(data).digest())
                self.written = place

    def _kept(self, digest: str, precision: str) -> dict[bytes, Int16s]:
        place = self._place(digest, precision)
        if place not in self._known:
            self._known[place] = _read(place, self._rows.values())
        return self._known[place]

    def _place(self, digest: str, precision: str) -> Path:
        how = hashlib.sha256("\n".join((_FORMAT, digest, precision, *_machine())).encode()).hexdigest()
        return self._public.parent / f".{self._public.name}.{how[:12]}{SUFFIX}"


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _machine() -> tuple[str, ...]:
    """What decides the last bits of a vector besides the encoder: the kind of processor, and who compiles."""
    import llvmlite.binding  # noqa: PLC0415 (slow to load)
    import numba  # noqa: PLC0415

    from dptext.kernels import products, tiles  # noqa: PLC0415

    kind = llvmlite.binding.get_host_cpu_name()
    return __version__, numba.__version__, platform.machine(), kind, f"{tiles.ROWS} {products.SPARE}"


def _read(place: Path, wanted: Collection[bytes]) -> dict[bytes, Int16s]:
    """Return the kept vectors of these texts, by their digests. A damaged or foreign file holds none."""
    from safetensors import SafetensorError  # noqa: PLC0415 (slow to load)
    from safetensors.numpy import load  # noqa: PLC0415

    found: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    with contextlib.suppress(OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        data = place.read_bytes() if place.stat().st_size <= _MOST_BYTES else b""
        if hashlib.sha256(data[:-_SUM]).digest() == data[-_SUM:]:
            found = load(data[:-_SUM])
    rows, vectors = found.get("texts"), found.get("vectors")
    if rows is None or vectors is None or rows.ndim != 2 or vectors.ndim != 2 or len(rows) != len(vectors):
        return {}
    if (
        rows.dtype != np.uint8
        or vectors.dtype != np.int16
        or np.abs(vectors.astype(np.int32)).max(initial=0) > 1 / _GRID
    ):
        return {}
    there = set(wanted)
    return {row: own for row, own in zip(map(bytes, rows), vectors, strict=True) if row in there}
