"""Sums of scores against the definition: exact, bounded, the same in any company."""

from __future__ import annotations

import numpy as np
import pytest

from dptext.embeddings.likeness import (
    GRID,
    STEPS,
    CosineSpace,
    Evidence,
    centred,
    in_blocks,
    likeness_sums,
    mean_by_document,
    on_grid,
    sums_by_document,
    whitened,
)
from dptext.errors import ConfigError

RNG = np.random.default_rng(21)


def test_products_are_exact() -> None:
    """Whatever the order of summation: float32 products of vectors on the grid are those of whole numbers."""
    left, right = on_grid(RNG.normal(size=(50, 768))), on_grid(RNG.normal(size=(40, 768)))
    right[0] = left[0]
    exact = left.astype(np.int64) @ right.astype(np.int64).T
    assert (left @ right.T == exact).all()
    assert (left[:, ::-1] @ right[:, ::-1].T == exact).all()
    assert exact.max() > 2**21  # near the largest there can be
    plain = RNG.normal(size=(50, 768)).astype(np.float32)  # what would go wrong without the grid
    assert (plain[:, ::-1] @ plain[:, ::-1].T != plain @ plain.T).any()


def test_likeness_by_definition() -> None:
    sizes = [0, 3, 1, 0, 700, 2, 0]  # more than are worked off at once
    sentences, candidates = on_grid(RNG.normal(size=(sum(sizes), 5))), on_grid(RNG.normal(size=(9, 5)))
    found = likeness_sums(sentences, sizes, candidates, low=-0.2, high=0.7)
    cosines = (sentences.astype(np.int64) @ candidates.astype(np.int64).T) / GRID**2
    scores = np.clip((cosines + 0.2) / 0.9, 0, 1)
    start = 0
    for row, size in enumerate(sizes):
        assert found[row] == pytest.approx(STEPS * scores[start : start + size].sum(axis=0), abs=size + 1e-6)
        start += size
    assert found.max() <= STEPS * 700
    assert (found >= 0).all()


def test_one_sentence_changes_a_sum_by_one_at_most() -> None:
    sentences, candidates = on_grid(RNG.normal(size=(4, 6))), on_grid(RNG.normal(size=(30, 6)))
    changes = []
    for _ in range(200):
        other = sentences.copy()
        other[1] = on_grid(RNG.choice([-1.0, 1.0]) * candidates[[int(RNG.integers(30))]].astype(np.float64))
        before, after = likeness_sums(np.concatenate([sentences, other]), [4, 4], candidates, low=0.0, high=0.3)
        changes.append(np.abs(after - before).max())
    assert max(changes) == STEPS


def test_long_documents_do_not_overflow() -> None:
    """2^19 sentences of score 1 are 2^31 steps: in 32 bits the sum would fall to -2^31."""
    size = 2**19 + 1
    sentences, candidates = np.repeat(on_grid(np.ones((1, 1))), size, axis=0), on_grid(np.array([[1.0], [-1.0]]))
    before, after = likeness_sums(
        np.concatenate([sentences[1:], sentences]), [size - 1, size], candidates, low=0.0, high=0.5
    )
    assert before.tolist() == [STEPS * 2**19, 0]
    assert after.tolist() == [STEPS * size, 0]
    scores = np.full((size, 1), STEPS, np.int32)
    assert sums_by_document(scores, [size]).tolist() == [[STEPS * size]]


def test_nothing_depends_on_the_company() -> None:
    embeddings = RNG.normal(size=(600, 384))
    space = whitened(embeddings, [6] * 100)
    evidence = Evidence(RNG.normal(size=(384, 7)), RNG.normal(size=7), 2.0)
    alone = [np.concatenate([work(embeddings[i : i + 1]) for i in range(0, 600, 37)]) for work in (space, evidence)]
    among = [work(embeddings)[::37] for work in (space, evidence)]
    assert (alone[0] == among[0]).all()
    assert (alone[1] == among[1]).all()
    assert in_blocks(embeddings[:0], lambda rows: rows).shape == (0, 384)


def test_whitening_makes_the_spread_within_documents_round() -> None:
    stretch = np.diag([5.0, 1.0, 0.2])
    means = np.repeat(RNG.normal(size=(200, 3)), 20, axis=0)
    sentences = means + RNG.normal(size=(4000, 3)) @ stretch
    root = whitened(sentences, [20] * 200, shrinkage=1e-9).root
    within = (sentences - np.repeat(mean_by_document(sentences, [20] * 200), 20, axis=0)) @ root
    assert within.T @ within / 4000 == pytest.approx(np.eye(3), abs=1e-6)
    plain = centred(sentences)
    assert (plain.root == np.eye(3)).all()
    with pytest.raises(ConfigError, match="shrinkage"):
        whitened(sentences, [20] * 200, shrinkage=0.0)


def test_evidence_by_definition() -> None:
    evidence = Evidence(np.array([[2.0, -1.0, 0.0]]), np.array([0.0, 0.5, 0.0]), 1.5)
    found = evidence(np.array([[1.0], [-1.0], [0.0]]))
    logits = np.array([[2, -0.5, 0], [-2, 1.5, 0], [0, 0.5, 0]])
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert found == pytest.approx(STEPS * np.clip((log_p + 1.5) / 1.5, 0, 1), abs=1)
    assert found.min() == 0
    assert found.max() <= STEPS


def test_sums_means_and_refusals() -> None:
    rows = np.arange(8.0).reshape(4, 2)
    assert sums_by_document(rows, [0, 1, 0, 3, 0]).tolist() == [[0, 0], [0, 1], [0, 0], [12, 15], [0, 0]]
    assert mean_by_document(rows, [1, 3]).tolist() == [[0, 1], [4, 5]]
    assert mean_by_document(rows[:0], [0]).tolist() == [[0, 0]]
    assert not on_grid(np.zeros((1, 3))).any()
    with pytest.raises(ConfigError, match="low"):
        likeness_sums(on_grid(rows), [4], on_grid(rows), low=0.5, high=0.5)
    assert CosineSpace(np.zeros(2), np.eye(2))(rows).shape == (4, 2)
