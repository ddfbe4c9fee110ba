"""A pool that a synthesis cannot use is refused when it is fitted, before anything is charged; any other is used."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dptext as dp
import tiny_language
from dptext.embeddings.encoders import PublicVectors
from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.synthesis import pool, space
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.space import fit_space
from dptext.synthesis.steering import Steering
from dptext.synthesis.sums import Draws
from dptext.synthesis.votes import TopicReport, Votes
from dptext.text.batches import Batch
from dptext_lab.baselines.prediction import Prediction

PRIVATE = dp.sample_records(40, seed=5)
GOOD = [record.text for record in dp.sample_records(40, seed=2)]
TRAIN = ["the", "train", "was", "late", "and", "the", "weather", "grim", "again", "today", "in", "town"]
STOP = [
    "the",
    "and",
    "of",
    "to",
    "in",
    "is",
    "it",
    "that",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "at",
    "be",
]
RNG = random.Random(0)


def shuffled(words: list[str], n: int, of: int = 0) -> list[str]:
    """So many different texts of the same words, or of some of them."""
    found: dict[str, None] = {}
    while len(found) < n:
        found[" ".join(RNG.sample(words, of or len(words)))] = None
    return list(found)


POOLS = {
    "none": [],
    "one": GOOD[:1],
    "nothing to see": ["", " ", "\n", "\u200b"] * 10,
    "one text again and again": GOOD[:1] * 40,
    "the same words": shuffled(TRAIN, 25),
    "the same words, and another text": [*shuffled(TRAIN, 25), "money bank loan rate"],
    "two kinds of the same words": [*shuffled(TRAIN, 15), *shuffled(["money", "bank", "loan", "rate", "credit"], 15)],
    "stop words": shuffled(STOP, 40, 6),
    "no words": [f"{'!' * i}?" for i in range(1, 40)],
    "words that nobody knows": [f"zqx{chr(97 + i % 26)}{i} zqy{i % 5}" for i in range(40)],
    "numbers": [str(i) for i in range(40)],
    "fewer than topics ask for": GOOD[:22],
    "no more than needed": GOOD[:20],
}
SMALL: dict[str, Any] = {"encoder": "glove", "words": 0, "about": 60}
MANY = tuple(f"label {i}" for i in range(30))
SPECS = {
    "prototypes": Prototypes(labels=MANY, **SMALL),
    "prototypes with words and topics": Prototypes(labels=("travel", "money"), topics=4, **{**SMALL, "words": 8}),
    "votes": Votes(topics=4, dim=8, **SMALL),
    "votes of many topics": Votes(topics=16, labels=MANY, **SMALL),
    "topics": TopicReport(topics=4, **SMALL),
    "prediction": replace(Prediction.tiny()[2], words=0),
    "steering": Steering.tiny()[0],
}


def records(texts: list[str]) -> list[dp.Record]:
    return [dp.Record(str(i), text, label="travel") for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def writing() -> Iterator[None]:
    """Those that write have a tiny model, and pupils of an encoder few common words."""
    pytest.importorskip("numba")
    with pytest.MonkeyPatch.context() as patch, PublicVectors().learning():
        for module in (
            "dptext_lab.baselines.prediction",
            *tiny_language.LOADING,
        ):
            patch.setattr(f"{module}.load_language_model", lambda _: tiny_language.model())
        patch.setattr(space, "common_words", lambda: ["doctor", "zebra"])
        yield


def refused(spec: Any, texts: list[str]) -> str:
    """Why the pool is refused, or nothing where the whole synthesis goes through."""
    try:
        fitted = spec.fit(public=records(texts), seed=0)
    except ConfigError as error:
        return str(error)
    fitted.synthesize(lambda: (batch for batch in [Batch.of(PRIVATE)]), Draws(seeded(0)))
    return ""


@pytest.mark.slow_cases("votes of many topics", "prototypes with words and topics", why="each way stays")
@pytest.mark.usefixtures("writing")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", SPECS)
def test_a_pool_is_refused_when_it_is_fitted_or_used(way: str) -> None:
    found = {name: refused(SPECS[way], texts) for name, texts in POOLS.items()}
    assert [why for why in found.values() if why and "give " not in why.lower()] == []
    assert not found["no more than needed"] or "topics=16" in found["no more than needed"]
    assert all(found[name] for name in ("none", "nothing to see"))
    if way != "steering":
        alike = ["one", "one text again and again", "the same words"]
        alike += [] if SPECS[way].words else ["words that nobody knows"]
        assert [name for name in alike if not found[name]] == []


@pytest.mark.slow_cases("0", "8-distilled", why="GloVe with words stays")
@pytest.mark.usefixtures("writing")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("encoder", ["glove", "distilled"])
@pytest.mark.parametrize("words", [0, 8])
def test_what_reads_no_order_refuses_texts_of_the_same_words(encoder: Any, words: int) -> None:
    spec = replace(SPECS["prototypes"], encoder=encoder, words=words)
    assert "Expected public texts that differ" in refused(spec, POOLS["the same words"])
    assert refused(replace(spec, encoder="sentence", words=0), POOLS["the same words"]) == ""


def test_what_needs_no_encoder_is_checked_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder reads a large pool for minutes."""

    def late(*_: object, **__: object) -> None:
        raise AssertionError("the pool is read")

    for name in ("load_encoder", "distil_with_words"):
        monkeypatch.setattr(space, name, late)
    wanted = {"words": 8, "encoder": "distilled"}
    for spec, texts in (
        (replace(SPECS["prototypes"], **wanted), GOOD[:19]),
        (replace(SPECS["prototypes"], **wanted), POOLS["the same words"]),
        (replace(SPECS["prototypes"], encoder="distilled"), POOLS["the same words"]),
        (replace(SPECS["votes of many topics"], **wanted), GOOD[:22]),
        (replace(SPECS["votes"], **wanted), POOLS["stop words"]),
    ):
        with pytest.raises(ConfigError):
            spec.fit(public=records(texts))
    monkeypatch.setattr("dptext_lab.baselines.prediction.load_language_model", lambda _: tiny_language.model())
    with pytest.raises(ConfigError, match="as the language model reads no more"):
        replace(Prediction.tiny()[2], tokens=40).fit(public=records(GOOD))


def test_a_space_that_does_not_tell_alike_from_unlike_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is read of it, whatever reads."""
    monkeypatch.setattr(space, "features_of", lambda _, texts: np.full((len(texts), 50), 0.5))
    with pytest.raises(ConfigError, match="gives each the same vector"):
        fit_space(GOOD, encoder="glove", words=0, dim=8)
    with pytest.raises(ConfigError, match="at least 4 texts with different vectors"):
        pool.fit_topics(GOOD, np.repeat(np.eye(2), [30, 10], axis=0), 4, seed=0)
