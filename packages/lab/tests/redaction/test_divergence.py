"""The divergence audit: what is found on sets that are the same, apart and shifted; where it may look; what it says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import sklearn

from dptext.embeddings.tfidf import fit_tfidf_svd
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.text.records import Record
from dptext_lab.redaction.divergence import density_ratio, estimators, renyi
from dptext_lab.redaction.divergence.density_ratio import LogRatios
from dptext_lab.redaction.divergence.divergence import measure, measure_vectors
from dptext_lab.redaction.divergence.estimators import DivergenceSettings, apart, fit_projection
from dptext_lab.redaction.divergence.findings import (
    CHEAPEST,
    DEFAULT,
    DIRECT,
    GAUSSIAN,
    MLP_RATIO,
    NEAREST,
    PAPER_WHOLE,
    PUBLISHED,
    DivergenceReport,
)
from dptext_lab.redaction.divergence.renyi import gaussian

QUICK = DivergenceSettings(alphas=(1.1, 2.0, 5.0), components=3, folds=2, permutations=19, resamples=39, seed=1)
#: Where nulls and intervals are not looked at.
POINTS = replace(QUICK, confidence=0.6, permutations=2, resamples=4)
CANARY = "zq9canaryxv"
WORDS = [f"word{i}" for i in range(60)]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short trainings, in which scikit-learn does not look at each small batch."""
    monkeypatch.setattr(density_ratio, "MOST_EPOCHS", 2)
    monkeypatch.setattr(estimators, "NEAREST_HALVES", 10)
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        yield


def drawn(squared: float, *, size: int = 150, dim: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((2, size, dim))
    first[:, 0] += math.sqrt(squared)
    return first, second


@pytest.mark.slow  # test_without_the_null_an_interval_misses_zero stays
def test_sets_of_one_distribution_may_have_epsilon_zero() -> None:
    found = measure_vectors(*drawn(0.0), settings=QUICK)
    assert found.epsilon.low == 0 <= found.epsilon.value < found.epsilon.high
    assert found.certified.epsilon == 0
    assert all(tested.estimate.low <= 0 for tested in found.curve(DEFAULT).larger)
    # The published recipe is far from 0 there; only its null tells.
    published = found.epsilons[PAPER_WHOLE]
    assert published.estimate.value > 1
    assert published.null == pytest.approx(published.estimate.value, rel=0.5)
    assert published.p_value > 0.05


def test_without_the_null_an_interval_misses_zero() -> None:
    """A planted fault: the estimate at a large order is above 0 on every half, so halves alone would not do."""
    halves, nulls = np.full(39, 0.3), np.full(19, 0.4)
    asked = {"confidence": 0.95, "is_open": False, "is_epsilon": True}
    assert estimators.judge_number(0.3, halves, nulls, **asked).estimate.low == 0
    assert estimators.judge_number(0.3, halves, nulls - 0.2, **asked).estimate.low == pytest.approx(0.3)


def test_a_shift_is_found_in_both_directions() -> None:
    found = measure_vectors(*drawn(4.0), settings=QUICK)
    at_two = found.alphas.index(2.0)
    row = found.curve(DEFAULT)
    assert row.larger[at_two].estimate.low < 4 < row.larger[at_two].estimate.high
    assert row.larger[at_two].p_value == 0.05
    assert row.larger[at_two].estimate.value == max(row.forward[at_two], row.backward[at_two])
    for way in ("forward", "backward"):
        both = [getattr(found.curve(name), way)[at_two] for name in (GAUSSIAN, MLP_RATIO)]
        assert getattr(row, way)[at_two] == max(both)
    assert found.epsilon.low > 0
    assert found.certified.epsilon > 0
    assert found.cheapest.is_above
    assert not found.is_separated
    # The same sets the other way round: directions change places.
    turned = measure_vectors(*drawn(4.0)[::-1], settings=POINTS)
    assert turned.curve(NEAREST).forward == found.curve(NEAREST).backward


@pytest.mark.slow
def test_one_record_does_not_set_the_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted record with a ratio of e^14.4, as was seen among real texts: it is the whole untrimmed curve."""
    trained = estimators.train_ratios

    def planted(first: np.ndarray, *others: object) -> dict[str, LogRatios]:
        found = trained(first, *others)
        if first is not sets[0]:  # a relabelling
            return found
        one = np.r_[14.38, found[MLP_RATIO].first[1:]]
        return {**found, MLP_RATIO: LogRatios(one, found[MLP_RATIO].second)}

    sets, settings = drawn(0.3, size=220), replace(QUICK, alphas=(2.0, 5.0, 10.0))
    plain = measure_vectors(*sets, settings=settings)
    monkeypatch.setattr(estimators, "train_ratios", planted)
    trimmed = measure_vectors(*sets, settings=settings)
    whole = measure_vectors(*sets, settings=replace(settings, trim=0.0))
    orders = np.array(whole.alphas)
    expected = 14.38 - math.log(220) / (orders - 1)
    found = [each.estimate.value for each in whole.curve(DEFAULT).larger]
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert whole.epsilon.value > 8
    assert trimmed.epsilon.value == pytest.approx(plain.epsilon.value, abs=0.3)
    assert trimmed.epsilon.value < 4
    assert (whole.delta, trimmed.delta) == (QUICK.delta, QUICK.delta + 2 / 220)  # what was trimmed is stated
    assert min(whole.curve(DEFAULT).largest) > 0.9
    assert max(trimmed.curve(DEFAULT).largest) < 0.5
    for report in (whole, trimmed):  # the row of the ratio itself is never trimmed
        assert min(report.curve(MLP_RATIO).largest) > 0.9
        assert any(
            note.startswith(f"One record: from order 2 on most of the sum behind {MLP_RATIO}") for note in report.notes
        )
    assert not any(
        note.startswith(f"One record: from order 2 on most of the sum behind {MLP_RATIO}") for note in plain.notes
    )


def test_the_share_of_the_largest_row_and_what_is_left_without_it() -> None:
    ratios = LogRatios(np.log([8.0, 1.0, 1.0, 1.0, 1.0]), np.zeros(5))
    np.testing.assert_allclose(ratios.largest_shares((2.0, 3.0)), [8 / 12, 64 / 68])
    assert ratios.trimmed(0.0).first.size == 5
    assert ratios.trimmed(0.01).first.size == 4  # one goes of however few
    np.testing.assert_allclose(ratios.trimmed(0.2).divergence((2.0, 3.0)), 0, atol=1e-12)
    assert ratios.reversed.trimmed(0.4).first.size == 3


def test_sets_that_share_nothing_are_never_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density_ratio, "MOST_EPOCHS", 8)
    found = measure_vectors(*drawn(1e4), settings=POINTS)
    assert found.is_separated
    assert found.curve(PUBLISHED).forward == (0.0, 0.0, 0.0)  # the published collapse
    for curve in found.curves:
        if curve.name != PUBLISHED:
            assert min(*curve.forward, *curve.backward) > 1
    for name in (DIRECT, CHEAPEST):
        assert found.epsilons[name].estimate.value > 5
        assert found.epsilons[name].estimate.high == math.inf
    assert found.certified.epsilon > 1
    assert any("lower value" in note for note in found.notes)
    # An attack that is always right needs more than the published recipe gives.
    assert all(PAPER_WHOLE in check.surely_below for check in found.checks)
    json.dumps(found.to_dict(), allow_nan=False)


def test_an_attack_measured_elsewhere_is_held_against_every_epsilon() -> None:
    attack = Estimate(0.9999, 0.95, 1.0, 0.95)
    found = measure_vectors(*drawn(1.0, size=200), settings=POINTS, attack=attack)
    check = found.checks[-1]
    assert check.needs == pytest.approx(math.log((0.9999 - 8e-5) / 1e-4), rel=1e-3)
    assert check.needs_surely == pytest.approx(2.94, abs=0.01)
    assert DIRECT in check.below
    assert "BELOW" in found.to_markdown()


@pytest.mark.slow  # the numbers of the audit have tests of their own
def test_a_report_says_what_it_is_and_is_repeatable() -> None:
    sets = drawn(1.0, size=60)
    found = measure_vectors(*sets, settings=QUICK)
    data = found.to_dict()
    assert set(data["epsilon"]) == {"value", "low", "high"}
    assert data["signature"]["seed"] == 1
    assert data["signature"]["alphas"] == [1.1, 2.0, 5.0]
    shown = found.to_markdown()
    for words in ("NOT an upper bound", "not differential privacy", "certified, at least (95%)", "cheapest line"):
        assert words in shown, words
    assert "NOT an upper bound" in data["meaning"]
    assert "plane" not in data
    assert measure_vectors(*sets, settings=QUICK).to_dict() == data
    assert measure_vectors(*sets, settings=replace(QUICK, seed=2)).to_dict() != data


def test_a_curve_that_falls_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renyi, "gaussian", lambda p, q, alphas: gaussian(p, q, alphas)[::-1])  # planted
    found = measure_vectors(*drawn(4.0), settings=POINTS)
    assert not found.curve(GAUSSIAN).rises
    assert any("Defect: Gaussian" in note for note in found.notes)


def test_a_blind_estimate_below_the_certified_bound_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renyi, "gaussian", lambda p, q, alphas: np.zeros(len(alphas)))
    monkeypatch.setattr(density_ratio.LogRatios, "divergence", lambda self, alphas: np.zeros(len(alphas)))
    found = measure_vectors(*drawn(4.0, size=300), settings=POINTS)
    assert any("default curve is below the certified bound" in note for note in found.notes)
    assert any("epsilon is certified" in note for note in found.notes)


def test_steps_are_told() -> None:
    told: list[tuple[int, int]] = []
    measure_vectors(*drawn(0.0, size=60), settings=POINTS, on_step=lambda done, total: told.append((done, total)))
    assert told == [(i, 6) for i in range(1, 7)]


# ------------------------------------------------------------------ texts


def texts(likes: Sequence[str], count: int, seed: int, mark: str = "") -> list[Record]:
    rng = np.random.default_rng(seed)
    return [
        Record(str(i), " ".join([*rng.choice(WORDS, 6), *rng.choice(likes, 4), mark]).strip()) for i in range(count)
    ]


PUBLIC = texts(WORDS, 200, 9)


def measured(first: list[Record], second: list[Record]) -> DivergenceReport:
    embedder = fit_tfidf_svd([record.text for record in PUBLIC], dim=20)
    return measure(first, second, public=PUBLIC, embedder=embedder, settings=QUICK)


def test_texts_that_differ_are_apart_and_no_text_is_shown() -> None:
    found = measured(texts(WORDS[:5], 60, 1, CANARY), texts(WORDS[5:10], 60, 2, CANARY))
    assert found.epsilon.low > 0
    said = json.dumps(found.to_dict()) + found.to_markdown() + repr(found)
    assert CANARY not in said
    assert not any(word in said.split() for word in WORDS)
    assert found.signature["embedder"].startswith("tfidf-svd:20:")
    assert found.plane[0].shape == (60, 2)


def test_the_space_is_never_fitted_on_the_sets() -> None:
    first, second = texts(WORDS, 120, 1), texts(WORDS, 120, 2)
    embedder = fit_tfidf_svd([record.text for record in PUBLIC], dim=20)
    with pytest.raises(ConfigError, match="must not be fitted on what is compared") as refused:
        measure(first, second, public=[*first, *second], embedder=embedder, settings=QUICK)
    assert not any(word in str(refused.value).split() for word in WORDS)
    mixed = measure(first, second, public=[*PUBLIC, *first], embedder=embedder, settings=POINTS)
    clean = measure(first, second, public=PUBLIC, embedder=embedder, settings=POINTS)
    assert any(note.startswith("120 public texts were left out") for note in mixed.notes)
    assert [curve.to_dict() for curve in mixed.curves] == [curve.to_dict() for curve in clean.curves]
    assert apart(PUBLIC, first, second)[1] == 0


def test_a_projection_keeps_the_main_directions() -> None:
    rng = np.random.default_rng(0)
    public = rng.standard_normal((500, 6)) * [9, 5, 1, 1, 0, 0] + 3
    found = fit_projection(public, components=2)
    assert found.kept == pytest.approx(106 / 108, abs=0.01)
    np.testing.assert_allclose(found.axes @ found.axes.T, np.eye(2), atol=1e-12)
    assert np.abs(found.axes[:, :2]).max(axis=1).min() > 0.98
    np.testing.assert_allclose(found.apply(public).mean(axis=0), 0, atol=1e-12)
    assert len(fit_projection(public, components=64).axes) == 4  # no more than there are
    with pytest.raises(ConfigError, match="all the same"):
        fit_projection(np.ones((20, 3)))


def test_tfidf_vectors_are_alone_in_their_batch_and_of_norm_one() -> None:
    embedder = fit_tfidf_svd([record.text for record in PUBLIC], dim=20)
    found = embedder.embed(["word1 word2", "unheard of", "", "word3"])
    np.testing.assert_allclose(found[0], embedder.embed(["word1 word2"])[0], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 0, 1], atol=1e-12)
    assert embedder.name == fit_tfidf_svd([record.text for record in PUBLIC], dim=20).name
    assert embedder.embed([]).shape == (0, 20)
    with pytest.raises(ConfigError, match="share at least 3 words"):
        fit_tfidf_svd([f"alone{i}" for i in range(20)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"permutations": 18},
        {"resamples": 38},
        {"confidence": 0.99},
        {"alphas": (2.0,)},
        {"alphas": (0.5, 2.0)},
        {"delta": 0.0},
        {"folds": 1},
        {"components": 0},
        {"seed": -1},
    ],
)
def test_settings_that_cannot_be_used_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        replace(QUICK, **wrong)


def test_too_few_records_are_refused() -> None:
    for size, dim in ((20, 3), (60, 70)):
        with pytest.raises(ConfigError, match="Expected"):
            measure_vectors(*drawn(0.0, size=size, dim=dim), settings=QUICK)


@pytest.mark.slow
def test_the_interval_of_epsilon_holds_zero_for_sets_of_one_distribution() -> None:
    held = 0
    for seed in range(40):
        found = measure_vectors(*drawn(0.0, size=100, dim=8, seed=seed), settings=replace(QUICK, seed=seed))
        held += found.epsilon.low == 0
    assert held >= 34  # 38 of 40 on average; fewer than 34 with probability 0.014
