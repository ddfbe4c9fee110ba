"""The trait attack: planted words, ciphers and constants, the split, controls, and numbers against naive ones."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.mechanism import Traits
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.records import Record, Release
from dptext_lab.redaction.trait import (
    LINEAR,
    MLP,
    TFIDF,
    SetSplit,
    TextVectors,
    infer_trait,
    infer_trait_from_releases,
    release_sets,
    split_sets,
    standard_attackers,
)
from dptext_lab.redaction.trait_findings import SetJudge, TraitReport, epsilon_from_accuracy

CANARY = "zq9canaryxv"
COMMON = (
    "the",
    "a",
    "we",
    "it",
    "and",
    "of",
    "in",
    "on",
    "was",
    "is",
    "to",
    "for",
    "with",
    "that",
    "this",
    "be",
    "not",
)
PLANTED = ("tumour", "weather")
TRAINING, ATTACKED = 120, 80


def texts_of(side: int, count: int, seed: int = 0) -> list[str]:
    """Texts of nine common words and the one word that gives the set away."""
    rng = np.random.default_rng([side, seed])
    return [" ".join(rng.permutation([*rng.choice(COMMON, 9), PLANTED[side]]).tolist()) for _ in range(count)]


def records(texts: Sequence[str], author: Callable[[int], str | None] = lambda _: None) -> list[Record]:
    return [Record(str(i), text, author=author(i)) for i, text in enumerate(texts)]


class HashedWords:
    """An embedder that knows words, and counts what it is asked."""

    name, dim = "hashed words", 96

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked.update(texts)
        found = np.zeros((len(texts), self.dim))
        for row, text in zip(found, texts, strict=True):
            for word in text.split():
                row[int.from_bytes(hashlib.sha256(word.encode()).digest()[:2], "big") % self.dim] += 1
        return found


TEXT, VECTORS = Traits(), Traits(releases_text=False, releases_vectors=True)


@dataclass(frozen=True)
class Settings:
    kind: str = "toy"
    traits: Traits = TEXT


@dataclass(frozen=True)
class Toy:
    """A mechanism that rewrites a text by a function of it and of fresh bits."""

    rewrite: Callable[[str, Randomness], str]
    spec: Settings = Settings()

    def privatize(self, given: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        found: list[Release[str]] = []

        def draw(source: Randomness, n: int) -> np.ndarray:
            found.append(Release(given[len(found)].id, self.rewrite(given[len(found)].text, source)))
            return np.zeros(n)

        randomness.rows([1] * len(given), draw)
        return found


def kept_one_in_four(text: str, source: Randomness) -> str:
    words = text.split()
    drawn = uniform_below(4, len(words), source)
    return " ".join(word if d == 0 else "[MASK]" for word, d in zip(words, drawn, strict=True))


CIPHER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm")
IDENTITY = Toy(lambda text, _: text)
REMOVED = Toy(lambda text, _: " ".join(word for word in text.split() if word not in PLANTED))
CONSTANT = Toy(lambda *_: "[MASK]")
EMPTY = Toy(lambda *_: "")
CIPHERED = Toy(lambda text, _: text.translate(CIPHER))
REDACTED = Toy(kept_one_in_four)


@cache
def split() -> SetSplit:
    first, second = (records(texts_of(side, TRAINING + ATTACKED)) for side in (0, 1))
    return split_sets(first, second, training=TRAINING, attacked=ATTACKED, seed=1)


@cache
def attacked(mechanism: Toy) -> TraitReport:
    return infer_trait(mechanism, split(), embedder=HashedWords(), seed=2)


def by_name(found: TraitReport) -> dict[str, tuple[float, Estimate]]:
    return {row.name: (row.auc.value, row.accuracy) for row in found.attacks}


def test_a_word_that_gives_the_set_away_is_found_by_every_attacker_and_its_loss_leaves_chance() -> None:
    names = {f"{name}, {how}" for name in (TFIDF, LINEAR, MLP) for how in ("static", "adaptive", "both")}
    plain, removed = by_name(attacked(IDENTITY)), by_name(attacked(REMOVED))
    assert set(plain) == set(removed) == names
    for name in names:
        auc, accuracy = plain[name]
        assert auc > 0.98, name
        assert accuracy.low > 0.9, name
        assert 0.38 < removed[name][0] < 0.62, name
        assert removed[name][1].low <= 0.5 <= removed[name][1].high, name
    assert attacked(IDENTITY).bound.epsilon > 2
    assert attacked(REMOVED).bound.epsilon == 0
    originals = [row for row in attacked(REMOVED).baselines if row.name.startswith("originals: ")]
    assert len(originals) == 3
    assert min(row.auc.value for row in originals) > 0.98
    assert all(row.similarity.value == pytest.approx(1) for row in originals)
    assert attacked(REMOVED).attacks[0].similarity.high < 1


def test_where_a_static_attacker_sees_nothing_an_adaptive_one_does() -> None:
    found = by_name(attacked(CIPHERED))
    for name in (TFIDF, LINEAR, MLP):
        assert found[f"{name}, static"][1].high < 0.7, name
        assert found[f"{name}, adaptive"][0] > 0.98, name
    assert not attacked(CIPHERED).best.endswith("static")


def test_redaction_leaves_part_of_the_trait() -> None:
    """A quarter of the planted words is left: accuracy near 5/8, by whoever reads words."""
    auc, accuracy = by_name(attacked(REDACTED))[f"{TFIDF}, adaptive"]
    assert 0.55 < accuracy.value < 0.72
    assert 0.55 < auc < 0.75


@pytest.mark.parametrize("mechanism", [CONSTANT, EMPTY])
def test_a_constant_is_at_chance_exactly(mechanism: Toy) -> None:
    found = attacked(mechanism)
    for row in found.attacks:
        assert row.auc.value == row.accuracy.value == 0.5
    assert found.bound.epsilon == 0
    majority = found.baselines[-1]
    assert (majority.auc.value, majority.accuracy.value, majority.epsilon.value) == (0.5, 0.5, 0)


def test_controls_are_at_chance_and_a_control_that_is_not_is_told() -> None:
    for mechanism in (IDENTITY, REDACTED, CONSTANT):
        found = attacked(mechanism)
        assert found.control_holds
        assert len(found.controls) == 9
    found = attacked(IDENTITY)
    spoilt = replace(found, controls=found.attacks)  # planted: a control that was not permuted
    assert not spoilt.control_holds
    assert "do not rely on these numbers" in spoilt.to_markdown()
    assert "do not rely on these numbers" not in found.to_markdown()


def test_numbers_are_those_of_naive_counting() -> None:
    rng = np.random.default_rng(3)
    true = np.repeat([True, False], 40)
    scores = np.round(rng.normal(size=80) + 0.8 * true, 1)  # with ties, some of them at the threshold
    judge = SetJudge(true, rng.permutation(true), 0, 0.95, 0.05)
    similar = Estimate(1, 1, 1, 0.95)
    row = judge.row("x", scores, similar)
    right = sum(int((score > 0) == is_first) for score, is_first in zip(scores, true, strict=True))
    assert row.accuracy.value == right / 80
    assert row.auc.value == pytest.approx(roc_auc_score(true, scores))
    assert row.auc.value != pytest.approx(roc_auc_score(true, scores > 0))  # scores, not hard predictions
    assert row.auc.low < row.auc.value < row.auc.high
    assert row.epsilon.value == pytest.approx(math.log((right / 80 - 0.05) / (1 - right / 80)))
    assert judge.row("x", 7 * scores, similar).auc == row.auc
    assert judge.bound(right, tests=1).epsilon < row.epsilon.value
    assert judge.bound(right, tests=6).epsilon < judge.bound(right, tests=1).epsilon


@pytest.mark.parametrize(("accuracy", "epsilon"), [(0.7, 0.85), (0.8, 1.39), (0.9, 2.20), (0.95, 2.94)])
def test_what_an_accuracy_needs(accuracy: float, epsilon: float) -> None:
    found = epsilon_from_accuracy(Estimate(accuracy, 0.5, 1.0, 0.95))
    assert found.value == pytest.approx(epsilon, abs=0.005)
    assert (found.low, found.high, found.confidence) == (0, math.inf, 0.95)
    less = epsilon_from_accuracy(Estimate(accuracy, 0.5, 1.0, 0.95), delta=0.1)
    assert less.value == pytest.approx(math.log((accuracy - 0.1) / (1 - accuracy)))
    assert epsilon_from_accuracy(Estimate(0.4, 0.3, 0.45, 0.95)).high == 0
    with pytest.raises(ConfigError, match="delta"):
        epsilon_from_accuracy(Estimate(0.5, 0.5, 0.5, 0.95), delta=2)


def test_randomized_response_on_the_set_is_not_refuted_at_its_epsilon() -> None:
    """Pr[tell the true set] = e^eps / (1 + e^eps) is eps-indistinguishable and no better: 30 trials of 4,000 texts."""
    epsilon = 1.0
    true = np.repeat([True, False], 2000)
    rng = np.random.default_rng(4)
    refuted = [0, 0]
    for _ in range(30):
        told = np.where(rng.random(4000) < math.exp(epsilon) / (1 + math.exp(epsilon)), true, ~true)
        judge = SetJudge(true, rng.permutation(true), 0, 0.95, 0.0)
        bound = judge.bound(judge.hits(np.where(told, 1.0, -1.0)), tests=1)
        report = replace(attacked(IDENTITY), bound=bound)
        refuted[0] += report.refutes(epsilon)
        refuted[1] += report.refutes(0.8 * epsilon)
    assert refuted[0] <= 4  # 1.5 expected; more than 4 has probability .016
    assert refuted[1] == 30


def test_the_best_of_attackers_at_chance_shows_nothing_because_of_the_correction() -> None:
    """Nine attackers that flip coins, 400 audits: with the correction 5% show something at most, without it many do."""
    true = np.repeat([True, False], 100)
    judge = SetJudge(true, true, 0, 0.95, 0.0)
    best = np.random.default_rng(5).binomial(200, 0.5, (400, 9)).max(axis=1)
    shown = {tests: sum(judge.bound(int(hits), tests=tests).epsilon > 0 for hits in best) for tests in (1, 9)}
    assert shown[9] <= 31  # 20 expected at most; more than 31 has probability .005
    assert shown[1] > 80


# ------------------------------------------------------------------ the split


def test_a_leak_is_refused_and_names_no_text() -> None:
    known = split()
    (first, second), others = known.training, known.attacked
    leaked = Record("leak", others[0][3].text.upper(), author=CANARY)
    for training in (((leaked, *first[1:]), second), (first, (leaked, *second[1:]))):  # within a set, and across
        with pytest.raises(ConfigError, match="no attacked text among the training texts, found 1") as caught:
            infer_trait(IDENTITY, replace(known, training=training), embedder=HashedWords())
        assert others[0][3].text not in str(caught.value)
        assert CANARY not in str(caught.value)


def test_duplicates_go_and_shared_texts_stay_in_one_set() -> None:
    own, other, common = texts_of(0, 20), texts_of(1, 20), texts_of(1, 10, seed=9)
    found = split_sets(
        records([*own, *map(str.upper, own[:4]), *common]), records([*common, *other]), training=8, attacked=8, seed=0
    )
    assert (found.duplicates, found.shared) == (4, 10)
    texts = [record.text.lower() for sides in (found.training, found.attacked) for side in sides for record in side]
    assert len(texts) == len(set(texts)) == 32
    assert [len(side) for side in (*found.training, *found.attacked)] == [8, 8, 8, 8]
    assert split_sets(records(own), records(other), training=8, attacked=8, seed=0) != split_sets(
        records(own), records(other), training=8, attacked=8, seed=1
    )


def test_equal_sets_are_at_chance() -> None:
    """All of the texts are shared: a coin leaves each in one set, and nothing tells them apart."""
    same = records(texts_of(0, 430))
    halves = split_sets(same, same, training=120, attacked=80, seed=3)
    assert halves.shared == 430
    found = infer_trait(IDENTITY, halves, embedder=HashedWords(), seed=0)
    assert found.bound.epsilon == 0
    assert all(0.38 < row.auc.value < 0.62 for row in found.attacks)
    assert "430 texts that both sets had" in found.to_markdown()


def test_a_document_is_on_one_side() -> None:
    first, second = (records(texts_of(side, 60), lambda i: f"{CANARY}{i // 4}") for side in (0, 1))
    found = split_sets(first, second, training=20, attacked=20, seed=0)
    learned, tried = ({r.author for side in sides for r in side} for sides in (found.training, found.attacked))
    assert not learned & tried
    alone = [replace(record, author=None) for record in first], [replace(record, author=None) for record in second]
    assert split_sets(*alone, training=40, attacked=20, seed=0).training
    one = [replace(record, author=CANARY) for record in first], second
    with pytest.raises(ConfigError, match="found 0 to train on") as caught:
        split_sets(*one, training=20, attacked=20, seed=0)
    assert CANARY not in str(caught.value)
    # one author in several spellings is one
    spelled = [replace(record, author=f"{CANARY.upper() if i % 2 else CANARY} ") for i, record in enumerate(first)]
    with pytest.raises(ConfigError, match="none of whose authors"):
        split_sets(spelled, second, training=20, attacked=20, seed=0)


@pytest.mark.parametrize(("training", "count"), [(21, 20), (0, 20), (20, 0)])
def test_too_few_texts(training: int, count: int) -> None:
    first, second = (records(texts_of(side, 40)) for side in (0, 1))
    with pytest.raises(ConfigError, match=r"training|attacked"):
        split_sets(first, second, training=training, attacked=count, seed=0)


# ------------------------------------------------------------------ the audit


def test_the_report_shows_no_text_and_all_numbers() -> None:
    own = [[Record(f"{CANARY}{i}", f"{CANARY} {text}", author=f"{CANARY}{i}") for i, text in enumerate(texts_of(s, 60))]
           for s in (0, 1)]  # fmt: skip
    halves = split_sets(*own, training=40, attacked=20, seed=0)
    found = infer_trait(IDENTITY, halves, embedder=HashedWords(), seed=0, delta=0.01)
    data = json.dumps(found.to_dict(), allow_nan=False)
    shown = [data, found.to_markdown(), repr(found), repr(halves), repr(TextVectors(HashedWords()))]
    assert not any(CANARY in text or "tumour" in text for text in shown)
    table = found.to_markdown()
    for row in found.rows:
        assert f"| {row.name} " in table
    assert "no guarantee" in table
    assert "not differential privacy of any record" in table
    read = json.loads(data)
    assert read["signature"]["attack"] == "trait"
    assert read["signature"]["attackers"] == [TFIDF, LINEAR, MLP]
    assert read["epsilon_lower_bound"] == found.bound.epsilon > 0
    assert read["delta"] == 0.01
    assert read["epsilon_lower_bound"] <= read["ceiling"]
    assert len(read["attacks"]) == len(read["controls"]) == 9
    right = max(row.accuracy.value for row in found.attacks)
    assert f"The best of 9 attacks, {found.best}, is right in {right:.3f}. With a correction" in table


def test_a_seed_repeats_all_and_another_does_not() -> None:
    again = infer_trait(REDACTED, split(), embedder=HashedWords(), seed=2)
    assert again.to_dict() == attacked(REDACTED).to_dict()
    other = infer_trait(REDACTED, split(), embedder=HashedWords(), seed=3)
    assert [row.to_dict() for row in other.attacks] != [row.to_dict() for row in again.attacks]


def test_releases_come_in_the_order_of_their_records_and_each_is_drawn_anew() -> None:
    (first, second), training = release_sets(REDACTED, split(), randomness=seeded(0))
    for records_of, released in zip((*split().attacked, *split().training), (first, second, *training), strict=True):
        assert [record.id for record in records_of] == [release.id for release in released]
        for record, release in zip(records_of, released, strict=True):
            kept = [word for word in release.output.split() if word != "[MASK]"]
            assert all(word in record.text.split() for word in kept)
    pairs = [
        [tuple(word == "[MASK]" for word in release.output.split()) for release in side[:ATTACKED]]
        for side in (first, second, *training)
    ]
    for one, other in itertools.combinations(pairs, 2):  # equal by chance in 1 of 110
        assert sum(a == b for a, b in zip(one, other, strict=True)) < 10


def test_attackers_of_ones_own_and_each_text_embedded_once() -> None:
    embedder = HashedWords()
    seen: list[tuple[int, int, int]] = []

    def length(texts, is_first, vectors, seed, /):
        seen.append((len(texts), int(is_first.sum()), seed))
        assert vectors.at(texts[:3]).shape == (3, embedder.dim)
        return lambda found: np.array([float(PLANTED[0] in text.split()) - 0.5 for text in found])

    told: list[tuple[int, int]] = []
    found = infer_trait(
        IDENTITY,
        split(),
        embedder=embedder,
        attackers={"oracle": length},
        seed=5,
        on_attacker=lambda *x: told.append(x),
    )
    assert seen == [(n * 2 * TRAINING, n * TRAINING, 5) for n in (1, 1, 2)]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert [row.name for row in found.attacks] == ["oracle, static", "oracle, adaptive", "oracle, both"]
    assert found.attacks[0].accuracy.value == 1
    assert found.attacks[0].epsilon.value == math.inf
    assert json.dumps(found.to_dict(), allow_nan=False)
    assert found.bound.epsilon == found.ceiling < math.inf
    assert max(embedder.asked.values()) == 1
    assert len(embedder.asked) == 2 * ATTACKED + 3  # training texts only where somebody asks for them


def test_what_does_not_fit_is_refused() -> None:
    known, embedder = split(), HashedWords()
    released, training = release_sets(IDENTITY, known, randomness=seeded(0))

    def refused(match: str, *, parts: SetSplit = known, **changes: object) -> None:
        arguments = {"released": released, "training_released": training, "embedder": embedder, **changes}
        with pytest.raises(ConfigError, match=match):
            infer_trait_from_releases(parts, **arguments)

    refused("one release for each", released=(released[0][1:], released[1]))
    refused("one release for each", released=(released[0][::-1], released[1]))
    refused("one release for each", training_released=(training[0], training[1][1:]))
    refused("as many attacked", parts=replace(known, attacked=(known.attacked[0], known.attacked[1][1:])))
    refused("as many training", parts=replace(known, training=(known.training[0][:1], known.training[1][:1])))
    refused("at least one attacker", attackers={})
    refused("score for each", attackers={"short": lambda *_: lambda found: np.zeros(len(found) - 1)})
    refused("without NaN", attackers={"broken": lambda *_: lambda found: np.full(len(found), np.nan)})
    refused("confidence", confidence=1.0)
    refused("delta", delta=-0.1)
    with pytest.raises(ConfigError, match="releases text"):
        infer_trait(
            Toy(lambda text, _: text, Settings(traits=VECTORS)),
            known,
            embedder=embedder,
        )
    with pytest.raises(ConfigError, match="epsilon"):
        attacked(IDENTITY).refutes(-1)
    static = infer_trait_from_releases(known, released=released, embedder=embedder)
    assert {row.name.rsplit(", ", 1)[1] for row in static.attacks} == {"static"}
    assert static.signature["adaptive"] is False


def test_standard_attackers_give_log_odds() -> None:
    """Calibrated up to the prior: on noise scores are near 0, on what is sure far from it, with the right sign."""
    vectors = TextVectors(HashedWords())
    texts = [*texts_of(0, 60), *texts_of(1, 60)]
    is_first = np.repeat([True, False], 60)
    assert list(standard_attackers()) == [TFIDF, LINEAR, MLP]
    for name, train in standard_attackers().items():
        scores = train(texts, is_first, vectors, 0)([*texts_of(0, 30, 1), *texts_of(1, 30, 1)])
        assert scores.shape == (60,), name
        assert np.median(scores[:30]) > 0.3, name
        assert np.median(scores[30:]) < -0.3, name
        flipped = train(texts, ~is_first, vectors, 0)(texts_of(0, 30, 1))
        assert np.median(flipped) < -0.3, name
