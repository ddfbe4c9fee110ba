"""The labels that a summary gives texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.synthesis.blocks import WORDS
from dptext.synthesis.judging import judged, labelled, word_scores
from dptext.synthesis.readings import Corpus
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.synthesis.sums import Draws
from dptext.text.batches import Batch
from dptext.types import Floats

TEXTS = [each.text for each in dp.sample_records(40, seed=4)]


def corpus() -> Corpus:
    return lambda: (batch for batch in [Batch.of(dp.sample_records(400, seed=1))])


@pytest.fixture(scope="module")
def summary() -> Summary:
    """A summary of class means and words."""
    spec = replace(SummarySpec.tiny()[0], epsilon=20.0)
    return spec.fit(public=dp.sample_records(200, seed=2), seed=1).measure(corpus(), Draws(seeded(3)))


def points(summary: Summary, texts: list[str]) -> Floats:
    assert summary.public.pool.space is not None
    return summary.public.pool.space.points(texts)


def test_a_text_has_the_same_label_alone_and_among_others(summary: Summary) -> None:
    whole = judged(summary, TEXTS, points(summary, TEXTS))[0]
    for i, text in enumerate(TEXTS):
        (alone,) = judged(summary, [text], points(summary, [text]))[0]
        np.testing.assert_allclose(alone, whole[i], atol=1e-5)


def test_words_count_beside_the_class_means(summary: Summary) -> None:
    where = points(summary, TEXTS)
    both = labelled(summary, where)[0] + word_scores(summary, TEXTS)
    np.testing.assert_allclose(judged(summary, TEXTS, where)[0], both - np.logaddexp.reduce(both, axis=1)[:, None])
    bare = replace(summary, known={name: each for name, each in summary.known.items() if name != WORDS})
    assert np.array_equal(judged(bare, TEXTS, where)[0], labelled(summary, where)[0])


def test_the_words_of_a_long_text_weigh_as_much_as_its_marks(summary: Summary) -> None:
    lexicon = summary.public.lexicon
    assert lexicon is not None
    each = word_scores(summary, lexicon.words)  # of one word alone
    for n in (1, 2, lexicon.most, 4 * lexicon.most, len(lexicon)):
        (found,) = word_scores(summary, [" ".join(lexicon.words[:n])])
        np.testing.assert_allclose(found, each[:n].sum(axis=0) * min(1, lexicon.most / n))
    labels = len(summary.spec.labels)
    assert word_scores(summary, ["zzqx", ""]).tolist() == [[0.0] * labels] * 2
    assert word_scores(summary, []).shape == (0, labels)


def test_without_the_pool_no_weight_is_guessed(summary: Summary) -> None:
    bare = replace(summary, public=summary.public.without_pool())
    with pytest.raises(ConfigError, match="Expected the pool"):
        judged(bare, TEXTS, points(summary, TEXTS))
