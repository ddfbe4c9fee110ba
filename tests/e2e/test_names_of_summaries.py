"""A summary carries the names of the user's columns, and what is written from it has them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Final

import pytest

import dptext as dp
from commands import dptext
from dptext.mechanism import settings
from dptext.runs.certificate import Certificate
from dptext.runs.summarizing import add, read_summary

LABELS: Final = ("health", "travel", "money", "leisure")
SMALL: Final[dict[str, Any]] = {"labels": LABELS, "about": 200, "encoder": "glove", "words": 8}
FAST: Final = ("--about", 200, "--set", "encoder=glove", "--set", "words=8", "--labels", ",".join(LABELS))


def rows(n: int, seed: int, **more: str) -> list[dict[str, str]]:
    return [{"body": r.text, "team": r.label or "", **more} for r in dp.sample_records(n, seed=seed)]


def ran(folder: Path, *given: object) -> str:
    done = dptext(*given, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("named")
    for name, n, seed in (("private", 200, 1), ("other", 150, 3), ("public", 80, 2)):
        with (found / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ("body", "team"))
            writer.writeheader()
            writer.writerows(rows(n, seed))
    named = ("--text-field", "body", "--label-field", "team")
    ran(found, "summarize", "private.csv", "a.summary", "--public", "public.csv", *named, *FAST, "--epsilon", 8)
    ran(found, "summarize", "other.csv", "b.summary", "--like", "a.summary", *named, "--epsilon", 8)
    return found


def header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def test_what_is_written_has_the_names_of_the_measured_file_unless_others_are_given(folder: Path) -> None:
    shown = ran(folder, "summary", "show", "a.summary")
    assert shown.rstrip().endswith("Next: dptext write a.summary a.written.csv.")
    ran(folder, *shown.rpartition("Next: dptext ")[2].rstrip().removesuffix(".").split())
    assert header(folder / "a.written.csv") == ["id", "body", "team"]
    ran(folder, "explain", "a.written.csv")  # verifies the certificate
    ran(folder, "write", "a.summary", "own.csv", "--text-field", "letter")
    assert header(folder / "own.csv") == ["id", "letter", "team"]
    ran(folder, "write", "a.summary", "usual.csv", "--text-field", "text", "--label-field", "label")
    assert header(folder / "usual.csv") == ["id", "text", "label"]


def test_a_sum_keeps_the_names_that_all_have(folder: Path) -> None:
    ran(folder, "summary", "add", "a.summary", "b.summary", "sum.summary", "--disjoint")
    assert read_summary(folder / "sum.summary").certificate.fields == {"text": "body", "label": "team"}
    added = add(folder / "a.summary", folder / "b.summary")
    assert dp.write(added, writer="pool").columns.renamed == {"text": "body", "label": "team"}


def test_python_takes_the_names_too_and_settings_stay_as_they_are() -> None:
    pool = [each["body"] for each in rows(80, 2)]
    named = dp.summarize(rows(200, 1), pool, text="body", label="team", **SMALL)
    plain = dp.summarize(dp.sample_records(200, seed=1), pool, **SMALL)
    assert settings(named.summary.spec) == settings(plain.summary.spec)
    assert "fields" not in json.loads(plain.certificate.to_json())
    found = dp.write(named, writer="pool")
    assert list(found.to_dict()) == ["id", "body", "team"]
    assert found.certificate.fields == {"text": "body", "label": "team"}
    assert list(dp.write(plain, writer="pool").to_dict()) == ["id", "text", "label"]
    assert list(dp.write(named, writer="pool", text="text", label="label").to_dict()) == ["id", "text", "label"]


def test_a_name_that_another_column_has_gives_way_to_the_usual_one(tmp_path: Path) -> None:
    pool = [each["body"] for each in rows(80, 2)]
    numbered = [{"id": each["body"], "team": each["team"]} for each in rows(200, 1)]
    found = dp.write(dp.summarize(numbered, pool, text="id", label="team", **SMALL), writer="pool")
    assert list(found.to_dict()) == ["id", "text", "team"]
    found.write(tmp_path / "out.csv")
    assert header(tmp_path / "out.csv") == ["id", "text", "team"]


def test_a_certificate_may_name_the_column_of_texts_label(tmp_path: Path) -> None:
    pool = [each["body"] for each in rows(80, 2)]
    named = [{"label": each["body"]} for each in rows(200, 1)]
    summary = dp.summarize(named, pool, text="label", topics=4, about=200, encoder="glove", words=8)
    summary.write(tmp_path / "a.summary")
    dp.write(tmp_path / "a.summary", writer="pool").write(tmp_path / "out.csv")
    assert header(tmp_path / "out.csv") == ["id", "label"]
    read = Certificate.from_json((tmp_path / "out.csv.guarantee.json").read_text("utf-8"))
    assert read.fields == {"text": "label"}


def test_the_owner_judges_a_corpus_by_the_names_of_its_certificate(folder: Path) -> None:
    ran(folder, "write", "a.summary", "judged.csv", "--text-field", "letter", "--label-field", "topic")
    named = ("--public", "public.csv", "--text-field", "body", "--label-field", "team", "--encoder", "glove")
    said = ran(folder, "utility", "corpus", "private.csv", "judged.csv", *named)
    assert "a classifier that learns from the corpus has" in said
