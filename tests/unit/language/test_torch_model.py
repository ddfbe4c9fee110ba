"""Language models that transformers loads: what they write, and how noisy numbers move it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch_folders
from dptext.errors import ConfigError
from dptext.language.reading import load_language_model
from dptext.language.torch_model import TorchModel, load_torch_model
from dptext.language.writing import RUN, Drafts

Written = Callable[..., Drafts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose own settings of generation would repeat nothing, and choose among two tokens."""
    path = tmp_path_factory.mktemp("models") / "llama"
    return torch_folders.saved(
        path, "llama 3", chat=torch_folders.CHAT, repetition_penalty=50.0, do_sample=True, top_k=2
    )


@pytest.fixture(scope="module")
def model(folder: Path) -> TorchModel:
    return load_torch_model(str(folder), device="cpu")


def written(model: TorchModel, n: int = 200, **changed: object) -> Drafts:
    given = {
        "shift": np.zeros(model.size), "ends": model.line_ends, "most": 12, "temperature": 1.0, "options": 400,
        "seed": 1,
    }  # fmt: skip
    return model.write(model.tokens(" travel:"), n, **{**given, **changed})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def usual(model: TorchModel) -> list[list[int]]:
    """Two hundred texts without a shift, in one batch."""
    return written(model, batch=200).texts


@pytest.mark.parametrize("family", torch_folders.FAMILIES)
def test_models_of_each_family_write(family: str, tmp_path: Path) -> None:
    found = load_torch_model(str(torch_folders.saved(tmp_path / "m", family)), device="cpu")
    assert (found.size, found.longest) == (400, 200)
    assert found.start == (() if torch_folders.FAMILIES[family][2] else (2,))  # as the tokenizer begins texts
    assert found.text(found.tokens("travel:")) == "travel:"
    assert found.text(found.tokens(" room")) == " room"
    assert {*found.tokens("\n")} <= found.line_ends
    texts = written(found, 5, temperature=0.7)
    assert len(texts.texts) == 5
    assert all(len(text) <= 12 and not found.line_ends & {*text} for text in texts.texts)
    assert texts.drawn >= sum(map(len, texts.texts))
    assert len({tuple(text) for text in texts.texts}) > 1


def test_tokens_and_texts(model: TorchModel) -> None:
    assert model.text(model.tokens("A train to Rome")) == "A train to Rome"
    assert 1 not in model.tokens("a<end>b")  # the spelling of a special token is text
    assert [model.text([end]) for end in sorted(model.line_ends - model.stops)] == ["\n"]
    assert model.stops == {1}
    assert model.asked("Why?") == model.tokens("Q: Why?\nA:")


def test_the_settings_of_generation_that_a_folder_brings_do_not_count(usual: list[list[int]]) -> None:
    """With its repetition_penalty and top_k of the folder hardly a token would come twice, or from beyond the two."""
    first = {text[0] for text in usual if text}
    assert len(first) > 10
    assert any(len({*text}) < len(text) for text in usual)


def test_a_shift_makes_a_token_likelier_but_not_again(model: TorchModel, usual: list[list[int]]) -> None:
    (token,) = model.tokens("k")
    shift = np.zeros(model.size)
    shift[token] = 6.0
    there = [text.count(token) for text in written(model, shift=shift, batch=200).texts]
    assert np.mean([n > 0 for n in there]) > 0.9
    assert np.mean([token in text for text in usual]) < 0.5
    assert np.mean([n > 1 for n in there]) < 0.5
    shift[token] = -20.0
    assert not any(token in text for text in written(model, shift=shift, batch=200).texts)


def test_what_is_expected_is_what_is_drawn_on_average(model: TorchModel) -> None:
    """The expected numbers of tokens, and of drawn ones, agree with those in the texts."""
    found = written(model, 1_500, temperature=0.8, batch=500)
    counts = np.bincount([token for text in found.texts for token in text], minlength=model.size) / 1_500
    ends = np.isin(np.arange(model.size), [*model.line_ends])
    deviation = np.sqrt(found.expected / 1_500) + 1e-3
    assert (np.abs(found.expected - counts)[~ends] < 5 * deviation[~ends]).all()
    assert found.expected.sum() == pytest.approx(found.drawn / 1_500, rel=1e-3)
    assert not np.allclose(found.expected[~ends], 0.8 * counts[~ends], atol=0.01)


@pytest.mark.parametrize("family", torch_folders.FAMILIES)
def test_log_probabilities_without_shift_are_those_of_the_model(family: str, tmp_path: Path) -> None:
    """`likely` is the sum over all drawn tokens, ends among them, which a second pass over the texts finds again.

    The second pass reads each text whole. The prompt is longer than the windows of the models that have one.
    """
    import torch

    model = load_torch_model(str(torch_folders.saved(tmp_path / "m", family)), device="cpu")
    shift = np.linspace(-1, 1, model.size)
    shift[1] = 6.0
    prompt, whole = [*model.start, *model.tokens("Book a train to Rome, and a room in a hotel: travel:")], 0.0
    assert len(prompt) > 20
    found = model.write(
        prompt, 30, shift=shift, ends=frozenset([1]), most=5, temperature=1.0, options=400, seed=1
    )  # fmt: skip
    drawn = [[*text, 1] if len(text) < 5 else text for text in found.texts]
    with torch.inference_mode():
        for text in drawn:
            rows = torch.tensor([[*prompt, *text]])
            logits = torch.log_softmax(model.network(rows).logits[0].float(), dim=-1)
            own = logits[len(prompt) - 1 : len(prompt) - 1 + len(text)]
            whole += float(own.gather(1, rows[0, len(prompt) :, None]).sum())
    assert 0 < sum(len(text) < 5 for text in found.texts) < 30
    assert found.drawn == sum(map(len, drawn))
    assert found.likely == pytest.approx(whole, abs=1e-3)


def test_few_options_leave_the_most_likely_tokens_and_the_ends(model: TorchModel) -> None:
    found = written(model, 300, options=2, batch=300)
    assert len({text[0] for text in found.texts if text}) <= 2


def test_the_same_seed_writes_the_same_texts(model: TorchModel) -> None:
    assert written(model, 8).texts == written(model, 8).texts != written(model, 8, seed=2).texts


def test_progress_is_told_in_texts(model: TorchModel) -> None:
    told: list[int] = []
    written(model, 100, on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 100
    assert len(told) > 10


def test_a_long_prompt_is_refused(model: TorchModel) -> None:
    with pytest.raises(ConfigError, match="at most 200 tokens"):
        model.require_room(101, 100)


def test_the_digest_is_that_of_the_own_reader(folder: Path) -> None:
    """A plain Llama folder has the same sha256 by both readers."""
    import tiny_language

    path = folder.parent / "plain"
    tiny_language.saved(path, tiny_language.weights())
    assert load_torch_model(str(path), device="cpu").digest == load_language_model(str(path)).digest


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("absent", "folder with config.json and"),
        ("no weights", "folder with config.json and"),
        ("pickled", "folder with config.json and"),
        ("cut", "Cannot load the language model"),
        ("own code", "Cannot load the language model"),
        ("nan", "finite numbers"),
        ("lacking", "Expected the weights model.layers.1"),
        ("device", "device='nowhere'"),
    ],
)
def test_a_damaged_folder_is_refused(fault: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    if fault != "absent":
        torch_folders.saved(path, "qwen2")
    weights = path / "model.safetensors"
    if fault == "no weights":
        weights.unlink()
    if fault == "pickled":  # numbers in a pickle are never read
        weights.rename(path / "pytorch_model.bin")
    if fault == "cut":
        weights.write_bytes(weights.read_bytes()[:100])
    if fault == "own code":
        config = path / "config.json"
        named = '"auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}, "model_type": "qwen2"'
        config.write_text(config.read_text().replace('"model_type": "qwen2"', named).replace('"qwen2"', '"own"'))
        (path / "own.py").write_text("raise SystemExit('the code of a model ran')")
    if fault == "lacking":
        from safetensors.numpy import load_file, save_file

        there = {name: rows for name, rows in load_file(weights).items() if "layers.1." not in name}
        save_file(there, weights, {"format": "pt"})
    if fault == "nan":
        from safetensors.numpy import load_file, save_file

        save_file(
            {name: np.full_like(rows, np.nan) for name, rows in load_file(weights).items()}, weights, {"format": "pt"}
        )
    with pytest.raises(ConfigError, match=said):
        load_torch_model(str(path), device="nowhere" if fault == "device" else "cpu")


def test_a_model_that_reads_in_both_directions_is_refused(tmp_path: Path) -> None:
    """Transformers loads BERT as a causal language model, and would write noise with it."""
    import transformers

    path = torch_folders.saved(tmp_path / "m", "qwen2")
    sizes = {name: torch_folders.SIZES[name] for name in ("vocab_size", "hidden_size", "intermediate_size")}
    config = transformers.BertConfig(**sizes, num_hidden_layers=1, num_attention_heads=4, eos_token_id=1)
    transformers.BertLMHeadModel(config).save_pretrained(path)
    with pytest.raises(ConfigError, match="in both directions"):
        load_torch_model(str(path), device="cpu")


def test_numbers_that_overflow_while_it_writes_are_said(model: TorchModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float16 can overflow after some tokens, though the first ones are finite."""
    forward = type(model.network).forward

    def overflowing(network: Any, *given: Any, **more: Any) -> Any:
        found = forward(network, *given, **more)
        if found.logits.shape[0] > 1:  # not the prompt
            found.logits = found.logits * float("inf")
        return found

    monkeypatch.setattr(type(model.network), "forward", overflowing)
    with pytest.raises(ConfigError, match="set precision=float32"):
        written(model, 3)


@pytest.mark.parametrize("least", [0, 6])
def test_no_text_ends_before_its_least_number_of_tokens(least: int, model: TorchModel) -> None:
    ends = np.zeros(model.size)
    ends[sorted(model.line_ends)] = 4.0
    lengths = [len(text) for text in written(model, 60, shift=ends, least=least).texts]
    assert max(lengths) <= 12
    assert (min(lengths) >= 6) == (least == 6)


@pytest.mark.parametrize("least", [0, 9])
def test_a_text_that_may_not_end_does_not_repeat_itself(least: int, model: TorchModel) -> None:
    """Sixty tokens of three different ones hold a run of five twice, unless such runs may come once alone."""
    few = np.full(model.size, -30.0)
    few[[20, 21, 22]] = 0.0
    found = written(model, 6, shift=few, least=least, most=60).texts
    runs = [[tuple(text[i : i + RUN]) for i in range(len(text) - RUN + 1)] for text in found]
    assert all(len(set(own)) == len(own) for own in runs) == bool(least)


def test_a_model_that_keeps_a_state_writes(tmp_path: Path) -> None:
    """Mamba has no keys and values that could be repeated for each text."""
    found = load_torch_model(str(torch_folders.saved(tmp_path / "m", "mamba")), device="cpu")
    texts = written(found, 4).texts
    assert len({tuple(text) for text in texts}) > 1


def test_a_prompt_of_one_token_is_continued(model: TorchModel) -> None:
    found = model.write(
        [model.tokens("a")[0]], 3, shift=np.zeros(model.size), ends=model.line_ends, most=4, temperature=1.0,
        options=400, seed=1,
    )  # fmt: skip
    assert len(found.texts) == 3


def test_a_batch_that_does_not_fit_is_halved(model: TorchModel, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    sizes, generate = list[int](), model.network.generate

    def small(rows: torch.Tensor, **given: object) -> torch.Tensor:
        sizes.append(len(rows))
        if len(rows) > 2:
            raise torch.OutOfMemoryError("too much")
        return generate(rows, **given)

    monkeypatch.setattr(model.network, "generate", small)
    found = written(model, 5, batch=8)
    assert len(found.texts) == 5
    assert sizes == [5, 4, 2, 2, 1]
    monkeypatch.setattr(torch.Tensor, "repeat", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(ConfigError, match="fits into memory"):
        written(model, 5)


def test_a_model_without_a_chat_template_is_asked_by_lines(tmp_path: Path) -> None:
    found = load_torch_model(str(torch_folders.saved(tmp_path / "m", "qwen2")), device="cpu")
    with pytest.raises(ConfigError, match="take the template lines"):
        found.asked("Why?")
