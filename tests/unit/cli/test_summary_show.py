"""What `dptext summary show` prints of a report: a screen, with intervals."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from dptext.cli.summary import _HEIGHT, _lines
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.page import topics_page
from dptext.synthesis.report import Topics


def report(n_labels: int, n_words: int, n_topics: int) -> Topics:
    labels = tuple(f"label {i}" for i in range(n_labels))
    counts = np.arange(1.0, max(1, n_labels) + 1)[:, None] * np.full((1, max(1, n_topics)), 200.0)
    topics = tuple(((f"subject{i}", "of", "a", "topic"), ()) for i in range(n_topics))
    words = LabelWords(
        tuple(tuple((f"word{j}", 90.0 + i, 1.0) for j in range(n_words)) for i in range(len(counts))), 20.0
    )
    return replace(Topics.of(labels, counts, 10.0, topics, "document", None), words=words)


@pytest.mark.parametrize("n_labels", [0, 1, 4, 11, 90])
@pytest.mark.parametrize("n_topics", [0, 11, 64])
def test_everything_is_shown_with_intervals_within_one_screen(n_labels: int, n_topics: int) -> None:
    found = report(n_labels, 12, n_topics)
    lines = _lines(found, _HEIGHT)
    assert len(lines) <= _HEIGHT
    assert max(map(len, lines)) <= 80
    at = lines.index("Words more frequent than in public text:")
    end = lines.index("Topics, largest first:") if n_topics else len(lines)
    last = max(1, n_labels) - 1  # the largest label comes first
    assert lines[at + 1] == "Numbers: documents for which the word counts; few words of a text count."
    assert f"word0: {90 + last} ({70 + last} to {110 + last}), word1: {90 + last} (" in lines[at + 2]
    left = 90 - sum(line.startswith("  label") for line in lines[at + 2 : end])
    assert (lines[end - 1] == f"  and {left} more labels: see --json, or the page") == (n_labels == 90)
    assert (lines[-1].endswith("more topics: see --json, or the page")) == (n_topics == 64)


def test_few_labels_have_two_lines_of_words_and_a_label_without_words_says_so() -> None:
    lines = _lines(report(2, 12, 0), _HEIGHT)
    at = lines.index("Words more frequent than in public text:")
    assert [line.startswith("  label") for line in lines[at + 2 :]] == [True, False, True, False]
    assert not any(line.endswith(",") for line in lines)
    assert _lines(report(2, 0, 0), _HEIGHT)[-1] == "  none beyond the noise: label 1, label 0"


def test_names_that_are_numbers_are_set_apart_from_numbers() -> None:
    named = replace(report(2, 1, 0), labels=("1", "2024"), words=LabelWords(((("90", 80.0, 1.0),), ()), 20.0))
    lines = _lines(named, _HEIGHT)
    first = next(i for i, line in enumerate(lines) if line.startswith("  2024:  400 ("))
    assert lines[first + 1].startswith("  1:     200 (")
    assert "  1:     90: 80 (60 to 100)" in lines
    assert any("2024: 400 (380 to 420); 1: 200 (" in each for each in named.sentences())
    assert "90: 80 (60 to 100)" in topics_page(named, ())


def test_labels_without_words_share_a_line_and_a_total_stands_once() -> None:
    found = report(40, 0, 0)
    words = tuple((("word", 90.0, 1.0),) if i == 7 else () for i in range(40))
    lines = _lines(replace(found, words=LabelWords(words, 20.0)), _HEIGHT)
    assert lines[-2].startswith("  label 7: ")
    assert lines[-1].startswith("  none beyond the noise: label 39, label 38, ")
    assert len(lines[-1]) <= 80
    alone = _lines(report(0, 2, 0), _HEIGHT)
    assert alone[0].startswith("In all 200 (180 to 220) documents. Intervals hold in 95%; ")
    assert sum("200 (" in line for line in alone) == 1


@pytest.mark.parametrize(("n", "sure"), [(4, "Intervals hold in 95%."), (60, "of cut lists in 95% of those shown.")])
def test_a_list_that_is_cut_has_wider_intervals_and_says_so(n: int, sure: str) -> None:
    found = replace(report(n, 0, 0), words=None)
    lines = _lines(found, _HEIGHT)
    assert " ".join(lines[:2]).endswith(sure) or lines[0].endswith(sure)
    shown = sum(line.startswith("  label") for line in lines)
    assert (shown == n) == (n == 4)
    width = 10 * NormalDist().inv_cdf(1 - 0.025 * shown / n)
    low, high = (f"{200 * n + by:,.0f}" for by in (-width, width))
    assert any(line.startswith(f"  label {n - 1}:") and line.endswith(f" ({low} to {high})") for line in lines)
