"""Private prediction: its whole distribution enumerated, what it charges, and what it writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare

pytest.importorskip("numba")

import dptext as dp
import tiny_language
from dptext.errors import ConfigError, IncomparableError
from dptext.language.writing import by_temperature, options_of, write
from dptext.privacy import accounting
from dptext.privacy.events import ZcdpEvent
from dptext.privacy.guarantee import Unit
from dptext.sampling.source import secure, seeded
from dptext.synthesis import groups_of_units
from dptext.synthesis.prediction import FittedPrediction, Prediction
from dptext.synthesis.space import Corpus
from dptext.text.batches import Batch
from dptext.text.records import Record

SPEC = Prediction(labels=("travel",), about=12, tokens=2, per_text=2, size=4, options=50, examples=1, epsilon=3.0)


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dptext.synthesis.prediction.load_language_model", lambda _: tiny_language.model())
        yield


@pytest.fixture(scope="module")
def fitted() -> FittedPrediction:
    found = SPEC.fit(public=dp.sample_records(20, seed=3))
    assert isinstance(found, FittedPrediction)
    return found


def corpus(records: list[Record]) -> Corpus:
    return lambda: iter([Batch.of(records)])  # type: ignore[return-value]


def outcomes(fitted: FittedPrediction, texts: list[str]) -> dict[tuple[int, int], float]:
    """ln of the probability of each text of two tokens that one group of these texts writes."""
    choice, model = fitted.spec.choice(), tiny_language.model()
    found = {}

    def step(written: list[int]) -> tuple[np.ndarray, np.ndarray]:
        prompts = [fitted._prompt(0) + written, *(fitted._prompt(0, text) + written for text in texts)]
        known = model.contexts(prompts, more=0).log_probabilities()
        there = np.sort(options_of(known[:1], fitted.spec.options, fitted._end), axis=1)
        base = np.take_along_axis(known[:1], there, axis=1)
        steps = choice.steps(known[1:][:, there[0]], base) if texts else np.zeros((1, base.shape[1]), np.int64)
        return there[0], np.log(choice.distribution(steps.sum(axis=0, keepdims=True), base)[0])

    first, chances = step([])
    for token, chance in zip(first.tolist(), chances, strict=True):
        second, more = step([token])
        found |= {(token, other): chance + each for other, each in zip(second.tolist(), more, strict=True)}
    assert math.isclose(float(logsumexp(list(found.values()))), 0.0, abs_tol=1e-9)
    return found


def divergence(one: dict[tuple[int, int], float], other: dict[tuple[int, int], float], alpha: float) -> float:
    assert one.keys() == other.keys(), "what can be written follows public text"
    p, q = (np.array([each[key] for key in one]) for each in (one, other))
    return float(logsumexp(alpha * p + (1 - alpha) * q)) / (alpha - 1)


@pytest.mark.parametrize(("relation", "planted_factor"), [("add_or_remove_one", 2.0), ("replace_one", 4.0)])
def test_two_tokens_of_fifty_options_enumerated(fitted: FittedPrediction, relation: str, planted_factor: float) -> None:
    """No unit moves all that a group can write by more than what the tokens cost; a larger reach does."""
    texts = ["a train to Lima", "the night bus"]
    costs = fitted.spec.rho * (1 - fitted.spec.count_share)
    worst = {}
    for factor in (1.0, planted_factor):
        spec = replace(fitted.spec, relation=relation)
        planted = FittedPrediction(spec, tiny_language.model(), fitted.examples)
        real = spec.choice()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                Prediction, "choice", lambda _, real=real, factor=factor: replace(real, reach=factor * real.reach)
            )  # type: ignore[misc]
            before = outcomes(planted, texts)
            others = (
                [[*texts, "zzzz 99"], texts[:1]]
                if relation == "add_or_remove_one"
                else [["zzzz 99", texts[1]], [texts[0], "A"]]
            )
            worst[factor] = max(
                divergence(*pair, alpha) / alpha
                for other in others
                for pair in itertools.permutations([before, outcomes(planted, other)])
                for alpha in (1.05, 2.0, 16.0)
            )
    assert 0 < worst[1.0] <= costs
    assert worst[planted_factor] > costs


def test_what_is_charged_is_for_all_tokens_and_the_numbers() -> None:
    for relation, farther in (("add_or_remove_one", 2), ("replace_one", 4)):
        spec = replace(SPEC, relation=relation, tokens=24, per_text=32)
        choice = spec.choice()
        tokens = spec.tokens * (farther * choice.reach) ** 2 / 8
        assert tokens + spec.rho * spec.count_share == pytest.approx(spec.rho, rel=1e-9)
        assert choice.clip == pytest.approx(choice.reach * 32 * spec.temperature)
        assert spec.events(Unit.DOCUMENT) == (ZcdpEvent(spec.rho),)
        assert accounting.epsilon([ZcdpEvent(spec.rho)], 1e-5) <= spec.epsilon
    assert replace(SPEC, tokens=4).choice().reach > replace(SPEC, tokens=16).choice().reach * 1.9
    with pytest.raises(IncomparableError):
        SPEC.events(Unit.AUTHOR)


def test_groups_are_drawn_uniformly_whatever_a_unit_says() -> None:
    units = [(i % 2, "same" if i % 3 else f"text {i}") for i in range(6_000)]
    found = np.array(groups_of_units.drawn_groups(units, np.array([4, 5]), secure()))
    for label, n in ((0, 4), (1, 5)):
        own = found[[unit[0] == label for unit in units]]
        assert chisquare(np.bincount(own, minlength=n)).pvalue > 1e-5
    again = groups_of_units.drawn_groups(units, np.array([4, 5]), secure())
    assert found.tolist() != again
    same = [place for place, unit in zip(found, units, strict=True) if unit == (1, "same")]
    assert len(set(same)) == 5


def test_an_author_says_one_text_each_alike_often() -> None:
    source, counts = secure(), np.zeros(4, np.int64)
    for _ in range(4_000):
        kept = 0
        for n in range(1, 5):
            if groups_of_units.takes(n, "", "", source):
                kept = n - 1
        counts[kept] += 1
    assert chisquare(counts).pvalue > 1e-5


def test_it_writes_texts_of_its_labels_and_a_report(fitted: FittedPrediction) -> None:
    records = [Record(str(i), "a train to Lima", label="travel") for i in range(12)]
    found = fitted.synthesize(corpus(records), seeded(5))
    assert len(found.texts) <= 4
    assert set(found.labels) <= {"travel"}
    assert len(set(found.texts)) == len(found.texts)
    assert "Labels, in documents" in found.sentences[0]
    assert abs(found.report.by_label[0][0] - 12) < 4 * found.report.margin
    assert fitted.digests["model"] == "tiny"
    assert "Lima" not in repr(fitted)


def test_the_end_can_always_be_chosen_and_nothing_beyond_the_options() -> None:
    rng = np.random.default_rng(1)
    known = np.log(rng.dirichlet(np.full(96, 0.05), 40).clip(1e-12))
    there = options_of(known, 5, end=7)
    assert (there == 7).any(axis=1).all()
    best = [set(np.argsort(-row)[:4]) - {7} for row in known]
    assert all(own <= set(found) for own, found in zip(best, there, strict=True))
    chosen = np.array([by_temperature(0.5, 5, 7, seeded(i))(known) for i in range(20)])
    assert all(set(column) <= set(found) for column, found in zip(chosen.T, there, strict=True))


def test_writing_stops_at_the_end_and_at_the_most() -> None:
    model = tiny_language.model()
    end, letter = model.tokens("\n")[0], model.tokens("a")[0]
    turns = iter(range(100))
    written = write(
        model, [[3], [4]], lambda known: np.array([letter, end if next(turns) >= 1 else letter]), end=end, most=3
    )
    assert written == [[letter] * 3, [letter]]


def test_settings_that_do_not_fit_are_refused(fitted: FittedPrediction) -> None:
    for wrong in (
        {"names": ("a", "b")},
        {"topics": 3},
        {"options": 1},
        {"tokens": 0},
        {"count_share": 0.9},
        {"labels": ()},
    ):
        if wrong != {"labels": ()}:
            with pytest.raises(ConfigError):
                replace(SPEC, **wrong)
    with pytest.raises(ConfigError, match="tokens in a prompt"):
        replace(SPEC, tokens=60).fit(public=dp.sample_records(20, seed=3))
