"""A tiny language model of random numbers: no download, no weights in a package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

#: Modules of the library that load a model.
LOADING = tuple(f"dptext.synthesis.{name}" for name in ("steering", "drafting", "from_model"))
#: As transformers writes it. The sizes fit the tiles of every processor.
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_act": "silu", "vocab_size": 96, "hidden_size": 96, "intermediate_size": 144,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 200,
    "initializer_range": 0.3, "rms_norm_eps": 1e-5, "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}  # fmt: skip
Weights = dict[str, np.ndarray]
DIM, WIDE, LAYERS = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["num_hidden_layers"]
KV = DIM // CONFIG["num_attention_heads"] * CONFIG["num_key_value_heads"]
OF_A_LAYER = {
    "input_layernorm": (DIM,), "post_attention_layernorm": (DIM,), "self_attn.q_proj": (DIM, DIM),
    "self_attn.k_proj": (KV, DIM), "self_attn.v_proj": (KV, DIM), "self_attn.o_proj": (DIM, DIM),
    "mlp.gate_proj": (WIDE, DIM), "mlp.up_proj": (WIDE, DIM), "mlp.down_proj": (DIM, WIDE),
}  # fmt: skip
LETTERS = "\nabcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:;!?'0123456789<>()-/"


def tokenizer(*, apart: bool = False) -> Any:
    """A token a letter; `<end>` is special. Texts are written with a space after each letter if they stand `apart`.

    A text of one word is not readable, and this model writes few spaces.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    words = ["<unknown>", "<end>", *LETTERS]
    found = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    found.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    if not apart:
        found.decoder = decoders.Fuse()
    found.add_special_tokens([AddedToken("<end>", special=True)])
    return found


def model(*, apart: bool = False) -> Any:
    """The model, alike at every call, with a tokenizer."""
    from dptext.language.llama import read_llama
    from dptext.language.reading import LanguageModel

    rng = np.random.default_rng(7)
    dim, wide = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    kv = dim // CONFIG["num_attention_heads"] * CONFIG["num_key_value_heads"]
    shapes = {
        "embed_tokens": (CONFIG["vocab_size"], dim), "q_proj": (dim, dim), "k_proj": (kv, dim), "v_proj": (kv, dim),
        "o_proj": (dim, dim), "gate_proj": (wide, dim), "up_proj": (wide, dim), "down_proj": (dim, wide),
    }  # fmt: skip

    def part(name: str) -> Any:
        shape = shapes.get(name.split(".")[-2])
        return np.ones(dim, np.float32) if shape is None else rng.normal(0, 0.5, shape).astype(np.float32)

    tied = part("model.embed_tokens.weight")
    network = read_llama(lambda name: tied if "embed_tokens" in name else part(name), CONFIG)
    return LanguageModel(network, tokenizer(apart=apart), 1, "tiny")


def weights() -> Weights:
    """The weights of a model, as transformers names them."""
    rng = np.random.default_rng(0)
    shapes = {"model.embed_tokens.weight": (CONFIG["vocab_size"], DIM), "model.norm.weight": (DIM,)}
    for i in range(LAYERS):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in OF_A_LAYER.items()}
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def saved(path: Path, own: Weights, *, apart: bool = False, **changed: Any) -> str:
    """Save a model with a tokenizer as a folder, as transformers does, and return its path."""
    from safetensors.numpy import save_file

    path.mkdir()
    save_file(own, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({**CONFIG, "eos_token_id": 1, **changed}), "utf-8")
    tokenizer(apart=apart).save(str(path / "tokenizer.json"))
    return str(path)


def writes_here(patch: pytest.MonkeyPatch) -> None:
    """Let the model write in this process, where a test has put it in the place of another."""
    from dptext.synthesis.desks import desk

    patch.setattr("dptext.runs.writing.is_there", lambda _: True)
    patch.setattr("dptext.synthesis.from_model.desk", lambda steering, _, progress: desk(steering, 0, progress))
