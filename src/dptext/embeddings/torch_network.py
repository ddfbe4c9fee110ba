"""Any sentence-transformers model, computed by torch in blocks that are filled up with padding.

The number of a text's word pieces decides how long its block is. A block of a given length has one of five sizes and is
filled up with rows of padding; the number of texts decides which size. All rows of a block have padding, or none has.
So a text's vector does not depend on the content, the lengths or the order of the other texts.

It depends on the size of the block only if the library of matrix products computes a row in another way in another
size. On the processor that was measured (x86 with AVX-512 BF16, torch 2.13, float32 and bfloat16, all lengths, all
sizes, one thread and two) the floats are bit for bit the same in every size; another may differ (see
docs/concepts/sharp-edges.md). `dptext.embeddings.bert` has no such doubt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dptext.embeddings.blocks import padded, padded_blocks
from dptext.errors import ConfigError, needing
from dptext.types import Positions, Singles

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

TorchPrecision: TypeAlias = Literal["float32", "bfloat16"]

_LONGEST = 8192  # word pieces, where a model names no limit
_GPU_FACTOR = 32  # more rows a block: a GPU is idle otherwise


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TorchNetwork:
    """Texts to unit vectors by torch.

    Attributes:
        model: the network with its tokenizer.
        precision: of the matrix products.
    """

    model: SentenceTransformer
    precision: TorchPrecision = "float32"

    def vectors(self, texts: Sequence[str], *, on_done: Callable[[int], None] | None = None) -> Singles:
        """Unit vectors `(n_texts, dim)`.

        Args:
            texts: at least one.
            on_done: called with the number of texts done.
        """
        import torch  # noqa: PLC0415 (an extra, slow to load)

        tokenizer, device, limit = self.model.tokenizer, self.model.device, piece_limit(self.model)
        pieces = word_pieces(self.model, texts, limit=limit)
        lengths = np.array([len(ids) for ids in pieces["input_ids"]], np.intp)
        factor = 1 if device.type == "cpu" else _GPU_FACTOR
        found: list[tuple[Positions, Singles]] = []
        done = 0
        # Autocast keeps the weights that it has cast, so one serves all blocks. Under inference_mode it would not.
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            for block in padded_blocks(lengths, limit=limit, factor=factor):
                features = padded(pieces, block, pad=tokenizer.pad_token_id or 0, side=tokenizer.padding_side)
                output = self.model({name: torch.from_numpy(rows).to(device) for name, rows in features.items()})
                vectors = torch.nn.functional.normalize(output["sentence_embedding"].float(), dim=-1)
                found.append((block.texts, vectors[: len(block.texts)].cpu().numpy()))
                done += len(block.texts)
                if on_done is not None:
                    on_done(done)
        positions = np.concatenate([texts for texts, _ in found])
        return np.asarray(np.concatenate([rows for _, rows in found])[np.argsort(positions)])


def load_torch_model(path: Path, *, device: str) -> SentenceTransformer:
    """The model in a folder, for inference.

    Raises:
        ConfigError: the device is not here, or the model cannot be loaded, or needs code of its own.
        MissingExtraError: sentence-transformers is not installed.
    """
    with needing("The sentence encoder", "sbert"):
        from safetensors import SafetensorError  # noqa: PLC0415 (comes with the next)
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 (an extra, slow to load)

        from dptext.embeddings.devices import require_device  # noqa: PLC0415 (needs torch)
    require_device(device)
    with quiet():
        try:
            return SentenceTransformer(
                str(path), device=device, local_files_only=True, model_kwargs={"use_safetensors": True}
            ).eval()
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise ConfigError(f"Cannot load the sentence encoder in {path}: {error}.") from error


def piece_limit(model: SentenceTransformer) -> int:
    """Word pieces of a text that are read at most."""
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
