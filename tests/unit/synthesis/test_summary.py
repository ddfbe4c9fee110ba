"""A summary: what it measures is what the corpus has, blocks agree, settings are checked, and it has one noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.privacy.events import ZcdpEvent
from dptext.sampling.randomness import secure, seeded
from dptext.synthesis.adding import summed
from dptext.synthesis.agreement import Known, least_squares
from dptext.synthesis.blocks import COUNTS, POINTS, TOPICS, UNLIKE, WORDS
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.measured import FIT_SHARE
from dptext.synthesis.readings import Corpus
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.synthesis.sums import STEPS, Draws, Noise, PrivateSum, clipped
from dptext.text.batches import Batch
from summarized import of_authors

POOL = dp.sample_records(200, seed=2)
PRIVATE = dp.sample_records(300, seed=1)
ALL, BY_AUTHOR, WITHOUT_POINTS, WITHOUT_LABELS, WITH_COLUMNS = SummarySpec.tiny()


def corpus(records: list[dp.Record]) -> Corpus:
    return lambda: (Batch.of(records[start : start + 64]) for start in range(0, len(records), 64))


@pytest.fixture(scope="module")
def fitted() -> dict[SummarySpec, FittedSummary]:
    return {spec: spec.fit(public=POOL, seed=1) for spec in SummarySpec.tiny()}


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise is drawn."""
    monkeypatch.setattr(Noise, "draw", lambda _, size, __: np.zeros(size, np.int64))


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("spec", [ALL, WITHOUT_POINTS])
def test_without_noise_the_numbers_are_those_of_the_corpus(
    spec: SummarySpec, fitted: dict[SummarySpec, FittedSummary]
) -> None:
    found = fitted[spec].measure(corpus(list(PRIVATE)), Draws(secure()))
    kept = [each for each in PRIVATE if each.label in spec.labels]
    labels = np.array([spec.labels.index(each.label) for each in kept])  # type: ignore[arg-type]
    texts, lexicon = [each.text for each in kept], found.public.lexicon
    assert lexicon is not None
    np.testing.assert_allclose(found.counts.numbers, np.bincount(labels, minlength=4), atol=1e-6)
    marks = np.zeros((4, len(lexicon)))
    for label, own in zip(labels, lexicon.marks(texts), strict=True):
        marks[label, own[own >= 0]] += 1
    np.testing.assert_allclose(found.known[WORDS].numbers, marks, atol=1e-6)
    assert set(found.known) == set(spec.blocks)
    if spec.reads_points:
        space, topics = found.public.pool.space, found.public.pool.topics
        assert space is not None
        assert topics is not None
        points = space.points(texts)
        np.testing.assert_allclose(found.known[TOPICS].numbers.sum(axis=1), found.counts.numbers, atol=1e-6)
        np.testing.assert_allclose(
            found.known[TOPICS].numbers.sum(axis=0), np.bincount(topics.nearest(points), minlength=4), atol=1e-6
        )
        summed = np.stack([points[labels == label].sum(axis=0) for label in range(4)])
        assert np.abs(found.known[POINTS].numbers - summed).max() < len(kept) / STEPS / 0.5
        assert found.known[UNLIKE].numbers[0, 0] == pytest.approx(space.unlike(space.features(texts)).sum())


def of_author(fitted: FittedSummary, records: list[dp.Record]) -> dict[str, Known]:
    """What one author's records add."""
    own = [replace(each, author="one") for each in records]
    return dict(fitted.measure(corpus(own), Draws(secure())).known)


def require_common_totals(known: dict[str, Known]) -> None:
    """Labels and the topics of a label add up to the same weight, within the rounding of steps."""
    counts, topics = known[COUNTS].numbers[:, 0], known[TOPICS].numbers
    assert counts.sum() > 0
    assert np.abs(topics.sum(axis=1) - counts).max() < 0.01


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_blocks_of_an_author_have_common_totals(n: int, fitted: dict[SummarySpec, FittedSummary]) -> None:
    """All blocks are scaled by one factor, so that labels, topics and words speak of the same weight."""
    known = of_author(fitted[BY_AUTHOR], list(PRIVATE[:n]))
    require_common_totals(known)
    alone = of_author(fitted[BY_AUTHOR], list(PRIVATE[:1]))
    factor = known[COUNTS].numbers.sum() / n  # of each record
    assert factor <= 1 + 1e-9
    if n == 1:
        assert {name: each.numbers.tolist() for name, each in known.items()} == {
            name: each.numbers.tolist() for name, each in alone.items()
        }
    again = of_author(fitted[BY_AUTHOR], list(PRIVATE[:n]) * 50)  # the direction stays, the length is used up
    for name, each in known.items():
        one, two = each.numbers.ravel(), again[name].numbers.ravel()
        if one.any():
            assert one @ two / np.linalg.norm(one) / np.linalg.norm(two) == pytest.approx(1, abs=1e-3)


def different_factors(self: PrivateSum) -> np.ndarray:
    """Each block of an author is scaled to its own share: the length is kept, and the blocks no longer agree."""
    total, layout = self._total.copy(), BY_AUTHOR.layout(dim=8, width=60)
    shares = BY_AUTHOR.block_shares
    for where, what in of_authors(self):
        for block in layout.blocks:
            own = (where >= block.start) & (where < block.start + block.size)
            steps, weights = what[own], self._weights(where[own] < self._signed)
            length = math.sqrt(float((weights * steps**2).sum())) / STEPS
            total[where[own]] += np.trunc(steps * min(1.0, math.sqrt(shares[block.name]) / max(length, 1e-9))).astype(
                int
            )
    return total


def alone(self: PrivateSum) -> np.ndarray:
    """Each block of an author is clipped to length 1."""
    total, layout = self._total.copy(), BY_AUTHOR.layout(dim=8, width=60)
    for where, what in of_authors(self):
        for block in layout.blocks:
            own = (where >= block.start) & (where < block.start + block.size)
            total[where[own]] += clipped(what[own], self._weights(where[own] < self._signed))
    return total


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("wrong", [different_factors, alone])
def test_blocks_that_are_scaled_by_different_factors_are_seen(
    wrong: Any, fitted: dict[SummarySpec, FittedSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivateSum, "_clean", wrong)
    with pytest.raises(AssertionError):
        require_common_totals(of_author(fitted[BY_AUTHOR], list(PRIVATE[:60])))


@pytest.mark.slow_cases(
    "author-counts-points-topics-words-lengths-unlike",
    "document-counts-words",
    why="all blocks stay by documents, some by authors",
)
@pytest.mark.parametrize("spec", SummarySpec.tiny(), ids=lambda spec: f"{spec.unit}-{'-'.join(spec.blocks)}")
def test_the_deviation_that_is_stated_is_that_of_the_noise(
    spec: SummarySpec, fitted: dict[SummarySpec, FittedSummary]
) -> None:
    """Over 120 empty corpora; a deviation that is a third off would be seen."""
    runs = [fitted[spec].measure(corpus([]), Draws(seeded(seed))).known for seed in range(120)]
    for name in spec.blocks:
        numbers = np.concatenate([run[name].numbers.ravel() for run in runs])
        error = 5 / math.sqrt(2 * len(numbers))
        assert float(np.std(numbers)) / runs[0][name].deviation == pytest.approx(1, abs=max(error, 0.02))


def test_a_share_buys_less_noise_and_all_shares_are_paid_by_one_epsilon() -> None:
    settings: dict[str, Any] = {"labels": ("a", "b"), "topics": 4, "marks": 5}
    spec = SummarySpec(**settings)
    whole = replace(spec, topics=0, count_share=0.19, point_share=0.4, word_share=0.4)  # .9900000000000001 in floats
    assert sum(whole.block_shares.values()) == pytest.approx(1.0)
    more = replace(spec, word_share=0.8)
    assert spec.rho == more.rho
    assert more.block_shares[WORDS] == pytest.approx(0.8)
    assert math.fsum(more.block_shares.values()) == pytest.approx(1)

    def deviations(each: SummarySpec) -> dict[str, float]:
        layout = each.layout(dim=8, width=20)
        return {
            name: known.deviation for name, known in layout.known(np.zeros(layout.cells), each.noise().scale).items()
        }

    one, two = deviations(spec), deviations(more)
    assert two[WORDS] < one[WORDS]
    assert all(two[name] > one[name] for name in (POINTS, COUNTS, TOPICS))
    assert two[UNLIKE] == one[UNLIKE]
    fewer = deviations(replace(spec, marks=0))
    assert all(fewer[name] < one[name] for name in (POINTS, COUNTS, TOPICS))  # what is left out costs nothing
    assert spec.block_shares[UNLIKE] == FIT_SHARE


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "to measure"),
        ({"labels": ("a", "b"), "names": ("one",)}, "names"),
        ({"labels": ("a", "b"), "word_share": 0.5}, "not measured"),
        ({"topics": 4, "point_share": 0.5}, "not measured"),
        ({"labels": ("a", "b"), "point_share": 0.9, "count_share": 0.3}, "share"),
        ({"labels": ("a", "b"), "point_share": 0.5, "count_share": 0.3}, "add up"),
        ({"labels": ("a", "b"), "point_share": 0.99}, "point_share"),
        ({"labels": ("a", "b"), "marks": -1}, "marks"),
        ({"labels": ("a", "b"), "marks": 10**9}, "marks"),
        ({"labels": ("a", "b"), "vocabulary": 0, "marks": 3}, "vocabulary"),
        ({"labels": ("a", "b"), "topics": 1}, "topics"),
    ],
)
def test_settings_that_cannot_be_used(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SummarySpec(**wrong)


def test_no_text_leaves_and_nothing_is_shown(fitted: dict[SummarySpec, FittedSummary]) -> None:
    found = fitted[ALL].synthesize(corpus(list(PRIVATE)), Draws(secure()))
    assert found.texts == found.labels == ()
    again = Summary.of_bytes(found.data)
    assert again.report.to_dict() == found.report.to_dict()
    assert str([round(float(n), 3) for n in again.counts.numbers]) not in repr(again)
    for shown in (repr(again), repr(again.public), repr(fitted[ALL])):
        assert PRIVATE[0].text not in shown
        assert POOL[0].text not in shown


def test_the_numbers_of_labels_that_writers_take_are_those_of_the_report_pulled_together(
    fitted: dict[SummarySpec, FittedSummary],
) -> None:
    found = fitted[ALL].measure(corpus(list(PRIVATE)), Draws(seeded(3)))
    report, sizes = found.report.estimates.by_label, found.sizes
    quiet = replace(found, known={name: replace(each, deviation=1e-6) for name, each in found.known.items()})
    assert quiet.sizes == pytest.approx(
        np.maximum(least_squares(quiet.known[TOPICS], quiet.counts).by_label.numbers, 1)
    )
    assert np.ptp(sizes) < np.ptp(found.counts.numbers)  # pulled towards the mean
    assert np.argsort(sizes).tolist() == np.argsort(report.numbers).tolist()
    assert found.shares == pytest.approx(sizes / sizes.sum())
    first = ALL.labels[0]
    assert found.mixed({first: 0.5}).shares[1:] == pytest.approx(0.5 * sizes[1:] / sizes[1:].sum())
    made = FromPool(size=60).write(found, seeded(0))
    assert [made.labels.count(label) for label in ALL.labels] == pytest.approx(60 * found.shares, abs=1)


def test_two_summaries_of_a_corpus_are_two_releases(fitted: dict[SummarySpec, FittedSummary]) -> None:
    one, two = (fitted[ALL].measure(corpus(list(PRIVATE)), Draws(secure())) for _ in range(2))
    assert one.digest != two.digest
    assert one.public is two.public
    both = summed(one, two, disjoint=True)
    assert both.releases == (one.digest, two.digest)
    assert both.counts.numbers == pytest.approx(one.counts.numbers + two.counts.numbers)
    assert both.counts.deviation == pytest.approx(one.counts.deviation * math.sqrt(2))
    for twice in ((one, one), (both, one), (both, both)):
        with pytest.raises(ConfigError, match="one release in both"):
            summed(twice[0], twice[1], disjoint=True)
    with pytest.raises(ConfigError, match="differ in"):
        summed(one, fitted[WITHOUT_POINTS].measure(corpus([]), Draws(secure())), disjoint=True)
    dearer = Summary(replace(ALL, epsilon=2 * ALL.epsilon), one.public, two.known)
    for apart in (summed(one, dearer, disjoint=True), summed(dearer, one, disjoint=True)):
        assert apart.spec.events(ALL.units[0]) == (ZcdpEvent(dearer.spec.rho),)
    bare = Summary(ALL, one.public.without_pool(), two.known)
    assert summed(one, bare, disjoint=True).public.has_pool
    assert not summed(bare, one, disjoint=True).public.has_pool
    other = replace(ALL, labels=ALL.labels[::-1])
    for spec, public, what in (
        (replace(ALL, relation="replace_one"), one.public, "relation"),
        (other, one.public, "labels"),
        (ALL, ALL.fit(public=POOL[:60], seed=1).public, "public parts"),
    ):
        with pytest.raises(ConfigError, match=f"differ in {what}:"):
            summed(one, Summary(spec, public, two.known), disjoint=False)
