"""The page of a topic report in a real browser, on a phone and on a desk. Slow, as that of `dptext compare`."""

from pathlib import Path

import numpy as np
import pytest

from browser import browser
from dptext.synthesis.report import Topics, topics_page

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
    page.write_text(topics_page(Topics.of(LABELS, counts, 9_000.0, topics, "author", None), ["said"]), "utf-8")
    with browser(tmp_path) as shown:
        shown.open(page, width=width)
        assert shown.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        right = "Math.max(...[...document.querySelectorAll('{}')].map((each) => each.getBoundingClientRect().right))"
        assert shown.value(right.format("main > table, .wide")) <= width  # cells scroll within the region
        assert not shown.console
        if width > 1000:
            assert shown.value("document.querySelector('.bar svg').getBoundingClientRect().width") > 100
