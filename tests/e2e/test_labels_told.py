"""Commands say to the owner that labels are spelled otherwise than the public set, and which were never learned."""

import csv
import json
import re
import shlex
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

from commands import dptext
from dptext.cli.chosen import check_label_field
from dptext.errors import ConfigError
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.runs.specs import parse_setting, spec_from_settings
from dptext.text.records import Record
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


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_fit_without_labels_says_how_to_type_those_of_the_public_file(form: str, tmp_path: Path) -> None:
    """Numbers go in as numbers: what is proposed runs as it is printed."""
    rows = [(record.text, int(CODES[str(record.label)])) for record in RECORDS]
    if form == "csv":
        lines = ["text,stars", *(f'"{text}",{label}' for text, label in rows)]
    else:
        lines = [json.dumps({"text": text, "stars": label}) for text, label in rows]
    (tmp_path / f"public.{form}").write_text("\n".join(lines) + "\n", "utf-8")
    given = ("fit", "--mechanism", "candidates", "--set", "epsilon=8", "--set", "ranker=tfidf")
    given += ("--public", f"public.{form}", "--label-field", "stars", "--out", "model")
    refused = dptext(*given, cwd=tmp_path)
    assert refused.returncode == 2
    (typed,) = re.findall(r"Fit with --set (\S+), the labels of the public file", refused.stderr)
    assert sorted(typed.removeprefix("labels=").split(",")) == ["1", "2", "3", "4"]
    made = dptext(*given, "--set", typed, cwd=tmp_path)
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize(
    ("labels", "typed"),
    [
        (("b", "a", "b", None), "labels=b,a, the labels of the public file"),
        (("a b", "c"), "'labels=a b,c', the labels of the public file"),
        (("a,b", "c"), """'labels=["a,b", "c"]', the labels of the public file"""),
        ((), "labels=a,b"),
        (tuple(map(str, range(99))), "labels=a,b"),
    ],
)
def test_labels_are_typed_so_that_they_are_read_back(labels: tuple[str | None, ...], typed: str) -> None:
    public = [Record(str(i), "a text", label) for i, label in enumerate(labels)]
    with pytest.raises(ConfigError, match=re.escape(f"Fit with --set {typed}, or leave the field out.")) as refused:
        check_label_field(Candidates(epsilon=1.0), "stars", needed=False, public=lambda: public)
    shown, _, rest = str(refused.value).partition("Fit with --set ")[2].partition(", the labels of")
    if rest:
        named = dict(map(parse_setting, shlex.split(shown)))
        spec = spec_from_settings({"kind": "candidates", "epsilon": 1.0, **named})
        assert spec.traits.labels == tuple(dict.fromkeys(label for label in labels if label))
