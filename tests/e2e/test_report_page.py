"""The page in a real browser. Slow, and without a browser it fails: a page that nobody opened was not tested."""

from pathlib import Path

import pytest

from browser import Browser, browser
from dptext.compare.report import write_page
from pages_folder import everything

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    path = everything(tmp_path_factory.mktemp("page") / "results").write()
    # one word that could push everything out of a phone
    (path / "experiment.json").write_text(
        (path / "experiment.json").read_text("utf-8").replace("made up for a test", "made-up" * 30), "utf-8"
    )
    write_page(path, path / "report.html")
    return path / "report.html"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_scripts_complaints_or_overflow(
    chromium: Browser, page: Path, width: int, scheme: str
) -> None:
    chromium.console.clear()
    chromium.requests.clear()
    chromium.open(page, width=width, scheme=scheme)
    assert chromium.value("document.querySelectorAll('h1').length") == 1
    assert chromium.value("[...document.querySelectorAll('h2')].map(each => each.textContent)") == [
        "Warnings",
        "What was compared",
        "Privacy and utility",
        "A table for each metric",
        "Samples side by side",
        "Every certificate in words",
        "How to read this page",
        "Settings",
        "Signatures",
    ]
    sizes = chromium.value(
        "[...document.querySelectorAll('figure svg')].map(each => each.getBoundingClientRect())"
        ".map(box => [box.width, box.height, box.right])"
    )
    assert len(sizes) == 24  # 3 meanings, 4 metrics, 2 corpora
    assert all(wide > 250 and high > 150 and right <= width for wide, high, right in sizes)
    assert chromium.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert chromium.value("document.documentElement.clientWidth") <= width
    page_color = chromium.value("getComputedStyle(document.body).backgroundColor")
    assert page_color == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 20, 20)")
    text_color = chromium.value("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert text_color == chromium.value("getComputedStyle(document.body).color") != page_color
    assert chromium.console == []
    assert chromium.requests == [page.resolve().as_uri()]


def test_words_of_figures_do_not_run_into_each_other(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=400)
    overlaps = chromium.value(
        """[...document.querySelectorAll('figure svg')].flatMap(svg => {
          const words = [...svg.querySelectorAll('text')].map(each => [each.textContent, each.getBBox()]);
          return words.flatMap(([a, p], i) => words.slice(i + 1).filter(([b, q]) =>
            p.x < q.x + q.width - 1 && q.x < p.x + p.width - 1 && p.y < q.y + q.height - 3 && q.y < p.y + p.height - 3
          ).map(([b]) => a + ' / ' + b));
        })"""
    )
    assert overlaps == []
    outside = chromium.value(
        """[...document.querySelectorAll('figure svg')].flatMap(svg => [...svg.querySelectorAll('text')].filter(each =>
          each.getBBox().x < -1 || each.getBBox().x + each.getBBox().width > 361).map(each => each.textContent))"""
    )
    assert outside == []


def test_it_prints(chromium: Browser, page: Path, tmp_path: Path) -> None:
    chromium.open(page, width=1280, scheme="dark")
    chromium.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    chromium.call(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert chromium.value("getComputedStyle(document.body).color") == "rgb(26, 26, 26)"  # on paper it is light


def test_the_console_is_heard(chromium: Browser, tmp_path: Path) -> None:
    """A planted fault: a page that wants something from elsewhere."""
    path = tmp_path / "bad.html"
    path.write_text("<!DOCTYPE html><title>x</title><img src='absent.png'>", "utf-8")
    chromium.console.clear()
    chromium.open(path, width=400)
    assert len(chromium.requests) > 1
    assert chromium.console
