"""Membership inference: counting against naive versions, planted leaks, none, controls, duplicates, LiRA's gain."""

from __future__ import annotations

import importlib
import json
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from dptext.audits.bounds import epsilon_ceiling
from dptext.audits.features import shared_texts
from dptext.audits.membership.attacks import Measure, from_scores, shokri, top_scores
from dptext.audits.membership.lira import lira, offline_scores, online_scores
from dptext.audits.membership.members import MemberSplit, blind_scores, logit_confidence, split_members
from dptext.audits.roc import FPR_GRID, area, area_interval, curve, epsilon_measured, true_positives_at
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Relation
from dptext.text.records import Record, Release
from dptext.types import Floats

CANARY = "zq9canaryxv"

likelihood_ratio = importlib.import_module("dptext.audits.membership.lira")  # in the package, this name is the function


def records(count: int, start: int = 0) -> list[Record]:
    """Distinct texts with one of two labels."""
    return [
        Record(str(i), f"{CANARY} number {i} of {i % 7}", "odd" if i % 2 else "even")
        for i in range(start, start + count)
    ]


def draws(texts: Sequence[str], seed: int) -> Floats:
    """A standard normal number for each text, fixed by text and seed."""
    uniform = np.array([(zlib.crc32(f"{seed} {text} {seed}".encode()) + 0.5) / 2**32 for text in texts])
    return np.asarray(norm.ppf(uniform))


@dataclass(frozen=True)
class Scored:
    """A made-up classifier: it is surer of texts that it saw, and of easy ones."""

    known: frozenset[str]
    seed: int
    gap: float
    spread: float = 0.0
    labels: tuple[str, ...] = ("even", "odd", "other")

    def probabilities(self, texts: Sequence[str], /) -> Floats:
        sure = self.spread * draws(texts, 999) + draws(texts, self.seed) + 2.0
        sure = sure + self.gap * np.array([text in self.known for text in texts])
        right = 1 / (1 + np.exp(-sure))
        scores = np.empty((len(texts), 3))
        for row, text in enumerate(texts):
            odd = int(text.split()[2]) % 2
            scores[row, odd], scores[row, 1 - odd], scores[row, 2] = (
                right[row],
                *((1 - right[row]) * np.array([0.9, 0.1])),
            )
        return scores


def trainer(gap: float, spread: float = 0.0) -> Callable[[Sequence[str], Sequence[str], int], Scored]:
    return lambda texts, labels, seed: Scored(frozenset(texts), seed, gap, spread)


def sides(count: int = 400) -> tuple[list[Record], list[Record]]:
    halves = split_members(records(2 * count), seed=3)
    return list(halves.members), list(halves.non_members)


def target(members: Sequence[Record], gap: float, spread: float = 0.0) -> Scored:
    return trainer(gap, spread)([r.text for r in members], [], 77)


# --- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [4, 10**6])
def test_area_is_that_of_sklearn_with_ties_and_without(values: int) -> None:
    rng = np.random.default_rng(0)
    members, others = rng.integers(0, values, 90) * 1.1, rng.integers(0, values, 140) * 1.0
    labels = np.arange(230) < 90
    assert area(members, others) == pytest.approx(roc_auc_score(labels, np.concatenate([members, others])), abs=1e-14)
    assert area(members, others) + area(others, members) == pytest.approx(1.0, abs=1e-14)


def test_area_of_extremes() -> None:
    ones = np.ones(3)
    assert area(ones, ones) == 0.5
    assert area(ones, np.zeros(5)) == 1.0
    assert area(np.array([np.inf, -np.inf]), np.array([0.0])) == 0.5
    for wrong in (np.array([]), np.array([np.nan]), np.ones((2, 2))):
        with pytest.raises(ConfigError, match="scores"):
            area(wrong, ones)


def test_the_interval_is_that_of_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(1)
    members, others = np.round(rng.normal(0.5, 1, 120), 1), np.round(rng.normal(0, 1, 80), 1)
    fast = area_interval(members, others, seed=5, resamples=4000)
    slow = sorted(area(rng.choice(members, 120), rng.choice(others, 80)) for _ in range(4000))
    assert fast.value == area(members, others)
    assert fast.low == pytest.approx(slow[100], abs=0.01)
    assert fast.high == pytest.approx(slow[3900], abs=0.01)


def test_the_interval_of_thousands_is_fast() -> None:
    rng = np.random.default_rng(2)
    begin = time.process_time()
    estimate = area_interval(rng.normal(size=3000), rng.normal(size=3000), seed=0)
    assert time.process_time() - begin < 2
    assert 0.025 < estimate.high - estimate.low < 0.035  # 3.92 standard errors of sqrt(1 / (6 * 3000))
    with pytest.raises(ConfigError, match="resamples"):
        area_interval(np.ones(2), np.ones(2), seed=0, resamples=10)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    truth = norm.cdf(0.5 / np.sqrt(2))
    found = [area_interval(rng.normal(0.5, 1, 80), rng.normal(0, 1, 80), seed=i, resamples=400) for i in range(200)]
    covered = sum(estimate.low <= truth <= estimate.high for estimate in found)
    assert 180 <= covered <= 199  # 190 expected


def test_true_positives_at_a_rate() -> None:
    others = np.arange(1000.0)
    found = true_positives_at(np.array([988.5, 989.5, 2000.0, 5.0]), others, 0.01)
    assert (found.tpr.value, found.false_positives, found.is_resolved) == (0.5, 10, True)
    assert true_positives_at(np.array([999.0, 999.5]), others, 0.001).false_positives == 1
    # A member who ties with the last non-member that may not be accused is not found.
    assert true_positives_at(np.array([998.0]), others, 0.001).tpr.value == 0.0
    assert true_positives_at(np.ones(5), np.ones(5), 0.2).tpr.value == 0.0
    assert true_positives_at(np.ones(5), np.ones(5), 1.0).tpr.value == 1.0
    assert true_positives_at(np.array([70.5]), np.arange(100.0), 0.29).false_positives == 29  # .29 * 100 < 29


def test_too_few_non_members_are_said() -> None:
    found = true_positives_at(np.ones(10), np.zeros(999), 0.001)
    assert not found.is_resolved
    assert "too few" in str(found)
    assert found.tpr.value == 1.0
    assert "too few" not in str(true_positives_at(np.ones(10), np.zeros(1000), 0.001))


def test_the_curve_holds_the_reported_rates() -> None:
    rng = np.random.default_rng(3)
    members, others = rng.normal(1, 1, 500), rng.normal(0, 1, 2000)
    found = curve(members, others)
    assert found.fpr == FPR_GRID
    assert found.tpr == tuple(true_positives_at(members, others, rate).tpr.value for rate in FPR_GRID)
    assert list(found.tpr) == sorted(found.tpr)
    assert found.tpr[-1] == 1.0


def test_measured_epsilon() -> None:
    rng = np.random.default_rng(4)
    answers = rng.random(20_000) < 0.7311  # randomized response at epsilon 1
    lies = rng.random(20_000) >= 0.7311
    assert 0.9 < epsilon_measured(answers * 1.0, lies * 1.0, seed=0).epsilon < 1.0
    assert epsilon_measured(lies * 1.0, rng.permutation(lies) * 1.0, seed=0).epsilon < 0.05
    # Only the half that chose nothing is counted: complete separation shows no more than that half can.
    perfect = epsilon_measured(np.ones(1000), np.zeros(1000), seed=0).epsilon
    assert perfect == epsilon_ceiling(500)
    assert epsilon_measured(np.ones(1), np.zeros(9), seed=0).epsilon == 0.0


def test_no_epsilon_without_a_leak_although_many_thresholds_are_tried() -> None:
    rng = np.random.default_rng(5)
    found = [epsilon_measured(*rng.normal(size=(2, 120)), seed=i, confidence=0.5).epsilon for i in range(30)]
    # 15 expected at most; where the half that chose the threshold is also counted, 20 are found.
    assert sum(epsilon > 0 for epsilon in found) <= 5


# --- members ----------------------------------------------------------------------------------------------------------


def test_a_plain_split_leaks_and_ours_does_not() -> None:
    corpus = [*records(500), *records(40), *records(40)]
    order = np.random.default_rng(0).permutation(len(corpus)).tolist()
    half = len(corpus) // 2
    plain = [corpus[i] for i in order[:half]], [corpus[i] for i in order[half:]]
    assert shared_texts(*plain) > 14
    with pytest.raises(ConfigError, match="remove duplicates first"):
        shokri(target(plain[0], 0), *plain, shadow_train=plain[0], shadow_out=plain[1], train=trainer(0), seed=0)
    split = split_members(corpus, seed=0)
    assert split.duplicates == 80
    assert shared_texts(split.members, split.non_members) == 0
    assert len(split.members) == len(split.non_members) == 250


def test_duplicates_are_equal_tokens_without_case() -> None:
    texts = ["Fly to Rome!", "fly  to rome !", "FLY TO\tROME!", "fly to Paris!", "fly to Oslo", "fly to Bonn"]
    split = split_members([Record(str(i), text, str(i)) for i, text in enumerate(texts)], seed=1)
    assert (split.duplicates, split.left_over) == (2, 0)
    assert {r.label for r in (*split.members, *split.non_members)} == {"0", "3", "4", "5"}
    assert split_members(records(7), seed=0).left_over == 1
    with pytest.raises(ConfigError, match="at least 2"):
        split_members([Record("1", "a"), Record("2", "A")], seed=0)


def test_splits_are_random_by_seed_and_show_no_text() -> None:
    first, again, other = (split_members(records(200), seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert isinstance(first, MemberSplit)
    assert CANARY not in repr(first)
    # The first records are not all members: shared ones are about half.
    assert 30 < shared_texts(first.members, records(100)) < 70


def test_the_blind_attacker_sees_texts_that_differ_and_nothing_else() -> None:
    members, others = sides(150)
    assert 0.42 < area(*blind_scores(members, others, seed=0)) < 0.58
    dated = [Record(r.id, r.text + " yesterday", r.label) for r in members]
    assert area(*blind_scores(dated, others, seed=0)) > 0.99


def test_logits_keep_their_digits_and_follow_the_label() -> None:
    @dataclass(frozen=True)
    class Fixed:
        labels: tuple[str, ...] = ("b", "a")

        def probabilities(self, texts: Sequence[str], /) -> Floats:
            return np.array([[1e-11, 1.0], [1.0, 1e-11], [0.25, 0.75]])

    asked = [Record("1", "x", "a"), Record("2", "y", "a"), Record("3", "z", "new")]
    found = logit_confidence(Fixed(), asked)
    assert found[:2] == pytest.approx([11 * np.log(10), -11 * np.log(10)], abs=1e-9)
    assert found[2] == pytest.approx(-12 * np.log(10), abs=1e-9)
    with pytest.raises(ConfigError, match="shape"):
        logit_confidence(Fixed(), asked[:2])


# --- attacks ----------------------------------------------------------------------------------------------------------


def attacked(gap: float, **settings: object) -> object:
    members, others = sides()
    own = split_members(records(800, start=10_000), seed=4)
    return shokri(
        target(members, gap),
        members,
        others,
        shadow_train=own.members,
        shadow_out=own.non_members,
        train=trainer(gap),
        seed=1,
        **settings,  # type: ignore[arg-type]
    )


def test_shokri_finds_a_planted_leak_and_the_control_nothing() -> None:
    steps: list[tuple[int, int]] = []
    result = attacked(8.0, on_progress=lambda done, of: steps.append((done, of)))
    assert result.main.auc.low > 0.95
    assert result.main.tprs[1].tpr.low > 0.5
    assert result.control_holds
    assert result.epsilon.epsilon > 2.5
    blind = result.baselines[1]
    assert blind.auc.low < 0.5 < blind.auc.high
    assert steps == [(1, 2), (2, 2)]


def test_shokri_finds_nothing_where_nothing_leaks() -> None:
    result = attacked(0.0)
    for attack in (result.main, result.control, *result.baselines):
        assert attack.auc.low <= 0.5 <= attack.auc.high, attack.name
    assert result.epsilon.epsilon < 0.2


def test_a_control_that_fails_is_said() -> None:
    # Members are recognisable without any training: the control sees it, as it must.
    members, others = sides()
    spied = frozenset(r.text for r in members)
    own = split_members(records(800, start=10_000), seed=4)

    def train(texts: Sequence[str], labels: Sequence[str], seed: int) -> Scored:
        return Scored(frozenset(texts) | spied, seed, 8.0)

    result = shokri(
        target(members, 8.0),
        members,
        others,
        shadow_train=own.members,
        shadow_out=own.non_members,
        train=train,
        seed=1,
    )
    assert not result.control_holds
    assert "do not rely on this attack" in result.explain()


def test_shadows_are_trained_on_the_transform_and_asked_about_the_original() -> None:
    trained: list[tuple[list[str], list[str]]] = []

    def transform(private: Sequence[Record], seed: int) -> list[Release[str]]:
        return [
            Release(r.id, f"{CANARY} number {-int(r.id)}", "flipped" if int(r.id) % 4 == 0 else None) for r in private
        ]

    def train(texts: Sequence[str], labels: Sequence[str], seed: int) -> Scored:
        trained.append((list(texts), list(labels)))
        return Scored(frozenset(texts), seed, 8.0)

    members, others = sides()
    own = split_members(records(800, start=10_000), seed=4)
    released = transform(members, 0)
    victim = Scored(frozenset(r.output for r in released), 77, 8.0)
    result = shokri(
        victim,
        members,
        others,
        shadow_train=own.members,
        shadow_out=own.non_members,
        train=train,
        seed=1,
        transform=transform,
    )
    assert trained[0][0] == [f"{CANARY} number {-int(r.id)}" for r in own.members]
    assert set(trained[0][1]) == {"flipped", "even", "odd"}
    assert len(trained) == 2
    assert result.main.auc.low <= 0.5 <= result.main.auc.high  # the originals were never seen
    with pytest.raises(ConfigError, match="release for each"):
        shokri(
            victim,
            members,
            others,
            shadow_train=own.members,
            shadow_out=own.non_members,
            train=train,
            seed=1,
            transform=lambda private, seed: transform(private, seed)[1:],
        )


def test_an_attacker_with_the_targets_records_is_said() -> None:
    members, others = sides(100)
    result = shokri(
        target(members, 1.0),
        members,
        others,
        shadow_train=members[:50] + others[:50],
        shadow_out=members[50:] + others[50:],
        train=trainer(1.0),
        seed=1,
    )
    assert any("200 of the attacker's 200 records" in note for note in result.notes)
    assert not any("of the attacker's" in note for note in attacked(0.0).notes)


def test_top_scores_are_sorted_and_padded() -> None:
    model = Scored(frozenset(), 0, 0.0)
    found = top_scores(model, [r.text for r in records(20)])
    assert found.shape == (20, 5)
    assert (np.diff(found, axis=1) <= 0).all()
    assert (found[:, 3:] == 0).all()
    assert (found[:, :3] > 0).all()
    assert top_scores(model, [r.text for r in records(20)], top=2) == pytest.approx(found[:, :2])


def test_lira_beats_the_loss_threshold_where_records_differ_in_difficulty() -> None:
    members, others = sides()
    train = trainer(3.0, 6.0)
    result = lira(target(members, 3.0, 6.0), members, others, train=train, seed=2, shadows=16)
    plain = result.online.baselines[0]
    assert plain.name == "loss threshold"
    for found in (result.online, result.offline):
        assert found.main.auc.low > plain.auc.high + 0.2, found.main.name
        assert found.main.tprs[1].tpr.low > plain.tprs[1].tpr.high
        assert found.control_holds
    assert result.online.epsilon.epsilon > 1


def test_lira_finds_nothing_where_nothing_leaks() -> None:
    members, others = sides(300)
    result = lira(target(members, 0.0, 6.0), members, others, train=trainer(0.0, 6.0), seed=2, shadows=4)
    for found in (result.online, result.offline):
        assert found.main.auc.low <= 0.5 <= found.main.auc.high
        assert found.control_holds


def test_every_record_is_in_half_of_the_shadows_at_random() -> None:
    inside = likelihood_ratio._assignment(17, 400, np.random.default_rng(0))
    assert (inside.sum(axis=0) == 8).all()
    assert inside.sum(axis=1).min() > 150
    assert abs(np.corrcoef(inside[:, ::2].ravel(), inside[:, 1::2].ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("shadows", [10, 64])
def test_likelihood_ratios_against_a_naive_version(shadows: int) -> None:
    rng = np.random.default_rng(0)
    inside = likelihood_ratio._assignment(shadows, 30, rng)
    said = rng.normal(size=(shadows, 30)) * rng.uniform(0.5, 2, 30) + 2 * inside
    observed = rng.normal(size=30)
    outside = [said[~inside[:, i], i] for i in range(30)]
    within = [said[inside[:, i], i] for i in range(30)]
    sd_in = np.array([values.std(ddof=1) for values in within])
    sd_out = np.array([values.std(ddof=1) for values in outside])
    if shadows < 64:
        sd_in[:], sd_out[:] = np.sqrt(np.square(sd_in).mean()), np.sqrt(np.square(sd_out).mean())
    mean_in, mean_out = np.array([v.mean() for v in within]), np.array([v.mean() for v in outside])
    ratio = norm.logpdf(observed, mean_in, sd_in) - norm.logpdf(observed, mean_out, sd_out)
    assert online_scores(observed, said, inside) == pytest.approx(ratio, rel=1e-9, abs=1e-12)
    assert offline_scores(observed, said, inside) == pytest.approx((observed - mean_out) / sd_out, rel=1e-9)
    # Swapped, the ratio changes its sign: who mixes up the two halves accuses non-members.
    assert online_scores(observed, said, ~inside) == pytest.approx(-ratio, rel=1e-9, abs=1e-12)


def test_identical_shadows_give_finite_scores() -> None:
    inside = likelihood_ratio._assignment(4, 10, np.random.default_rng(0))
    for score in (online_scores, offline_scores):
        assert np.isfinite(score(np.linspace(-30, 30, 10), np.ones((4, 10)), inside)).all()


def test_scores_of_any_model() -> None:
    rng = np.random.default_rng(6)
    members, others = -rng.gamma(1.0, 1.0, 2000), -rng.gamma(3.0, 1.0, 2000)  # minus reconstruction losses
    result = from_scores(members, others, name="minus reconstruction loss")
    assert result.main.auc.low > 0.8
    assert result.control.name == "membership permuted"
    assert result.control_holds
    fair = -rng.gamma(2.0, 1.0, 500), -rng.gamma(2.0, 1.0, 500)
    given = from_scores(
        members,
        others,
        name="minus reconstruction loss",
        control=fair,
        baselines={"word count": fair},
        measure=Measure(confidence=0.9, relation=Relation.ADD_OR_REMOVE_ONE),
        notes=("a note",),
    )
    assert given.baselines[0].auc.value == given.control.auc.value == area(*fair)
    assert given.main.auc.confidence == 0.9
    for words in ("add_or_remove_one", "word count", "a note", "refutes no guarantee"):
        assert words in given.explain()


def test_a_result_is_json_without_private_text() -> None:
    result = attacked(2.0)
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert {"main", "control", "baselines", "epsilon_measured", "relation"} <= json.loads(text).keys()
    for shown in (text, repr(result), result.explain()):
        assert CANARY not in shown
    assert "proxy (Habernal 2021, section 7)" in result.explain()
    assert attacked(2.0) == result
    members, others = sides(50)
    both = lira(target(members, 2.0), members, others, train=trainer(2.0), seed=0, shadows=4)
    assert CANARY not in json.dumps(both.to_dict(), allow_nan=False) + both.explain()


def test_what_cannot_be_attacked_is_refused() -> None:
    members, others = sides(50)
    train = trainer(1.0)
    victim = target(members, 1.0)
    with pytest.raises(ConfigError, match="shadows=3 >= 4"):
        lira(victim, members, others, train=train, seed=0, shadows=3)
    with pytest.raises(ConfigError, match="found 50 and 49"):
        lira(victim, members, others[1:], train=train, seed=0)
    unlabelled = [Record("x", "another text"), *others[1:]]
    with pytest.raises(ConfigError, match="Expected a label"):
        lira(victim, members, unlabelled, train=train, seed=0)
    with pytest.raises(ConfigError, match="shadow_out among shadow_train, found 50"):
        shokri(victim, members, others, shadow_train=members, shadow_out=members, train=train, seed=0)
