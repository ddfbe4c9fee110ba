"""The trials themselves: valid where nothing is wrong, right where the answer is known, strict about neighbours."""

import json
import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dptext import audits
from dptext.audits.bounds import epsilon_ceiling
from dptext.audits.subjects import METHODS, sample
from dptext.audits.trials.density import _lower_mean, density_p_value, distribution_p_value
from dptext.audits.trials.distinguishing import separation
from dptext.audits.trials.pairs import UNKNOWN, check_neighbours
from dptext.errors import ConfigError, IncomparableError, PrivacyError
from dptext.estimates import Estimate
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy import accounting
from dptext.privacy.events import ApproximateEvent, MetricEvent, NoEvent, PureEvent
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.sampling.clipping import Norm
from dptext.sampling.exponential import Exponential, PermuteAndFlip
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridGaussian, GridLaplace
from dptext.sampling.privunit import PrivUnit, PrivUnitSphere
from dptext.sampling.randomness import Randomness, seeded
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.text.records import Record, Release
from dptext.text.tokens import LINE_STRUCTURE, TOKEN_COUNT
from dptext_lab.adept.published_noise import PublishedLaplace
from vectors import WORDS

#: A quarter of the trials; all of them in make test-all.
SHARES = pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow)])


def test_every_public_name_is_loaded_when_it_is_used() -> None:
    assert [name for name in audits.__all__ if getattr(audits, name) is None] == []
    assert {"Report", "claim_of", "distinguish", "records_digest", "shokri"} <= set(audits.__all__)


PURE = accounting.guarantee([PureEvent(1.0)], unit=Unit.DOCUMENT, basis=Basis.PROVEN)


def test_the_page_that_refusals_name_lists_their_methods() -> None:
    (page,) = re.findall(r"docs/\S+\.md", METHODS)
    text = (Path(__file__).parents[3] / page).read_text("utf-8")
    for method in ("output_distribution", "release", "log_density", "latent", "reconstruction_losses"):
        assert f"| `{method}(" in text


def a_report(**changes) -> audits.Report:
    half = Estimate(0.5, 0.4, 0.6, 0.95)
    plain = audits.Report(
        attack="distinguish",
        main=half,
        baseline=half,
        control=half,
        measures="something",
        epsilon_lower_bound=2.0,
        delta=1e-6,
        confidence=0.95,
        ceiling=7.0,
        unit=Unit.DOCUMENT,
        relation=Relation.REPLACE_ONE,
        metric=None,
        reveals=(),
        signature={"trials": 10},
    )
    return replace(plain, **changes)


class TestReport:
    def test_refutes_what_is_smaller_and_nothing_else(self) -> None:
        report = a_report()
        assert report.refutes(accounting.guarantee([PureEvent(1.99)], unit=Unit.DOCUMENT, basis=Basis.PROVEN))
        assert not report.refutes(accounting.guarantee([PureEvent(2.0)], unit=Unit.DOCUMENT, basis=Basis.PROVEN))
        assert report.refutes(
            accounting.guarantee([ApproximateEvent(1.0, 1e-6)], 1e-6, unit=Unit.DOCUMENT, basis=Basis.CLAIMED)
        )

    @pytest.mark.parametrize(
        "other",
        [
            {"unit": Unit.TOKEN},
            {"unit": Unit.DOCUMENT, "relation": Relation.REPLACE_SPECIAL},
            {"unit": Unit.DOCUMENT, "reveals": (TOKEN_COUNT,)},
        ],
    )
    def test_other_neighbours_are_incomparable(self, other: dict) -> None:
        with pytest.raises(IncomparableError):
            a_report().refutes(accounting.guarantee([PureEvent(0.1)], basis=Basis.PROVEN, **other))

    def test_a_metric_or_fewer_revealed_things_are_incomparable(self) -> None:
        with pytest.raises(IncomparableError):
            a_report().refutes(
                accounting.guarantee([MetricEvent(0.1, "steps")], unit=Unit.DOCUMENT, basis=Basis.PROVEN)
            )
        with pytest.raises(IncomparableError):
            a_report(reveals=(TOKEN_COUNT,)).refutes(PURE)
        same = accounting.guarantee(
            [PureEvent(1.0)], unit=Unit.DOCUMENT, reveals=(LINE_STRUCTURE, TOKEN_COUNT), basis=Basis.PROVEN
        )
        assert a_report(reveals=(TOKEN_COUNT, LINE_STRUCTURE)).refutes(same)  # the order says nothing

    def test_a_larger_delta_is_incomparable(self) -> None:
        claim = accounting.guarantee([ApproximateEvent(1.0, 1e-5)], 1e-5, unit=Unit.DOCUMENT, basis=Basis.PROVEN)
        with pytest.raises(IncomparableError, match="delta"):
            a_report().refutes(claim)

    def test_nothing_claimed_cannot_be_refuted(self) -> None:
        none = accounting.guarantee([NoEvent("because")], unit=Unit.DOCUMENT, basis=Basis.NONE)
        assert not a_report(epsilon_lower_bound=math.inf, defects=("broken",)).refutes(none)

    def test_a_defect_refutes_any_claim(self) -> None:
        claim = accounting.guarantee([PureEvent(50.0)], unit=Unit.DOCUMENT, basis=Basis.PROVEN)
        assert not a_report().refutes(claim)
        assert a_report(defects=("the sampler is wrong",)).refutes(claim)

    def test_words_and_json(self) -> None:
        report = a_report(ceiling=math.inf, epsilon_lower_bound=math.inf)
        data = json.loads(json.dumps(report.to_dict()))
        assert data["epsilon_lower_bound"] == data["ceiling"] == "inf"
        assert "REFUTED" in report.explain(PURE)
        assert "Not refuted" in a_report(epsilon_lower_bound=0.5).explain(PURE)
        assert "no more than 7" in a_report().explain()
        with pytest.raises(ConfigError):
            a_report(epsilon_lower_bound=math.nan)


class TestPairs:
    @pytest.mark.parametrize(
        ("unit", "relation", "reveals"),
        list(
            product(
                (Unit.TOKEN, Unit.SENTENCE, Unit.DOCUMENT),
                (Relation.REPLACE_ONE, Relation.REPLACE_SPECIAL),
                ((), (TOKEN_COUNT,), (TOKEN_COUNT, LINE_STRUCTURE), ("the number of records", "the field 'date'")),
            )
        ),
    )
    def test_only_true_neighbours_are_proposed(self, unit: Unit, relation: Relation, reveals: tuple[str, ...]) -> None:
        for pair in audits.worst_pairs(unit, relation, reveals):
            assert pair.first != pair.second
            check_neighbours(Record("0", pair.first), Record("0", pair.second), unit, relation, reveals)

    def test_what_is_proposed(self) -> None:
        names = {pair.name for pair in audits.worst_pairs(Unit.TOKEN, reveals=(TOKEN_COUNT,))}
        assert {"known words 1", "known against unknown word", "two unknown words", "one word of several"} <= names
        assert not {"empty against longest", "all words"} & names
        names = {pair.name for pair in audits.worst_pairs(Unit.DOCUMENT)}
        assert {"empty against longest", "known against unknown word", "two lines against one", "numbers"} <= names
        assert "empty against longest" not in {
            pair.name for pair in audits.worst_pairs(Unit.DOCUMENT, reveals=(TOKEN_COUNT,))
        }
        special = audits.worst_pairs(Unit.DOCUMENT, Relation.REPLACE_SPECIAL)
        assert special
        assert all("" in (pair.first, pair.second) for pair in special)
        longest = [pair for pair in audits.worst_pairs(Unit.DOCUMENT, max_tokens=7) if "longest" in pair.name]
        assert [len(pair.second.split()) for pair in longest] == [7, 7]

    def test_what_cannot_be_proposed(self) -> None:
        with pytest.raises(IncomparableError, match="documents one by one"):
            audits.worst_pairs(Unit.AUTHOR)
        with pytest.raises(IncomparableError, match="left out"):
            audits.worst_pairs(Unit.DOCUMENT, Relation.ADD_OR_REMOVE_ONE)
        with pytest.raises(IncomparableError, match="every common word"):
            audits.worst_pairs(Unit.TOKEN, reveals=("every common word",))
        with pytest.raises(ConfigError):
            audits.worst_pairs(Unit.TOKEN, words=("one",))

    @pytest.mark.parametrize(
        ("first", "second", "unit", "reveals"),
        [
            ("a b", "c d", Unit.TOKEN, ()),
            ("a b", "a b", Unit.TOKEN, ()),
            ("a", "a b", Unit.TOKEN, ()),
            ("a b", "a", Unit.DOCUMENT, (TOKEN_COUNT,)),
            ("a b", "a\nb", Unit.DOCUMENT, (LINE_STRUCTURE,)),
            ("It rains. We run.", "It pours. We hide.", Unit.SENTENCE, ()),
            ("It rains. We run.", "It rains.\n\nWe run.", Unit.SENTENCE, ()),
            ("It rains. We run.", "It rains. We run.", Unit.SENTENCE, ()),
        ],
    )
    def test_no_neighbours_are_refused(self, first: str, second: str, unit: Unit, reveals: tuple[str, ...]) -> None:
        with pytest.raises(IncomparableError):
            check_neighbours(Record("0", first), Record("1", second), unit, Relation.REPLACE_ONE, reveals)

    def test_a_revealed_label_must_agree(self) -> None:
        first, second = Record("0", "a", label="x"), Record("0", "b", label="y")
        with pytest.raises(IncomparableError, match="label"):
            check_neighbours(first, second, Unit.TOKEN, Relation.REPLACE_ONE, ("the label",))

    def test_latents(self) -> None:
        corners, zero, axis = audits.worst_latents(16, 3.0)
        assert np.abs(corners.first - corners.second).sum() == pytest.approx(2 * 3.0 * 4)
        assert np.linalg.norm(zero.first) == pytest.approx(3.0)
        assert np.abs(axis.first - axis.second).sum() == pytest.approx(6.0)
        assert len(audits.worst_latents(1)) == 2

    def test_no_text_in_repr(self) -> None:
        assert "secret" not in repr(audits.Pair("secret", "secret2"))


class Echo:
    def sample(self, value: str, runs: int, randomness: Randomness) -> list[str]:
        return [value] * runs


class Miscounting:
    def sample(self, value: str, runs: int, randomness: Randomness) -> list[str]:
        return [value] * (runs - 1)


class TestDistinguish:
    @pytest.mark.parametrize(("audited", "most"), [(25, 4), pytest.param(200, 14, marks=pytest.mark.slow)])
    def test_the_bound_holds_for_sound_mechanisms(self, audited: int, most: int) -> None:
        """Audits of a choice that attains its epsilon: the bound may exceed it in 5% of them, on average."""
        choice, claim = TopKRandomizedResponse(1.0, 1, 3), PURE
        one, other = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])
        wrong = sum(
            audits.distinguish(choice, one, other, claim=claim, trials=1000, randomness=seeded(i)).refutes(claim)
            for i in range(audited)
        )
        assert wrong <= most

    def test_the_bound_is_near_the_truth(self) -> None:
        choice = TopKRandomizedResponse(2.0, 1, 3)
        one, other = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])
        report = audits.distinguish(choice, one, other, trials=40_000, randomness=seeded(0))
        assert 1.85 < report.epsilon_lower_bound <= 2.0
        assert report.refutes(accounting.guarantee([PureEvent(1.8)], unit=Unit.DOCUMENT, basis=Basis.PROVEN))
        assert report.control.low <= 0.5 <= report.control.high
        assert report.main.low > 0.6

    def test_a_wrong_bound_would_be_seen(self) -> None:
        """Counting on the runs that chose the event, a common fault, is worse than this by far."""
        outputs = [f"{i} {j}" for i, j in np.random.default_rng(0).integers(0, 40, (4000, 2)).tolist()]
        assert separation(outputs[:2000], outputs[2000:]) == 0

    def test_perfect_separation_reaches_the_ceiling(self) -> None:
        report = audits.distinguish(Echo(), "a", "b", trials=2000, claim=PURE, randomness=seeded(0))
        assert report.epsilon_lower_bound == pytest.approx(report.ceiling)
        assert report.ceiling == epsilon_ceiling(1000, tests=2)  # half of the runs are counted, in two directions
        assert report.main.value == 1.0

    def test_delta(self) -> None:
        none = audits.distinguish(Echo(), "a", "b", trials=1000, claim=PURE, delta=1.0)
        assert none.epsilon_lower_bound == 0

    def test_metrics(self) -> None:
        claim = accounting.guarantee([MetricEvent(1.0, "steps")], unit=Unit.TOKEN, basis=Basis.PROVEN)
        near = audits.distinguish(Echo(), "a", "b", trials=1000, claim=claim, distance=0.5, randomness=seeded(0))
        far = audits.distinguish(Echo(), "a", "b", trials=1000, claim=claim, distance=50.0, randomness=seeded(0))
        same = audits.distinguish(Echo(), "a", "b", trials=1000, claim=claim, distance=0.0, randomness=seeded(0))
        assert near.epsilon_lower_bound == pytest.approx(100 * far.epsilon_lower_bound)
        assert near.refutes(claim)
        assert not far.refutes(claim)
        assert math.isinf(same.epsilon_lower_bound)
        with pytest.raises(IncomparableError, match="distance="):
            audits.distinguish(Echo(), "a", "b", trials=1000, claim=claim)

    def test_errors(self) -> None:
        for wrong in (
            {"trials": 100},
            {"first": "a"},
            {"pairs": [audits.Pair("a", "b")], "first": "a", "second": "b"},
            {},  # nothing can be proposed for an adapter
        ):
            with pytest.raises(ConfigError):
                audits.distinguish(Echo(), **{"trials": 1000, **wrong})
        with pytest.raises(PrivacyError, match="one output a run"):
            audits.distinguish(Miscounting(), "a", "b", trials=1000)
        with pytest.raises(ConfigError, match=f"takes texts.*{METHODS}$"):
            audits.distinguish(GridLaplace(1.0, 2, 1.0), "a", "b", trials=1000)
        with pytest.raises(ConfigError, match="vector"):
            audits.distinguish(GridLaplace(1.0, 2, 1.0), np.ones((2, 2)), np.ones(2), trials=1000)

    @pytest.mark.parametrize(
        "outputs",
        [
            lambda runs: [None] * runs,
            lambda runs: np.full((runs, 2), np.nan),
            lambda runs: [np.zeros(1 + i % 2) for i in range(runs)],
            lambda runs: np.array([object()] * runs),
        ],
    )
    def test_outputs_that_cannot_be_compared(self, outputs) -> None:
        class Odd:
            def sample(self, value, runs, randomness):
                return outputs(runs)

        with pytest.raises(ConfigError, match="outputs that are texts"):
            audits.distinguish(Odd(), "a", "b", trials=1000)

    def test_outputs_of_two_kinds(self) -> None:
        class Odd:
            def sample(self, value, runs, randomness):
                return np.zeros((runs, 1)) if value == "a" else ["q"] * runs

        with pytest.raises(ConfigError, match="one kind"):
            audits.distinguish(Odd(), "a", "b", trials=1000)

    def test_odd_vectors_and_deltas(self) -> None:
        noise = GridLaplace(1.0, 3, 1.0)
        for audit in (audits.distinguish, audits.whitebox):
            with pytest.raises(ConfigError, match="one size"):
                audit(noise, np.ones(3), np.ones(2), trials=1000)
            for delta in (-0.5, 2.0, math.nan):
                with pytest.raises(ConfigError, match="delta"):
                    audit(noise, delta=delta, trials=1000)

    def test_progress_and_seeds(self) -> None:
        seen: list[tuple[int, int]] = []
        noise = GridLaplace(3.0, 1, 1.0)
        reports = [
            audits.distinguish(noise, trials=1000, randomness=seeded(4), on_progress=lambda *at: seen.append(at))
            for _ in range(2)
        ]
        assert reports[0] == reports[1]
        assert seen[-1] == (4000, 4000)
        assert [done for done, _ in seen[: len(seen) // 2]] == sorted({done for done, _ in seen})

    def test_runs_of_two_inputs_share_no_noise(self) -> None:
        noise = GridLaplace(1.0, 2, 1.0)
        one = sample(noise, np.zeros(2), 64, seeded(0))
        other = sample(noise, np.zeros(2), 64, seeded(0), position=64)
        assert not np.array_equal(one, other)


SOUND = [
    GridLaplace(2.0, 8, 1.0),
    GridLaplace(2.0, 8, 1.0, Norm.L1),
    GridGaussian(0.5, 8, 1.0),
    L2Laplace(20.0, 8, 1.0),
    Gaussian(3.0, 1e-5, 8, 1.0),
    PrivUnit(3.0, 8, 1.0),
    PrivUnitSphere(6.0, 8),
]


class TestWhitebox:
    @pytest.mark.slow_cases(
        *("GridLaplace0", "GridLaplace1", "GridGaussian", "PrivUnit", "PrivUnitSphere"),
        why="the continuous noises stay; test_samplers.py draws from each",
    )
    @pytest.mark.parametrize("noise", SOUND, ids=lambda noise: type(noise).__name__)
    @SHARES
    def test_sound_noise_survives(self, noise, share: int) -> None:
        claim = accounting.guarantee(noise.events, 1e-5, unit=Unit.DOCUMENT, basis=Basis.PROVEN)
        report = audits.whitebox(noise, claim=claim, trials=20_000 // share, confidence=0.999, randomness=seeded(5))
        assert not report.refutes(claim)
        assert report.control.value > 1e-5

    @pytest.mark.slow  # tests/unit/cli/test_demo.py reads the same losses of the same noise
    def test_pure_losses_are_exact(self) -> None:
        noise = GridLaplace(2.0, 1, 1.0)
        report = audits.whitebox(noise, trials=1000, randomness=seeded(0))
        assert report.epsilon_lower_bound == pytest.approx(2.0, rel=1e-5)
        published = audits.whitebox(PublishedLaplace(50.0, 64, 1.0), trials=1000, randomness=seeded(0))
        assert 250 < published.epsilon_lower_bound <= 400.01  # 2C sqrt(n) / 2C times the claim is the most

    def test_delta_is_that_of_the_curve(self) -> None:
        noise = Gaussian(2.0, 1e-2, 4, 1.0)
        claim = accounting.guarantee(noise.events, 1e-2, unit=Unit.DOCUMENT, basis=Basis.PROVEN)
        report = audits.whitebox(noise, claim=claim, trials=40_000, randomness=seeded(0))
        assert report.main.low < 1e-2 < report.main.high
        assert report.main.high - report.main.low < 6e-3
        smaller = replace(claim, epsilon=1.7)
        assert audits.whitebox(noise, claim=smaller, trials=10_000, randomness=seeded(0)).refutes(smaller)

    def test_hoeffding(self) -> None:
        """The bound is above the mean of Bernoulli runs in at most alpha of the samples, and not by much less."""
        rng = np.random.default_rng(0)
        hits, times = np.unique(rng.binomial(500, 0.1, 4000), return_counts=True)
        lows = [_lower_mean(k / 500, 500, 0.05) for k in hits.tolist()]
        share = np.average(np.array(lows) > 0.1, weights=times)
        assert 0.005 < share <= 0.05

    def test_needs_a_density(self) -> None:
        with pytest.raises(ConfigError, match=f"density.*distinguish needs neither.{METHODS}$"):
            audits.whitebox(Echo(), "a", "b", trials=1000)
        with pytest.raises(ConfigError, match=f"with latent.*{METHODS}$"):
            audits.whitebox(GridLaplace(1.0, 2, 1.0), "a", "b", trials=1000)

    @pytest.mark.slow_cases("1.0", why="test_sound_noise_survives accepts the right scale")
    @pytest.mark.slow_cases("noise0", "noise1", "noise2", why="L2Laplace and Gaussian stay")
    @pytest.mark.parametrize("noise", [noise for noise in SOUND if not isinstance(noise, PrivUnit | PrivUnitSphere)])
    @pytest.mark.parametrize("factor", [2 / 3, 1.0, pytest.param(3 / 2, marks=pytest.mark.slow)])
    @SHARES
    def test_a_wrong_scale_is_no_fit(self, noise, factor: float, share: int) -> None:
        class Scaled:
            def release(self, vectors, source):
                return vectors + factor * (noise.release(vectors, source) - vectors)

            def log_density(self, released, vectors):
                return noise.log_density(released, vectors)

        point = np.full(8, 0.1)
        p = density_p_value(Scaled(), point, -point, runs=20_000 // share, randomness=seeded(3))
        assert (p > 1e-4) if factor == 1 else (p < 1e-5)

    @pytest.mark.slow  # test_a_wrong_scale_is_no_fit stays
    def test_one_coordinate_without_noise_is_no_fit(self) -> None:
        noise = GridLaplace(5.0, 16, 1.0)

        class Bare:
            def release(self, vectors, source):
                released = noise.release(vectors, source)
                released[:, 3] = vectors[:, 3]
                return released

            def log_density(self, released, vectors):
                return noise.log_density(released, vectors)

        point = np.full(16, 0.1)
        assert density_p_value(Bare(), point, -point, runs=3_000, randomness=seeded(3)) < 1e-5

    def test_words(self, vectors) -> None:
        mechanism = WordMetric(epsilon=1.0, vectors=str(vectors), n_words=300).fit()
        claim = mechanism.spec.guarantee()
        report = audits.whitebox(
            mechanism, f"{WORDS[0]} {WORDS[1]}", f"{WORDS[20]} {WORDS[1]}", trials=20_000, confidence=0.999
        )
        assert not report.refutes(claim)
        assert report.epsilon_lower_bound > 0.5
        assert report.refutes(replace(claim, epsilon=0.5))


def _brute(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    low, high = 0.0, 200.0
    if audits.exact_delta(p, q, high) > delta:
        return math.inf
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if audits.exact_delta(p, q, middle) <= delta else (middle, high)
    return high


class TestExact:
    def test_epsilon_against_bisection(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(60):
            size = int(rng.integers(1, 6))
            p, q = rng.dirichlet(np.full(size, 0.5)), rng.dirichlet(np.full(size, 0.5))
            if size > 1 and rng.random() < 0.5:
                p[0] = 0
                p /= p.sum()
            for delta in (0.0, 1e-5, 0.05, 0.3, 1.0):
                found, expected = audits.exact_epsilon(p, q, delta), _brute(p, q, delta)
                assert found == expected or abs(found - expected) < 1e-6

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            (TopKRandomizedResponse(2.0, 1, 4), 2.0),
            (Exponential(2.0, 1.0), 1.0),
            (PermuteAndFlip(2.0, 1.0), None),
        ],
        ids=lambda item: type(item).__name__,
    )
    def test_choices(self, choice, expected: float | None) -> None:
        one, other = np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
        claim = audits.claim_of(choice)
        report = audits.exact(choice, one, other, trials=5000, randomness=seeded(1))
        assert not report.refutes(claim)
        if expected is not None:
            assert report.epsilon_lower_bound == pytest.approx(expected, abs=1e-6)
        assert report.refutes(replace(claim, epsilon=report.epsilon_lower_bound - 1e-6))

    def test_a_sampler_that_does_not_keep_to_it(self) -> None:
        class Louder:
            event = PureEvent(2.0)

            def distribution(self, scores):
                return TopKRandomizedResponse(2.0, 1, 4).distribution(scores)

            def choose(self, scores, source):
                return TopKRandomizedResponse(3.0, 1, 4).choose(scores, source)

        one, other = np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
        report = audits.exact(Louder(), one, other, trials=5000, randomness=seeded(1))
        assert report.defects
        assert report.refutes(audits.claim_of(Louder()))

    def test_words(self, vectors) -> None:
        mechanism = WordMetric(epsilon=1.0, noise="tem", vectors=str(vectors), n_words=300).fit()
        claim = mechanism.spec.guarantee()
        report = audits.exact(mechanism, WORDS[0], WORDS[20], trials=5000)
        assert not report.refutes(claim)
        assert 0.4 < report.epsilon_lower_bound <= 1.0
        unknown = audits.exact(mechanism, UNKNOWN, "zzzzzzz", trials=1000)
        assert unknown.epsilon_lower_bound == 0

    def test_outputs_of_other_names_are_called_so(self) -> None:
        class Unnamed:
            event = PureEvent(2.0)

            def output_distribution(self, record):
                return {"a": 1.0}

            def privatize(self, records, randomness):
                return [Release(record.id, "a", "label") for record in records]

        report = audits.exact(Unnamed(), "a", "b", trials=200, randomness=seeded(1))
        assert report.refutes(audits.claim_of(Unnamed()))
        (defect,) = report.defects
        assert "outputs were drawn that the distribution does not list" in defect

    def test_p_values(self) -> None:
        declared = {"a": 0.5, "b": 0.3, "c": 0.2 - 1e-9, "d": 1e-9}
        rng = np.random.default_rng(1)
        right = rng.choice(["a", "b", "c"], 3000, p=[0.5, 0.3, 0.2]).tolist()
        wrong = rng.choice(["a", "b", "c"], 3000, p=[0.4, 0.4, 0.2]).tolist()
        assert distribution_p_value(declared, right) > 0.01
        assert distribution_p_value(declared, wrong) < 1e-6
        assert distribution_p_value(declared, [*right, "impossible"]) == 0
        assert distribution_p_value(declared, [*right, "d"]) < 1e-4

    def test_errors(self) -> None:
        with pytest.raises(ConfigError, match=f"outputs to list.*distinguish needs neither.{METHODS}$"):
            audits.exact(Echo(), "a", "b")
        for p, q in (([0.5, 0.5], [1.0]), ([0.5, 0.4], [0.5, 0.5]), ([1.5, -0.5], [0.5, 0.5])):
            with pytest.raises(ConfigError):
                audits.exact_epsilon(np.array(p), np.array(q))


def test_pairs_of_labels_for_what_reads_them() -> None:
    labels = ("a", "b", "c")
    found = [pair for pair in audits.worst_pairs(Unit.DOCUMENT, labels=labels) if pair.name == "labels"]
    assert [(pair.first.label, pair.second.label) for pair in found] == [("a", "b"), ("a", None)]
    assert all(pair.first.text == pair.second.text for pair in found)
    for unit, reveals in ((Unit.TOKEN, ()), (Unit.DOCUMENT, ("the field 'label'",))):
        assert not any(pair.name == "labels" for pair in audits.worst_pairs(unit, reveals=reveals, labels=labels))
