"""The page of a comparison, from made-up folders: its structure, its warnings, and what must never be in it."""

import itertools
import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Basis, Trust, Unit
from dptext.recommend.measured import KeptRow
from dptext.text.files import Target
from dptext_lab.compare import measure
from dptext_lab.compare.report import frontier, page, read_results, summary, write_page
from dptext_lab.compare.report.frontier import marker_svg, panel_svg
from dptext_lab.compare.report.verdict import cautions
from pages_folder import CORPORA, METRICS, ORIGINALS, Folder, everything, guarantee

CANARY = "zq9canaryxv"
REASON = "it keeps all"
VOID = {"meta", "link", "br", "hr", "img", "input"}
SECTIONS = ["answer", "picture", "samples", "details"]
FOLDED = ["warnings", "pictures", "tables", "all-samples", "certificates", "compared", "words"]


class Page(HTMLParser):
    """The elements of a page; it fails where one is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None], tuple[str, ...]]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs), tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.words.setdefault(self.open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes, _ in self.elements if name == tag]


def written(folder: Folder) -> str:
    path = folder.write()
    write_page(path, path / "report.html")
    return (path / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> str:
    return written(everything(tmp_path_factory.mktemp("full") / "results"))


@pytest.fixture
def folder(tmp_path) -> Folder:
    made = Folder(tmp_path / "results")
    made.baselines()
    made.good("candidates", 10.0)
    return made


def warned(folder: Folder) -> dict[str, tuple[str, ...]]:
    return {found.name: found.items for found in cautions(read_results(folder.write()))}


# -------------------------------------------------------------------------- structure


def test_the_page_is_well_formed_and_accessible(full) -> None:
    found = Page(full)
    assert full.startswith("<!DOCTYPE html>")
    assert found.all("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in found.all("meta"))
    assert "".join(found.words["title"][:1]).startswith("made up for a test")
    headings = [int(name[1]) for name, _, _ in found.elements if re.fullmatch("h[1-6]", name)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    ids = [attributes["id"] for _, attributes, _ in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [link["href"] for link in found.all("a")]
    assert {link[1:] for link in links} <= set(ids)
    assert {f"#{name}" for name in FOLDED} <= set(links)
    assert len(found.all("details")) == len(found.all("summary")) == len(FOLDED)
    assert not any("open" in attributes for attributes in found.all("details"))
    for _, attributes, _ in found.elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(key, ids[0]) in ids


def test_tables_have_captions_and_scopes(full) -> None:
    found = Page(full)
    tables = [name for name, _, _ in found.elements if name == "table"]
    captions = [name for name, _, above in found.elements if name == "caption" and above[-1] == "table"]
    assert len(tables) == len(captions) > 6
    assert all(attributes.get("scope") in ("row", "col") for attributes in found.all("th"))
    regions = [attributes for attributes in found.all("div") if "scroll" in (attributes.get("class") or "")]
    assert regions
    assert all(region["tabindex"] == "0" and region["role"] == "region" and region["aria-label"] for region in regions)


def test_every_figure_is_told_in_words(full) -> None:
    found = Page(full)
    figures = found.all("figure")
    drawn = [attributes for name, attributes, above in found.elements if name == "svg" and "figure" in above]
    assert len(figures) == len(drawn) > 0
    assert all(svg["role"] == "img" for svg in drawn)
    described = full.count("<desc")
    assert described == len(figures)
    assert "classification.accuracy on weather against epsilon per document (log scale)" in full
    assert "candidates: 0.855 [0.825, 0.885] at epsilon 2; " in full
    markers = [attributes for name, attributes, above in found.elements if name == "svg" and "figure" not in above]
    assert all(marker["aria-hidden"] == "true" for marker in markers)


def test_it_needs_neither_network_nor_javascript_and_names_no_place(tmp_path) -> None:
    made = everything(tmp_path / "results")
    made.command = f"dptext compare {tmp_path}/plans/experiment.toml --out {tmp_path}/results"
    made.cell(
        "glove epsilon=3", "word_metric", {}, error=f"ConfigError: cannot read '{tmp_path}/words.npz', and/or more"
    )
    text = written(made)
    found = Page(text)
    assert not found.all("script")
    for _, attributes, _ in found.elements:
        assert not [key for key in attributes if key.startswith("on")]
        for key in ("src", "href", "xlink:href", "action", "srcset", "data"):
            assert (attributes.get(key) or "#").startswith(("#", "data:,"))
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert str(tmp_path) not in text
    assert "experiment.toml --out results" in text
    assert "&#39;words.npz&#39;, and/or more" in text
    assert len(text.encode()) < 300_000


def test_the_answer_comes_first_then_one_picture_then_samples_and_the_rest_is_folded(full) -> None:
    places = [full.index(f'<h2 id="{name}"') for name in SECTIONS] + [
        full.index(f'<div id="{name}"') for name in FOLDED
    ]
    assert places == sorted(places)
    before = full[: full.index("<details")]
    assert "For classification a release is worth more than public text alone from epsilon 5 per document" in before
    assert before.count("<figure") == len(CORPORA)
    assert "fidelity.cosine on weather against epsilon per document" in before
    for name in ("original", "public-only", "random", "label_only"):
        assert before.count(f'text-anchor="start">{name}</text>') == len(CORPORA)
    assert "How to read this" in before
    assert "no guarantee (1)" in before  # a grave warning is told before it is unfolded
    assert "candidates epsilon=10" in before[before.index('id="samples"') :]
    assert "candidates epsilon=2<" not in before[before.index('id="samples"') :]
    assert "1,200" in full
    assert "2026-01-02" in full
    assert "dptext 0.1.0" in full
    assert "labels = [&#34;rain&#34;, &#34;sun&#34;]" in full
    assert full.count('<tr><th scope="row">candidates epsilon=2<small>ε = 2 per document, proven</small>') == len(
        METRICS
    )
    assert "ε = 8, δ = 1e-05 per token, conditional" in full
    assert "Lifted to one whole document: epsilon = 160." in full
    assert "It holds as long as: the training text is public." in full
    assert "summer ..." in full  # a long sample is cut


def test_equal_folders_make_equal_pages(tmp_path, full) -> None:
    assert written(everything(tmp_path / "again")) == full


HOSTILE = '<script>alert("x")</script>&"\'<img src=x onerror=alert(1)>'


def test_hostile_names_and_samples_are_text(tmp_path) -> None:
    made = Folder(tmp_path / "results", name=HOSTILE)
    made.baselines(HOSTILE)
    for epsilon in (1.0, 2.0):
        made.good(
            HOSTILE,
            epsilon,
            corpus=HOSTILE,
            settings={HOSTILE: HOSTILE},
            samples=[{"original": HOSTILE, "released": HOSTILE}],
            stated=guarantee(epsilon, assumptions=(HOSTILE,), metric=HOSTILE, unit=Unit.TOKEN),
        )
    made.cell(f"{HOSTILE} two", HOSTILE, {HOSTILE: 0.5}, corpus=HOSTILE)
    made.cell(f"{HOSTILE} three", HOSTILE, {}, corpus=HOSTILE, error=HOSTILE)
    text = written(made)
    found = Page(text)
    assert not found.all("script")
    assert not found.all("img")
    assert "alert(1)" in text
    assert found.all("figure")
    assert text.count("<svg") == text.count("</svg>")


def test_a_planted_fault_in_escaping_is_seen(tmp_path, monkeypatch) -> None:
    right = page.load_environment

    def wrong():
        environment = right()
        environment.autoescape = False
        return environment

    monkeypatch.setattr(page, "load_environment", wrong)
    made = Folder(tmp_path / "results", name=HOSTILE)
    made.baselines()
    assert "<img src=x" in written(made)


# --------------------------------------------------------------------------- warnings


def test_nothing_wrong_is_said_so(folder) -> None:
    assert warned(folder) == {}
    assert write_page(folder.path, folder.path / "report.html").warnings == 0
    assert "None: no claim is refuted" in (folder.path / "report.html").read_text("utf-8")


def test_each_warning_appears_where_it_should_and_alone(folder) -> None:
    numbers = dict.fromkeys(METRICS, 0.9)
    plain = guarantee(10.0)
    bound = "distinguish.epsilon_lower_bound"
    folder.cell("refuted", "adept", {**numbers, bound: 10.5, "distinguish.refuted": 1}, stated=plain)
    folder.cell("defect", "adept", {**numbers, "distinguish.refuted": 1}, stated=plain)
    folder.cell("not comparable", "adept", {**numbers, bound: 10.5, "distinguish.refuted": 0}, stated=plain)
    folder.cell("no verdict", "adept", {**numbers, bound: 10.5}, stated=plain)
    folder.cell("authors", "adept", {**numbers, "authorship.epsilon_lower_bound": 10.5}, stated=plain)
    folder.cell("held", "adept", {**numbers, "distinguish.epsilon_lower_bound": 10.0}, stated=plain)
    none = guarantee(float("inf"), basis=Basis.NONE, reason="it keeps all")
    folder.cell("nothing", "published_adept", numbers, stated=none)
    folder.cell("claim", "other", numbers, stated=guarantee(3.0, basis=Basis.CLAIMED))
    folder.cell("central", "adept_dpsgd", numbers, stated=guarantee(3.0, trust=Trust.CENTRAL))
    folder.cell("handed epsilon=3", "adept", numbers, stated=guarantee(3.0), trains_on="private")
    folder.cell("handed-not epsilon=3", "adept", numbers, stated=guarantee(3.0))
    folder.mechanisms = [{"name": "handed", "trains_on": "private"}, {"name": "handed-not", "trains_on": "public"}]
    folder.cell("hollow", "adept", {**numbers, "fidelity.cosine": 0.41, "fidelity.own_first": 0.03}, stated=plain)
    folder.cell("broken", "adept", {}, stated=plain, error="ConfigError: Expected more.")
    folder.cell("leaky", "adept", numbers, stated=guarantee(1.0, delta=0.01))
    folder.cell("at the edge", "adept", numbers, stated=guarantee(1.0, delta=1e-3))
    folder.open = 4
    found = warned(folder)
    assert list(found) == ["refuted", "none", "claimed", "central", "fidelity", "failed", "delta"]
    assert found["refuted"] == (
        "refuted on weather: distinguish refutes epsilon 10",
        "defect on weather: distinguish refutes epsilon 10",
        "no verdict on weather: it states epsilon 10, distinguish.epsilon_lower_bound is 10.500",
    )
    assert found["none"] == ("nothing (it keeps all) on weather",)
    assert found["claimed"] == ("claim on weather",)
    assert found["central"] == ("central on weather", "handed epsilon=3 on weather")
    assert len(found["fidelity"]) == 1
    assert found["fidelity"][0].startswith(
        "hollow on weather: fidelity.cosine 0.410 [0.380, 0.440], label_only epsilon="
    )
    assert found["failed"][0] == "broken on weather, trial 0: ConfigError: Expected more."
    assert found["failed"][1].startswith("4 of ")
    assert found["delta"] == ("leaky (delta 0.01) on weather",)


def test_a_published_claim_is_refuted_by_what_an_attack_shows(folder) -> None:
    none = guarantee(float("inf"), basis=Basis.NONE, reason="none")
    values = {"fidelity.cosine": 0.9, "distinguish.epsilon_lower_bound": 3.0}
    folder.cell("low", "published_adept", values, stated=none, settings={"claimed_epsilon": 2.0})
    folder.cell("high", "published_adept", values, stated=none, settings={"claimed_epsilon": 4.0})
    folder.cell("unsaid", "published_adept", values, stated=none, settings={"claimed_epsilon": None})
    assert warned(folder)["refuted"] == (
        "low on weather: its authors claim epsilon 2, distinguish.epsilon_lower_bound is 3.000",
    )


def test_fidelity_is_held_against_label_only_that_costs_a_document_no_more(tmp_path) -> None:
    made = Folder(tmp_path / "results")
    made.baselines()
    cosine = "fidelity.cosine"
    made.cell("label_only", "label_only", {cosine: 0.9}, stated=guarantee(20.0), settings={"epsilon": 20.0})
    made.good("candidates", 10.0)  # 0.7: above label_only at 10, not at 20
    made.cell("candidates epsilon=20", "candidates", {cosine: 0.9}, stated=guarantee(20.0))
    token = guarantee(1.0, unit=Unit.TOKEN)
    made.cell("cheap", "erae", {cosine: 0.7}, stated=token, document_epsilon=19.0)
    made.cell("dear", "erae", {cosine: 0.7}, stated=token, document_epsilon=20.0)
    made.cell("unlimited", "erae", {cosine: 0.7}, stated=token)
    made.cell("weak", "erae", {cosine: 0.35, "fidelity.own_first": 0.9}, stated=guarantee(1.0))  # the cosine decides
    made.cell("other", "erae", {"fidelity.own_first": 0.9}, stated=guarantee(1.0))
    found = warned(made)["fidelity"]
    assert [item.split(" on ")[0] for item in found] == ["candidates epsilon=20", "dear", "unlimited", "weak"]
    assert found[1].endswith("fidelity.cosine 0.700 [0.670, 0.730], label_only epsilon=20 0.900 [0.870, 0.930]")


def test_rows_of_one_name_and_other_settings_are_told_apart(folder) -> None:
    for width in (1, 2):
        folder.cell("twin", "adept", {"fidelity.cosine": 0.9}, stated=guarantee(1.0), settings={"width": width})
    results = read_results(folder.write())
    rows = summary.row_names(results.rows)
    assert rows[3:] == ["label_only epsilon=2", "label_only epsilon=10", "candidates epsilon=10", "twin #1", "twin #2"]
    assert max(found.trials for found in summary.measured(results.rows).values()) == 1


def test_epsilons_that_look_alike_are_not_put_together(folder) -> None:
    for epsilon in (7.0, 7.0000002):
        values = {"fidelity.cosine": 0.5}
        folder.cell("label_only", "label_only", values, stated=guarantee(7.0), settings={"epsilon": epsilon})
    results = read_results(folder.write())
    assert len([name for name in summary.row_names(results.rows) if name.startswith("label_only #")]) == 2
    assert max(found.trials for found in summary.measured(results.rows).values()) == 1


def test_a_mechanism_that_is_called_like_a_baseline_is_warned_about(folder) -> None:
    none = guarantee(float("inf"), basis=Basis.NONE, reason=REASON)
    folder.cell("label_only too", "random_replacement", {"fidelity.cosine": 0.5}, stated=none)
    folder.cell("answers", "label_only", {"fidelity.cosine": 0.1}, stated=guarantee(1.0))
    found = warned(folder)
    assert [item.split(" on ")[0] for item in found["none"]] == [f"label_only too ({REASON})"]
    assert [item.split(" on ")[0] for item in found["fidelity"]] == ["answers"]


def test_who_was_trained_on_private_text_is_read_off_the_cells(folder) -> None:
    folder.mechanisms.append({"name": "adept", "kind": "adept", "trains_on": "private"})
    values = {"fidelity.cosine": 0.9}
    secret = folder.cell("adept epsilon=1", "adept", values, stated=guarantee(1.0), trains_on="private")
    folder.cell("adept noise epsilon=1", "adept", {"fidelity.cosine": 0.9}, stated=guarantee(1.0))
    assert [item.split(" on ")[0] for item in warned(folder)["central"]] == ["adept epsilon=1"]
    folder.cells.pop(secret)
    assert "adept epsilon=1" in " ".join(warned(folder)["central"])


def test_every_number_that_a_cell_may_hold_is_told_in_words() -> None:
    told = re.findall(r"`(\w+\.\w+)`", measure.__doc__ or "")
    assert len(told) > 5
    for metric in {*told} - {"utility.number"}:
        assert summary.meaning_of(metric), metric


def test_only_public_records_have_a_digest_on_the_page(folder) -> None:
    text = written(folder)
    corpora = json.loads((folder.path / "experiment.json").read_text("utf-8"))["corpora"]
    for parts in corpora.values():
        for part, found in parts.items():
            assert (found["digest"][:12] in text) == (part == "public")


# -------------------------------------------------------------------- one unit, one axis


def test_no_figure_mixes_units_or_metric_privacy(tmp_path) -> None:
    results = read_results(everything(tmp_path / "results").write())
    found = frontier.frontiers(results.rows)
    meaning = {row.row: row.meaning for row in results.rows}
    assert [each.title for each in found] == [
        "Epsilon per document (replace one)",
        "Epsilon per token (replace one)",
        "Epsilon per unit of Euclidean distance of word vectors, token (replace one)",
    ]
    for each in found:
        points = [
            point.row
            for panels in each.panels.values()
            for panel in panels
            for series in panel.series
            for point in series.points
            if point.epsilon is not None
        ]
        assert points
        assert len({meaning[row] for row in points}) == 1
    assert {name for name, _ in found[0].legend} == {
        *("candidates", "adept", "adept_dpsgd", "published_adept", "label_only")
    }
    assert [name for name, _ in found[1].legend] == ["erae"]  # syntf failed
    assert [name for name, _ in found[2].legend] == ["word_metric"]
    assert any("label_only is not drawn" in note for note in found[1].notes)
    assert any("different deltas, 0 to 1e-05;" in note for note in found[0].notes)


def test_a_planted_mixture_of_units_is_seen(tmp_path, monkeypatch) -> None:
    """Without the meaning of an epsilon all would stand on one axis: the test above can fail."""
    results = read_results(everything(tmp_path / "results").write())
    assert len(frontier.frontiers(results.rows)) > 1
    monkeypatch.setattr(KeptRow, "meaning", property(lambda row: ("document", "", None, False)))
    assert len(frontier.frontiers(results.rows)) == 1


def test_rows_without_protection_stand_beside_the_axis(folder) -> None:
    none = guarantee(float("inf"), basis=Basis.NONE, reason="none")
    folder.cell("open", "published_adept", dict.fromkeys(METRICS, 0.9), stated=none)
    folder.cell("leaky", "adept", dict.fromkeys(METRICS, 0.9), stated=guarantee(1.0, delta=0.5))
    [found] = frontier.frontiers(read_results(folder.write()).rows)
    panel = found.panels["fidelity.cosine"][0]
    beside = {point.row for series in panel.series for point in series.points if point.epsilon is None}
    assert beside == {"open", "leaky"}
    assert found.epsilons == (2.0, 10.0)  # label_only is there from 2
    svg = panel_svg(panel, found, "f")
    assert svg.count('class="point hollow"') == 2
    assert ">none</text>" in svg


def test_points_stand_where_the_logarithm_puts_them(folder) -> None:
    for epsilon in (1.0, 100.0):
        folder.good("candidates", epsilon)
    [found] = frontier.frontiers(read_results(folder.write()).rows)
    panel = found.panels["fidelity.own_first"][0]
    svg = panel_svg(panel, found, "f")
    line = next(part for part in re.findall(r'points="([^"]+)"', svg) if len(part.split()) == 3)
    (x1, y1), (x2, y2), (x3, y3) = (tuple(map(float, pair.split(","))) for pair in line.split())
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)  # 1, 10, 100
    assert y1 > y2 > y3  # 0.31, 0.40, 1.30 upwards
    assert (y1 - y2) / (y2 - y3) == pytest.approx(0.09 / 0.9, rel=0.05)


def test_series_differ_in_colour_or_marker() -> None:
    assert len({marker_svg(style) for style in range(35)}) == 35
    assert len({marker_svg(style) for style in range(36)}) == 35  # more begin again


def test_trials_are_put_together_honestly(tmp_path) -> None:
    made = Folder(tmp_path / "results")
    made.baselines()
    for trial, value in enumerate((0.5, 0.7)):
        made.cell("m epsilon=1", "adept", {"fidelity.cosine": value}, stated=guarantee(1.0), trial=trial)
    made.cell("m epsilon=1", "adept", {}, stated=guarantee(1.0), trial=2, error="ConfigError: no")
    text = written(made)
    assert "0.600 [0.470, 0.730] (2 of 3 trials)" in text
    assert "Of several trials it is the mean" in text


def test_without_folders_keeps_what_is_no_path() -> None:
    assert summary.without_folders("and/or 1/2 a/b") == "and/or 1/2 a/b"
    assert summary.without_folders("in '/srv/x y/z.toml'") != "in '/srv/x y/z.toml'"
    assert summary.without_folders('{"vectors": "/srv/words/w.npz"}') == '{"vectors": "w.npz"}'
    assert summary.without_folders("--out=/srv/words/w ~/own/file C:\\Users\\me\\f.txt") == "--out=w file f.txt"


# ----------------------------------------------------------------------- private samples


def test_private_samples_are_absent_unless_asked_for(tmp_path, full) -> None:
    assert CANARY not in full
    made = everything(tmp_path / "results").write()
    assert CANARY not in repr(read_results(made))
    target = tmp_path / "report.html"
    assert write_page(made, target, show_private=True).private > 0
    text = target.read_text("utf-8")
    assert text.index("This page shows private texts") < text.index("show PRIVATE records") < text.index(CANARY)
    assert CANARY not in text[: text.index("<details")]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert write_page(made, Target(target, force=True)).private == 0
    assert CANARY not in target.read_text("utf-8")


def test_asking_for_private_samples_that_were_not_kept(folder) -> None:
    target = folder.write() / "report.html"
    assert write_page(folder.path, target, show_private=True).private == 0
    assert "No private samples were kept" in target.read_text("utf-8")
    assert "PRIVATE records" not in target.read_text("utf-8")
    assert "shows private texts" not in target.read_text("utf-8")


# ------------------------------------------------------------------- command and errors


def run(*arguments: object):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_command_writes_the_page_and_tells_counts(tmp_path) -> None:
    path = everything(tmp_path / "results").write()
    told = run(path, "--json")
    assert told.exit_code == 0
    data = json.loads(told.stdout)
    assert data["path"] == str(path / "report.html")
    assert (data["corpora"], data["failed"]) == (len(CORPORA), 1)
    assert data["verdict"][0].startswith("For classification a release is worth more")
    assert data["size"] == (path / "report.html").stat().st_size
    assert sorted(each.name for each in path.iterdir()) == ["cells", "experiment.json", "report.html", "table.json"]
    other = tmp_path / "elsewhere.html"
    told = run(path, "--out", other, "--show-private")
    assert told.stdout.startswith("For classification a release is worth more")
    assert f"\n{other}: 38 of 39 cells, 1 failed, " in told.stdout
    assert "do not hand it on" in told.stderr
    assert CANARY not in told.output
    assert CANARY in other.read_text("utf-8")


def test_a_folder_without_a_table_says_what_to_run(tmp_path) -> None:
    with pytest.raises(
        ConfigError, match=r"to hold table\.json: run `dptext compare EXPERIMENT\.toml --out DIR` first"
    ):
        write_page(tmp_path, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


DAMAGED = ('[{"row": "zq9canaryxv', "[NaN]", "\udcff", "[" * 100_000)


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_cell_cut_short_is_told_and_nothing_of_it_is_shown(folder, damage) -> None:
    path = folder.write()
    target = next((path / "cells").iterdir())
    target.write_bytes(damage.encode("utf-8", "surrogateescape"))
    write_page(path, path / "report.html")
    page = (path / "report.html").read_text("utf-8")
    assert "1 finished cells have no readable file" in page
    assert CANARY not in page


@pytest.mark.parametrize("name", ["table.json", "experiment.json"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_files_are_named_and_nothing_of_them_is_shown(folder, name, damage) -> None:
    path = folder.write()
    target = path / name
    target.write_bytes(damage.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=f"{target.name} to be JSON, found it damaged") as caught:
        write_page(path, path / "report.html")
    assert CANARY not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert not (path / "report.html").exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("epsilon", "ten", "epsilon: Input should be a valid number"),
        ("epsilon", -1.0, "epsilon: .*greater than or equal to 0"),
        ("value", True, "value: Input should be a valid number"),
        ("trial", -1, "trial: .*greater than or equal to 0"),
        ("basis", "sure", "basis: it is none of"),
        ("signature", "../../etc/passwd", "signature: .*pattern"),
        ("settings", "[]", "settings: it is no JSON object"),
        ("metric", "", "has a metric, or an error"),
        ("row", None, "row: Input should be a valid string"),
    ],
)
def test_a_table_of_another_schema_is_refused(folder, key, value, said) -> None:
    folder.rows[3][key] = value
    with pytest.raises(ConfigError, match=rf"row 4 of table\.json in the schema .*{said}"):
        read_results(folder.write())


def test_a_missing_column_and_other_shapes_are_refused(folder) -> None:
    del folder.rows[0]["peak_mib"]
    path = folder.write()
    with pytest.raises(ConfigError, match="peak_mib: Field required"):
        read_results(path)
    for shape in ("{}", "[]", "[1]"):
        (path / "table.json").write_text(shape)
        with pytest.raises(ConfigError, match="schema"):
            read_results(path)


def test_a_cell_without_its_file_is_told(folder) -> None:
    path = folder.write()
    next((path / "cells").iterdir()).unlink()
    found = {each.name: each.items for each in cautions(read_results(path))}
    assert found["failed"] == ("1 finished cells have no readable file: their certificates and samples are missing",)


def test_a_page_that_cannot_be_written(folder) -> None:
    path = folder.write()
    with pytest.raises(ConfigError):
        write_page(path, path / "absent" / "report.html")


# ------------------------------------------------------------------------------- colours


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_and_lines_have_contrast_in_light_and_dark(full) -> None:
    schemes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in re.findall(r":root \{([^}]+)\}", full)]
    assert len(schemes) == 2
    for colors in schemes:
        for text in ("ink", "muted", "link", "alert"):
            assert contrast(colors[text], colors["page"]) >= 4.5, text
            assert contrast(colors[text], colors["alert-page"]) >= 4.5, text
        for series in ("s0", "s1", "s2", "s3", "s4", "muted", "ink"):
            assert contrast(colors[series], colors["page"]) >= 3, series


def test_the_page_needs_no_matplotlib() -> None:
    source = Path(page.__file__).parent
    assert not any(
        "matplotlib" in re.sub(r'""".*?"""', "", path.read_text("utf-8"), flags=re.S) for path in source.glob("*.py")
    )


def test_markdown_has_a_table_for_each_corpus_and_no_text(tmp_path) -> None:
    path = everything(tmp_path / "results").write()
    told = run(path, "--markdown")
    assert told.exit_code == 0
    assert re.findall("^### (.+)$", told.stdout, re.MULTILINE) == list(CORPORA)
    lines = [line for line in told.stdout.splitlines() if line.startswith("|")]
    head = "| row | guarantee | ε of a document | fidelity.cosine | classification.accuracy | authorship.adaptive |"
    assert lines.count(head) == len(CORPORA)
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    results = read_results(path)
    assert len(lines) == len(CORPORA) * 2 + len({(row.corpus, row.row) for row in results.rows})
    found = next(line for line in lines if line.startswith("| erae epsilon=8 |"))
    assert "| ε = 8, δ = 1e-05 per token, conditional | 160 | 0.509 [0.479, 0.539] | 0.760 [0.730, 0.790] |" in found
    assert CANARY not in told.stdout
    assert not any(text in told.stdout for text in ORIGINALS)
    assert not (path / "report.html").exists()


def test_rows_without_labels_are_named_under_their_dashes(folder) -> None:
    assert summary.without_labels(read_results(folder.write()).rows) == ""
    values = {summary.TRUE_LABELS: 0.7, "fidelity.cosine": 0.1}
    for name in ("syntf", "mine|<b>"):
        folder.cell(name, "syntf", values, stated=guarantee(2.0))
    said = summary.without_labels(read_results(folder.write()).rows)
    assert said.startswith("No labels are released by syntf, mine|<b>: no classifier can be trained on such releases")
    assert "measured. No labels are released by syntf, mine|&lt;b&gt;:" in " ".join(written(folder).split())
    told = run(folder.path, "--markdown").stdout
    assert told.splitlines()[-1].startswith(r"No labels are released by syntf, mine\|&lt;b>:")
    assert "No labels" not in run(folder.path, "--markdown", "--metric", "fidelity.cosine").stdout


def test_markdown_takes_the_metrics_asked_for_and_refuses_others(folder) -> None:
    folder.good("a|b <c>", 5.0)
    path = folder.write()
    told = run(path, "--markdown", "--metric", "fidelity.own_first")
    assert "| row | guarantee | ε of a document | fidelity.own_first |" in told.stdout
    assert r"a\|b &lt;c> epsilon=5" in told.stdout
    for arguments, expected in (
        (("--markdown", "--metric", "nothing.here"), "found nothing.here; it has .*fidelity.cosine"),
        (("--markdown", "--json"), "without --out, --show-private or --json"),
        (("--metric", "fidelity.cosine"), "--metric with --markdown"),
    ):
        refused = run(path, *arguments)
        assert isinstance(refused.exception, ConfigError)
        assert re.search(expected, str(refused.exception))
