"""The labels that a summary gives texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.synthesis.judging import judged, labelled, telling, word_scores
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
    whole, alike = judged(summary, TEXTS, points(summary, TEXTS))[0], []
    for i, text in enumerate(TEXTS):
        (alone,) = judged(summary, [text], points(summary, [text]))[0]
        np.testing.assert_allclose(alone, whole[i], atol=1e-5)
        words, (own,) = word_scores(summary, [text]), labelled(summary, points(summary, [text]))[0]
        by_itself = own + telling(words, own[None].argmax(axis=1)) * words[0]  # the weight fitted on this text
        alike.append(np.allclose(by_itself - np.logaddexp.reduce(by_itself), whole[i], atol=1e-3))
    assert not all(alike)


def test_the_words_weigh_as_much_as_they_tell_labels_of_the_pool(summary: Summary) -> None:
    pool = summary.public.pool
    means, words = labelled(summary, pool.points)[0], word_scores(summary, pool.texts)
    weight = telling(words, means.argmax(axis=1))
    assert weight > 0
    both = means + weight * words
    expected = both - np.logaddexp.reduce(both, axis=1)[:, None]
    assert np.array_equal(judged(summary, pool.texts, pool.points)[0], expected)
    np.testing.assert_allclose(judged(summary, [*pool.texts], pool.points)[0], expected)


def test_without_the_pool_no_weight_is_guessed(summary: Summary) -> None:
    bare = replace(summary, public=summary.public.without_pool())
    with pytest.raises(ConfigError, match="Expected the pool"):
        judged(bare, TEXTS, points(summary, TEXTS))
