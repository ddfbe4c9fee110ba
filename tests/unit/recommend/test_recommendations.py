"""Recommendations read off made-up tables: every number here is invented to try the rules, and measured nowhere."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Unit
from dptext.recommend.corpora import texts_at
from dptext.recommend.measured import MeasuredTable
from dptext.recommend.recommendation import (
    TASKS,
    Asked,
    Recommendation,
    largest_of,
    measured_epsilons,
    not_measured,
    recommendations,
    reduced,
)
from dptext.recommend.tables import read_measured
from trees import ROOT

ASKED = Asked(Unit.DOCUMENT, 10.0, 1e-3, "classification")
ABOUT: dict[str, Any] = {
    "name": "made up",
    "written": "never",
    "version": "0",
    "machine": {},
    "command": "none",
    "cells": {"done": 8, "failed": 1, "total": 9},
}


def rows(
    name: str, fidelity: tuple[float, float], accuracy: float | None = 0.8, **changes: Any
) -> list[dict[str, Any]]:
    """The lines of one row, with fidelity from low to high."""
    common: dict[str, Any] = {
        "corpus": "made up",
        "row": name,
        "kind": "candidates",
        "settings": json.dumps({"name": name}),
        "trial": 0,
        "unit": "document",
        "relation": "replace_one",
        "epsilon": 10.0,
        "delta": 0.0,
        "metric_privacy": None,
        "basis": "conditional",
        "document_epsilon": 10.0,
        "error": None,
    } | changes
    low, high = fidelity
    found = [{"metric": "fidelity.cosine", "value": (low + high) / 2, "low": low, "high": high}]
    if accuracy is not None:
        found.append({"metric": "classification.accuracy", "value": accuracy, "low": accuracy - 0.1, "high": accuracy})
    return [{**common, **line} for line in found]


REFERENCES = [
    *rows("original", (1.0, 1.0), 0.99, kind="", epsilon=None, delta=None, unit="", basis=""),
    *rows("public-only", (0.1, 0.2), 0.7, kind="", epsilon=0.0, unit="", basis=""),
    *rows("random", (0.0, 0.1), 0.2, kind="", epsilon=0.0, unit="", basis=""),
    *rows("label_only", (0.2, 0.3), kind="label_only", epsilon=2.0, settings='{"epsilon": 2}'),
    *rows("label_only (medoid)", (0.3, 0.4), kind="label_only", settings='{"epsilon": 10}'),
    *rows("label_only (medoid)", (0.6, 0.7), kind="label_only", epsilon=20.0, settings='{"epsilon": 20}'),
]


def table(lines: list[dict[str, Any]], **about: Any) -> MeasuredTable:
    return MeasuredTable.model_validate({"about": ABOUT | about, "rows": lines})


def recommend(lines: list[dict[str, Any]], asked: Asked) -> list[Recommendation]:
    return recommendations(table(lines).rows, asked)


def answer(*lines: dict[str, Any], asked: Asked = ASKED) -> Recommendation:
    (found,) = recommend([*REFERENCES, *lines], asked)
    return found


def names(found: Recommendation) -> list[str]:
    return [verdict.row.row for verdict in found.qualified]


def why(found: Recommendation) -> str:
    (verdict,) = found.rejected
    return "; ".join(verdict.reasons)


def test_the_best_of_those_that_keep_more_than_their_references() -> None:
    good, better = rows("good", (0.46, 0.6), 0.6), rows("better", (0.45, 0.5), 0.75)
    found = answer(*good, *better)
    assert names(found) == ["better", "good"]
    assert [row.row for row in found.qualified[0].beaten] == ["public-only", "label_only", "label_only (medoid)"]
    assert names(answer()) == []


def test_what_the_task_cannot_tell_apart_goes_by_fidelity_and_then_by_its_price() -> None:
    higher, nearer, cheaper = (
        rows("higher", (0.42, 0.5), 0.75),
        rows("nearer", (0.5, 0.6), 0.7),
        rows("cheaper", (0.5, 0.6), 0.68, epsilon=5.0),
    )
    found = answer(*higher, *nearer, *cheaper, *rows("far below", (0.8, 0.9), 0.6))
    assert names(found) == ["cheaper", "nearer", "higher", "far below"]
    assert found.public is not None
    assert found.public.value == 0.7


def test_a_refuted_claim_is_never_recommended() -> None:
    line = {**rows("x", (0.5, 0.6))[0], "metric": "distinguish.refuted", "value": 1.0, "low": None, "high": None}
    survived = {**line, "value": 0.0}
    assert names(answer(*rows("x", (0.5, 0.6)), survived)) == ["x"]
    found = answer(*rows("x", (0.5, 0.6)), survived, *rows("x", (0.5, 0.6), trial=1), {**line, "trial": 1})
    assert "its claim is refuted by the audit distinguish" in why(found)
    small = reduced(table([*REFERENCES, *rows("x", (0.5, 0.6)), line]))
    (found,) = recommendations(small.rows, ASKED)
    assert "refuted" in why(found)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (rows("x", (0.4, 0.5)), "not above that of label_only (medoid) at epsilon 10"),  # a tie is not above
        (rows("x", (0.5, 0.6), basis="none", epsilon=None, delta=None), "nothing is guaranteed"),
        (rows("x", (0.5, 0.6), basis="claimed"), "its basis is claimed"),
        (rows("x", (0.5, 0.6), epsilon=10.1), "10.1 is above 10"),
        (rows("x", (0.5, 0.6), delta=2e-3), "its delta 0.002 is above 0.001"),
        (
            rows("x", (0.5, 0.6), unit="token", document_epsilon=40.0),
            "per token, not per document; read for a document",
        ),
        (rows("x", (0.5, 0.6), unit="token", metric_privacy="distance", document_epsilon=None), "per unit of distance"),
        (rows("x", (0.5, 0.6), None), "nothing was measured for the task"),
        (rows("x", (0.5, 0.6))[1:], "fidelity (fidelity.cosine) was not measured"),
    ],
)
def test_what_does_not_qualify_is_rejected_with_its_reason(lines: list[dict[str, Any]], reason: str) -> None:
    found = answer(*lines)
    assert names(found) == []
    assert reason in why(found)


def test_whoever_releases_no_label_is_told_so() -> None:
    lines = rows("x", (0.5, 0.6))
    lines[1]["metric"] = "classification.accuracy_true_labels"
    assert "it releases no labels" in why(answer(*lines))


def test_a_guarantee_for_documents_is_named_where_a_smaller_unit_is_asked_for() -> None:
    found = answer(*rows("x", (0.5, 0.6)), asked=Asked(Unit.SENTENCE, 10.0, 0.0, "meaning"))
    assert "per document, not per sentence; that says more: ask for --unit document" in why(found)


def test_a_delta_above_a_thousandth_protects_nobody_whatever_is_asked() -> None:
    found = answer(*rows("x", (0.5, 0.6), delta=0.01), asked=Asked(Unit.DOCUMENT, 10.0, 0.5, "classification"))
    assert "its delta 0.01 is above 0.001" in why(found)
    strict = answer(*rows("x", (0.5, 0.6), delta=1e-5), asked=Asked(Unit.DOCUMENT, 10.0, 1e-6, "classification"))
    assert "above 1e-06" in why(strict)


def test_another_unit_is_judged_by_its_own_rows() -> None:
    line = rows("x", (0.5, 0.6), unit="sentence", epsilon=3.0)
    assert names(answer(*line, asked=Asked(Unit.SENTENCE, 3.0, 0.0, "meaning"))) == ["x"]


def test_whoever_classifies_worse_than_public_text_is_not_recommended() -> None:
    assert "0.500] is below that of public-only" in why(answer(*rows("x", (0.5, 0.6), 0.5)))
    assert names(answer(*rows("x", (0.5, 0.6), 0.6))) == ["x"]  # the intervals touch


def test_label_only_must_have_been_measured_where_there_are_labels() -> None:
    broken = {**rows("label_only", (0, 0))[0], "kind": "label_only", "metric": "", "value": None, "error": "E: no"}
    for references in (REFERENCES[:6] + rows("label_only", (0.1, 0.2), kind="label_only", epsilon=12.0),
                       [*REFERENCES[:6], broken]):  # fmt: skip
        (found,) = recommend([*references, *rows("x", (0.5, 0.6))], ASKED)
        assert "no fidelity.cosine of label_only at so small an epsilon" in why(found)
    (found,) = recommend([*REFERENCES[:6], *rows("x", (0.5, 0.6))], ASKED)  # a corpus without labels has no such rows
    assert names(found) == ["x"]


def test_units_below_a_document_are_held_against_what_a_document_costs() -> None:
    line = rows("x", (0.5, 0.6), unit="sentence", epsilon=3.0, document_epsilon=20.0)
    asked = Asked(Unit.SENTENCE, 3.0, 0.0, "meaning")
    assert "label_only (medoid) at epsilon 20" in why(answer(*line, asked=asked))
    cheaper = rows("x", (0.5, 0.6), unit="sentence", epsilon=3.0, document_epsilon=19.0)
    assert names(answer(*cheaper, asked=asked)) == ["x"]


def test_a_grid_that_is_not_finished_is_said_and_not_reduced() -> None:
    with pytest.raises(ConfigError, match="found 5 cells not done"):
        reduced(table(REFERENCES, cells={"done": 3, "failed": 1, "total": 9}))
    assert table(REFERENCES).about.cells.left == 0


def test_dearer_references_do_not_count_and_other_corpora_neither() -> None:
    found = answer(*rows("x", (0.5, 0.6)), asked=Asked(Unit.DOCUMENT, 20.0, 0.0, "meaning"))
    assert "label_only (medoid) at epsilon 20" in why(found)
    elsewhere = rows("x", (0.5, 0.6), corpus="elsewhere")
    first, second = recommend([*REFERENCES, *elsewhere], ASKED)
    assert (names(first), names(second)) == ([], [])
    assert "no fidelity.cosine of public-only" in why(second)


def test_every_trial_must_pass() -> None:
    twice = [*rows("x", (0.5, 0.6)), *rows("x", (0.35, 0.6), trial=1)]
    assert "[0.350, 0.600]" in why(answer(*twice))
    failed = [
        *rows("y", (0.5, 0.6)),
        {**rows("y", (0, 0))[0], "trial": 1, "metric": "", "value": None, "error": "E: no"},
    ]
    assert "it failed: E: no" in why(answer(*failed))
    only = {**rows("z", (0, 0))[0], "metric": "", "value": None, "error": "E: no", "epsilon": None, "basis": ""}
    assert why(answer(only)).startswith("it failed: E: no")


def test_a_number_that_one_of_the_trials_lacks_is_none() -> None:
    first, second = rows("x", (0.5, 0.6)), rows("x", (0.5, 0.6), None, trial=1)
    assert "nothing was measured for the task classification" in why(answer(*first, *second))
    first, second = rows("x", (0.5, 0.6)), rows("x", (0.5, 0.6), trial=1)[1:]
    assert "its fidelity (fidelity.cosine) was not measured" in why(answer(*first, *second))


def test_an_epsilon_for_a_whole_corpus_answers_for_no_text() -> None:
    synthesis = rows("prototypes", (0.8, 0.9), kind="prototypes")
    found = answer(*rows("x", (0.5, 0.6)), *synthesis)
    assert (names(found), found.rejected) == (["x"], ())


def test_authors_are_hidden_best_where_fewest_are_found() -> None:
    hidden, found = rows("hidden", (0.5, 0.6), 0.5), rows("found", (0.5, 0.6), 0.9)
    for line in (*hidden, *found):
        line["metric"] = line["metric"].replace("classification.accuracy", "authorship.adaptive")
    asked = Asked(Unit.DOCUMENT, 10.0, 0.0, "authorship")
    assert names(answer(*hidden, *found, asked=asked)) == ["hidden", "found"]


@pytest.mark.parametrize(
    ("task", "public", "free"),
    [
        ("classification", 0.3, False),
        ("classification", 0.5, True),
        ("authorship", 0.4, True),
        ("authorship", 0.7, False),
    ],
)
def test_public_text_is_free_where_it_serves_a_task_no_worse(task: str, public: float, free: bool) -> None:
    """The best row has .5, from .4 to .5: more is better to classify, less to hide an author."""
    references = rows("public-only", (0.1, 0.2), public, kind="", epsilon=0.0, unit="", basis="")
    metric = TASKS[task][0][0]
    lines = [
        {**line, "metric": line["metric"].replace("classification.accuracy", metric)}
        for line in (*references, *rows("x", (0.5, 0.6), 0.5))
    ]
    (found,) = recommend(lines, Asked(Unit.DOCUMENT, 10.0, 0.0, task))
    assert (names(found), found.is_free) == (["x"], free)


@pytest.mark.parametrize(("task", "free"), [("classification", True), ("meaning", False)])
def test_public_text_is_free_where_nothing_is_worth_taking(task: str, free: bool) -> None:
    """But it says nothing of what private texts mean."""
    references = rows("public-only", (0.1, 0.2), 0.5, kind="", epsilon=0.0, unit="", basis="")
    (found,) = recommend([*references, *rows("x", (0.5, 0.6), 0.4)], Asked(Unit.DOCUMENT, 1.0, 0.0, task))
    assert (names(found), found.is_free) == ([], free)


def test_settings_that_make_no_question() -> None:
    for wrong in ({"epsilon": 0.0}, {"delta": 2.0}, {"task": "poetry"}):
        with pytest.raises(ConfigError):
            Asked(**{"unit": Unit.DOCUMENT, "epsilon": 1.0, "delta": 0.0, "task": "meaning"} | wrong)


@pytest.mark.parametrize(
    ("settings", "typed"),
    [
        (
            {"epsilon": 10.0, "label_weight": 1.0, "labels": ["a", "b"]},
            " --set labels=A,B --label-field LABEL --public",
        ),
        ({"epsilon": 10.0, "labels": ["a", "b"]}, " --set epsilon=10.0 --public"),
    ],
)
def test_the_next_command_has_the_labels_that_its_settings_need(
    settings: dict[str, Any], typed: str, tmp_path: Path
) -> None:
    path = tmp_path / "table.json"
    path.write_text(table([*REFERENCES, *rows("best", (0.9, 0.95), settings=json.dumps(settings))]).model_dump_json())
    done = CliRunner().invoke(app, ["recommend", "--table", str(path), "--epsilon", "10", "--task", "meaning"])
    (following,) = (line for line in done.stdout.splitlines() if line.startswith("Next: "))
    assert typed in following
    assert ("labels" in following) == ("label_weight" in settings)


def test_the_small_table_gives_the_same_answer(tmp_path: Path) -> None:
    lines = [*REFERENCES, *rows("x", (0.5, 0.6)), {**rows("x", (0, 0))[0], "metric": "fidelity.own_first"}]
    small = reduced(table(lines))
    path = tmp_path / "small.json"
    path.write_text(small.model_dump_json(), "utf-8")
    read = read_measured(path)
    assert read.about.name == "made up"
    assert len(read.rows) == len(lines) - 1
    (found,) = recommendations(read.rows, ASKED)
    assert names(found) == ["x"]
    for broken in ("{}", "[1]", "no", json.dumps({"about": ABOUT, "rows": [{"corpus": "x"}]})):
        path.write_text(broken, "utf-8")
        with pytest.raises(ConfigError, match="damaged" if broken == "no" else "lacks a column"):
            read_measured(path)


def test_the_table_of_the_package_is_measured_and_answers() -> None:
    found = read_measured(None)
    assert "digest" not in found.about.model_dump_json()
    assert found.about.cells.left == 0
    assert any(each.qualified for each in recommendations(found.rows, Asked(Unit.DOCUMENT, 10.0, 1e-3, "meaning")))
    for task in TASKS:
        for each in recommendations(found.rows, Asked(Unit.DOCUMENT, 10.0, 1e-3, task)):
            for verdict in each.qualified:
                row = verdict.row
                assert row.basis in ("proven", "conditional")
                assert row.epsilon is not None
                assert row.epsilon <= 10 * (1 + 1e-9)
                own = row.numbers["fidelity.cosine"].low
                assert verdict.beaten
                assert all(own > other.numbers["fidelity.cosine"].high for other in verdict.beaten)


def test_every_split_is_quoted_on_which_single_texts_were_measured() -> None:
    """Of the table of docs/results/synthesis.md: where the pool lacks labels, an epsilon for each text gains."""
    with (ROOT / "docs" / "results" / "tables" / "synthesis.csv").open(encoding="utf-8") as file:
        splits = {row["split"] for row in csv.DictReader(file) if row["row"] == "candidates"}
    found = texts_at(Unit.DOCUMENT, 10.0)
    assert {row["split"] for row in found} == {name for name in splits if not name.endswith(" author")}
    assert {row["split"] for row in found if row["gains"]} == {"ATIS", "SNIPS, intents missing in public"}
    assert texts_at(Unit.DOCUMENT, 9.9) == texts_at(Unit.AUTHOR, 10.0) == ()


def test_an_epsilon_that_nobody_measured_is_said() -> None:
    lines = [
        *rows("five", (0.4, 0.5), epsilon=4.99999999999),
        *rows("ten", (0.4, 0.5)),
        *rows("of words", (0.4, 0.5), unit="token", metric_privacy="cosine", epsilon=3.0),
    ]
    found = table([*REFERENCES, *lines]).rows
    levels = measured_epsilons(found, Unit.DOCUMENT)
    assert levels == (5.0, 10.0)
    assert [largest_of(levels, epsilon) for epsilon in (1.0, 5.0, 8.0, 300.0)] == [0.0, 5.0, 5.0, 10.0]
    assert not_measured(levels, 5.0, Unit.DOCUMENT) == not_measured(levels, 10.0, Unit.DOCUMENT) == ""
    said = "Nothing was measured at epsilon {} per document"
    assert not_measured(levels, 8.0, Unit.DOCUMENT) == said.format(8) + (
        ": the numbers are of epsilon 5 or less, and the next measured one is 10."
    )
    assert not_measured(levels, 300.0, Unit.DOCUMENT) == said.format(300) + ": the numbers are of epsilon 10 or less."
    assert not_measured(levels, 1.0, Unit.DOCUMENT) == said.format(1) + " or less: measurements begin at 5."
    of_words = measured_epsilons(found, Unit.TOKEN)
    assert of_words == ()
    assert "No mechanism was measured" in not_measured(of_words, 3.0, Unit.TOKEN)
