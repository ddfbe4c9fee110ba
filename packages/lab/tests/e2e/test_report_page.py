"""The page in a real browser. Slow, and without a browser it fails: a page that nobody opened was not tested."""

from pathlib import Path

import pytest

from browser import Browser, browser
from dptext_lab.compare.report import write_page
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


def unfold(chromium: Browser) -> None:
    chromium.value("document.querySelectorAll('details').forEach(each => { each.open = true })")


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_scripts_complaints_or_overflow(
    chromium: Browser, page: Path, width: int, scheme: str
) -> None:
    chromium.console.clear()
    chromium.requests.clear()
    chromium.open(page, width=width, scheme=scheme)
    assert chromium.value("document.querySelectorAll('h1').length") == 1
    assert chromium.value("[...document.querySelectorAll('section > h2')].map(each => each.textContent)") == [
        "The answer",
        "Privacy against usefulness",
        "A few samples",
        "Details",
    ]
    assert chromium.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert (
        chromium.value("document.querySelector('.answer').getBoundingClientRect().bottom") < 900
    )  # on the first screen
    unfold(chromium)
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
    unfold(chromium)
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


def test_the_reading_stands_beside_the_picture_or_above_it(chromium: Browser, page: Path) -> None:
    where = "(box => [box.left, box.top, box.right, box.bottom])(document.querySelector('%s').getBoundingClientRect())"
    chromium.open(page, width=1280)
    (left, top, _, _), (_, _, right, last) = (chromium.value(where % name) for name in ("aside", ".panels"))
    assert left >= right
    assert top < last
    chromium.open(page, width=400)
    assert chromium.value(where % "aside")[3] <= chromium.value(where % ".panels")[1]


def test_wide_tables_scroll_inside_their_own_box(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=400)
    unfold(chromium)
    assert chromium.value("[...document.querySelectorAll('.scroll')].some(each => each.scrollWidth > each.clientWidth)")
    assert chromium.value("document.documentElement.scrollWidth") == 400


def press(chromium: Browser, key: str, code: int, **more: object) -> None:
    for kind in ("keyDown", "keyUp"):
        chromium.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)


def test_the_keyboard_reaches_and_unfolds_every_part(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=1280)
    summaries = 0
    for _ in range(60):
        press(chromium, "Tab", 9)
        focused = chromium.value("document.activeElement.tagName")
        if focused == "BODY":
            break
        assert chromium.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if focused == "SUMMARY" and summaries == 0:
            press(chromium, "Enter", 13, text="\r")
            assert chromium.value("document.activeElement.parentElement.open")
        summaries += focused == "SUMMARY"
    assert summaries == chromium.value("document.querySelectorAll('details').length") > 0


def test_a_link_of_the_contents_unfolds_its_part(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=1280)
    assert not chromium.value("document.querySelector('#tables').parentElement.open")
    chromium.value("document.querySelector('nav a[href=\"#tables\"]').click()")
    assert chromium.value("document.querySelector('#tables').parentElement.open")


def test_it_prints(chromium: Browser, page: Path, tmp_path: Path) -> None:
    chromium.open(page, width=1280, scheme="dark")
    chromium.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    chromium.call(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert chromium.value("getComputedStyle(document.body).color") == "rgb(26, 26, 26)"  # on paper it is light
    height = "document.querySelector('#words').parentElement.getBoundingClientRect().height"
    assert chromium.value(height) == 0  # what is folded is left out, and the page says so
    assert chromium.value("getComputedStyle(document.querySelector('.paper')).display") == "block"
    unfold(chromium)
    assert chromium.value(height) > 100


def test_the_console_is_heard(chromium: Browser, tmp_path: Path) -> None:
    """A planted fault: a page that wants something from elsewhere."""
    path = tmp_path / "bad.html"
    path.write_text("<!DOCTYPE html><title>x</title><img src='absent.png'>", "utf-8")
    chromium.console.clear()
    chromium.open(path, width=400)
    assert len(chromium.requests) > 1
    assert chromium.console
