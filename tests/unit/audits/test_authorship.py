"""Authorship: planted habits, ciphers and constants, controls, bundles, and the bound on epsilon against exact sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dptext.audits.bounds import epsilon_from_attribution, mean_chance, reconstruction_bound
from dptext.audits.inference.authorship import (
    AuthorSplit,
    attribute,
    attribute_releases,
    release_split,
    split_authors,
    train_ngrams,
)
from dptext.audits.inference.findings import AuthorJudge, AuthorshipReport, bundles
from dptext.audits.report import is_about
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import Estimate, clopper_pearson_lower
from dptext.mechanism import Traits
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.privacy import accounting
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.records import Record, Release
from hashed_words import HashedWords

CANARY = "zq9canaryxv"
AUTHORS = 6
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
    "at",
)
HABITS = ("truly indeed", "whilst shall", "gonna yeah", "moreover thus", "lovely dear", "kinda stuff")
ENDS = ("!!", ".", "...", ";", "?", " --")


def texts_of(author: int, count: int, seed: int = 0) -> list[str]:
    """Texts of ten words, two of them the author's own, and the author's own end."""
    rng = np.random.default_rng([author, seed])
    own = HABITS[author].split()
    return [
        " ".join(rng.permutation([*rng.choice(COMMON, 8), *rng.choice(own, 2)]).tolist()) + ENDS[author]
        for _ in range(count)
    ]


def records(count: int = 40, authors: int = AUTHORS) -> list[Record]:
    found = [(f"{CANARY}{author}", text) for author in range(authors) for text in texts_of(author, count)]
    return [Record(str(i), text, author=author) for i, (author, text) in enumerate(found)]


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


CIPHER = str.maketrans("abcdefghijklmnopqrstuvwxyz.!?;-", "qwertyuiopasdfghjklzxcvbnm;?.-!")
IDENTITY = Toy(lambda text, _: text)
CONSTANT = Toy(lambda *_: "it is what it is")
CIPHERED = Toy(lambda text, _: text.translate(CIPHER))


def mostly_random(text: str, source: Randomness) -> str:
    """Each word is kept with probability 3/16, and the end lost."""
    words = text.rstrip("".join(ENDS)).split()
    drawn = uniform_below(16, len(words), source)
    others = uniform_below(len(COMMON), len(words), source)
    return " ".join(w if d < 3 else COMMON[int(o)] for w, d, o in zip(words, drawn, others, strict=True))


@cache
def split(training: int = 24, attacked: int = 15, authors: int = AUTHORS) -> AuthorSplit:
    return split_authors(records(authors=authors), training=training, attacked=attacked, seed=1)


@cache
def attacked(mechanism: Toy, bundle: int = 1) -> AuthorshipReport:
    return attribute(mechanism, split(), embedder=HashedWords(), bundle=bundle, seed=2)


def accuracies(found: AuthorshipReport) -> dict[str, Estimate]:
    return {row.name: row.accuracy for row in found.rows}


# --- planted cases ----------------------------------------------------------------------------------------------------


def test_identity_is_attributed_by_every_attacker_and_its_similarity_says_why() -> None:
    found = attacked(IDENTITY)
    assert [row.name for row in found.attacks] == [
        "character n-grams, static",
        "sentence encoder, static",
        "character n-grams, adaptive",
        "sentence encoder, adaptive",
    ]
    for row in found.attacks:
        assert row.accuracy.low > 0.6
        assert row.macro_f1.low > 0.6
        assert row.top5.value >= row.accuracy.value
        assert row.similarity.value == pytest.approx(1.0)
    of = {row.name: row for row in found.rows}
    for name in ("character n-grams, static", "sentence encoder, static"):  # here both attack the same texts
        assert of[f"originals: {name}"].accuracy == of[name].accuracy
    hits, texts = max(round(row.accuracy.value * row.attributed) for row in found.attacks), len(split().attacked)
    best_of_four = epsilon_from_attribution(hits, texts, authors=AUTHORS, tests=4).epsilon
    assert found.report.epsilon_lower_bound == best_of_four > 2


def test_a_constant_is_at_chance_and_has_no_similarity() -> None:
    found = attacked(CONSTANT)
    for row in found.attacks:
        assert row.accuracy.value == pytest.approx(1 / AUTHORS)  # one guess for all, of equally many texts each
        assert row.similarity.value < 0.5
    assert found.report.epsilon_lower_bound == 0
    assert accuracies(found)["originals: character n-grams, static"].low > 0.6
    empty = attribute(Toy(lambda *_: ""), split(), embedder=HashedWords(), seed=2)
    assert all(row.accuracy.value == pytest.approx(1 / AUTHORS) for row in empty.attacks)
    assert empty.attacks[0].similarity.value == 0


def test_only_the_adaptive_attacker_reads_a_cipher() -> None:
    found = accuracies(attacked(CIPHERED))
    for kind in ("character n-grams", "sentence encoder"):
        assert found[f"{kind}, adaptive"].low > max(0.6, found[f"{kind}, static"].high)
    assert found["character n-grams, static"].value < 0.5


@pytest.mark.parametrize("mechanism", [IDENTITY, CONSTANT, CIPHERED])
def test_controls_and_chance(mechanism: Toy) -> None:
    found = attacked(mechanism)
    assert found.control_holds
    assert len(found.controls) == len(found.attacks)
    for row in found.controls:
        assert row.accuracy.low <= 1 / AUTHORS <= row.accuracy.high
    chance, majority = found.baselines[-2:]
    assert chance.accuracy == Estimate(1 / AUTHORS, 1 / AUTHORS, 1 / AUTHORS, 0.95)
    assert chance.top5.value == pytest.approx(5 / AUTHORS)
    assert majority.accuracy.value == pytest.approx(1 / AUTHORS)
    assert majority.macro_f1.value == pytest.approx((2 / (1 + AUTHORS)) / AUTHORS)  # F1 of one author, 0 of the others


def test_a_control_that_is_not_permuted_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = AuthorJudge.row
    monkeypatch.setattr(AuthorJudge, "row", lambda *given, control=False: row(*given, control=False))
    found = attribute(IDENTITY, split(), embedder=HashedWords(), seed=2)
    assert not found.control_holds
    assert "do not rely" in found.to_markdown()


def test_bundles_help() -> None:
    mechanism = Toy(mostly_random)
    single, bundled = (attribute(mechanism, split(), embedder=HashedWords(), bundle=n, seed=2) for n in (1, 4))
    name = "character n-grams, adaptive"
    assert accuracies(bundled)[name].low > accuracies(single)[name].high
    assert bundled.attacks[0].attributed == 3 * AUTHORS
    assert bundled.report == replace(single.report, signature=bundled.report.signature, control=bundled.report.control)
    assert bundled.control_holds
    assert f"{3 * AUTHORS} attacked texts are left over" in bundled.to_markdown()  # 15 = 3 x 4 + 3


def test_bundles_are_of_one_author_and_hold_no_text_twice() -> None:
    true = np.array([1, 0, 1, 1, 0, 0, 0, 1, 0, 1])
    units = bundles(true, 2)
    assert units.shape == (4, 2)
    assert (true[units] == true[units[:, :1]]).all()
    assert len(set(units.ravel().tolist())) == units.size


def test_two_authors_and_releases_without_adaptive_ones() -> None:
    few = split(training=10, attacked=10, authors=2)
    same = [Release(r.id, r.text) for r in few.attacked]
    found = attribute_releases(few.training, few.attacked, released=same, embedder=HashedWords())
    assert [row.name.split(", ")[1] for row in found.attacks] == ["static", "static"]
    assert found.attacks[0].accuracy.low > 0.7  # a wrong sign of the one margin would give 0
    assert all(row.top5.value == 1 for row in found.rows)
    assert found.signature["adaptive"] is False


def test_training_texts_that_are_attacked_are_named() -> None:
    few = split(training=10, attacked=10)
    both = [*few.training[1:], *few.attacked[:1]]
    found = attribute_releases(
        both, few.attacked, released=[Release(r.id, r.text) for r in few.attacked], embedder=HashedWords()
    )
    assert "1 of the attacked texts are also training texts" in found.to_markdown()


# --- counting ---------------------------------------------------------------------------------------------------------


def test_equal_scores_are_no_hits_in_the_order_of_the_authors() -> None:
    """One guess for all texts is at chance, whichever author the ties go to."""
    true = np.arange(4).repeat(5)
    firsts = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        judge = AuthorJudge(4, true, bundles(true, 1), rng.permutation(4), rng.permutation, 0, 0.95)
        row = judge.row("none", np.zeros((20, 4)), Estimate(0, 0, 0, 0.95))
        assert row.accuracy.value == 0.25
        firsts.add(int(judge.priority[0]))
    assert len(firsts) > 1
    with pytest.raises(ConfigError, match="NaN"):
        judge.row("none", np.full((20, 4), np.nan), Estimate(0, 0, 0, 0.95))


def test_the_first_and_the_first_five_are_counted() -> None:
    """Text r has its author at place r of eight."""
    scores = np.tile(-np.arange(8.0), (8, 1))
    scores = np.array(
        [np.roll(row, own - place) for place, (own, row) in enumerate(zip(range(8), scores, strict=True))]
    )
    judge = AuthorJudge(
        8, np.arange(8), bundles(np.arange(8), 1), np.arange(8)[::-1], np.random.default_rng(0).permutation, 0, 0.95
    )
    assert [int((row > row[own]).sum()) for own, row in enumerate(scores)] == list(range(8))
    row = judge.row("made up", scores, Estimate(0, 0, 0, 0.95))
    assert (row.accuracy.value, row.top5.value) == (1 / 8, 5 / 8)


# --- the bound on epsilon ---------------------------------------------------------------------------------------------


def tail(chances: Sequence[float]) -> np.ndarray:
    """Pr[K >= k] of independent hits with these chances, exactly."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return np.cumsum(law[::-1])[::-1]


@pytest.mark.parametrize(("authors", "each"), [(2, 1), (2, 6), (5, 2), (10, 5)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_the_bound_errs_as_seldom_as_it_says_whatever_the_chances(authors: int, each: int, epsilon: float) -> None:
    """Hits with equal and with extreme chances, whose mean is the largest that epsilon allows."""
    texts, allowed = authors * each, reconstruction_bound(epsilon, authors)
    sure, rest = divmod(allowed * texts, 1)
    half = min(1.0, 2 * allowed)
    laws = [
        [allowed] * texts,
        [*[1.0] * int(sure), rest, *[0.0] * (texts - int(sure) - 1)][:texts],
        [half] * (texts // 2) + [2 * allowed - half] * (texts // 2) + [allowed] * (texts % 2),
    ]
    bounds = [
        epsilon_from_attribution(k, texts, authors=authors, confidence=0.9, tests=2).epsilon for k in range(texts + 1)
    ]
    assert bounds == sorted(bounds)
    wrong = [k for k, found in enumerate(bounds) if found > epsilon]
    for chances in laws:
        if wrong:
            assert tail(chances)[wrong[0]] <= 0.05


def test_clopper_pearson_alone_would_err_too_often_where_one_hit_is_rare() -> None:
    """Why the bound also has the term (K - 1) / n: all of the chance may sit on a single text."""
    texts, alpha = 50, 0.05
    limit = clopper_pearson_lower(1, texts, alpha=alpha)
    mean = limit * (1 - 1e-6)
    law = tail([texts * mean, *[0.0] * (texts - 1)])
    assert binom.sf(0, texts, mean) <= alpha < law[1]
    wrong = [k for k in range(texts + 1) if mean_chance(k, texts, alpha=alpha)[0] > mean]
    assert law[wrong[0]] <= alpha


def test_the_bound_on_the_mean_and_its_complement_are_those_of_clopper_pearson_elsewhere() -> None:
    for correct in (2, 30, 99, 100):
        low, miss = mean_chance(correct, 100, alpha=0.05)
        assert low == clopper_pearson_lower(correct, 100, alpha=0.05)
        assert miss == pytest.approx(1 - low, abs=1e-8)
    assert mean_chance(0, 100, alpha=0.05) == (0.0, 1.0)


def test_the_accuracy_of_mixtures_is_bounded_by_epsilon() -> None:
    """A random mechanism with exact epsilon, two texts for each of three authors, and every attacker there is."""
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.ones(4) * 2, size=6)  # rows: texts, columns: outputs
    epsilon = float(np.log(table.max(axis=0) / table.min(axis=0)).max())
    best = max(
        np.mean([table[text, [o for o in range(4) if guess[o] == text // 2]].sum() for text in range(6)])
        for guess in itertools.product(range(3), repeat=4)
    )
    assert 1 / 3 < best <= reconstruction_bound(epsilon, 3)


def test_delta_lowers_the_bound_and_impossible_settings_are_refused() -> None:
    plain = epsilon_from_attribution(80, 100, authors=10)
    assert 0 < epsilon_from_attribution(80, 100, authors=10, delta=0.1).epsilon < plain.epsilon
    assert epsilon_from_attribution(80, 100, authors=10, tests=4).epsilon < plain.epsilon
    assert epsilon_from_attribution(0, 100, authors=10).epsilon == 0
    assert math.isfinite(epsilon_from_attribution(100, 100, authors=10).epsilon)
    for wrong in (
        {"correct": 101},
        {"authors": 0},
        {"authors": 1},
        {"authors": 3},
        {"delta": 2.0},
        {"confidence": 1.0},
    ):
        settings = {"correct": 5, "authors": 10, "delta": 0.0, "confidence": 0.95, **wrong}
        with pytest.raises(ConfigError, match="Expected"):
            epsilon_from_attribution(settings.pop("correct"), 100, **settings)


def claim(epsilon: float):
    return accounting.guarantee(
        [PureEvent(epsilon)], unit=Unit.DOCUMENT, relation=Relation.REPLACE_ONE, basis=Basis.PROVEN
    )


def test_a_claim_that_is_attained_survives_and_one_that_is_false_does_not() -> None:
    """The mechanism tells the author by randomized response: no attacker can do better at its epsilon."""
    known = [replace(record, label=record.author) for record in records(90)]
    names = tuple(sorted({record.author for record in known if record.author}))
    public = [Record(str(i), texts_of(i, 1, seed=9)[0], name) for i, name in enumerate(names)]
    mechanism = LabelOnly(labels=names, epsilon=3.0).fit(public=public)
    many = split_authors(known, training=20, attacked=70, seed=0)
    report = attribute(mechanism, many, embedder=HashedWords()).report
    assert 2.3 < report.epsilon_lower_bound < 3.0
    assert report.epsilon_lower_bound < report.ceiling
    assert not report.refutes(mechanism.spec.guarantee(Unit.DOCUMENT))
    assert report.refutes(claim(2.0))
    with pytest.raises(IncomparableError, match="reveals"):
        report.refutes(claim(2.0).revealing("the number of tokens"))
    assert attacked(IDENTITY).report.refutes(claim(1.0))
    assert not attacked(CONSTANT).report.refutes(claim(0.0))


# --- splits, errors, silence ------------------------------------------------------------------------------------------


def test_a_split_takes_as_many_of_each_author_and_no_text_twice() -> None:
    own = records()
    doubled = [*own, *(replace(r, id=f"again {r.id}", text=r.text.upper()) for r in own[:30])]
    found = split_authors(doubled, training=7, attacked=3, seed=5)
    assert found.duplicates == 30
    ids = [record.id for record in (*found.training, *found.attacked)]
    assert len(set(ids)) == len(ids) == 10 * AUTHORS
    for side, count in ((found.training, 7), (found.attacked, 3)):
        assert {sum(r.author == name for r in side) for name in {r.author for r in own}} == {count}
    assert found == split_authors(doubled, training=7, attacked=3, seed=5)
    assert found != split_authors(doubled, training=7, attacked=3, seed=6)


def test_every_text_has_bits_of_its_own_whatever_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases of training texts must not repeat the bits of attacked ones: the adaptive attacker would know them."""
    mechanism = Toy(lambda _, source: str(int(source.uint64(1)[0])))
    told: list[tuple[int, int]] = []
    both = release_split(mechanism, split(), randomness=seeded(0), on_progress=lambda *done: told.append(done))
    drawn = [release.output for side in both for release in side]
    assert len(set(drawn)) == len(drawn) == told[-1][0] == told[-1][1]
    monkeypatch.setattr("dptext.audits.inference.authorship.RECORDS_AT_ONCE", 7)
    assert release_split(mechanism, split(), randomness=seeded(0)) == both


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError, match="Expected") as caught:
        call()
    assert CANARY not in str(caught.value)
    return str(caught.value)


def test_what_does_not_do_is_refused_without_text_or_name() -> None:
    own = records(10)
    few, kind = split(10, 10), HashedWords()
    same = [Release(r.id, r.text) for r in few.attacked]
    assert "for 6 of 6 authors, 10" in refused(lambda: split_authors(own, training=8, attacked=3, seed=0))
    assert "for 1 of 6 authors, 9" in refused(lambda: split_authors(own[1:], training=7, attacked=3, seed=0))
    assert "without" in refused(lambda: split_authors([Record("0", CANARY)], training=1, attacked=1, seed=0))
    assert "2 authors" in refused(lambda: split_authors(own[:10], training=1, attacked=1, seed=0))
    assert "training=0" in refused(lambda: split_authors(own, training=0, attacked=1, seed=0))

    def run(training=few.training, tried=few.attacked, released=same, embedder=kind, **more):
        return refused(lambda: attribute_releases(training, tried, released=released, embedder=embedder, **more))

    assert "one release" in run(released=same[1:])
    assert "training_released" in run(training_released=same)
    assert "same authors" in run(training=few.training[10:])
    assert "9 to 10" in run(tried=few.attacked[1:], released=same[1:])
    assert "bundle=11" in run(bundle=11)
    assert "bundle=0" in run(bundle=0)
    broken = SimpleNamespace(name="broken", dim=2, embed=lambda texts: np.full((len(texts), 2), np.nan))
    assert "finite" in run(embedder=broken)
    vectors_only = replace(IDENTITY, spec=Settings(traits=VECTORS))
    assert "releases text" in refused(lambda: attribute(vectors_only, few, embedder=kind))


def test_nothing_private_is_shown() -> None:
    found = attacked(IDENTITY)
    shown = "".join([repr(found), str(found.to_dict()), found.to_markdown(), repr(split())])
    assert CANARY not in shown
    assert not any(word in shown for word in ("moreover", "whilst", "gonna"))
    data = found.to_dict()
    assert data["signature"] == found.report.to_dict()["signature"]
    assert data["control_holds"] is True
    assert all("similarity" in row for kind in ("attacks", "controls", "baselines") for row in data[kind])
    table = [line for line in found.to_markdown().splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(found.rows)
    assert table[0].split("|")[-2].strip() == "similarity"


def test_progress() -> None:
    told: list[tuple[int, int]] = []
    attribute(CONSTANT, split(10, 5), embedder=HashedWords(), on_attacker=lambda *done: told.append(done))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert train_ngrams(["a", "b"], np.array([0, 1]), 0)(["a"]).shape == (1, 2)


def test_a_trial_of_one_replaced_document_is_held_against_claims_about_that_alone() -> None:
    claim = Guarantee(1.0, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)
    trial: Any = SimpleNamespace(unit=claim.unit, relation=claim.relation, metric=None, delta=1e-6)
    assert is_about(trial, claim)
    assert is_about(trial, replace(claim, delta=1e-6))
    others = (
        replace(claim, trust=Trust.CENTRAL),  # one model was trained on all records: hits hang together
        replace(claim, unit=Unit.AUTHOR),
        replace(claim, relation=Relation.ADD_OR_REMOVE_ONE),
        replace(claim, metric="some distance"),
        replace(claim, reveals=("the number of tokens",)),
        replace(claim, epsilon=float("inf"), basis=Basis.NONE, reason="so it is"),
        replace(claim, delta=1e-5),
    )
    assert not any(is_about(trial, each) for each in others)
