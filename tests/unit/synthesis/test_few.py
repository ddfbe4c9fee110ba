"""What noise will hide is said before anything is charged, by public numbers alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dptext as dp
from dptext.mechanism import settings
from dptext.runs.specs import synthesis_from_settings
from dptext.synthesis.report import Topics
from dptext.synthesis.summary import SummarySpec

FOUR = ["health", "travel", "money", "leisure"]
SAID = [
    ({"about": 60, "marks": 5}, "Warning: words of about 60 documents: the number of a word has noise of ±20 (95%)"),
    (
        {"about": 300, "marks": 5, "labels": FOUR, "count_share": 0.4},
        "Warning: words of about 75 documents of a label: the number of a word has noise of ±",
    ),
    (
        {"about": 500, "topics": 64},
        "a topic has about 8 documents, and its number has noise of ±9 (95%). Take fewer: --set topics=28.",
    ),
    ({"about": 10, "topics": 64, "epsilon": 0.5}, "Leave topics out, or take a larger epsilon."),
    (
        {"about": 300, "columns": ["n: 0..100 by 1", "p: x|y"]},
        "Warning: n has 102 values of about 300 documents: one has about 3, and its number has noise of ±",
    ),
    (
        {"about": 5000, "columns": ["n: 0..100 by 2", "m: 0..100 by 2"], "pairs": ["n+m"]},
        "(95%). Declare fewer or wider ones, or leave it out of --pairs.",
    ),
]


@pytest.mark.parametrize(("given", "said"), SAID)
def test_what_noise_will_hide_is_said_by_public_numbers(given: dict[str, Any], said: str) -> None:
    found = synthesis_from_settings({"kind": "summary", **given}).advice  # no corpus is there
    assert sum(said in line for line in found.splitlines()) == 1
    more = synthesis_from_settings({"kind": "summary", **given, "about": 1_000_000})
    assert not [line for line in more.advice.splitlines() if line.startswith("Warning")]


def test_labels_that_are_no_words_ask_for_names() -> None:
    given = {"kind": "summary", "about": 5000}
    for labels in (["1", "2", "3"], ["A", "B"], ["-1", "+1"]):
        said = synthesis_from_settings({**given, "labels": labels}).advice
        assert "Warning: the labels say nothing in words." in said
        names = [f"kind {each}" for each in labels]
        assert synthesis_from_settings({**given, "labels": labels, "names": names}).advice == ""
    for labels in (["1", "good"], ["health", "travel"], ["好", "坏"]):
        assert synthesis_from_settings({**given, "labels": labels}).advice == ""


def test_short_labels_may_be_abbreviations() -> None:
    given = {"kind": "summary", "about": 5000}
    said = synthesis_from_settings({**given, "labels": ["good", "bad"]}).advice
    assert "if 'bad' is an abbreviation, give --names" in said
    assert (
        synthesis_from_settings({**given, "labels": ["good", "bad"], "names": ["a good film", "a bad one"]}).advice
        == ""
    )
    assert synthesis_from_settings({**given, "labels": ["good", "poor"]}).advice == ""


def test_words_are_said_to_choose_no_text_of_a_pool() -> None:
    given = {"kind": "summary", "about": 50_000, "labels": ["health", "travel"]}
    assert "Words choose no text of the pool" in synthesis_from_settings({**given, "marks": 5}).advice
    both = synthesis_from_settings({**given, "marks": 5, "lengths": [8, 16]}).advice
    assert "Words and lengths choose no text of the pool, and take a part of epsilon" in both
    without = synthesis_from_settings({**given, "marks": 5, "points": False}).advice
    assert "choose no text" not in without, "no pool is read"


def test_a_table_whose_columns_leave_apart_is_said_before_the_charge() -> None:
    table = {"kind": "summary", "about": 600, "columns": ["a: x|y|z|u|v", "n: 1..10 by 1"]}
    said = synthesis_from_settings(table).advice
    assert "no two columns are measured together" in said
    assert "--pairs a+n measures two" in said
    for other in ({"pairs": ["a+n"]}, {"about": 60_000}, {"columns": ["a: x|y"]}):
        assert "no two columns" not in synthesis_from_settings({**table, **other}).advice


def test_another_number_than_announced_is_said() -> None:
    for unit, numbers, about, said in (
        ("document", (900.0, 600.0), 5000, True), ("document", (900.0, 600.0), 4000, False),
        ("document", (900.0, 600.0), 400, True), ("author", (900.0, 600.0), 400, False),
        ("author", (100.0, 85.0), 1500, True), ("document", (900.0, 600.0), 0, False),
    ):  # fmt: skip
        report = Topics.of(("a", "b"), np.array(numbers)[:, None], 9.0, (), unit, None)
        found = "".join(replace(report, about=about).warnings)
        assert (f"About {about:,} {unit}s were announced (about)" in found) == said


def test_means_by_group_have_their_noise_by_public_numbers() -> None:
    """In 12 draws of such a table low means were 7 ±8 too large, and high ones 10 ±6 too small (95%)."""
    table = {"kind": "summary", "about": 1200, "columns": ["p: low|normal|high", "n: 0.00..200.00 by 25"]}
    found = synthesis_from_settings({**table, "pairs": ["p+n"], "text_follows": ["none"], "column_share": 0.8})
    assert "n by p ±15, and twice as far in a group of half the usual size. A wide bin" in found.means_moved
    less = synthesis_from_settings({**settings(found), "kind": "summary", "column_share": 0.3}).means_moved
    assert "n by p ±25, and" in less
    assert "--shares columns=0.6 --pairs p+n leaves 71% of this." in less
    assert found.means_moved in found.plan
    more = synthesis_from_settings({**settings(found), "kind": "summary", "about": 120_000})
    assert "n by p ±0.15," in more.means_moved
    for other in ({"pairs": ["none"]}, {"columns": ["p: low|high", "q: a|b"], "pairs": ["p+q"]}):
        assert synthesis_from_settings({**table, **other}).means_moved == ""


def test_the_number_of_topics_that_is_named_is_worth_its_noise() -> None:
    for labels in ([], FOUR):
        given = {"kind": "summary", "about": 500, "labels": labels}
        said = synthesis_from_settings({**given, "topics": 200}).advice
        fewer = int(said.rpartition("topics=")[2].rstrip("."))
        assert "topics" not in synthesis_from_settings({**given, "topics": fewer}).advice


def test_ways_that_measure_a_summary_say_the_same() -> None:
    topics = synthesis_from_settings({"kind": "topics", "about": 500})
    assert topics.advice.startswith("Warning: 64 topics of about 500 documents: ")
    for kind in ("prototypes", "steering"):
        assert synthesis_from_settings({"kind": kind, "labels": FOUR}).advice == ""
        assert "4 labels are few" in synthesis_from_settings({"kind": kind, "labels": FOUR, "about": 40}).advice


@pytest.mark.parametrize("kind", [dp.Prototypes, dp.Steering, SummarySpec])
def test_names_may_say_whose_they_are(kind: type) -> None:
    """In any order, from the command line, `dptext.toml` or Python; a name that holds a sign alone stays a name."""
    assert kind(labels=("neg", "pos"), names=("pos=good = fine", "neg=bad")).names == ("bad", "good = fine")
    for names in (("a=b", "c"), ("neg=bad", "c"), ("neg=bad", "neg=good")):
        assert kind(labels=("neg", "pos"), names=names).names == names
