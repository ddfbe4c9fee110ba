"""Steering: what a unit adds, what noisy numbers are believed, and that writing follows them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")

import dptext as dp
import tiny_language
from dptext.errors import ConfigError
from dptext.language.writing import Shifted, options_of
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.weights import softmax
from dptext.synthesis.readings import Corpus
from dptext.synthesis.steering import FittedSteering, Steering, believed
from dptext.synthesis.sums import STEPS, Draws, PrivateSum
from dptext.text.batches import Batch
from dptext.text.records import Record

SPEC = Steering(
    labels=("travel", "money"), about=200, tokens=10, size=40, options=40, examples=0, marks=6, vocabulary=95,
    drafts=30, matches=2, epsilon=8.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def fitted() -> Iterator[FittedSteering]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dptext.synthesis.steering.load_language_model", lambda _: tiny_language.model())
        found = SPEC.fit(public=dp.sample_records(20, seed=3))
        assert isinstance(found, FittedSteering)
        yield found


def corpus(records: list[Record]) -> Corpus:
    return lambda: (batch for batch in [Batch.of(records)])


def test_no_text_adds_more_than_a_unit(fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text's vector is no longer than the sensitivity, and none that has marks is left out for being longer."""
    added = []
    monkeypatch.setattr(PrivateSum, "add", lambda self, cells, values, authors: added.append((cells, values)))
    texts = ["", "a", "a train to Lima, and the money in the bank", "zzzz " * 400, "?!" * 9]
    fitted.numbers(corpus([Record(str(i), text, label="money") for i, text in enumerate(texts)]), Draws(seeded(1)))
    ((cells, values),) = added
    assert len(cells) == 4  # the blank one says nothing
    for where, what in zip(cells, values, strict=True):
        assert len(set(where.tolist())) == len(where)
        assert int((np.trunc(what * STEPS) ** 2).sum()) <= STEPS**2
    assert math.isclose(np.linalg.norm(values[1]), 1.0, abs_tol=1e-3)  # all marks
    assert values[0].tolist().count(0.0) == SPEC.marks - 2  # a space and a letter
    assert set(cells[1][values[1] > 0][1:] // len(fitted.tokens)) == {1}  # in the row of its label


def test_noisy_numbers_say_what_the_corpus_has(fitted: FittedSteering) -> None:
    records = [Record(str(i), "abc abc", label="travel") for i in range(300)]
    spec = replace(SPEC, epsilon=200.0)
    quiet = FittedSteering(spec, tiny_language.model(), fitted.examples, 0)
    counts, numbers, scale, deviation = quiet.numbers(corpus(records), Draws(secure()))
    assert counts == pytest.approx([300, 0], abs=6 * scale)
    letters = [quiet._places[quiet.writer.model.tokens(each)[0]] for each in "abc"]
    assert numbers[0, letters] == pytest.approx(300, abs=6 * deviation)
    assert np.abs(numbers[1]).max() < 6 * deviation


def test_what_is_believed_is_near_the_public_where_noise_is_large() -> None:
    rates, numbers = np.full(3, 0.01), np.array([1.0, 40.0, 90.0])
    exact = believed(numbers, 100.0, rates, 0.1)
    assert exact == pytest.approx([0.01, 0.4, 0.9], rel=0.11)
    assert believed(numbers, 100.0, rates, 1e6) == pytest.approx(rates)
    some = believed(numbers, 100.0, rates, 20.0)
    assert some[0] == pytest.approx(0.01)
    assert some[0] <= some[1] < 0.4
    assert 0.5 < some[2] <= 0.9
    assert (believed(np.array([-50.0, 500.0]), 100.0, np.array([0.5, 0.5]), 1.0) <= 1).all()


def test_noise_alone_is_rarely_believed() -> None:
    rng = np.random.default_rng(5)
    rates = np.full(20_000, 1e-4)
    found = believed(rng.normal(0, 20, len(rates)), 300.0, rates, 20.0)
    assert (found > 10 * rates).mean() < 0.002


def test_a_shift_moves_chances_by_what_it_says_and_a_token_that_is_there_is_not_made_likelier_again() -> None:
    known = np.log(np.tile([0.5, 0.3, 0.15, 0.05], (2, 1)))
    shift = np.array([0.0, 2.0, 0.0, -1.0])
    choose = Shifted(1.0, 4, 0, seeded(2), shift)
    drawn = [choose(known, [[2], [1]]) for _ in range(4_000)]
    for row, moved in ((0, shift), (1, np.array([0.0, 0.0, 0.0, -1.0]))):
        chances = softmax(known[:1] + moved)[0]
        found = np.bincount([each[row] for each in drawn], minlength=4) / len(drawn)
        assert found == pytest.approx(chances, abs=0.04)
    assert choose.expected.sum() == pytest.approx(2 * len(drawn))
    again = Shifted(1.0, 4, 0, seeded(2), shift)
    again(known, [[2, 3], [1]])  # the second text is at its end
    assert again.expected.sum() == pytest.approx(1)
    assert set(options_of(known, 2, 3)[0].tolist()) == {0, 3}


def test_writing_follows_the_private_words(fitted: FittedSteering) -> None:
    """A letter that all private texts of a label have, and public ones seldom, comes to stand in what is written."""
    letter = "9"
    more = FittedSteering(replace(SPEC, size=160), tiny_language.model(), fitted.examples, 0)
    records = [Record(str(i), f"{letter} a", label="travel") for i in range(400)]
    found = more.synthesize(corpus(records), Draws(secure()))
    mine = [text for text, label in zip(found.texts, found.labels, strict=True) if label == "travel"]
    plain, _ = fitted.writer.shifted(0, 160, np.zeros(fitted.writer.model.size), secure())
    before = [letter in fitted.writer.model.text(text) for text in plain]
    assert np.mean([letter in text for text in mine]) > 0.15 + np.mean(before)
    assert set(found.labels) <= {"travel", "money"}
    assert len(found.texts) == len(set(found.texts)) <= 160
    assert any(letter in sentence for sentence in found.sentences if "More often" in sentence)


def test_settings_are_checked_and_the_public_part_is_always_the_same(fitted: FittedSteering) -> None:
    again = FittedSteering(SPEC, tiny_language.model(), fitted.examples, 0)
    assert again.digests == fitted.digests
    assert FittedSteering(SPEC, tiny_language.model(), fitted.examples, 1).digests != fitted.digests
    assert "Steering(" in repr(fitted)
    assert "train" not in repr(fitted)
    for wrong in ({"marks": 0}, {"vocabulary": 0}, {"matches": -1}, {"count_share": 0.9}, {"topics": 4}):
        with pytest.raises(ConfigError):
            replace(SPEC, **wrong)


def test_a_label_of_which_too_few_different_texts_were_written_is_named() -> None:
    spec = replace(Steering.tiny()[0], size=40)  # travel and money
    counts = np.array([300.0, 300.0])

    def said(*texts: int) -> str:
        found = spec.released([[str(i) for i in range(n)] for n in texts], counts, 1.0, seeded(1))
        return " ".join(found.sentences)

    assert "another one" not in said(20, 20) + said(20, 19)
    assert "too few different texts were written. money: 20 wanted, 3 written." in said(20, 3)
