"""Commands say to the owner that labels are spelled otherwise than the public set, and which were never learned."""

import csv
import json
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

from commands import dptext
from dptext.text.samples import sample_records

CODES = {"health": "1", "leisure": "2", "money": "3", "travel": "4"}
RECORDS = sample_records(60)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    for name, labels in (
        ("names", [str(record.label) for record in RECORDS]),
        ("codes", [CODES[str(record.label)] for record in RECORDS]),
        ("floats", [f"{CODES[str(record.label)]}.0" for record in RECORDS]),
        ("half", [CODES[str(record.label)] if i % 2 else "other" for i, record in enumerate(RECORDS)]),
    ):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *zip([r.text for r in RECORDS], labels, strict=True)])
    table = {"text": [record.text for record in RECORDS], "label": [float(CODES[str(r.label)]) for r in RECORDS]}
    pq.write_table(pa.table(table), folder / "floats.parquet")
    (folder / "parts").mkdir()
    (folder / "parts" / "a.csv").write_bytes((folder / "names.csv").read_bytes())
    made = dptext(
        *("fit", "--mechanism", "label_only", "--set", 'labels=["1", "2", "3", "4"]', "--set", "epsilon=8"),
        *("--public", "codes.csv", "--label-field", "label", "--out", "model"),
        cwd=folder,
    )
    assert made.returncode == 0, made.stderr
    return folder


def rehearsed(work: Path, source: str, *options: str) -> str:
    target = ("out", "--workers", "1") if source == "parts" else ("out.jsonl",)
    given = ("--model", "model", "--label-field", "label", "--dry-run", *options)
    done = dptext("privatize", source, *target, *given, cwd=work)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow_cases("floats.csv", why="whole numbers and floats of Parquet stay")
@pytest.mark.parametrize(
    ("source", "said", "labelled"),
    [
        ("codes.csv", "", 60),
        ("floats.csv", "", 60),
        ("floats.parquet", "", 60),
        ("names.csv", "No record has one of the 4 public labels in the field 'label'", 0),
        ("half.csv", "30 of 60 records have none of the 4 public labels in the field 'label'", 30),
        ("parts", "No record has one of the 4 public labels in the field 'label'", 0),
    ],
)
def test_a_rehearsal_says_that_labels_are_not_in_the_public_set(
    work: Path, source: str, said: str, labelled: int
) -> None:
    told = rehearsed(work, source)
    assert said in told
    assert ("public labels" in told) == bool(said)
    assert json.loads(rehearsed(work, source, "--json"))["labelled"] == labelled


def test_check_says_that_labels_are_not_in_the_public_set(work: Path) -> None:
    public = [part for code in CODES.values() for part in ("--label", code)]

    def checked(source: str, *options: str) -> str:
        return dptext("check", source, "--label-field", "label", *options, cwd=work).stdout

    assert "60 of 60 records have one of the 4 public labels in the field 'label'." in checked("floats.csv", *public)
    assert "No record has one of the 4 public labels in the field 'label'" in checked("names.csv", *public)
    assert "30 of 60 records have none of the 4 public labels" in checked("half.csv", *public)
    assert "60 of 60 records have a label in the field 'label'." in checked("names.csv")
    assert json.loads(checked("half.csv", *public, "--json"))["labelled"] == 30
    refused = dptext("check", "names.csv", "--label", "1", cwd=work)
    assert (refused.returncode, "Expected --label-field NAME with --label" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_utility_says_how_many_test_labels_were_never_learned(work: Path) -> None:
    made = dptext("privatize", "codes.csv", "out.csv", "--model", "model", "--label-field", "label", cwd=work)
    assert made.returncode == 0, made.stderr

    def judged(test: str) -> str:
        judge = ("utility", "classification", "codes.csv", "out.csv", "--public", "codes.csv", "--test", test)
        done = dptext(*judge, "--label-field", "label", "--seed", "0", cwd=work)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "All 60 test records have a label that no release has" in judged("names.csv")
    assert "30 of 60 test records have a label that no release has" in judged("half.csv")
    assert "that no release has" not in judged("floats.csv")
