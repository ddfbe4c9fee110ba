"""The page of a topic report: what stands in which cell, and that who hears it can tell."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from dptext.synthesis.agreement import Known
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.page import topics_page
from dptext.synthesis.report import Topics

COUNTS = np.array([[10.0, 500.0, -4.0], [20.0, 7.0, 300.4]])
TOPICS = tuple(((word, "and", "more", "words"), (f"<b>{word}</b> & so on",)) for word in ("pay", "pain", "trip"))


def page(labels: tuple[str, ...] = ("<health>", "money")) -> ET.Element:
    """The page as a tree, which it is only if all is escaped and closed."""
    counts = COUNTS[: max(1, len(labels))]
    found = topics_page(Topics.of(labels, counts, 10.0, TOPICS, "author", None), ["<said>"])
    return tree(found)


def tree(shown: str) -> ET.Element:
    head, _, body = shown.partition("<main>")
    assert "lang='en'" in head
    return ET.fromstring("<main>" + body.removesuffix("</html>\n"))  # noqa: S314 (our own)


def heads(table: ET.Element, scope: str) -> list[str]:
    """Words of the headings of columns or rows."""
    return [each.text or "" for each in table.iter("th") if each.get("scope") == scope]


def test_a_cell_has_the_number_of_its_label_and_topic_with_its_interval() -> None:
    *_, cells = page().iter("table")
    assert heads(cells, "col") == ["topic", "<health>", "money"]
    assert heads(cells, "row") == ["pain, and, more", "trip, and, more", "pay, and, more"]  # largest first
    rows = [[td.text for td in row.iter("td")] for row in cells.iter("tr")]
    assert rows == [[], ["498", "9"], ["0", "296"], ["8", "22"]]
    shown = ["480 to 520", "0 to 27", "0 to 20", "281 to 320", "0 to 30", "0 to 40"]
    assert [small.text for small in cells.iter("small")] == shown


def test_a_number_that_may_be_none_has_no_colour() -> None:
    *_, cells = page().iter("table")
    shades = [float((td.get("style") or "").rsplit(",", 1)[1].rstrip(")")) for td in cells.iter("td")]
    assert [shade > 0 for shade in shades] == [True, False, False, True, False, True]


def test_every_table_has_a_caption_and_headings_and_no_picture_stands_alone() -> None:
    shown = page()
    assert [table.findtext("caption") for table in shown.iter("table")] == [
        "Labels",
        "Topics, largest first",
        "Topics by label",
    ]
    for table in shown.iter("table"):
        assert len(heads(table, "row")) == len(list(table.iter("tr"))) - 1
    assert all(svg.get("aria-hidden") == "true" for svg in shown.iter("svg"))  # its number stands beside it
    (scrolled,) = (each for each in shown.iter("div") if each.get("role") == "region")
    assert (scrolled.get("tabindex"), scrolled.get("aria-label")) == ("0", "Topics by label")


def test_bars_of_all_tables_have_one_scale() -> None:
    """A bar of a label and a bar of a topic are as long as their numbers."""
    widest = []
    for table in [*page().iter("table")][:2]:
        numbers = [float((td.text or "0").replace(",", "")) for td in table.iter("td") if td.get("class") == "n"]
        bars = [float(each.get("width", 0)) for each in table.iter("rect") if each.get("height") == "10"]
        widest += [bar / number for bar, number in zip(bars, numbers, strict=True) if number > 20]
    assert max(widest) < 1.05 * min(widest)


def test_without_labels_there_are_topics_alone() -> None:
    assert [table.findtext("caption") for table in page(()).iter("table")] == ["Topics, largest first"]


def test_wholes_are_the_sums_of_the_parts_that_are_shown() -> None:
    """Noise below 0 in one cell was shown as 0, and its topic as 0 above 29 and 31."""
    counts = np.array([[29.0, 200.0], [31.0, 300.0], [-75.0, 400.0]])
    report = Topics.of(("a", "b", "c"), counts, 30.0, TOPICS[:2], "document", None)
    shown = topics_page(report, [])
    _, topics, cells = tree(shown).iter("table")
    tops = {row.find("th").text: row.find("td").text for row in topics.iter("tr")}  # type: ignore[union-attr]
    for row in list(cells.iter("tr"))[1:]:
        name, parts = row.findtext("th") or "", [int(td.text or "") for td in row.iter("td")]
        whole = next(int((n or "").replace(",", "")) for words, n in tops.items() if (words or "").startswith(name))
        assert abs(whole - sum(parts)) <= 2  # rounded
        assert min(parts) >= 0
    said = report.to_dict()["estimates"]
    assert abs(sum(said["by_label"]["numbers"]) - said["whole"]["numbers"][0]) < 0.01
    assert "In all 885" in shown


def words() -> LabelWords:
    """Words of two labels: two of the first are far beyond the noise, and none of the second."""
    numbers = np.array([[90.0, 400.0, 7.0, 260.0], [11.0, -30.0, 12.0, 8.0]])
    usual = np.array([[10.0, 20.0, 5.0, 250.0], [12.0, 10.0, 5.0, 9.0]])
    numbers, usual = np.insert(numbers, 1, 900.0, axis=1), np.insert(usual, 1, 10.0, axis=1)  # a word that says nothing
    telling = np.array([True, False, True, True, True])
    names, counts = ("pill", "says", "<b>dose", "train", "please"), Known(np.array([2_000.0, 2_000.0]), 10.0)
    return LabelWords.of(names, Known(numbers, 10.0), counts, usual / 2_000, np.full(2, 1e6), telling)


def test_words_stand_by_label_those_first_that_exceed_public_text_most() -> None:
    report = replace(Topics.of(("<health>", "money"), COUNTS[:, :1], 10.0, (), "document", None), words=words())
    shown = tree(topics_page(report, []))
    _, table = shown.iter("table")
    assert table.findtext("caption") == "Words more frequent than in public text"
    assert heads(table, "row") == ["<health>", "money"]
    both = ["<b>dose: 400 (375 to 425), pill: 90 (65 to 115)", "none beyond the noise"]
    assert [td.text for td in table.iter("td")] == both
    assert any("on average 95% of those shown hold the number" in (p.text or "") for p in shown.iter("p"))
    data = report.to_dict()["words"]["by_label"]["<health>"]  # type: ignore[index, call-overload]
    assert [each["word"] for each in data] == ["<b>dose", "pill"]  # type: ignore[index, call-overload, union-attr]
    wide = 10 * NormalDist().inv_cdf(1 - 0.025 * 2 / 8)  # 2 are shown of 8 that can be
    assert data[1]["interval"] == [round(90 - wide, 3), round(90 + wide, 3)]  # type: ignore[index, call-overload]


def test_words_of_a_corpus_without_labels_stand_beside_the_whole() -> None:
    own = replace(words(), words=words().words[:1])
    whole = replace(Topics.of((), np.array([[500.0]]), 10.0, (), "author", None), words=own)
    shown = tree(topics_page(whole, []))
    (table,) = shown.iter("table")
    assert heads(table, "row") == ["all texts"]
    lines = ["".join(p.itertext()) for p in shown.iter("p")]
    assert lines[0] == "All authors weigh 500 (480 to 520)."
    assert lines[1].startswith("Numbers: weight of authors for which the word counts")


def test_the_title_says_that_it_is_a_summary() -> None:
    shown = topics_page(Topics.of((), np.array([[500.0]]), 10.0, (), "document", None), [])
    assert "<title>Summary of a private corpus</title>" in shown
    assert tree(shown).findtext("h1") == "Summary of a private corpus"
