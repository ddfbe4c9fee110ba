"""The page of a topic report in a real browser, on a phone and on a desk. Slow, as that of `dptext compare`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from browser import browser
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.page import topics_page
from dptext.synthesis.report import Topics

pytestmark = pytest.mark.slow
LABELS = (
    "SearchScreeningEventsOfTheWholeWeek",
    "pay",
    "https://example.org/a/very/long/label/without/a/space",
    "d",
    "e",
)
WORDS = ("weather", "internationalization", "x" * 60, "restaurant", "reservation", "people")


@pytest.mark.parametrize("width", [400, 1280])
def test_no_table_is_wider_than_the_screen(width: int, tmp_path: Path) -> None:
    counts = np.random.default_rng(1).uniform(-4_000, 900_000, (len(LABELS), 9))
    topics = ((WORDS, ("an example with " + "a" * 90,)),) * 9
    page = tmp_path / "page.html"
    words = LabelWords(tuple(tuple((word, 9_999.0, 1.0) for word in WORDS) for _ in LABELS), 9_000.0)
    report = replace(Topics.of(LABELS, counts, 9_000.0, topics, "author", None), words=words)
    page.write_text(topics_page(report, [f"said of {LABELS[2]}"]), "utf-8")
    with browser(tmp_path) as shown:
        shown.open(page, width=width)
        assert shown.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        right = "Math.max(...[...document.querySelectorAll('{}')].map((each) => each.getBoundingClientRect().right))"
        assert shown.value(right.format("main > table, .wide")) <= width  # cells scroll within the region
        assert not shown.console
        names = (
            "[...document.querySelectorAll('.words th[scope=row]')].map((each) => each.getBoundingClientRect().width)"
        )
        assert shown.value(f"Math.min(...{names})") > 80  # a label is not broken into pieces of two letters
        if width > 1000:
            assert shown.value("document.querySelector('.bar svg').getBoundingClientRect().width") > 100
