"""Whether a public pool fits: what is counted, what it adds to a unit's vector, and when it is said."""

import math
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dptext as dp
from dptext.privacy.guarantee import Relation
from dptext.registry import SYNTHESES
from dptext.sampling.randomness import seeded
from dptext.synthesis.blocks import UNLIKE
from dptext.synthesis.measured import FIT_SHARE
from dptext.synthesis.pool_findings import CorpusFit
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.report import Topics
from dptext.synthesis.space import PublicSpace, nearest
from dptext.synthesis.spec import Fitted
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.sums import STEPS, Draws, Noise, PrivateSum
from dptext.synthesis.votes import TopicReport
from dptext.text.batches import Batch

POOL = dp.sample_records(300, seed=2)
SAME = dp.sample_records(600, seed=1)
ODD = [
    replace(record, text=" ".join(["kernel driver segfault linker buffer", str(i)])) for i, record in enumerate(SAME)
]


def each(batches: list[Batch]) -> Generator[Batch, None, None]:
    """A corpus of these batches."""
    yield from batches


def added(fitted: Fitted, records: list[dp.Record]) -> np.ndarray:
    """The first sum of these records without noise, in steps."""
    seen = []

    def watched(found: PrivateSum, _: object) -> np.ndarray:
        seen.append(found._clean())
        return seen[-1] / STEPS

    with mock.patch.object(PrivateSum, "release", watched):
        fitted.synthesize(partial(each, [Batch.of(records)]), Draws(seeded(0)))
    return seen[0]


def unlike(vector: np.ndarray, spec: Any) -> int:
    """The cell of texts that are unlike the pool: the last one, but for those of marks that texts do not have."""
    return int(vector[-1 - getattr(spec, "marks", 0)])


#: Those that say in their report whether the pool fits.
POOLED = [SYNTHESES[kind].tiny()[0] for kind in ("prototypes", "votes", "topics", "summary")]


@pytest.mark.slow_cases("votes", "prototypes", why="topics and all blocks stay")
@pytest.mark.parametrize("spec", POOLED, ids=lambda spec: spec.kind)
def test_a_text_adds_a_vector_of_length_1_at_most_whether_it_is_like_the_pool_or_not(spec: Prototypes) -> None:
    fitted = spec.fit(public=POOL)
    for records, least in ((SAME[:20], 0.0), (ODD[:20], 1 - FIT_SHARE / 2)):
        for record in records:
            vector = added(fitted, [record])
            length = float((vector.astype(float) ** 2).sum()) / STEPS**2
            assert 0 < length <= 1
            if unlike(vector, spec):
                assert unlike(vector, spec) == int(math.sqrt(FIT_SHARE) * STEPS)
                # No part of the length is left unused, but by a short point, or by a text of few words.
                assert spec.kind in ("prototypes", "summary") or length > least
    assert unlike(added(fitted, ODD), spec) > 0.9 * len(ODD) * math.sqrt(FIT_SHARE) * STEPS


@pytest.mark.parametrize("spec", POOLED, ids=lambda spec: spec.kind)
def test_numbers_of_documents_without_noise_are_whole(spec: Prototypes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What rounding takes from each of a million documents would be larger than the interval."""
    monkeypatch.setattr(Noise, "draw", lambda _, size, __: np.zeros(size, np.int64))
    report = spec.fit(public=POOL).synthesize(partial(each, [Batch.of(SAME)]), Draws(seeded(0))).report
    known = sum(record.label in spec.labels for record in SAME) if spec.labels else len(SAME)
    for numbers in (*report.counts, report.by_label[0]):
        assert all(abs(n - round(n)) < 1e-9 for n in numbers)
        assert sum(numbers)
    assert round(sum(map(sum, report.counts)), 6) == known == round(sum(report.by_label[0]), 6)


def test_intervals_hold_the_number_without_noise_in_95_percent() -> None:
    noise = TopicReport(epsilon=1.0).noise()
    report = Topics.of((), noise.draw(20_000, seeded(3))[None] / STEPS, noise.scale, (), "document", None)
    held = np.mean(np.abs(report.counts[0]) <= report.margin)
    assert 0.944 < held < 0.956  # four deviations
    assert np.mean(np.abs(report.counts[0]) <= 0.9 * report.margin) < 0.944


def test_a_part_that_is_not_paid_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector that would be longer than 1 with the added coordinate is left out by the sum."""
    fitted = TopicReport.tiny()[0].fit(public=POOL)
    shares = SummarySpec.block_shares.fget
    assert added(fitted, ODD[:1]).any()
    monkeypatch.setattr(SummarySpec, "block_shares", property(lambda spec: {**shares(spec), UNLIKE: 0.1}))  # type: ignore[misc]
    assert not added(fitted, ODD[:1]).any()


def test_a_pool_of_the_same_source_is_not_warned_of_and_another_is() -> None:
    spec = TopicReport(encoder="glove", words=0, topics=4, dim=8, epsilon=4.0)
    corpora = [[Batch.of(SAME)], [Batch.of(ODD)]]
    warned = []
    for seed in range(2):
        fitted = spec.fit(public=POOL, seed=seed)
        for batches in corpora:
            found = fitted.synthesize(partial(each, batches), Draws(seeded(seed)))
            assert found.report.fit is not None
            warned.append(not found.report.fit.fits)
            assert warned[-1] == found.sentences[0].startswith("The pool does not fit")
            assert found.report.to_dict()["unlike_pool"] == {
                "share": found.report.fit.share, "margin": found.report.fit.margin, "fits": found.report.fit.fits,
            }  # fmt: skip
    assert warned == [False, True] * 2


@pytest.mark.parametrize(("unlike", "fits"), [(0.1, True), (0.2, True), (0.28, True), (0.45, False), (1.0, False)])
def test_noise_and_chance_are_counted(unlike: float, fits: bool) -> None:
    found = CorpusFit.of(1000 * unlike, 40.0, 1000.0, 18.0, usual=0.1, compared=1000)
    assert found.fits is fits
    assert found.share == pytest.approx(unlike)
    assert 0.078 < found.margin < 0.12
    assert CorpusFit.of(1000 * unlike, 4000.0, 1000.0, 18.0, usual=0.1, compared=1000).fits  # noise alone says nothing


def test_false_alarms_are_rare_and_misfits_are_found_in_noise() -> None:
    """Simulated: 2,000 corpora of 1,000 texts at epsilon 1."""
    rng = np.random.default_rng(0)
    scale = Noise(0.03, Relation.ADD_OR_REMOVE_ONE).scale / math.sqrt(FIT_SHARE)
    for true, low, high in ((0.1, 0.0, 0.001), (0.2, 0.0, 0.006), (0.5, 0.95, 1.0)):
        unlike = rng.binomial(1000, true, 2000) + rng.normal(0, scale, 2000)
        units = 1000 + rng.normal(0, 30, 2000)
        alarms = [
            not CorpusFit.of(x, scale, n, 30.0, usual=0.1, compared=1000).fits
            for x, n in zip(unlike, units, strict=True)
        ]
        assert low <= np.mean(alarms) <= high


@pytest.mark.parametrize("length", [1, 30])  # products of the longer ones take double precision
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 300])
def test_a_text_is_unlike_the_pool_if_no_anchor_is_near(n: int, length: int) -> None:
    random = np.random.default_rng(n)
    rows, anchors = (np.rint(random.normal(size=(m, 24)) * 50 * length) / 1024 for m in (90, n))
    least = float(np.quantile(nearest(rows, anchors), 0.5)) if n else 0.0  # itself the product of a row
    space = PublicSpace((), np.zeros((24, 1)), np.zeros(1), anchors, least, 1)
    expected = [float(all(row @ anchor < least for anchor in anchors)) for row in rows]
    assert space.unlike(rows).tolist() == expected
    assert n == 0 or 0 < sum(expected) < 90


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_products_of_features_are_exact(length: int) -> None:
    """A sum that single precision rounded would follow the order in which a library adds up, and so the company."""
    random = np.random.default_rng(length)
    rows, anchors = (random.normal(size=(n, 384)) for n in (60, 40))
    rows, anchors = (np.rint(length * 1024 * each / np.linalg.norm(each, axis=1)[:, None]) for each in (rows, anchors))
    anchors[:20] = rows[:20]  # the largest product of all
    whole = [[sum(int(a) * int(b) for a, b in zip(row, other, strict=True)) for other in anchors] for row in rows]
    assert (nearest(rows / 1024, anchors / 1024) * 2**20).tolist() == [max(each) for each in whole]
