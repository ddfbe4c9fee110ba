"""Texts are written as long as the noisy numbers say: by a writer of drafts, and by a language model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.language.writing import Drafts
from dptext.sampling.randomness import seeded
from dptext.synthesis.adding import summed
from dptext.synthesis.asking import Examples, answer_line, question
from dptext.synthesis.by_length import More
from dptext.synthesis.from_drafts import Counted, FromDrafts, Moves
from dptext.synthesis.from_endpoint import FromEndpoint
from dptext.synthesis.lengths import LengthBins
from dptext.synthesis.page import topics_page
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.word_shifts import Spellings, Steered
from dptext.synthesis.word_targets import WordTargets

EDGES = (4, 9)
BINS = LengthBins(EDGES)
LONG = " ".join(["train"] * 12)
#: Seven of ten private texts of travel are long, and none of money is.
PRIVATE = [
    {"text": LONG if i % 2 and i % 20 < 14 else "a train", "label": "travel" if i % 2 else "money"}
    for i in range(4_000)
]
POOL = ["a train runs", "a slow train runs to Rome today", "the night train runs to Rome and on to Naples today"] * 9


class Sized:
    """Writes texts of the least number of words of the length that it is asked for."""

    weights = ""
    asked: ClassVar[list[tuple[Examples, Moves]]] = []

    def draft(
        self, name: str, examples: Examples, n: int, *, moves: Moves, seed: int, more: More | None
    ) -> Sequence[str]:
        self.asked.append((examples, moves))
        assert moves.length is not None
        more_words = " ".join(f"word{i}" for i in range(moves.length.least - 2))
        return [f"text {seed}x{i} {more_words}" for i in range(n)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes(FromDrafts):
    """The writer of these texts."""

    def drafter(self, by: WordTargets) -> Sized:
        return Sized()


@pytest.fixture(scope="module")
def summary() -> Any:
    with pytest.warns(UserWarning, match="No public drafts"):
        return dp.summarize(
            PRIVATE, POOL, label="label", labels=("travel", "money"), also=["words", "lengths"], lengths=EDGES,
            without=["points"], vocabulary=20, drafts=0, encoder="glove", about=4_000, epsilon=50.0, seed=1,
            randomness=seeded(1),
        )  # fmt: skip


def test_a_summary_like_one_with_lengths_has_its_lengths_and_adds_up(summary: Any) -> None:
    """The number of tokens is that of the other summary, too: the default would be too few for its lengths."""
    given: Any = {"label": "label", "like": summary, "without": ["points"], "randomness": seeded(2)}
    again = dp.summarize(PRIVATE[:500], about=500, epsilon=20.0, **given)
    assert (again.summary.spec.lengths, again.summary.spec.tokens) == (EDGES, 300)
    whole = summed(summary.summary, again.summary, disjoint=True)
    assert whole.known["lengths"].numbers.sum() == pytest.approx(4_500, abs=60)
    with pytest.raises(ConfigError, match="Expected lengths as in the summary of --like"):
        dp.summarize(PRIVATE[:500], lengths=(5, 9), **given)


def test_the_pool_says_that_it_does_not_follow_the_lengths(summary: Any) -> None:
    pool = [f"{text} on platform {i}" for i, text in enumerate(POOL)]
    with pytest.warns(UserWarning, match="No public drafts"):
        found = dp.summarize(
            PRIVATE[:900], pool, label="label", labels=("travel", "money"), also=["words", "lengths"], lengths=EDGES,
            drafts=0, encoder="glove", words=0, dim=2, about=900, epsilon=20.0, seed=1, randomness=seeded(1),
        )  # fmt: skip
    said = " ".join(dp.write(found, writer="pool", size=9, seed=1).sentences)
    assert "Texts of the pool are as long as they are: the noisy numbers of lengths choose none." in said


def test_noisy_shares_of_lengths_are_near_the_true_ones(summary: Any) -> None:
    found = summary.summary
    assert (found.spec.marks, found.spec.tokens, found.spec.lengths) == (40, 300, EDGES)
    np.testing.assert_allclose(found.lengths, [[0.3, 0, 0.7], [1, 0, 0]], atol=0.02)
    assert type(found).of_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
    assert type(found).of_bytes(found.to_bytes()).public.lexicon.digest == found.public.lexicon.digest


def test_the_report_has_the_lengths_and_they_add_up(summary: Any) -> None:
    report = summary.summary.report
    long = report.by_length
    assert long.numbers == pytest.approx([2_600, 0, 1_400], abs=60)
    assert long.numbers.sum() == pytest.approx(report.estimates.whole.numbers[0])
    found = json.loads(report.to_json())["lengths"]
    assert found["lengths"] == ["fewer than 4 words", "4 to 8 words", "9 words or more"]
    assert np.array(found["counts"]).shape == (2, 3)
    page = topics_page(report, report.sentences())
    assert "<caption>Lengths</caption>" in page
    assert "9 words or more" in page
    assert any(said.startswith("Lengths, in documents, with 95% intervals") for said in report.sentences())


def test_texts_of_each_label_are_asked_for_in_its_lengths(summary: Any) -> None:
    settings = Sizes(size=200, drafts=20, matches=0, model="sized")
    by = WordTargets.of(summary.summary, settings)
    counted = by.opened()
    assert isinstance(counted, Counted)
    Sized.asked.clear()
    texts, *_ = counted.texts(0, 200, 3, np.zeros((2, len(by.lexicon))))
    assert np.abs(np.bincount(BINS.of(texts), minlength=3) - [60, 0, 140]).max() <= 6
    for examples, moves in Sized.asked:
        assert moves.length in BINS.lengths
        place = BINS.lengths.index(moves.length)
        assert {int(each) for each in BINS.of([text for _, text in examples])} == {place}
    texts, *_ = counted.texts(1, 50, 3, np.zeros((2, len(by.lexicon))))
    assert Counter(BINS.of(texts).tolist())[0] >= 47


def test_each_length_has_draws_of_its_own(summary: Any) -> None:
    """With one seed for all lengths a server's kept answer to one would be taken for another."""
    by = WordTargets.of(summary.summary, Sizes(size=9, model="sized"))
    texts, *_ = by.opened().texts(0, 90, 3, np.zeros((2, len(by.lexicon))))
    assert len(texts) == len({text.split()[1] for text in texts}) > 80


def test_the_lengths_that_were_written_are_said_beside_those_that_were_wanted(summary: Any) -> None:
    """Repeats are left out, and short texts repeat most: nothing else would tell."""
    made = Sizes(size=200, drafts=20, matches=0, model="sized").write(summary.summary, seeded(1))
    (said,) = [each for each in made.sentences if each.startswith("Lengths as written (wanted): ")]
    own = np.bincount(BINS.of(made.texts), minlength=3) / len(made.texts)
    shares = summary.summary.lengths.mean(axis=0)
    parts = [f"{name} {a:.0%} ({b:.0%})" for name, a, b in zip(BINS.lengths, own, shares, strict=True)]
    assert said == f"Lengths as written (wanted): {'; '.join(parts)}."


class Nowhere:
    """Writers of a model that expects the tokens of no word of the list, in two lengths."""

    writers = (SimpleNamespace(model=SimpleNamespace(size=20, text=lambda tokens: "nothing")),)

    def shifted(self, label: int, n: int, *_: object) -> Iterator[tuple[None, Drafts]]:
        for _ in range(2):
            yield None, Drafts([[1]] * (n // 2), np.zeros(20), 0.0, n // 2)


def test_a_word_that_no_draft_could_have_is_steered_in_several_lengths(summary: Any) -> None:
    """Words that public text and the model lack are what steering is for."""
    by = WordTargets.of(summary.summary, Sizes(size=9, drafts=20, matches=1, model="sized"))
    place = by.lexicon.words.index("train")
    spelled = Spellings(np.array([7]), np.array([0]), np.array([place]), len(by.lexicon))
    steered = Steered(by, Nowhere(), spelled)  # type: ignore[arg-type]
    shift, *_ = steered.shift(0, 1)
    assert shift[7] > 2
    assert not shift[[i for i in range(20) if i != 7]].any()


def test_a_length_that_the_tokens_cannot_reach_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Expected more than 40 tokens, .* found tokens=24: set tokens=300"):
        SummarySpec(labels=("a", "b"), marks=5, lengths=(10, 40))


def test_a_dry_run_counts_the_tokens_of_each_length_and_says_that_lengths_are_told(summary: Any) -> None:
    given = {"base": "http://127.0.0.1:1/v1", "model": "m", "size": 100, "tokens": 300}
    (tokens, _, _, sent, *_) = FromEndpoint(**given, drafts=5, matches=0).asks(summary.summary, None)
    # half of the texts are short (8 tokens), a third of the others, too; the rest may have 300
    assert int(re.search(r"at most ([\d,]+) written", tokens).group(1).replace(",", "")) == pytest.approx(  # type: ignore[union-attr]
        110 * (0.65 * 8 + 0.35 * 300), rel=0.05
    )
    assert sent.endswith("and of the noisy numbers:")
    (*_, still) = FromEndpoint(**given, steered=False).asks(summary.summary, None)
    assert "No noisy number does, but for how many texts each label and length has." in still


def test_a_chat_model_is_told_the_length_and_may_answer_in_paragraphs() -> None:
    asked = question([], "a film", length=BINS.lengths[2])
    assert "It should have 9 words or more." in asked
    assert "It should have" not in question([], "a film")
    answer = "Here it is:\n\nOne good film.\n\nI liked it."
    assert answer_line(answer) == "One good film."
    assert answer_line(answer, whole=True) == "One good film. I liked it."
