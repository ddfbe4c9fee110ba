"""Private prediction: its whole distribution enumerated, what it charges, and what it writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import Mock

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
from dptext.sampling.randomness import secure, seeded
from dptext.synthesis.readings import Corpus
from dptext.synthesis.space import fit_space
from dptext.synthesis.sums import Draws
from dptext.synthesis.writer import Writer
from dptext.text.batches import Batch
from dptext.text.records import Record
from dptext_lab.baselines.evolution import Population, evolved
from dptext_lab.baselines.prediction import FittedPrediction, Prediction

SPEC = Prediction(labels=("travel",), about=12, tokens=2, per_text=2, size=4, options=50, examples=1, epsilon=3.0)


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dptext_lab.baselines.prediction.load_language_model", lambda _: tiny_language.model())
        yield


@pytest.fixture(scope="module")
def fitted() -> FittedPrediction:
    found = SPEC.fit(public=dp.sample_records(20, seed=3))
    assert isinstance(found, FittedPrediction)
    return found


def corpus(records: list[Record]) -> Corpus:
    return lambda: (batch for batch in [Batch.of(records)])


def outcomes(fitted: FittedPrediction, texts: list[str]) -> dict[tuple[int, int], float]:
    """ln of the probability of each text of two tokens that one group of these texts writes."""
    choice, model = fitted.spec.choice(), tiny_language.model()
    found = {}

    def step(written: list[int]) -> tuple[np.ndarray, np.ndarray]:
        prompts = [fitted.writer.prompt(0) + written, *(fitted.writer.prompt(0, text) + written for text in texts)]
        known = model.contexts(prompts, more=0).log_probabilities()
        there = np.sort(options_of(known[:1], fitted.spec.options, fitted.writer.end), axis=1)
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


@pytest.mark.slow_cases("add_or_remove_one-2.0", why="the other relation stays")
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
    found = np.array(Draws(secure()).groups(units, np.array([4, 5])))
    for label, n in ((0, 4), (1, 5)):
        own = found[[unit[0] == label for unit in units]]
        assert chisquare(np.bincount(own, minlength=n)).pvalue > 1e-5
    again = Draws(secure()).groups(units, np.array([4, 5]))
    assert found.tolist() != again
    same = [place for place, unit in zip(found, units, strict=True) if unit == (1, "same")]
    assert len(set(same)) == 5


def test_an_author_says_one_text_each_alike_often() -> None:
    draws, counts = Draws(secure()), np.zeros(4, np.int64)
    for _ in range(4_000):
        kept = 0
        for n in range(1, 5):
            if draws.takes(n, "", ""):
                kept = n - 1
        counts[kept] += 1
    assert chisquare(counts).pvalue > 1e-5


def test_it_writes_texts_of_its_labels_and_a_report(fitted: FittedPrediction) -> None:
    records = [Record(str(i), "a train to Lima", label="travel") for i in range(12)]
    found = fitted.synthesize(corpus(records), Draws(seeded(5)))
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
    chosen = np.array([by_temperature(0.5, 5, 7, seeded(i))(known, []) for i in range(20)])
    assert all(set(column) <= set(found) for column, found in zip(chosen.T, there, strict=True))


def test_writing_stops_at_the_end_and_at_the_most() -> None:
    model = tiny_language.model()
    end, letter = model.tokens("\n")[0], model.tokens("a")[0]
    steps = iter([[letter, letter], [letter, end], [letter]])  # a text that has ended is not written on
    written = write(model, [[3], [4]], lambda known, texts: np.array(next(steps)), end=end, most=3)
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
    with pytest.raises(ConfigError, match="as the language model reads no more"):
        replace(SPEC, tokens=60).fit(public=dp.sample_records(20, seed=3))


def test_votes_keep_what_private_texts_are_like() -> None:
    """Of what was written for a label, texts that its units are near to stay, and no other label's."""
    texts = ["a train to Lima", "the money in the bank", "an hour of sun", "old boots"]
    space, _ = fit_space([record.text for record in dp.sample_records(60, seed=3)], encoder="glove", words=0, dim=8)
    spec = replace(
        SPEC, labels=("travel", "money"), names=(), rounds=1, per_text=0, encoder="glove", epsilon=30.0, about=600
    )
    writer = Mock(spec=Writer)
    writer.more.side_effect = lambda label, own, n, source, **how: texts[:2] if label == 0 else texts[2:]
    records = [Record(str(i), texts[0], label="travel" if i < 300 else "money") for i in range(400)]
    found = evolved(
        writer, (space, spec, corpus(records)), [Population.alike([])] * 2, np.array([300.0, 100.0]), Draws(seeded(3))
    )
    assert found[0].texts == (texts[0],)
    assert len(found[1].texts) == 1
    assert set(found[1].texts) < set(texts[2:])
    assert found[0].chances[0] == pytest.approx(300, abs=10)
    noise = Population.alike(texts).voted(np.array([1.0, -2.0, 0.0, 1.9]), 2.0)
    assert noise.texts == tuple(texts), "noise alone decides nothing"


@pytest.mark.parametrize("varied", [False, True])
def test_a_writer_writes_more_of_each_kind(fitted: FittedPrediction, varied: bool) -> None:
    own = ["a train to Lima and back", "the night bus to Rome again"]
    found = fitted.writer.more(0, own, 12, secure(), chances=np.array([2.0, 1.0]), varied=varied)
    assert found[:2] == own
    assert len(found) == len(set(found)) <= 12
    assert all(len(text.split()) >= 2 for text in found)
    assert fitted.writer.more(0, own, 1, secure(), chances=np.ones(2), varied=varied) == own[:1]


def test_what_stands_around_a_gap_stays(fitted: FittedPrediction) -> None:
    text = "abcdefghi"
    begun = replace(fitted.writer, tokens=10)._begun(0, [text, "x", "y", "z"], 3)
    whole = fitted.writer.model.text(begun.around(fitted.writer.model.tokens("12345678")))
    assert whole.strip().startswith("ab")
    assert whole.endswith("ghi"[-len(begun.last) :])
    assert len(whole) < len(text) + 4


def test_rounds_share_what_is_left() -> None:
    spec = replace(SPEC, rounds=2, vote_share=0.4)
    assert spec.shares == (0.1, pytest.approx(0.18), pytest.approx(0.18))
    assert spec.choice().reach == pytest.approx(SPEC.choice().reach * 0.6**0.5)
    assert sum(replace(spec, per_text=0).shares) == pytest.approx(1)
    for wrong in ({"rounds": 4}, {"rounds": 0, "per_text": 0}, {"vote_share": 1.0}):
        with pytest.raises(ConfigError):
            replace(spec, **wrong)
