"""Summaries on the page of the gateway: a file is measured, and corpora are written from it without a charge."""

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from commands import dptext
from gateway_pages import Page
from gateways import SUMMARY, add_summary, inbox
from many_files import rows

pytestmark = pytest.mark.slow
PICTURES = Path(__file__).parents[4] / "build" / "page"
CSV = '\ufeffbody,"odd ""name"", too",label,channel\r\n"a, b",1,travel,web\r\n'
#: An element is the first below the status.
UNCOVERED = """(() => {{ const [one, status] = ["{}", "status"].map((each) => document.getElementById(each)
    .getBoundingClientRect()); return one.top >= status.bottom && one.top < status.bottom + 40; }})()"""
OPTIONS = "[...document.getElementById({!r}).options].map((each) => [each.value, each.selected])"


def offered(page: Page, name: str) -> tuple[list[str], str]:
    """The columns that a list offers, and the one that is chosen."""
    found = page.shown.value(OPTIONS.format(name))
    assert isinstance(found, list)
    return [value for value, _ in found], next(value for value, chosen in found if chosen)


def written(page: Page, n: int) -> str:
    """Press the button; return the name of the n-th corpus."""
    page.press("#write-form button")
    page.shown.until(f"document.getElementById('written').children.length === {n}")
    page.status("was written and downloaded. No charge.")
    page.shown.until("!document.querySelector('#write-form button').disabled")
    return str(page.shown.value("document.getElementById('written').lastChild.textContent")).partition(":")[0]


def test_a_file_is_measured_and_corpora_are_written(page: Page, tmp_path: Path) -> None:
    shown = page.shown
    add_summary(tmp_path / "models")
    page.sign_in(page.key)
    page.status("Signed in. 3 models")
    assert shown.value("document.getElementById('model').value") == "inbox"  # summaries come first
    assert page.seen("makes")
    assert page.text("measured-list").strip() == "channel: web|phone|shop"
    page.until("cost", "A summary of a file costs epsilon 5 per document")
    assert not page.seen("summaries")

    # Columns come from the file, which is read here; else their names are typed.
    page.pick(CSV, "mine.CSV")
    columns = ["body", 'odd "name", too', "label", "channel"]
    assert offered(page, "text-field") == (["", *columns], "")
    assert offered(page, "label-field") == (["", *columns], "label")
    page.pick("x" * 50, "mine.parquet")
    assert page.text("columns-found") == "Its columns cannot be read here: type their names."
    assert shown.value("document.getElementById('text-field').tagName") == "INPUT"
    for odd in ("[1]\n", "{\n", '{"": 1}\n', '{"a\ufffd": 1}\n'):
        page.pick(odd)
        assert shown.value("document.getElementById('label-field').tagName") == "INPUT"
    page.pick('{"text": "a", "label": "travel"}\n')
    page.press("#file-form button")
    page.status("The first record has no column channel. Nothing was sent.")
    page.pick(inbox())
    assert offered(page, "text-field") == (["", "text", "label", "channel"], "text")
    assert offered(page, "label-field")[1] == "label"
    assert page.text("columns-found") == "The file has the columns text, label, channel."
    assert page.text("file-sent") == "It was not sent yet."
    page.press("#file-form button")
    page.status("The job is done")
    assert re.fullmatch("It was sent for the model inbox at [0-9-]+ [0-9:]+ UTC[.]", page.text("file-sent"))
    job = str(shown.value("location.hash"))[1:9]
    assert page.text("job-title") == f"Summary {job}: mine.jsonl"
    assert shown.value("document.activeElement.id") == "job-title"
    page.until("summaries-list", "mine.jsonl (inbox, ")
    assert shown.value("document.querySelector('#jobs-list tr').cells[1].textContent") == f"summary {job} of mine.jsonl"
    shown.until(UNCOVERED.format("job-title"))
    bars = "[...document.querySelectorAll('#columns .bar')].map((each) => each.firstChild.textContent)"
    assert shown.value(bars) == ["web", "phone", "shop", "other"]

    # Again and again, without a charge.
    page.type("size", "40")
    names = [written(page, 1)]
    assert page.seen("undeclared")
    assert page.text("status").endswith("No charge.")
    page.press("#drop-other")
    names.append(written(page, 2))
    page.status("No charge. Some cells may be other or empty, as the noisy numbers say.")
    page.choose("format", "csv")
    page.type("mix-1", "100")
    names.append(written(page, 3))
    assert len({*names}) == 3
    corpora = []
    for name in names:
        page.downloaded(name)
        with zipfile.ZipFile(tmp_path / "downloads" / name) as packed:
            packed.extractall(tmp_path / "downloads")
        (certificate,) = (tmp_path / "downloads").glob(f"{Path(name).stem}*.guarantee.json")
        corpora.append(certificate.with_name(certificate.name.removesuffix(".guarantee.json")))
        told = dptext("explain", corpora[-1], "--ledger", tmp_path / "books.db")
        assert told.returncode == 0, told.stderr
    assert corpora[0].read_bytes() != corpora[1].read_bytes()
    assert corpora[2].suffix == ".csv"
    assert all(",travel," in line for line in corpora[2].read_text("utf-8").splitlines()[1:])
    for shares in (("70", "70", "", ""), ("20", "20", "20", "30")):
        for i, share in enumerate(shares):
            page.type(f"mix-{i}", share)
        shown.value("document.getElementById('status').textContent = '', 0")
        page.press("#write-form button")
        page.status("Expected shares that add up to 100 %, or to less if a label has no number.")
    assert len(list(page.ledger.log("reviews"))) == 1
    page.until("budget", "5 of 9 spent, 4 left, in 1 charge.")

    # What else there is of it.
    for button, name in (
        ("job-result", "result-1.summary"),
        ("job-certificate", "result-1.summary.guarantee.json"),
        ("job-legal-page", "result-1.summary.legal.html"),
        ("job-report", "result-1.summary.topics.html"),
    ):
        assert page.seen(button)
        page.press(f"#{button}")
        assert page.downloaded(name)
    told = dptext("explain", tmp_path / "downloads" / "result-1.summary", "--ledger", tmp_path / "books.db")
    assert told.returncode == 0, told.stderr
    assert dptext("write", tmp_path / "downloads" / "result-1.summary", tmp_path / "own.jsonl", "--writer", "pool")
    PICTURES.mkdir(parents=True, exist_ok=True)
    shown.screenshot(PICTURES / "summary.png")

    # It is found again after another job, and on a narrow screen.
    page.choose("model", "labels")
    assert not page.seen("makes")
    assert not page.seen("measured")
    page.pick("".join(json.dumps(row) + "\n" for row in rows(5)))
    page.press("#file-form button")
    page.until("job-state", "The job (labels) is done")
    assert re.fullmatch("Job [0-9a-f]{8}: mine[.]jsonl", page.text("job-title"))
    assert not page.seen("write")
    assert not page.seen("job-report")
    shown.visit(page.url, width=400)
    page.sign_in(page.key)
    page.status("Signed in")
    shown.until("document.querySelector('#summaries-list a') !== null")
    assert page.text("summaries-list").startswith("inbox, ")  # the name of the file is gone with the page
    page.press("#summaries-list a")
    page.until("job-state", "The job (inbox) is done")
    shown.until(UNCOVERED.format("job-title"))
    assert page.text("job-title").startswith(f"Summary {job}: inbox, ")
    shown.until("document.getElementById('write').checkVisibility()")
    shown.value("for (const each of document.querySelectorAll('details')) each.open = true")
    assert shown.value("document.documentElement.scrollWidth") <= 400
    unnamed = """[...document.querySelectorAll('input, select, textarea, button')].filter((each) => each.offsetParent
        && !each.labels?.length && !each.textContent.trim() && !each.getAttribute('aria-label')).length"""
    assert shown.value(unnamed) == 0
    shown.screenshot(PICTURES / "summary-400.png")


def test_the_page_alone_knows_which_file_a_summary_is_of(page: Page, tmp_path: Path) -> None:
    shown = page.shown
    add_summary(tmp_path / "models", settings=SUMMARY.replace("epsilon = 5.0", "epsilon = 1.0"))
    page.sign_in(page.key)
    page.status("Signed in. 3 models")
    for name in ("ward <b>seven</b>.jsonl", "ward-eight.jsonl"):
        page.pick(inbox(5), name)
        assert page.text("file-sent") == "It was not sent yet."
        page.press("#file-form button")
        page.until("summaries-list", name)
        assert re.fullmatch(f"Summary [0-9a-f]{{8}}: {re.escape(name)}", page.text("job-title"))
    listed = shown.value("[...document.querySelectorAll('#summaries-list a')].map((each) => each.textContent)")
    assert [each.partition(" (inbox, ")[0] for each in listed] == ["ward-eight.jsonl", "ward <b>seven</b>.jsonl"]
    page.press("#summaries-list li:last-child a")
    page.until("job-title", ": ward <b>seven</b>.jsonl")
    assert not any("ward" in each for each in shown.requests)
    assert "ward" not in str(shown.value("JSON.stringify([{...sessionStorage}, {...localStorage}])"))
    assert not any(b"ward" in each.read_bytes() for each in tmp_path.glob("books.db*"))

    # Another model, and again: the file was sent still. An answer that does not come leaves it open.
    for model in ("topics", "inbox"):
        shown.value("document.getElementById('file-sent').textContent = '', 0")
        page.choose("model", model)
        page.until("file-sent", "It was sent for the model inbox at ")
    page.pick(inbox(6), "ward-nine.jsonl")
    page.until("file-sent", "It was not sent yet.")
    shown.value("patience = 0, window.sent = () => Promise.reject(new TypeError()), 0")
    page.press("#file-form button")
    page.status("Press the button again")
    assert page.text("file-sent") == ""


def test_two_summaries_of_one_file_can_be_told_apart(page: Page, tmp_path: Path) -> None:
    shown = page.shown
    add_summary(tmp_path / "models", settings=SUMMARY.replace("epsilon = 5.0", "epsilon = 1.0"))
    page.sign_in(page.key)
    page.status("Signed in. 3 models")
    page.pick(inbox(5))
    for n in (1, 2):
        page.press("#file-form button")
        if n == 2:
            shown.until("document.getElementById('again').open")
            page.press("#again-send")
        shown.until(f"document.querySelectorAll('#summaries-list a').length === {n}")
    links = "[...document.querySelectorAll('#summaries-list a')].map((each) => [each.textContent, each.hash])"
    listed = shown.value(links)
    assert len({text for text, _ in listed}) == 2
    assert all(text.endswith(f"job {address[1:9]})") for text, address in listed)
    assert len(list(page.ledger.log("reviews"))) == 2


def test_what_is_scrolled_to_is_not_under_a_long_status(page: Page) -> None:
    shown = page.shown
    shown.visit(page.url, width=400)
    page.sign_in(page.key)
    page.status("Signed in")
    for words in (3, 60):
        shown.value(f"say('long words '.repeat({words})), document.body.style.paddingBottom = '100vh', 0")
        shown.until("document.getElementById('file-title').scrollIntoView(), " + UNCOVERED.format("file-title"))


def test_a_label_is_chosen_beforehand_only_where_the_model_reads_it(page: Page, tmp_path: Path) -> None:
    """A label that a model does not read would leave with the texts, as it is."""
    add_summary(tmp_path / "models")
    plain = tmp_path / "models" / "plain"
    shutil.copytree(tmp_path / "models" / "topics", plain)
    settings = (plain / "synthesis.toml").read_text("utf-8").splitlines()
    (plain / "synthesis.toml").write_text("\n".join(line for line in settings if not line.startswith("labels")))
    page.sign_in(page.key)
    page.status("Signed in. 4 models")
    page.pick(inbox(5))
    for model, label in (("inbox", "label"), ("plain", ""), ("inbox", "label"), ("plain", "")):
        page.choose("model", model)
        page.shown.until(f"document.getElementById('label-field').value === '{label}' && chosen().name === '{model}'")
        page.until("cost", "epsilon")
        page.pick(inbox(5))
        assert offered(page, "text-field")[1] == "text"
        assert offered(page, "label-field") == (["", "text", "label", "channel"], label)


def test_a_summary_without_its_pool_says_who_can_write(page: Page, tmp_path: Path) -> None:
    add_summary(tmp_path / "models", "without_pool = true\n")
    page.sign_in(page.gate.keys.create("one", account="reviews", scopes=("synthesize",), models=("inbox",)))
    page.status("Signed in. 1 model")
    page.pick(inbox())
    page.press("#file-form button")
    page.status("The job is done")
    assert "dptext write --public POOL" in page.text("refused")
    assert not page.seen("write-form")


def test_the_glossary_is_a_link_that_works(page: Page) -> None:
    shown = page.shown
    page.sign_in(page.key)
    page.status("Signed in")
    page.type("texts", "my secret trip")
    page.press("#texts-form button")
    page.status("Released 1 text")
    links = shown.value("[...document.querySelectorAll('#legal a, footer a[target]')].map((each) => each.href)")
    assert links == [f"{page.url}glossary.html"] * 2
    shown.value("unsaved = false, 0")
    shown.visit(links[0], width=400)
    terms = shown.value("[...document.querySelectorAll('dt')].map((each) => each.id)")
    assert {"epsilon", "delta", "unit", "relation", "summary", "charge", "certificate"} <= {*terms}
    assert shown.value("document.documentElement.scrollWidth") <= 400
    assert shown.value("getComputedStyle(document.querySelector('dt')).fontWeight") == "700"  # its style is let in


def test_the_glossary_and_that_of_the_guide_say_the_same() -> None:
    """Of each term of the guide, which the legal page names."""
    root = Path(__file__).parents[4]
    guide = (root / "docs" / "guides" / "for-the-lawyer.md").read_text("utf-8").partition("## Glossary")[2]
    page = (root / "packages" / "gateway" / "dptext_gateway" / "page" / "glossary.html").read_text("utf-8")
    for part in guide.split("### ")[1:]:
        term, _, said = part.partition("\n")
        assert f">{term}</dt> <dd>{' '.join(said.split())}" in " ".join(page.split())
