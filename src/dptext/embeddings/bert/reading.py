"""Reading a BERT that transformers saved, and a check whether `Bert` can compute it."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dptext.embeddings.bert.network import Bert, BertLayer
from dptext.kernels import tiles
from dptext.kernels.linear import Linear, Uncalibrated
from dptext.types import Singles


def supported(config: Mapping[str, Any], folder: Path) -> bool:
    """Tell whether `Bert` can compute the sentence-transformers model in a folder, given the model's `config`."""
    modules = read_json(folder / "modules.json")
    pooling = read_json(folder / modules[1]["path"] / "config.json") if len(modules) > 1 else {}
    names = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    sizes = ("hidden_size", "intermediate_size", "num_attention_heads")
    dim, wide, heads = (int(config.get(name, 0)) for name in sizes)
    modes = {name for name, on in pooling.items() if name.startswith("pooling_mode_") and on is True}
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and names in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
        and (modes == {"pooling_mode_mean_tokens"} or pooling.get("pooling_mode") == "mean")
        and heads > 0
        and dim % (heads * 32) == 0
        and dim % tiles.COLUMNS == wide % tiles.COLUMNS == 0
    )


def read_bert(weights: Mapping[str, Singles], config: Mapping[str, Any], precision: Uncalibrated = "float32") -> Bert:
    """Make the network from float32 weights by the names of transformers. KeyError: a weight is missing."""
    prefix = "" if "embeddings.word_embeddings.weight" in weights else "bert."

    def part(name: str) -> Singles:
        return np.ascontiguousarray(weights[prefix + name], np.float32)

    def pair(name: str) -> tuple[Singles, Singles]:
        return part(f"{name}.weight"), part(f"{name}.bias")

    heads = int(config["num_attention_heads"])
    root = np.float32(1 / math.sqrt(int(config["hidden_size"]) // heads))

    def layer(i: int) -> BertLayer:
        own = f"encoder.layer.{i}"
        query, key, value = (pair(f"{own}.attention.self.{name}") for name in ("query", "key", "value"))
        of_all = (np.concatenate([first * root, *rest]) for first, *rest in zip(query, key, value, strict=True))
        weights, bias = of_all
        return BertLayer(
            Linear.of(weights, bias, precision),
            Linear.of(*pair(f"{own}.attention.output.dense"), precision),
            pair(f"{own}.attention.output.LayerNorm"),
            Linear.of(*pair(f"{own}.intermediate.dense"), precision),
            Linear.of(*pair(f"{own}.output.dense"), precision),
            pair(f"{own}.output.LayerNorm"),
        )

    words, places, kinds = (part(f"embeddings.{name}_embeddings.weight") for name in ("word", "position", "token_type"))
    return Bert(
        (words, places + kinds[0]),  # all pieces of a single text have the first token type
        pair("embeddings.LayerNorm"),
        tuple(layer(i) for i in range(int(config["num_hidden_layers"]))),
        heads,
        float(config["layer_norm_eps"]),
        precision,
    )


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_bytes())
