"""Any sentence-transformers model, computed by torch in padded blocks.

The number of a text's word pieces determines the length of its block. A block of a given length has one of five sizes
and is padded with rows; the number of texts determines the size. All rows of a block have padding, or none has. So a
text's vector does not depend on the content, the lengths or the order of the other texts.

The vector depends on the size of the block only if the library of matrix products computes a row differently in
different sizes. On the measured processor (x86 with AVX-512 BF16, torch 2.13, float32 and bfloat16, all lengths, all
sizes, one thread and two), the floats are bit for bit the same in every size. Other processors may differ (see
docs/concepts/sharp-edges.md). `dptext.embeddings.bert` has no such dependence.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dptext.embeddings.embedder import spread
from dptext.errors import ConfigError, needing
from dptext.types import Integers, Positions, Singles

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

#: Numbers of word pieces in a block, largest first. A single text needs a block of the smallest size.
_SIZES = (1024, 512, 256, 128, 64)
#: A loaded sentence-transformers model.
TorchModel: TypeAlias = "SentenceTransformer"
TorchPrecision: TypeAlias = Literal["float32", "bfloat16"]
_LONGEST = 8192  # limit of word pieces for models that name none
_GPU_FACTOR = 32  # factor of the rows per block, as small blocks leave a GPU idle


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """At most `n_rows` texts, by position, in rows of `length` pieces. All rows have padding; in a `full` block, none.

    Without padding, the libraries drop the attention mask and compute differently.
    """

    texts: Positions
    n_rows: int
    length: int
    full: bool


def padded_blocks(lengths: Positions, *, limit: int, factor: int) -> Iterator[Block]:
    """Put every text into one block. `lengths` are the texts' numbers of word pieces.

    A text's own length determines the shape, up to the choice among five sizes. The number of rows of a block is
    multiplied by `factor`, which is 1 on a CPU.
    """
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, length in enumerate(lengths.tolist()):
        groups.setdefault(block_of(length, limit), []).append(i)
    for (length, full), texts in sorted(groups.items()):
        sizes = [max(1, factor * pieces // length) for pieces in _SIZES]
        start = 0
        while start < len(texts):
            n_rows = next((size for size in sizes if size <= len(texts) - start), sizes[-1])
            yield Block(np.array(texts[start : start + n_rows], np.intp), n_rows, length, full)
            start += n_rows


def block_of(length: int, limit: int) -> tuple[int, bool]:
    """The length of the block for a text of `length` pieces, and whether its rows are full. Other rows have padding.

    Lengths go in steps of 4 up to 64 pieces, 8 up to 128, 16 up to 256: at most an eighth of a long row is padding.
    """
    if length >= limit:
        return limit, True
    step = 1 << max(length.bit_length() - 4, 2)
    return min((length // step + 1) * step, limit), False


def padded(pieces: Mapping[str, Sequence[Sequence[int]]], block: Block, *, pad: int, side: str) -> dict[str, Integers]:
    """The features of a block, `(n_rows, length)` each. A row without text has one unmasked piece, or all if full."""
    shape = (block.n_rows, block.length)
    features = {name: np.full(shape, pad if name == "input_ids" else 0, np.int64) for name in pieces}
    mask = features["attention_mask"] = np.full(shape, int(block.full), np.int64)
    mask[:, 0 if side == "right" else -1] = 1
    for row, text in enumerate(block.texts.tolist()):
        length = len(pieces["input_ids"][text])
        columns = slice(length) if side == "right" else slice(block.length - length, None)
        mask[row, columns] = 1
        for name, values in pieces.items():
            features[name][row, columns] = values[text]
    return features


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TorchNetwork:
    """A network that maps texts to unit vectors by torch: the model with its tokenizer, and the products' precision."""

    model: TorchModel
    precision: TorchPrecision = "float32"

    def vectors(self, texts: Sequence[str], *, on_done: Callable[[int], None] | None = None) -> Singles:
        """Unit vectors `(n_texts, dim)` of at least one text. `on_done` gets the number of texts done."""
        import torch  # noqa: PLC0415 (an extra, slow to load)

        tokenizer, device, limit = self.model.tokenizer, self.model.device, piece_limit(self.model)
        pieces = word_pieces(self.model, texts, limit=limit)
        lengths = np.array([len(ids) for ids in pieces["input_ids"]], np.intp)
        factor = 1 if device.type == "cpu" else _GPU_FACTOR
        found: list[tuple[Positions, Singles]] = []
        done = 0
        # One autocast serves all blocks, as it keeps the weights that it has cast. Under inference_mode it keeps none.
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            blocks = list(padded_blocks(lengths, limit=limit, factor=factor))
            for block in (blocks[i] for i in spread(len(blocks))):
                features = padded(pieces, block, pad=tokenizer.pad_token_id or 0, side=tokenizer.padding_side)
                output = self.model({name: torch.from_numpy(rows).to(device) for name, rows in features.items()})
                vectors = torch.nn.functional.normalize(output["sentence_embedding"].float(), dim=-1)
                found.append((block.texts, vectors[: len(block.texts)].cpu().numpy()))
                done += len(block.texts)
                if on_done is not None:
                    on_done(done)
        positions = np.concatenate([texts for texts, _ in found])
        return np.asarray(np.concatenate([rows for _, rows in found])[np.argsort(positions)])


def load_torch_model(path: Path, *, device: str) -> TorchModel:
    """Load the model in a folder, for inference.

    ConfigError: the device is not here; or the model cannot be loaded, needs code of its own, or has weights that are
    not finite.
    """
    with needing(f"The sentence encoder {path.name}", "dptext[torch]"):
        import torch  # noqa: PLC0415 (an extra)
        from safetensors import SafetensorError  # noqa: PLC0415 (comes with the next)
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 (an extra, slow to load)

        from dptext.embeddings.devices import require_device  # noqa: PLC0415 (needs torch)
    require_device(device)
    with quiet():
        try:
            weights = {
                "use_safetensors": True,
                "dtype": torch.float32,
            }  # weights saved in 16 bits would stay in 16 bits
            found = SentenceTransformer(str(path), device=device, local_files_only=True, model_kwargs=weights).eval()
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise ConfigError(f"Cannot load the sentence encoder in {path}: {error}.") from error
    wrong = next((name for name, values in found.state_dict().items() if not bool(values.isfinite().all())), None)
    if wrong is not None:
        raise ConfigError(f"Expected the weights {wrong} in {path} to be finite, found NaN or infinity. Save it again.")
    return found


def require_tokenizer(model: TorchModel, name: str) -> None:
    """Raise ConfigError unless the model's first module is a transformer with a tokenizer of its own."""
    from transformers import PreTrainedTokenizerBase  # noqa: PLC0415 (an extra)

    if not isinstance(getattr(model[0], "tokenizer", None), PreTrainedTokenizerBase):
        raise ConfigError(f"Expected {name} to be a transformer with a tokenizer of its own. Take another model.")


def piece_limit(model: TorchModel) -> int:
    """The largest number of word pieces that are read of a text."""
    return min(model.max_seq_length or _LONGEST, _LONGEST)


def word_pieces(model: TorchModel, texts: Sequence[str], *, limit: int) -> dict[str, list[list[int]]]:
    """Split at least one text into at most `limit` word pieces, as `SentenceTransformer.encode` does, with their types.

    The model's own prompt, if any, comes first. Half of a surrogate pair, which UTF-8 cannot hold, is read as "?". The
    types are absent for a model without types.
    """
    prompt = model.prompts.get(model.default_prompt_name or "") or ""
    readable = [(prompt + text).encode("utf-8", "replace").decode("utf-8") for text in texts]
    found = model.tokenizer(readable, truncation=True, max_length=limit, return_attention_mask=False)
    return {name: found[name] for name in ("input_ids", "token_type_ids") if name in found}


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries' progress bars and advice within the context."""
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
