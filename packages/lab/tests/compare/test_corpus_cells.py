"""Corpus mechanisms in a comparison: their cells, the gap that they close, and tables and pictures of their own."""

from pathlib import Path
from typing import Any

import pytest

from dptext.errors import ConfigError
from dptext.privacy.guarantee import Basis, Relation, Trust, Unit
from dptext.recommend.recommendation import Asked, recommendations
from dptext.text.samples import SAMPLE_LABELS
from dptext_lab.compare.cell_run import Outcome, run_cell
from dptext_lab.compare.cells import Lens, SharedFits
from dptext_lab.compare.corpora import SplitCorpus, load_corpus, named
from dptext_lab.compare.experiment import Experiment, parse_experiment
from dptext_lab.compare.folder import ExperimentFolder
from dptext_lab.compare.gaps import GAP, with_gaps
from dptext_lab.compare.grid import plan_cells
from dptext_lab.compare.report import markdown, read_results
from dptext_lab.compare.report.frontier import frontiers
from dptext_lab.compare.report.page import metric_tables, write_page
from dptext_lab.compare.report.summary import NO_RECORD, WHOLE, Results, groups
from dptext_lab.compare.report.verdict import verdict
from dptext_lab.compare.runner import Options, run_experiment
from dptext_lab.compare.stored import TableRow
from pages_folder import Folder as Made
from pages_folder import everything, guarantee

SMALL = {"encoder": "glove", "words": 8, "about": 150}
NAMES = {label: f"{label} {label}" for label in SAMPLE_LABELS}


def grid(*mechanisms: dict[str, Any], **changes: Any) -> dict[str, Any]:
    corpus = {"sample": 400, "label": "label", "author": "author"} | changes.pop("corpus", {})
    return {
        "name": "small",
        "utilities": ["classification", "corpus", "fidelity"],
        "settings": {"embedder": "glove"},
        "corpora": {"made": corpus},
        "mechanisms": list(mechanisms),
    } | changes


def synthesis(kind: str, *epsilons: float, **changes: Any) -> dict[str, Any]:
    return {"name": kind, "kind": kind, "set": {**SMALL, **changes}, "sweep": {"epsilon": list(epsilons or (2.0,))}}


def loaded(data: dict[str, Any]) -> tuple[Experiment, SplitCorpus]:
    found = parse_experiment(data)
    plan = found.corpora["made"]
    corpus = load_corpus("made", plan, seed=found.seed)
    return found, named(corpus, plan.names, Lens("glove").embedder) if plan.names else corpus


def outcome(data: dict[str, Any], row: str) -> Outcome:
    found, corpus = loaded(data)
    cell = next(c for c in plan_cells(found, {"made": corpus.labels}) if c.row == row)
    return run_cell(cell, found, corpus, Lens("glove"), fits=SharedFits(), private_samples=True)


@pytest.mark.parametrize(
    ("kind", "more", "measured"),
    [
        ("prototypes", {"dim": 8}, {"classification.accuracy", "corpus.mix_l1", "corpus.reported_mix_l1"}),
        ("votes", {"topics": 4, "labels": []}, {"corpus.topics_tv", "corpus.reported_topics_tv"}),
        ("topics", {"topics": 4}, {"corpus.reported_mix_l1", "corpus.reported_topics_tv"}),
    ],
)
def test_a_synthesis_is_judged_as_a_corpus(kind: str, more: dict[str, Any], measured: set[str]) -> None:
    found = outcome(grid(synthesis(kind, **more)), f"{kind} epsilon=2")
    numbers = {number.metric for number in found.numbers}
    assert measured <= numbers
    assert ("corpus.told_apart" in numbers) == (kind != "topics")
    assert not any(name.startswith("fidelity.") for name in numbers)  # absent, and never 0
    assert not found.samples
    assert not found.private_samples  # no text has an original to stand beside
    assert found.document is None
    assert found.guarantee is not None
    assert (found.guarantee.trust, found.guarantee.basis) == (Trust.CENTRAL, Basis.CONDITIONAL)
    assert found.guarantee.epsilon == pytest.approx(2, rel=1e-3)
    assert found.guarantee.epsilon <= 2


def test_by_author_the_unit_is_an_author_and_the_noise_is_that_of_an_author() -> None:
    """At the same epsilon the numbers by author are farther from the truth, as an author's texts are one vector."""
    told, apart = {}, {}
    for unit in ("author", "document"):
        # The noise of a seed is the same under both units: it falls on fewer authors than documents.
        data = grid(synthesis("topics", topics=4, labels=[], unit=unit), seeded=True)
        found = outcome(data, "topics epsilon=2")
        told[unit] = found.guarantee and found.guarantee.unit
        apart[unit] = next(n.value for n in found.numbers if n.metric == "corpus.reported_topics_tv")
    assert told == {"author": Unit.AUTHOR, "document": Unit.DOCUMENT}
    assert apart["author"] > 2 * apart["document"]


@pytest.mark.slow
def test_units_of_corpora_stand_apart_and_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One experiment by document and by author, on a corpus with a column of authors."""
    both = synthesis("prototypes", dim=8) | {"sweep": {"unit": ["document", "author"]}}
    done = run_experiment(
        parse_experiment(grid(both)), ExperimentFolder(tmp_path / "out"), Options(workers=1), command="compare"
    )
    assert done.failed == 0
    results = read_results(tmp_path / "out")
    rows = {row.row: row.unit for row in results.rows if row.whole}
    assert rows == {"prototypes unit=document": "document", "prototypes unit=author": "author"}
    for table in metric_tables(results.rows):
        for name, stated, _ in table.lines:
            assert name not in rows or f"for the whole corpus, central trust, {rows[name]}, add or remove one" in stated

    def units_of_axes() -> list[set[str]]:
        return [
            {rows[p.row] for each in drawn.panels.values() for panel in each for s in panel.series for p in s.points
             if p.row in rows}
            for drawn in frontiers(results.rows)
        ]  # fmt: skip

    assert sorted(map(sorted, units_of_axes())) == [["author"], ["document"]]
    monkeypatch.setattr(TableRow, "meaning", property(lambda row: ("document", row.relation, None, row.whole)))
    assert any(len(units) > 1 for units in units_of_axes())  # the planted fault: units are taken for one


def test_what_cannot_be_run_or_measured_is_said() -> None:
    data = grid(synthesis("prototypes", dim=8), seeded=True)
    found = outcome(data, "prototypes epsilon=2").guarantee
    assert found is not None
    assert found.basis is Basis.NONE
    bare = {"sample": 400, "label": "label", "author": ""}
    with pytest.raises(ConfigError, match="author = FIELD"):
        outcome(grid(synthesis("topics", topics=4, unit="author"), corpus=bare), "topics epsilon=2")
    with pytest.raises(ConfigError, match="utilities = \\['corpus'\\]"):
        outcome(grid(synthesis("topics", topics=4), utilities=["fidelity"]), "topics epsilon=2")
    for wrong in ({"document_epsilon": [2]}, {"trains_on": "private"}):
        with pytest.raises(ConfigError, match="one epsilon is for the whole corpus"):
            parse_experiment(grid({"name": "x", "kind": "votes", **wrong}))
    with pytest.raises(ConfigError, match="a name for each label"):
        parse_experiment(grid(corpus={"names": {"a": "b"}}))


def test_the_epsilon_of_a_corpus_is_none_of_label_only() -> None:
    found, corpus = loaded(grid(synthesis("prototypes", 0.5, 1.0, dim=8)))
    cells = plan_cells(found, {"made": corpus.labels})
    assert {c.settings["epsilon"] for c in cells if c.row.startswith("label_only")} == {10.0}
    local = {"name": "candidates", "kind": "candidates", "document_epsilon": [4]}
    both = parse_experiment(grid(synthesis("prototypes", 0.5, dim=8), local))
    cells = plan_cells(both, {"made": corpus.labels})
    assert {c.settings["epsilon"] for c in cells if c.row.startswith("label_only")} == {4.0}


def test_names_hide_the_labels_of_the_public_part() -> None:
    found, corpus = loaded(grid(synthesis("prototypes", dim=8), corpus={"names": NAMES}))
    assert set(corpus.labels) == set(SAMPLE_LABELS)
    assert {record.text for record in corpus.public} <= {record.text for record in corpus.pool}
    own = {record.text: record.label for record in corpus.pool}
    assert any(own[record.text] != record.label for record in corpus.public)  # names know less than labels
    cell = next(c for c in plan_cells(found, {"made": corpus.labels}) if c.kind == "prototypes")
    assert cell.settings["names"] == [NAMES[label] for label in corpus.labels]
    blind = tuple(type(record)(record.id, record.text) for record in corpus.pool)
    seeded = parse_experiment(grid(synthesis("prototypes", dim=8), corpus={"names": NAMES}, seeded=True))
    made = []
    for pool in (corpus.pool, blind):  # the synthesis does not look at the pool's labels
        given = SplitCorpus("made", corpus.public, corpus.private, corpus.test, corpus.labels, authors=True, pool=pool)
        numbers = run_cell(cell, seeded, given, Lens("glove"), fits=SharedFits(), private_samples=False).numbers
        made.append({n.metric: n.value for n in numbers})
    assert "corpus.own_label" in made[0]
    assert made[1] == {key: value for key, value in made[0].items() if key != "corpus.own_label"}


@pytest.mark.slow
def test_cells_of_corpora_run_in_processes_and_are_resumed(tmp_path: Path) -> None:
    data = grid(synthesis("prototypes", dim=8), trials=2)
    for again, expected in ((False, 12), (True, 0)):
        done = run_experiment(
            parse_experiment(data), ExperimentFolder(tmp_path / "out"), Options(workers=2), command="compare"
        )
        assert (done.failed, done.run_now) == (0, expected), again
    results = read_results(tmp_path / "out")
    assert {row.unit for row in results.rows if row.whole} == {"document"}
    assert write_page(tmp_path / "out", tmp_path / "out" / "report.html").rows > 5


# ------------------------------------------------------------------------------------------------ the gap


def row(name: str, value: float, *, metric: str = "classification.accuracy", half: float = 0.01) -> TableRow:
    return TableRow(
        corpus="made", row=name, kind="", settings="{}", trial=0, unit="", relation="", epsilon=None, delta=None,
        metric_privacy=None, basis="", document_epsilon=None, metric=metric, value=value, low=value - half,
        high=value + half, error=None, confidence=0.95, seconds=0, peak_mib=0,
        signature=name.encode().hex(),
    )  # fmt: skip


def test_the_share_of_the_gap() -> None:
    names = {"original": 0.9, "public-only": 0.5, "made": 0.8, "worse": 0.4}
    rows = [row(name, value) for name, value in names.items()]
    seen = [row(name, 1.0, metric="corpus.frechet") for name in names]
    found = {each.row: each for each in with_gaps([*rows, *seen]) if each.metric == GAP}
    assert found["made"].value == pytest.approx(0.75)
    assert found["worse"].value == pytest.approx(-0.25)
    assert set(found) == {"made", "worse"}
    # (1 + .25^2 + .75^2)^.5 of the half-width of one accuracy, over the gap
    assert found["made"].high == pytest.approx(0.75 + 0.01 * 1.625**0.5 / 0.4)
    assert not [each for each in with_gaps(rows) if each.metric == GAP]  # not measured on all of the public part
    level = [row("original", 0.51), *rows[1:], *seen]  # the intervals meet: no gap is shown
    assert not [each for each in with_gaps(level) if each.metric == GAP]


# ------------------------------------------------------------------------------------------------ tables and pictures


@pytest.fixture
def mixed(tmp_path: Path) -> Results:
    """Everything that is for each text, and two corpus mechanisms; public-only has an accuracy of .80."""
    folder: Made = everything(tmp_path / "mixed")
    for kind, epsilon, accuracy in (("prototypes", 1.0, 0.9), ("prototypes", 4.0, 0.92), ("votes", 1.0, 0.7)):
        stated = guarantee(
            epsilon, trust=Trust.CENTRAL, relation=Relation.ADD_OR_REMOVE_ONE, delta=1e-5, basis=Basis.CONDITIONAL,
            assumptions=("x",),
        )  # fmt: skip
        values = {"classification.accuracy": accuracy, "corpus.told_apart": 0.6}
        folder.cell(f"{kind} epsilon={epsilon:g}", kind, values, stated=stated, settings={"epsilon": epsilon})
    return read_results(folder.write())


def mixes(results: Results) -> list[str]:
    """Where an epsilon of a corpus and one of each text stand in one picture or in one order."""
    whole = {row.row for row in results.rows if row.kind in ("prototypes", "votes")}
    local = {row.row for row in results.rows if row.kind and row.kind != "label_only"} - whole
    found = []
    for frontier in frontiers(results.rows):
        drawn = {
            p.row for panels in frontier.panels.values() for panel in panels for s in panel.series for p in s.points
        }
        if drawn & whole and any(name not in whole for name in drawn):
            found.append(frontier.title)
    for table in metric_tables(results.rows):
        if {name for name, _, _ in table.lines} & whole and {name for name, _, _ in table.lines} & local:
            found.append(table.metric)
    for part in markdown(results).split("###"):
        if any(f"| {name} |" in part for name in whole) and any(f"| {name} |" in part for name in local):
            found.append(part.splitlines()[0])
    return found


def test_no_axis_or_table_has_both(mixed: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mixes(mixed) == []
    last = frontiers(mixed.rows)[-1]
    assert last.title == f"{WHOLE}: document, add or remove one"
    assert last.axis == "epsilon for the whole corpus (log scale)"
    assert [title for title, _ in groups(mixed.rows)] == ["", WHOLE]
    monkeypatch.setattr(TableRow, "whole", False)  # the planted fault: what is one meaning for unit and relation alone
    assert mixes(mixed)


def test_fidelity_of_a_corpus_is_said_to_be_absent(mixed: Results) -> None:
    table = next(t for t in metric_tables(mixed.rows) if t.metric == "fidelity.cosine" and t.title == WHOLE)
    lines = {name: cells for name, _, cells in table.lines}
    assert lines["prototypes epsilon=1"] == (NO_RECORD, "-")  # of two corpora it ran on one
    assert NO_RECORD in markdown(mixed, ["fidelity.cosine", "classification.accuracy"])
    assert not any(row.whole and row.metric.startswith("fidelity") for row in mixed.rows)


def test_the_answer_tells_one_epsilon_from_the_other(mixed: Results, tmp_path: Path) -> None:
    said = verdict(mixed.rows)
    (whole,) = (each for each in said if each.startswith(WHOLE))
    assert whole.startswith(f"{WHOLE}. For classification a release is worth more than public text alone")
    assert "epsilon 1 for the whole corpus" in whole
    assert not any("prototypes" in each or "whole corpus" in each for each in said if each != whole)
    asked = Asked(Unit.DOCUMENT, 20.0, 1e-5, "classification")
    for answer in recommendations(mixed.rows, asked):  # they answer no single text
        assert not {v.row.kind for v in (*answer.qualified, *answer.rejected)} & {"prototypes", "votes"}
    page = tmp_path / "page.html"
    write_page(tmp_path / "mixed", page)
    text = page.read_text("utf-8")
    assert NO_RECORD in text
    assert "for the whole corpus, central trust, document, add or remove one" in text
