"""What a summary says of its blocks (derivations, "One sum of blocks"), checked in numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest

import dptext as dp
from dptext.privacy import accounting
from dptext.privacy.events import ZcdpEvent
from dptext.privacy.guarantee import Relation
from dptext.sampling.randomness import seeded
from dptext.synthesis.adding import summed
from dptext.synthesis.blocks import COUNTS, POINTS, TOPICS, UNLIKE, WORDS, SumLayout
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.steering import Steering
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.synthesis.sums import STEPS, Draws, Noise, clipped
from dptext.synthesis.votes import TopicReport, topics_alone
from dptext.text.batches import Batch

LABELS = ("a", "b", "c", "d")
RELATIONS = ("add_or_remove_one", "replace_one")
SHARES = {COUNTS: 0.19, TOPICS: 0.4, WORDS: 0.4, UNLIKE: 0.01}
N_TOPICS = 6


def layout_of(relation: str) -> SumLayout:
    """Counts, topics, words and the fit of the pool, for four labels."""
    widths = {COUNTS: 1, TOPICS: N_TOPICS, WORDS: 20, UNLIKE: 1}
    return SumLayout.of(widths, SHARES, Noise(1.0, Relation(relation)), rows=len(LABELS), marks=5)


def author_of(layout: SumLayout, labels: np.ndarray, topics: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps that an author's texts add to counts and to topics, before they are clipped."""
    found = np.zeros(layout.size, np.int64)
    by_name = {block.name: block for block in layout.blocks}
    for name, place in ((COUNTS, labels), (TOPICS, labels * N_TOPICS + topics)):
        np.add.at(found, by_name[name].start + place, round(by_name[name].part * STEPS))
    whole = np.concatenate([np.full(block.size, i) for i, block in enumerate(layout.blocks)])
    return found, whole


def totals(layout: SumLayout, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers by label: as counted, and as the sum over topics."""
    known = layout.known(steps / STEPS, 0.0)
    return known[COUNTS].numbers[:, 0], known[TOPICS].numbers.sum(axis=1)


@pytest.mark.parametrize("seed", range(8))
def test_one_factor_gives_counts_and_topics_common_totals(seed: int) -> None:
    """Claim 4. Blocks that are clipped each by itself disagree by half and more."""
    rng, layout = np.random.default_rng(seed), layout_of("replace_one")
    n = int(rng.integers(3, 400))
    steps, block = author_of(layout, rng.integers(0, len(LABELS), n), rng.integers(0, N_TOPICS, n))
    counted, summed = totals(layout, clipped(steps, np.ones(len(steps), np.int64)))
    parts = {each.name: each.part * STEPS for each in layout.blocks}
    np.testing.assert_array_less(np.abs(counted - summed), 1 / parts[COUNTS] + N_TOPICS / parts[TOPICS])
    assert counted.min() > 0
    alone = steps.copy()
    for i, each in enumerate(layout.blocks):
        own = steps[block == i]
        length = np.linalg.norm(own) / (math.sqrt(SHARES[each.name]) * STEPS)
        alone[block == i] = np.trunc(own / max(1.0, length))
    counted, summed = totals(layout, alone)
    assert abs(counted.sum() - summed.sum()) > 0.4 * counted.sum()


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_block_accounts_for_its_share_of_rho(relation: str) -> None:
    """Claims 1 and 3: the furthest neighbours in each block alone, and in all blocks, cost what the page says."""
    spec = SummarySpec(labels=LABELS, marks=5, topics=8, relation=relation)
    noise, replaced = spec.noise(), relation == "replace_one"
    spent = {}
    for block in spec.layout(dim=2, width=40).blocks:
        length = block.part * (math.sqrt(spec.marks) if block.name == WORDS else 1.0)
        # Two opposite points, or two texts without a common cell; where a unit is added, its own vector.
        apart = length * ((2.0 if block.name == POINTS else math.sqrt(2)) if replaced else 1.0)
        spent[block.name] = (apart * STEPS / noise.sigma) ** 2 / 2
    spent.pop(UNLIKE)  # one cell, which two texts cannot have apart
    for name, rho in spent.items():
        assert spec.block_shares[name] * spec.rho * 0.999 < rho <= spec.block_shares[name] * spec.rho
    assert math.fsum(spent.values()) == pytest.approx(spec.rho * (1 - spec.block_shares[UNLIKE]), rel=1e-3)


def test_an_author_may_spend_more_than_the_share_of_a_block_but_no_more_than_rho() -> None:
    """Claim 3: of texts without marks and points, counts and topics divide all of the length."""
    spec = SummarySpec(labels=LABELS, marks=5, topics=N_TOPICS)
    layout = spec.layout(dim=2, width=40)
    same = np.zeros(50, np.int64)
    steps = clipped(author_of(layout, same, same)[0], np.ones(layout.size, np.int64))
    by_name = {each.name: steps[each.start : each.start + each.size] for each in layout.blocks}
    spent = {name: float(np.square(own).sum()) / STEPS**2 for name, own in by_name.items()}
    assert spec.block_shares[COUNTS] == pytest.approx(0.104, abs=5e-4)
    assert spent[COUNTS] == pytest.approx(0.667, abs=1e-3)
    assert 0.99 < sum(spent.values()) <= 1.0


def deviations(spec: SummarySpec) -> dict[str, float]:
    """The deviation of one number of each block, in units of 1 / sqrt(rho)."""
    layout = spec.layout(dim=64, width=2_000)
    return {each.name: spec.noise().scale / each.part * math.sqrt(spec.rho) for each in layout.blocks}


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_noise_of_a_block_is_that_of_the_page(relation: str) -> None:
    spec = SummarySpec(labels=LABELS, marks=5, topics=32, relation=relation)
    by = 0.5 if relation == "add_or_remove_one" else 1.0
    stated = {
        name: math.sqrt(by / share * {POINTS: 2 * by, WORDS: spec.marks}.get(name, 1))
        for name, share in spec.block_shares.items()
    }
    if relation == "add_or_remove_one":
        stated[POINTS] = math.sqrt(0.5 / spec.block_shares[POINTS])
    assert deviations(spec) == pytest.approx(stated, rel=1e-3)


def test_what_decision_23_says_of_older_outputs() -> None:
    """Deviations of the vectors before summaries, in units of 1 / sqrt(rho), beside those of today."""
    for topics, share in ((0, 0.0), (32, 0.1)):
        part = math.sqrt((1 - 0.01 - share) / 1.25)  # (a z, a / 2, t, .1)
        for relation, reach in zip(RELATIONS, (1.0, 2.0), strict=True):
            sigma = reach / math.sqrt(2)
            now = deviations(Prototypes(labels=LABELS, topics=topics, relation=relation).summary)
            assert now[POINTS] == pytest.approx(sigma / part, rel=1e-3)
            less = 1.0 if relation == "add_or_remove_one" else math.sqrt(2)
            assert now[COUNTS] == pytest.approx(sigma / (part / 2) / less, rel=1e-3)
            assert now[UNLIKE] == pytest.approx(sigma / 0.1 / less, rel=1e-3)
            if topics:
                assert now[TOPICS] == pytest.approx(sigma / math.sqrt(share) / less, rel=1e-3)
    for relation, reach in zip(RELATIONS, (1.0, math.sqrt(2)), strict=True):
        now = deviations(topics_alone(TopicReport(labels=LABELS, relation=relation), 64))
        assert now[TOPICS] == pytest.approx(reach / math.sqrt(2 * 0.99) * 1.118, rel=1e-3)
        assert now[COUNTS] == pytest.approx(2 * now[TOPICS], rel=1e-3)
    assert Steering(labels=LABELS).summary.block_shares == pytest.approx({COUNTS: 0.1, WORDS: 0.9})


def made(seed: int, epsilon: float = 1.0) -> Summary:
    """The summary of a corpus without records: its numbers are noise alone."""
    spec = replace(SummarySpec.tiny()[3], topics=0, marks=3, encoder="glove", epsilon=epsilon, unit="document")
    fitted = spec.fit(public=dp.sample_records(60), seed=0)
    return fitted.measure(lambda: (batch for batch in list[Batch]()), Draws(seeded(seed)))


def test_rhos_of_added_summaries_add_at_one_delta_and_the_largest_counts_if_nobody_is_in_two() -> None:
    one, two = made(1), made(2, epsilon=2.0)
    unit, delta = one.spec.units[0], one.spec.delta
    together, apart = summed(one, two, disjoint=False), summed(one, two, disjoint=True)
    events = [ZcdpEvent(one.spec.rho), ZcdpEvent(two.spec.rho)]
    assert accounting.epsilon(together.spec.events(unit), delta) == accounting.epsilon(events, delta)
    assert accounting.epsilon(apart.spec.events(unit), delta) == accounting.epsilon(events[1:], delta)
    assert accounting.epsilon([events[0]] * 2, delta) == pytest.approx(1.46, abs=0.005)
    for name in one.known:
        deviations = one.known[name].deviation, two.known[name].deviation
        assert together.known[name].deviation == pytest.approx(math.hypot(*deviations))


def test_the_noise_of_one_release_does_not_add_by_squares() -> None:
    """Why a common release is refused: the sum of a summary and itself has twice its noise, not sqrt(2) times."""
    one, other = made(1), made(2)
    sure = one.known[WORDS].deviation
    twice, apart = 2 * one.known[WORDS].numbers, one.known[WORDS].numbers + other.known[WORDS].numbers
    assert float(apart.std()) == pytest.approx(math.sqrt(2) * sure, rel=0.25)
    assert float(twice.std()) == pytest.approx(2 * sure, rel=0.25)
    with pytest.raises(dp.errors.ConfigError, match="one release in both"):
        summed(one, one, disjoint=True)
