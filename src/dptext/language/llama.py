"""A Llama in vector instructions of this processor: no padding, and a text's logits are a function of the text alone.

Each row and each text is computed on its own (see `dptext.kernels`). So neither the other texts nor reading a text in
parts changes a bit of its logits. The common beginning of several prompts is read once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dptext.errors import ConfigError
from dptext.kernels import attention, tiles
from dptext.kernels.activations import gate, log_totals
from dptext.kernels.linear import DTYPES, Exactness, Linear, room
from dptext.kernels.norms import normalize
from dptext.kernels.packing import Blocks, scaled_blocks
from dptext.kernels.products import SPARE, packed_products, products, round_rows, rounded_products
from dptext.types import Floats, Integers, Singles

_ROWS_AT_ONCE: Final = 256  # tokens of a batch, few enough for the cache to hold the numbers between layers
_LONGEST: Final = 8192
_KV_HEADS: Final = "num_key_value_heads"
#: What transformers takes where a config has none: `rope_theta` is absent from those of Llama 2.
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "vocab_size": 32_000, "hidden_size": 4_096, "intermediate_size": 11_008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2_048, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
    }
)  # fmt: skip
_SIZES: Final = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "max_position_embeddings", _KV_HEADS, "head_dim",
)  # fmt: skip
_ANOTHER: Final = "Save the language model again, or take another."


@dataclass(frozen=True, slots=True, eq=False)
class LlamaLayer:
    """One layer: the gains of its two norms, attention and its output `mixed`, and the feed-forward part.

    `widened` is gate and widening side by side; `narrowed` leads back.
    """

    norms: tuple[Singles, Singles]
    attention: Linear
    mixed: Linear
    widened: Linear
    narrowed: Linear

    def at(self, exactness: Exactness) -> LlamaLayer:
        """Return this layer in another precision."""
        linear = (each.at(exactness) for each in (self.attention, self.mixed, self.widened, self.narrowed))
        return LlamaLayer(self.norms, *linear)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Llama:
    """A network of the Llama family, which reads at most `longest` tokens.

    `words` `(vocabulary, dim)` are the vectors of tokens. `gain` belongs to the last norm. `head` computes the logits.
    `heads` is the number of heads of queries, which share `kv_heads` heads of keys and values. `theta` is the base of
    the rotations.
    """

    words: Singles
    layers: tuple[LlamaLayer, ...]
    gain: Singles
    head: Linear
    heads: int
    kv_heads: int
    head_dim: int
    theta: float
    epsilon: np.float32
    longest: int

    def at(self, exactness: Exactness) -> Llama:
        """Return this network of float32 in float32 or bfloat16. Norms and attention stay in float32.

        ConfigError: the network is one of bfloat16, whose weights are rounded.
        """
        layers = tuple(layer.at(exactness) for layer in self.layers)
        return replace(self, layers=layers, head=self.head.at(exactness))

    def contexts(self, prompts: Sequence[Sequence[int]], *, more: int) -> LlamaContexts:
        """Read prompts, with room for `more` tokens. ConfigError: a prompt is empty, too long or has unknown tokens."""
        lengths = [len(prompt) for prompt in prompts]
        if not prompts or min(lengths) < 1 or max(lengths) + more > self.longest:
            raise ConfigError(f"Expected prompts of 1 to {self.longest - more} tokens.")
        if not all(0 <= token < len(self.words) for prompt in prompts for token in prompt):
            raise ConfigError(f"Expected tokens below {len(self.words)}: take the model's own tokenizer.")
        return LlamaContexts(self, prompts, max(lengths) + more)


class _LayersSpace:
    """Working memory of all layers for at most `most` rows. No row reads another, so that old rows may stay in it.

    The inputs of layers have their own width; the outputs have room for whole panels (see `Linear.padded`).
    """

    def __init__(self, network: Llama, n: int, shares: int) -> None:
        first, dim = network.layers[0], network.words.shape[1]
        self.most = _whole_tiles(n)
        self.x, self.rows, self.more = (room(self.most, width) for width in (dim, dim, len(first.narrowed.bias)))
        self.taken, self.gated = (room(self.most, each.n_in) for each in (first.mixed, first.narrowed))
        self.projected, self.both = (room(self.most, len(each.bias)) for each in (first.attention, first.widened))
        self.rounded = _rounded(self.most, (first.attention, first.mixed, first.narrowed))
        self.tile, self.shares = _tile(first.attention, first.mixed, first.narrowed), room(tiles.ROWS, shares)
        self.queries, self.scores = room(tiles.ROWS, network.head_dim), room(tiles.ROWS, attention.BLOCK)


class _HeadSpace:
    """Working memory for the logits of at most `most` rows, as `_LayersSpace`."""

    def __init__(self, head: Linear, n: int) -> None:
        self.most = _whole_tiles(n)
        self.rows, self.logits = room(self.most, head.n_in), room(self.most, len(head.bias))
        self.rounded, self.tile = _rounded(self.most, (head,)), _tile(head)


class LlamaContexts:
    """Texts that a `Llama` has read so far: their keys, values and last `logits` `(n, vocabulary)`.

    Keys and values stand in blocks of tokens (see `attend_causally`). The common beginning of all prompts is read once,
    and its whole blocks stand once, as they are the same in each.
    """

    __slots__ = (
        "_cosines", "_head_space", "_keys", "_lengths", "_network", "_sines", "_space", "_table", "_values", "logits",
    )  # fmt: skip

    logits: Singles

    def __init__(self, network: Llama, prompts: Sequence[Sequence[int]], longest: int) -> None:
        """Read the prompts, with room for texts of `longest` tokens."""
        self._network, width = network, attention.BLOCK
        n, start = len(prompts), _common(prompts)
        common = start // width
        own = -(-longest // width) - common
        firsts = np.tile(np.arange(common), (n, 1))
        self._table = np.concatenate([firsts, common + np.arange(n * own).reshape(n, own)], axis=1)
        shape, parts = (common + n * own, network.kv_heads), -(-network.head_dim // width)
        # The system gives a page of zeros when it is first written: texts that end early take little memory.
        self._keys = [room(*shape, network.head_dim, width) for _ in network.layers]
        self._values = [room(*shape, parts, width, width) for _ in network.layers]
        frequencies = network.theta ** (-np.arange(0, network.head_dim, 2) / network.head_dim)
        angles = np.arange(longest)[:, None] * frequencies
        self._sines, self._cosines = np.sin(angles).astype(np.float32), np.cos(angles).astype(np.float32)
        self.logits = np.empty((n, len(network.words)), np.float32)
        self._lengths = np.full(n, start)
        self._space, self._head_space = self._workspace(1), _HeadSpace(network.head, 1)
        if start:
            self._read([0] * start, range(start), prompts[0][:start])
            first, *others = self._table[:, start // width].tolist()
            for known in (*self._keys, *self._values) if start % width else ():
                known[others] = known[first]
        self._read_rest([prompt[start:] for prompt in prompts])

    def __repr__(self) -> str:
        return f"LlamaContexts({len(self._lengths)} texts)"

    def log_probabilities(self, texts: Integers | None = None) -> Floats:
        """ln of the probability of each token after each text, `(n, vocabulary)`; `texts` are the rows that count."""
        return log_probabilities(self.logits if texts is None else self.logits[texts])

    def append(self, tokens: Integers, texts: Integers | None = None) -> None:
        """Read one more token `(n,)` of each text, or of those whose rows are `texts`. ConfigError: no room is left."""
        if (self._lengths if texts is None else self._lengths[texts]).max(initial=0) >= len(self._sines):
            raise ConfigError("Expected room for one more token: make the contexts with more.")
        parts: list[list[int]] = [[] for _ in self._lengths]
        for row, token in zip(range(len(parts)) if texts is None else texts, tokens.tolist(), strict=True):
            parts[row].append(token)
        self._read_rest(parts)

    def _read_rest(self, parts: Sequence[Sequence[int]]) -> None:
        batch: list[int] = []
        going = [i for i, part in enumerate(parts) if len(part)]
        for i in going:
            batch.append(i)
            if sum(len(parts[j]) for j in batch) >= _ROWS_AT_ONCE or i == going[-1]:
                owners = [j for j in batch for _ in parts[j]]
                places = [int(self._lengths[j]) + k for j in batch for k in range(len(parts[j]))]
                x = self._read(owners, places, [token for j in batch for token in parts[j]])
                ends = np.cumsum([len(parts[j]) for j in batch]) - 1
                self.logits[batch] = self._head(x[ends])
                batch = []
        self._lengths += [len(part) for part in parts]

    def _read(self, owners: Sequence[int], places: Sequence[int], tokens: Sequence[int]) -> Singles:
        """Compute the last layer's rows for these tokens, and keep the tokens' keys and values."""
        network, n, dim = self._network, len(tokens), self._network.words.shape[1]
        own, where = np.array(owners, np.int64), np.array(places, np.int64)
        if _whole_tiles(n) != self._space.most:
            self._space = self._workspace(n)
        space = self._space
        x, rows, more, tile, rounded = space.x, space.rows, space.more, space.tile, space.rounded
        x[:n] = network.words[list(tokens)]
        for layer, keys, values in zip(network.layers, self._keys, self._values, strict=True):
            normalize(x, n, layer.norms[0], network.epsilon, rows)
            _multiply(layer.attention, rows, n, rounded, tile, space.projected)
            attention.attend_causally(
                space.projected, own, where, self._sines, self._cosines, keys, values, self._table, space.queries,
                space.shares, space.scores, space.taken,
            )  # fmt: skip
            _multiply(layer.mixed, space.taken, n, rounded, tile, more)
            x[:n] += more[:n, :dim]
            normalize(x, n, layer.norms[1], network.epsilon, rows)
            _multiply(layer.widened, rows, n, rounded, tile, space.both)
            gate(space.both, n, space.gated)
            _multiply(layer.narrowed, space.gated, n, rounded, tile, more)
            x[:n] += more[:n, :dim]
        normalize(x, n, network.gain, network.epsilon, rows)
        return rows

    def _workspace(self, n: int) -> _LayersSpace:
        return _LayersSpace(self._network, n, self._table.shape[1] * attention.BLOCK)

    def _head(self, last: Singles) -> Singles:
        n, head = len(last), self._network.head
        if _whole_tiles(n) != self._head_space.most:
            self._head_space = _HeadSpace(head, n)
        space = self._head_space
        space.rows[:n] = last
        _multiply(head, space.rows, n, space.rounded, space.tile, space.logits)
        return space.logits[:n, : len(self._network.words)]


def _common(prompts: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens with which all prompts begin; each prompt has a token left after them."""
    columns, shortest = enumerate(zip(*prompts, strict=False)), min(map(len, prompts))
    same = min(next((i for i, column in columns if len(set(column)) > 1), shortest), shortest - 1)
    return same if len(prompts) > 1 else 0


def _multiply(
    layer: Linear,
    rows: Singles,
    n: int,
    rounded: Mapping[int, np.ndarray[Any, Any]],
    tile: tuple[Singles, Singles],
    out: Singles,
) -> None:
    sums, panel = tile
    given: np.ndarray[Any, Any] = rows
    if narrow := layer.panels.dtype == DTYPES["bfloat16"]:
        given = rounded[rows.shape[1]]
        round_rows(rows, n, given)
    if layer.packed is not None:
        packed_products(given, n, layer.packed, layer.bias, panel, sums, out)
    else:
        (rounded_products if narrow else products)(given, n, layer.panels, layer.bias, sums, out)


def _tile(*layers: Linear) -> tuple[Singles, Singles]:
    """Room for the sums of a tile, and for an unpacked panel of the widest layer. Others may be packed than these."""
    return room(SPARE, tiles.COLUMNS), room(max(each.n_in for each in layers), tiles.COLUMNS)


def _whole_tiles(n: int) -> int:
    """Return the number of rows in the tiles that n rows fill."""
    return -(-n // SPARE) * SPARE


def _rounded(n: int, layers: Sequence[Linear]) -> Mapping[int, np.ndarray[Any, Any]]:
    """Return room for the rounded inputs of the layers that take bfloat16, by their width."""
    dtype = DTYPES["bfloat16"]
    widths = {each.n_in for each in layers if each.panels.dtype == dtype}
    return {width: room(n, width, dtype=dtype) for width in widths}


def log_probabilities(logits: Singles) -> Floats:
    """ln of the probabilities `(n, vocabulary)`. Each row is a function of the same row of logits alone."""
    totals = np.empty(len(logits))
    log_totals(logits, len(logits), totals)
    return np.asarray(logits.astype(np.float64) - totals[:, None])


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model with those of transformers where `config` lacks one, or has null.

    ConfigError: a size is no whole number above 0.
    """
    found = {**_DEFAULTS, **{name: value for name, value in config.items() if value is not None}}
    for name in _SIZES:
        if name == _KV_HEADS:
            found.setdefault(name, found["num_attention_heads"])
        if name == "head_dim":
            found.setdefault(name, found["hidden_size"] // found["num_attention_heads"])
        if not isinstance(found[name], int) or isinstance(found[name], bool) or found[name] < 1:
            given = f"{found[name]!r:.60}"
            raise ConfigError(f"Expected {name} of a language model to be a whole number above 0, found {given}.")
    return found


def unsupported(config: Mapping[str, Any]) -> str:
    """Name the settings of a model's `config` that `Llama` cannot compute; empty if it can compute the model.

    ConfigError as of `completed`.
    """
    config = completed(config)
    heads, kv_heads = config["num_attention_heads"], config[_KV_HEADS]
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rotation = rope.get("rope_type") or rope.get("type") or "default"
    found = {
        f"model_type={config.get('model_type')!r}": config.get("model_type") != "llama",
        f"hidden_act={config['hidden_act']!r}": config["hidden_act"] != "silu",
        "attention_bias=true": config.get("attention_bias"),
        "mlp_bias=true": config.get("mlp_bias"),
        "quantization_config": config.get("quantization_config"),
        f"rope_type={rotation!r}": rotation != "default",
        f"num_attention_heads={heads} with {_KV_HEADS}={kv_heads}": heads % kv_heads,
        f"head_dim={config['head_dim']}": config["head_dim"] % 2,
    }
    return ", ".join(name for name, so in found.items() if so)


def read_llama(
    part: Callable[[str], Singles],
    config: Mapping[str, Any],
    blocks: Callable[[str], Blocks | None] = lambda _: None,
) -> Llama:
    """Make the network in float32. `part` returns weights by name, and `blocks` those of the same weights, if any.

    ConfigError: weights have another shape than the settings say, or a number is not finite, or no number.
    """
    config = completed(config)
    heads, kv_heads, head_dim = config["num_attention_heads"], config[_KV_HEADS], config["head_dim"]
    dim, wide, size = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    rope = {name: value for name, value in (config.get("rope_parameters") or {}).items() if value is not None}
    numbers = {name: {**config, **rope}[name] for name in ("rope_theta", "rms_norm_eps")}
    if not all(isinstance(each, int | float) and 0 < np.float32(each) < math.inf for each in numbers.values()):
        given = " and ".join(f"{name}={value!r:.60}" for name, value in numbers.items())
        raise ConfigError(f"Expected {given} above 0 and finite. {_ANOTHER}")
    theta, epsilon = float(numbers["rope_theta"]), np.float32(numbers["rms_norm_eps"])
    root = 1 / math.sqrt(head_dim)
    shapes = {
        "embed_tokens": (size, dim), "lm_head": (size, dim), "q_proj": (heads * head_dim, dim),
        "k_proj": (kv_heads * head_dim, dim), "v_proj": (kv_heads * head_dim, dim), "o_proj": (dim, heads * head_dim),
        "gate_proj": (wide, dim), "up_proj": (wide, dim), "down_proj": (dim, wide),
    }  # fmt: skip

    def known(name: str) -> Singles:
        found, shape = part(name), shapes.get(name.split(".")[-2], (dim,))
        if found.shape != shape:
            raise ConfigError(f"Expected the weights {name} to have shape {shape}, found {found.shape}. {_ANOTHER}")
        # Minimum and maximum are enough, as both are NaN if a weight is NaN. A mask would take more memory and time.
        if not (np.isfinite(found.min()) and np.isfinite(found.max())):
            raise ConfigError(f"Expected the weights {name} to be finite, found NaN or infinity. {_ANOTHER}")
        return found

    def linear(*names: str, scale: float = 1.0) -> Linear:
        weights = [known(f"{name}.weight") for name in names]
        kept = [blocks(f"{name}.weight") if tiles.WIDE else None for name in names]
        if scale != 1:
            weights[0] = weights[0] * np.float32(scale)
            kept[0] = None if kept[0] is None else scaled_blocks(kept[0], np.float32(scale))
        together = weights[0] if len(weights) == 1 else np.concatenate(weights)
        there = [each for each in kept if each is not None]
        alike = len(there) == len(kept) and len({each.shape[2] for each in there}) == 1
        return Linear.padded(together, np.zeros(len(together), np.float32), np.concatenate(there) if alike else None)

    def layer(i: int) -> LlamaLayer:
        own = f"model.layers.{i}"
        return LlamaLayer(
            (known(f"{own}.input_layernorm.weight"), known(f"{own}.post_attention_layernorm.weight")),
            linear(*(f"{own}.self_attn.{name}_proj" for name in ("q", "k", "v")), scale=root),
            linear(f"{own}.self_attn.o_proj"),
            linear(f"{own}.mlp.gate_proj", f"{own}.mlp.up_proj"),
            linear(f"{own}.mlp.down_proj"),
        )

    return Llama(
        known("model.embed_tokens.weight"),
        tuple(layer(i) for i in range(config["num_hidden_layers"])),
        known("model.norm.weight"),
        linear("model.embed_tokens" if config.get("tie_word_embeddings") else "lm_head"),
        heads,
        kv_heads,
        head_dim,
        theta,
        epsilon,
        min(config["max_position_embeddings"], _LONGEST),
    )
