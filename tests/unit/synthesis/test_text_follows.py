"""Texts that follow columns: what is measured for them, which texts rows get, and what steers a language model."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.synthesis.asking import Examples
from dptext.synthesis.blocks import POINTS, WORDS
from dptext.synthesis.by_length import More
from dptext.synthesis.by_topic import topic_lifts
from dptext.synthesis.drawn import DrawnRows
from dptext.synthesis.from_drafts import FromDrafts, Moves
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.word_targets import WordTargets

pytestmark = pytest.mark.filterwarnings("ignore:No public drafts")
SUBJECTS = {
    "trains": ["the train left the station", "a ticket for the railway", "the platform for the express train"],
    "doctors": ["the doctor at the hospital", "a nurse and some medicine", "the surgeon saw the patient"],
    "gardens": ["the roses in the garden", "a tree with apples and leaves", "flowers grow in the spring"],
}
MOODS = {"glad": ["it was wonderful and lovely", "thank you i am happy"], "sad": ["it was terrible", "i am so angry"]}
FIVE = tuple(f"c{i}: a|b" for i in range(5))
COLUMNS = ("mood: glad|sad", "stars: 1..5 by 1", "subject?: doctors|gardens|trains")


def texts(n: int, seed: int) -> list[tuple[str, str, str]]:
    """Subject, mood and text, both independent of each other; most are glad."""
    rng, found = random.Random(seed), []
    for i in range(n):
        subject, mood = rng.choice([*SUBJECTS]), rng.choices([*MOODS], (3, 1))[0]
        parts = rng.choice(SUBJECTS[subject]), rng.choice(MOODS[mood])
        found.append((subject, mood, f"{parts[0]}, {parts[1]} {i}"))
    return found


POOL = texts(240, 1)
TRUTH = {text: (subject, mood) for subject, mood, text in POOL}


@functools.cache
def measured(label: bool = False, **more: Any) -> Any:
    """A summary with little noise; mood follows stars, and subjects follow nothing."""
    rows = [
        {"text": text, "mood": mood, "subject": subject, "stars": 5 if mood == "glad" else 1}
        for subject, mood, text in texts(3_000, 2)
    ]
    how: dict[str, Any] = {"columns": list(COLUMNS), "encoder": "glove", "about": 3_000, "epsilon": 60.0, "seed": 1}
    if label:
        how |= {"label": "subject", "labels": [*sorted(SUBJECTS)], "columns": list(COLUMNS[:2])}
    return dp.summarize(rows, [text for _, _, text in POOL], randomness=seeded(1), **{**how, **more})


def right(written: Any) -> tuple[float, float]:
    """The shares of rows whose text is of their subject, and of their mood."""
    rows = [(TRUTH[each.output], each.label or each.kept["subject"], each.kept["mood"]) for each in written.releases]
    return tuple(float(np.mean([row[0][i] == row[1 + i] for row in rows])) for i in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("changed", "followed", "blocks"),
    [
        ({}, ("mood", "subject"), ["points mood", "points subject"]),
        ({"labels": ("a", "b")}, ("mood", "subject"), ["points", "points mood", "points subject"]),
        ({"columns": FIVE}, ("c0", "c1", "c2"), ["points c0", "points c1", "points c2"]),
        ({"columns": (f"many: {'|'.join(map(str, range(13)))}",)}, (), []),
        ({"text_follows": ("stars",)}, ("stars",), ["points stars"]),
        ({"text_follows": ("none",)}, (), []),
        ({"points": False}, (), []),
        ({"marks": 4}, ("mood", "subject"), ["points mood", "points subject", "words", "words mood", "words subject"]),
    ],
)  # fmt: skip
def test_each_column_that_texts_follow_has_points_and_words_of_its_own(
    changed: dict[str, Any], followed: tuple[str, ...], blocks: list[str]
) -> None:
    spec = SummarySpec(**{"columns": COLUMNS, **changed})
    assert spec.text_follows == followed
    assert [name for name in spec.blocks if name.startswith((POINTS, WORDS))] == blocks
    assert sum(spec.block_shares.values()) == pytest.approx(1)
    assert replace(spec, epsilon=0.5).text_follows == followed  # as a summary like it has
    if "points" in blocks:
        assert spec.block_shares["points"] == pytest.approx(2 * spec.block_shares[f"points {followed[0]}"])


def test_texts_of_a_pool_follow_two_columns_at_once() -> None:
    written = dp.write(measured(), size=120, seed=1)
    subject, mood = right(written)
    assert subject > 0.95
    assert mood > 0.9
    glad = np.mean([each.kept["mood"] == "glad" for each in written.releases])
    assert glad == pytest.approx(0.75, abs=0.1)
    assert all((each.kept["stars"] == 5) == (each.kept["mood"] == "glad") for each in written.releases)
    assert written.sentences[0] == "Texts follow mood, subject."


def test_texts_that_follow_nothing_fit_no_column() -> None:
    subject, mood = right(dp.write(measured(text_follows=("none",)), size=240, seed=1))
    assert subject < 0.5
    assert mood < 0.8


def test_labels_are_followed_beside_columns_and_a_text_leaves_again() -> None:
    written = dp.write(measured(label=True), size=600, seed=1, drop_other=True, rounded=True)
    subject, mood = right(written)
    assert subject > 0.95
    assert mood > 0.9
    assert len(written.releases) == 600
    often = len(written.releases) / len({each.output for each in written.releases})
    assert f"A text that leaves does so {often:.1f} times on average." in written.sentences[0]
    assert {each.kept["mood"] for each in written.releases} == {"glad", "sad"}


def test_a_labelled_table_without_followed_columns_leaves_as_many_rows_as_wanted() -> None:
    written = dp.write(measured(label=True, text_follows=("none",)), size=600, seed=1)
    assert len(written.releases) == 600
    assert right(written)[0] > 0.9


@pytest.mark.parametrize("also", [(), ("words",)])
def test_both_values_of_a_text_are_read_at_once(also: tuple[str, ...]) -> None:
    found = measured(also=also, drafts=0).summary
    held, space = texts(200, 3), found.public.pool.space
    given = [text for _, _, text in held]
    rows = DrawnRows.of(found, 1_000, seeded(1))
    scores = rows.scores(found, given, space.points(given))
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1)
    moods, subjects = (found.spec.axes.columns[column.axes[0] - 1].names for column in found.spec.followed)
    best = [(subjects[row[2]], moods[row[1]]) for row in rows.values[scores.argmax(axis=1)].tolist()]
    assert np.mean([one == (s, m) for one, (s, m, _) in zip(best, held, strict=True)]) > 0.9


def test_rows_that_are_drawn_have_the_shares_of_the_summary() -> None:
    found = measured(label=True).summary
    rows = DrawnRows.of(found, 900, seeded(3))
    assert len(rows) == 900
    assert rows.numbers.sum() == 900
    assert np.array_equal(rows.values[rows.groups], np.column_stack([rows.labels, rows.cells[:, 0]]))
    there, own = rows.filled([["a"] * 2 for _ in rows.values])
    assert len(there) == len(own) == 2 * len(rows.values)
    assert sorted(rows.groups[there].tolist()) == sorted([*range(len(rows.values))] * 2)


class Echo:
    """A drafter that writes one of two words by its odds, and keeps what it was asked."""

    weights = ""
    asked: ClassVar[list[tuple[str, Moves]]] = []

    def draft(
        self, name: str, examples: Examples, n: int, *, moves: Moves, seed: int, more: More | None
    ) -> Sequence[str]:
        self.asked.append((name, moves))
        rng = random.Random(seed)
        return [f"says {' '.join(rng.sample(['wonderful', 'train', 'terrible'], 2))} {seed} {i}" for i in range(n)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Echoing(FromDrafts):
    takes: ClassVar[str] = ""

    def drafter(self, by: WordTargets) -> Echo:
        return Echo()


def test_a_model_writes_with_the_row_in_its_prompt_and_the_shifts_of_its_values() -> None:
    Echo.asked.clear()
    found = measured(label=True, also=("words",), drafts=0, tokens=30).summary
    made = Echoing(size=60, drafts=64).write(found, seeded(1))
    names = {name for name, _ in Echo.asked}
    assert {"trains", "mood glad", "mood sad", "text", "trains, mood glad", "gardens, mood sad"} <= names
    assert made.cells is not None
    assert len(made.cells) == len(made.texts) == len(made.labels) == 60
    last = dict(Echo.asked)
    assert last["trains, mood glad"].shift.get("wonderful", 0) > last["trains, mood sad"].shift.get("wonderful", 0) + 1
    assert last["trains, mood sad"].shift.get("train", 0) > last["doctors, mood sad"].shift.get("train", 0) + 1


def test_the_shift_of_a_group_is_that_of_its_label_and_what_its_cells_have_beyond_all_texts() -> None:
    found = measured(label=True, also=("words",), drafts=0).summary
    rows = DrawnRows.of(found, 100, seeded(1))
    by = WordTargets.of(found, Echoing(), rows)
    entries = range(by.first_group, len(by.names))
    assert by.moved_by(entries) == [0, 1, 2, 3, 4, by.first_group - 1]
    # The first number follows the label, the second the mood, the third neither, and the last is large.
    whole = np.array([1.0, 1.5, 1.0, 100.0])
    shifts = {entry: whole.copy() for entry in by.moved_by(entries)}
    for entry, shift in shifts.items():
        if entry < 3:
            shift[0] = 3.0 * (entry == 1)
        elif entry < by.first_group - 1:
            shift[1] = 2.0 * (entry == 3)
    for entry, shift in by.combined([*entries], shifts).items():
        label, cell = by.groups[entry - by.first_group]
        expected = [3.0 * (label == 1), 2.0 * (cell == 3), 1.0, 10.0]
        np.testing.assert_allclose(shift, expected, atol=0.35)
        assert shift[2] == whole[2]
    assert by.numbers.shape == (by.first_group, len(by.lexicon))
    assert len(by.deviations) == len(by.units) == len(by.usual) == by.first_group
    assert len(by.lengths) == len(by.names)


@pytest.mark.parametrize("changed", [{"text_follows": ["size"]}, {"text_follows": ["mood"], "points": False}])
def test_what_texts_cannot_follow_is_refused_before_anything_is_read(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"texts (that )?follow"):
        measured(**{name: tuple(v) if isinstance(v, list) else v for name, v in changed.items()})


def test_a_label_that_the_pool_lacks_is_said_and_guesses_from_names_can_be_left_out() -> None:
    made = measured(label=True)
    with pytest.warns(UserWarning, match="too few texts of some labels: doctors"):
        written = dp.write(made, size=240, seed=1, mix={"doctors": 1.0})
    assert {each.label for each in written.releases} == {"doctors"}
    assert any("doctors" in each and "pool" in each for each in written.sentences)
    found, texts = made.summary, [text for _, _, text in POOL]
    points = found.public.pool.space.points(texts)
    one, other = (DrawnRows.of(found, 90, seeded(1)).scores(found, texts, points, prior=each) for each in (True, False))
    assert np.abs(one - other).max() > 1e-6


def test_a_table_without_labels_is_written_by_the_pool_where_no_model_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(also=("words",), drafts=0)
    assert found.summary.spec.pool_writes
    with pytest.warns(UserWarning, match="--writer pool writes from it"):
        measured(also=("words",), drafts=0, seed=2)


def test_the_number_of_all_units_is_known_from_all_that_is_measured() -> None:
    """Columns alone have a small share for counts: their sums tell the number, too."""
    found = measured().summary
    alone, whole = found.known["counts"].deviation, found.counts.deviation
    assert whole < alone / 2
    assert abs(found.counts.numbers[0] - 3_000) < 5 * whole


def by_subject(*, relation: bool, **more: Any) -> Any:
    """A summary of topics and of stars, which follow the subject of the text, or nothing."""
    rng, stars = random.Random(5), {"doctors": 1, "gardens": 3, "trains": 5}
    rows = [
        {"text": text, "stars": stars[subject] if relation else rng.choice([1, 3, 5]), "who": mood}
        for subject, mood, text in texts(3_000, 2)
    ]
    how: dict[str, Any] = {
        "columns": ["stars: 1..5 by 1"], "encoder": "glove", "about": 3_000, "epsilon": 60.0, "topics": 14,
        "also": ("topics",), "text_follows": ("none",), "seed": 1, "randomness": seeded(1), "dim": 16,
    }  # fmt: skip
    return dp.summarize(rows, [text for _, _, text in POOL], **{**how, **more})


def fits_stars(written: Any) -> float:
    """The share of rows whose text is of the subject of their stars."""
    subjects = {1: "doctors", 3: "gardens", 5: "trains"}
    return float(np.mean([TRUTH[each.output][0] == subjects.get(each.kept["stars"]) for each in written.releases]))


def test_topics_of_texts_follow_columns_that_the_texts_do_not() -> None:
    made = by_subject(relation=True)
    assert made.summary.spec.pairs == ("stars+topics",)
    written = dp.write(made, size=120, seed=1)
    assert written.sentences[0] == "Their topics follow stars."
    assert fits_stars(written) > 0.85
    alone = dp.write(by_subject(relation=True, pairs=("none",)), size=120, seed=1)
    assert fits_stars(alone) < 0.5


def test_topics_that_tell_nothing_of_a_column_choose_no_text() -> None:
    made = by_subject(relation=False)
    assert made.summary.spec.pairs == ("stars+topics",)
    lifts = topic_lifts(made.summary).get(1, np.zeros((6, 14)))
    assert np.abs(lifts[[0, 2, 4]]).max() < 0.4  # chance alone
    assert fits_stars(dp.write(made, size=120, seed=1)) < 0.5


def test_topics_are_not_paired_with_columns_that_texts_follow_nor_with_labels() -> None:
    spec = SummarySpec(columns=COLUMNS, topics=6, epsilon=60.0)
    assert spec.text_follows == ("mood", "subject")
    assert "stars+topics" in spec.pairs
    assert not {"mood+topics", "subject+topics"} & {*spec.pairs}
    assert "label+topics" not in replace(spec, labels=("a", "b"), pairs=("auto",)).axes.pairs
    named = replace(spec, pairs=("mood+topics",))
    assert named.blocks[-1] == "columns mood+topics"


def test_without_class_means_topics_follow_labels_and_columns() -> None:
    made = by_subject(relation=True, label="who", labels=["glad", "sad"], points=False)
    assert "label+topics" not in made.summary.spec.pairs
    written = dp.write(made, size=120, seed=1)
    assert fits_stars(written) > 0.85
    assert {each.label for each in written.releases} == {"glad", "sad"}


def test_empty_values_of_a_column_that_may_not_be_null_are_said() -> None:
    rows = [{"text": text, "stars": i % 6} for i, (_, _, text) in enumerate(texts(3_000, 2))]  # 0 is clipped
    rows += [{"text": text, "stars": "many"} for _, _, text in texts(1_000, 3)]
    how: dict[str, Any] = {"columns": ["stars: 1..5 by 1"], "encoder": "glove", "about": 4_000, "epsilon": 60.0}
    made = dp.summarize(rows, [text for _, _, text in POOL], text_follows=("none",), randomness=seeded(1), **how)
    written = dp.write(made, size=200, seed=1)
    empty = sum(each.kept["stars"] is None for each in written.releases)
    assert f"{empty} of stars (empty), as noisy numbers have them. --drop-other writes none." in written.sentences[-1]
    assert 30 < empty < 70
    assert not any("not declared" in said for said in dp.write(made, size=200, seed=1, drop_other=True).sentences)
