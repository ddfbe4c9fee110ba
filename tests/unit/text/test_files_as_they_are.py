"""Files as people have them: other delimiters, encodings and formats, HTML, and columns under their own names."""

import csv
import datetime as dt
import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped, unused-ignore]
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dptext as dp
from dptext.cli.utility import read_back
from dptext.errors import BrokenFileError, ConfigError, DataError, MissingExtraError
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.states import run_settings
from dptext.runs.verification import verify
from dptext.sampling.randomness import secure
from dptext.text import rows as rows_module
from dptext.text.columns import Columns
from dptext.text.formats import Format
from dptext.text.inputs import detected
from dptext.text.lines import are_names
from dptext.text.reading import OnError, read_records
from dptext.text.records import Fields, Record, Release
from dptext.text.survey import survey
from dptext.text.writers import encode_batch

CANARY = "ZEBRA-CANARY-4711"
FIELDS = Fields(text="Bewertung", label="Sterne")
GERMAN = "Das Gerät läuft schön, die Größe stimmt und die Lieferung war müde – „naja“."
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1", "cp1250")


def table(rows: list[tuple[str, str]], delimiter: str, header: tuple[str, str] = ("Bewertung", "Sterne")) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter).writerows([header, *rows])
    return buffer.getvalue()


def texts(found: Any) -> list[str]:
    return [record.text for record in found]


# ------------------------------------------------------------------ delimiters and encodings

letters = st.text(st.sampled_from('aäöß ,;\t|"\r\n<'), max_size=12)


@given(
    found=st.lists(st.tuples(letters, letters), min_size=1, max_size=8),
    delimiter=st.sampled_from(",;\t|:"),
    encoding=st.sampled_from(ENCODINGS),
    zipped=st.booleans(),
)
def test_a_csv_file_reads_the_same_in_each_encoding_and_delimiter(
    found: list[tuple[str, str]], delimiter: str, encoding: str, zipped: bool, folder: Path
) -> None:
    data = table(found, delimiter).encode(encoding)
    path = folder / ("in.csv.gz" if zipped else "in.csv")
    path.write_bytes(gzip.compress(data) if zipped else data)
    (folder / "plain.csv").write_text(table(found, ","), "utf-8", newline="")
    plain, other = (
        list(read_records(each, FIELDS, delimiter=how, encoding=name))
        for each, how, name in ((folder / "plain.csv", None, None), (path, delimiter, encoding))
    )
    assert other == plain == [Record(str(i), text, label) for i, (text, label) in enumerate(found)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt", "a.json", "a.jsonl.gz"])
def test_another_encoding_is_refused_told_and_read(tmp_path: Path, name: str, encoding: str) -> None:
    row = {"Bewertung": GERMAN.encode(encoding, "replace").decode(encoding), "Sterne": "5"}
    lines = {
        "csv": table([(row["Bewertung"], "5")] * 9, ","),
        "jsonl": (json.dumps(row, ensure_ascii=False) + "\n") * 9,
        "json": json.dumps([row] * 9, ensure_ascii=False),
        "txt": (row["Bewertung"] + "\n") * 9,
    }[name.split(".")[1]]
    data = lines.encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    fields = Fields() if name == "a.txt" else FIELDS
    reading = {"record": "line"} if name == "a.txt" else {}
    guess = {"utf-16-le": "utf_16_le", "latin-1": "cp1252"}.get(encoding, encoding)
    assert detected(path) == guess
    with pytest.raises(DataError, match=f"--encoding {guess}") as caught:
        list(read_records(path, fields, **reading))
    assert "Gerät" not in str(caught.value)
    assert texts(read_records(path, fields, encoding=encoding, **reading)) == [row["Bewertung"]] * 9


def test_of_encodings_that_read_a_file_equally_well_the_common_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("A habitação não tinha aquecimento; o pequeno-almoço é bom, mas não há cama.".encode("cp1252"))
    assert detected(path) == "cp1252"
    polish = "Pokój był brudny, a śniadanie zimne. Dziękuję za miłą obsługę, choć łazienka była mała. Źle się czułem."
    path.write_bytes(polish.encode("cp1250"))
    assert detected(path) == "cp1250"  # reads better


def test_what_is_utf8_or_mixed_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = json.dumps({"text": "schön"}, ensure_ascii=False).encode() + b"\n"
    path.write_bytes(good * 20_000)  # characters are cut by blocks
    assert detected(path) == "utf-8"
    path.write_bytes(good * 3 + b'{"text": "sch\xf6n"}\n' + good * 3)
    assert detected(path) is None
    with pytest.raises(DataError, match=r"record 4: the field .text. is not UTF-8 .*Name the encoding with --encoding"):
        list(read_records(path))
    assert len(list(read_records(path, on_error=OnError.SKIP))) == 6
    path.write_bytes(b'{"text": "a\\u0000"}\n')
    with pytest.raises(DataError, match=r"NUL character\. Repair"):  # a NUL makes no UTF-16
        list(read_records(path))
    path.write_bytes(good + b"\0\n")
    assert detected(path) == "utf-8"


def test_a_wrong_encoding_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\n" + "schön".encode("cp1252") + b"\n\x81\n")  # no character of cp1252
    for encoding in ("cp1252", "ascii", "utf-16-le"):
        with pytest.raises(BrokenFileError, match="not in the encoding that was named"):
            list(read_records(path, encoding=encoding))
    for encoding in ("klingon", "hex", "utf-8\0"):
        with pytest.raises(ConfigError, match="Python knows"):
            read_records(path, encoding=encoding)


@pytest.mark.parametrize(
    ("name", "how", "message"),
    [
        ("a.jsonl", {"delimiter": ";"}, "Expected no --delimiter"),
        ("a.csv", {"delimiter": ";;"}, "one character"),
        ("a.csv", {"delimiter": '"'}, "one character"),
        ("a.parquet", {"encoding": "cp1252"}, "has its own encoding"),
        ("a.xlsx", {"encoding": "utf-16"}, "has its own encoding"),
    ],
)
def test_layouts_that_a_file_cannot_have(tmp_path: Path, name: str, how: dict[str, Any], message: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ConfigError, match=message):
        read_records(tmp_path / name, **how)


def test_another_delimiter_is_told_and_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(table([(GERMAN, "5")], ";"), "utf-8")
    with pytest.raises(BrokenFileError, match="--delimiter ';'") as caught:
        list(read_records(path, FIELDS))
    assert "Bewertung;Sterne" not in str(caught.value)
    path.with_suffix(".tsv").write_text(table([(GERMAN, "5")], "\t"), "utf-8")
    assert texts(read_records(path.with_suffix(".tsv"), FIELDS)) == [GERMAN]


# ------------------------------------------------------------------ names of columns


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (["Bewertung", "Sterne"], True),
        (["", "Review.Text", "user_id", "Größe-cm"], True),
        (["Review Text", "user_id"], False),
        (["I have cancer", "food"], False),
        (["food", "I have cancer"], False),
        (["text"], True),
        (["wonderful"], False),  # a text of one word
        (["text", "text"], False),
        (["I owe Tom 40 dollars.", "2024"], False),
        (["good", "5"], False),
        (["good", "x" * 33], False),
        (["this is a whole sentence", "label"], False),
        ([], False),
    ],
)
def test_what_looks_like_names(found: list[str], named: bool) -> None:
    assert are_names(found) == named


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "xlsx", "jsonl", "json"])
def test_a_missing_column_lists_those_that_are_there(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    for header, shown in (("Bewertung", True), (f"{CANARY} was here, honestly", False)):
        write_rows(path, [{header: "a", "Sterne": "5"}])
        for fields, option in ((Fields(), "--text-field"), (Fields(text=header, label="label"), "--label-field")):
            with pytest.raises(DataError, match=option) as caught:
                list(read_records(path, fields))
            assert ("'Bewertung', 'Sterne'" in str(caught.value)) == shown
            assert CANARY not in str(caught.value)


def test_errors_name_what_each_side_has(tmp_path: Path) -> None:
    mechanism = WordMetric.tiny()[0].fit()
    for rows, said in (
        ([{"text": None}], ("--empty-nulls on the command line, empty_nulls=True in Python",)),
        ([{"review": "a"}], ("--text-field on the command line, text= in Python",)),
    ):
        write_rows(tmp_path / "a.jsonl", rows)
        with pytest.raises(DataError) as caught:
            list(dp.privatize(tmp_path / "a.jsonl", mechanism, without_guarantee=True))
        assert all(each in str(caught.value) for each in said)
    (tmp_path / "a.csv").write_bytes("text\nschön ist es\n".encode("cp1252"))
    with pytest.raises(
        DataError, match=r"--encoding cp1252 on the command line, dp.read_records.path, encoding='cp1252'"
    ):
        list(dp.privatize(tmp_path / "a.csv", mechanism, without_guarantee=True))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    match path.suffix:
        case ".csv" | ".tsv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, rows[0], delimiter="," if path.suffix == ".csv" else "\t")
                writer.writeheader()
                writer.writerows(rows)
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case ".xlsx":
            book = openpyxl.Workbook()
            for row in ([*rows[0]], *([*row.values()] for row in rows)):
                book.active.append(row)
            book.save(path)
        case ".json":
            path.write_text(json.dumps(rows), "utf-8")
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


# ------------------------------------------------------------------ JSON arrays and XLSX


def test_a_json_array_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "a"}, {"text": None}, 5, {"text": "b"}], indent=1), "utf-8")
    skipped: list[int] = []
    found = read_records(path, on_error=OnError.SKIP, on_skip=lambda number, _: skipped.append(number))
    assert (texts(found), skipped) == (["a", "b"], [2, 3])
    assert texts(read_records(path, on_error=OnError.SKIP, empty_nulls=True)) == ["a", "", "b"]
    for damaged in (
        '{"text": "a"}\n{"text": "b"}\n',
        '[{"text": "a"}',
        '{"a": []}',
    ):
        path.write_text(damaged, "utf-8")
        with pytest.raises(BrokenFileError, match="--format jsonl"):
            list(read_records(path))
    for unlike, said in {
        '[{"text": "a", "text": "b"}]': "a key of an object is there twice",
        "[NaN]": "a number is NaN or infinite",
        "[" * 100_000: "the file is no valid JSON array",
        f"[{'[' * 100_000}{']' * 100_000}]": "arrays or objects lie too deep",
        f"[{'9' * 6000}]": "a number has more digits than are read",
    }.items():
        path.write_text(unlike, "utf-8")
        with pytest.raises(DataError, match=f"record 1: {said}"):
            list(read_records(path))
    path.write_text("[]", "utf-8")
    with pytest.raises(BrokenFileError, match="holds no records"):
        list(read_records(path))
    monkeypatch.setattr(rows_module, "MAX_JSON", 100)
    path.write_text(json.dumps([{"text": "a" * 100}]), "utf-8")
    with pytest.raises(BrokenFileError, match="write JSON Lines"):
        list(read_records(path))


def test_xlsx_has_values_dates_and_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    sheet = book.active
    book.create_sheet("other").cell(9, 9).font = openpyxl.styles.Font(bold=True)  # a cell without content
    for row in (
        ["text", "stars", "day", None],
        ["a", 5, dt.date(2024, 1, 2)],
        [None, 2.5, dt.time(9, 30)],
        [10, True, None],
        ["=1+1", 1, None],
        [],
        ["b", "x", dt.timedelta(hours=1)],
        [],
    ):
        sheet.append(row)
    sheet.cell(20, 1, "")  # a cell that was cleared
    book.save(path)
    skipped: list[tuple[int, str]] = []
    fields = Fields(label="stars", keep=("day",))
    found = list(read_records(path, fields, on_error=OnError.SKIP, on_skip=lambda *what: skipped.append(what)))
    assert [(each.text, each.label) for each in found] == [("a", "5"), ("", "2.5"), ("10", "true")]
    assert [each.kept["day"] for each in found[:3]] == ["2024-01-02T00:00:00", "09:30:00", ""]
    # A formula has a value once a spreadsheet has computed it; this one was never opened by any.
    assert [(number, reason[:24]) for number, reason in skipped] == [
        (4, "a formula has no value: "),
        (5, "the row is empty"),
        (6, "the field 'day' is not a"),  # a duration is no value of a record, as in Parquet
    ]


@pytest.mark.parametrize("damage", ["text", "cut", "empty", "no sheet"])
def test_damaged_xlsx(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.xlsx"
    write_rows(path, [{"text": CANARY}] * 3000)
    data = path.read_bytes()
    path.write_bytes(
        {"text": b"text\na\n", "cut": data[: len(data) // 2], "empty": b"", "no sheet": data[:-30]}[damage]
    )
    with pytest.raises(BrokenFileError, match=r"XLSX|no records") as caught:
        list(read_records(path))
    assert CANARY not in str(caught.value)


def test_xlsx_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "a.xlsx", [{"text": "a"}])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"dptext\[files\]"):
        read_records(tmp_path / "a.xlsx")


# ------------------------------------------------------------------ columns of the output


@pytest.fixture(scope="module")
def mechanism() -> Any:
    return WordMetric(epsilon=4.0, n_words=300).fit()


ROWS = [{"Bewertung": f"the good {i}", "Nr": i, "Sterne": i % 5, "text": "other"} for i in range(12)]
NAMED = Fields(text="Bewertung", id="Nr", keep=("Sterne",))


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.jsonl", "out.parquet", "out.txt"])
def test_the_output_has_the_names_of_the_input(tmp_path: Path, mechanism, name: str) -> None:
    source, target = tmp_path / "in.xlsx", tmp_path / name
    write_rows(source, ROWS)
    fields = Fields(text="Bewertung") if name == "out.txt" else NAMED
    certificate = privatize_file(source, target, mechanism, plan=Plan(fields=fields))
    again = Certificate.from_json(certificate_path(target).read_text("utf-8"))
    assert again == certificate
    assert verify(certificate_path(target)).certificate.records == 12
    if name == "out.txt":
        assert not certificate.fields
        return
    assert certificate.fields == {"id": "Nr", "text": "Bewertung"}
    columns = list(survey(target).columns)
    assert columns == ["Nr", "Bewertung", "Sterne"]
    originals, released = (
        list(read_records(source, NAMED)),
        read_back(target, list(read_records(source, NAMED)), labelled=False),
    )
    assert [each.id for each in released] == [each.id for each in originals]
    assert [each.output for each in released] == texts(read_records(target, Fields(text="Bewertung")))


def test_default_names_are_in_no_certificate(tmp_path: Path, mechanism) -> None:
    write_rows(tmp_path / "in.jsonl", [{"text": "the good"}])
    found = privatize_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", mechanism)
    assert (found.fields, "fields" in json.loads(found.to_json())) == ({}, False)
    assert json.loads((tmp_path / "out.jsonl").read_text("utf-8")).keys() == {"id", "text"}


@pytest.mark.parametrize("planted", [{"author": "a"}, {"text": 5}, ["text"], {"text": None}])
def test_a_certificate_of_other_fields_is_refused(tmp_path: Path, mechanism, planted: Any) -> None:
    write_rows(tmp_path / "in.jsonl", [{"text": "the good"}])
    text = privatize_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", mechanism).to_json()
    with pytest.raises(ConfigError, match="not a certificate"):
        Certificate.from_json(json.dumps({**json.loads(text), "fields": planted}))


def test_a_certificate_of_another_text_column_does_not_hold(tmp_path: Path, mechanism) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_rows(source, ROWS)
    privatize_file(source, target, mechanism, plan=Plan(fields=NAMED))
    path = certificate_path(target)
    path.write_text(path.read_text("utf-8").replace('"text": "Bewertung"', '"text": "absent"'), "utf-8")
    with pytest.raises(DataError, match="absent"):
        verify(path)


def test_releases_in_memory_are_written_under_the_same_names(tmp_path: Path, mechanism) -> None:
    found = dp.privatize(ROWS, mechanism, text="Bewertung", id="Nr", keep=["Sterne"])
    certificate = found.write(tmp_path / "out.csv")
    assert (
        list(survey(tmp_path / "out.csv").columns) == list(found.to_pandas().columns) == ["Nr", "Bewertung", "Sterne"]
    )
    assert verify(tmp_path / "out.csv.guarantee.json").certificate.to_json() == certificate.to_json()
    lines = encode_batch(found.to_records(), Format.JSONL, Columns(keep=("Sterne",), fields=NAMED))
    assert found.certificate.sha256 == hashlib.sha256(lines).hexdigest()


def test_labels_keep_their_name() -> None:
    columns = Columns(label=True, fields=Fields(text="t", label="Sterne"))
    assert json.loads(encode_batch([Release("0", "a", "5")], Format.JSONL, columns)) == {
        "id": "0",
        "t": "a",
        "Sterne": "5",
    }
    assert columns.renamed == {"text": "t", "label": "Sterne"}


@pytest.mark.parametrize("fields", [Fields(text="id"), Fields(text="embedding", id="n"), Fields(text="t", label="id")])
def test_columns_of_one_name_are_refused(fields: Fields) -> None:
    with pytest.raises(ConfigError, match="different names"):
        Columns(label=True, vector=True, fields=fields).names(Format.JSONL)


@pytest.mark.parametrize("name", ["out.json", "out.xlsx"])
def test_formats_that_are_only_read(tmp_path: Path, mechanism, name: str) -> None:
    write_rows(tmp_path / "in.jsonl", ROWS)
    with pytest.raises(ConfigError, match="a format that is written"):
        privatize_file(tmp_path / "in.jsonl", tmp_path / name, mechanism, plan=Plan(fields=NAMED))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_how_the_input_is_read_is_a_setting_of_the_run(mechanism) -> None:
    def digest(**how: Any) -> str:
        return run_settings(mechanism.spec, mechanism.digests, Plan(**how), secure(), None).sha256

    plain = digest()
    assert digest(delimiter=None, encoding=None, empty_nulls=False, strip_html=False) == plain
    others = [digest(delimiter=";"), digest(encoding="cp1252"), digest(empty_nulls=True), digest(strip_html=True)]
    assert len({plain, *others}) == 5


# ------------------------------------------------------------------ survey


def test_a_survey_counts_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [
        {
            "Nr": i,
            "Review": ["", "same text", f"<p>a text of some length {i}</p>"][min(i, 2) if i < 4 else 2],
            "Stars": i % 3,
        }
        for i in range(60)
    ]
    rows[3]["Review"] = "same text"
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, rows[0], delimiter=";")
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode("utf-16"))
    found = survey(path)
    assert (found.format, found.delimiter, found.encoding, found.rows) == (Format.CSV, ";", "utf-16", 60)
    review = found.columns["Review"]
    lengths = sorted(len(row["Review"]) for row in rows)
    assert (review.empties, review.tags, review.distinct, found.duplicates) == (1, 57, 59, 1)
    assert (review.largest, review.median) == (lengths[-1], lengths[30])
    assert [found.could_be(name) for name in found.columns] == ["id", "text", "label"]
    assert found.named


def test_a_header_that_comes_again_below_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("wonderful,positive\nbad,negative\nnever,positive\n", "utf-8")
    assert are_names(["wonderful", "positive"])
    assert not survey(path).named


def test_memory_of_a_survey_does_not_grow_with_repeated_values(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("text,n\n")
        file.writelines(f"{'some text of forty characters and more ' * 2},{i // 2}\n" for i in range(60_000))
    found = survey(path)
    assert found.columns["n"].distinct is None
    assert found.columns["text"].distinct == 1


# ------------------------------------------------------------------ what was done to texts as they were read


@pytest.mark.parametrize("done", [(), ("empty_nulls",), ("strip_html",), ("empty_nulls", "strip_html")])
def test_the_certificate_says_how_texts_were_read(tmp_path: Path, vectors: Path, done: tuple[str, ...]) -> None:
    spec = WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300)
    (tmp_path / "in.jsonl").write_text('{"text": "<p>good</p>"}\n', "utf-8")
    out = tmp_path / "out.jsonl"
    privatize_file(tmp_path / "in.jsonl", out, spec.fit(), plan=Plan(**dict.fromkeys(done, True)))
    path = certificate_path(out)
    found = verify(path).certificate
    assert found.reading == done
    assert ("reading" in json.loads(path.read_text("utf-8"))) == bool(done)
    assert ("null texts were read as empty ones" in found.explain()) == ("empty_nulls" in done)
    assert ("HTML tags were taken out" in found.explain()) == ("strip_html" in done)
    chosen = [name for name in found.also_reveals if name.startswith("the setting that ")]
    assert [any(word in " ".join(chosen) for word in words) for words in (("null",), ("HTML",))] == [
        "empty_nulls" in done,
        "strip_html" in done,
    ]
    assert all(each in found.guarantees[-1].reveals for each in chosen)
    data = json.loads(path.read_text("utf-8"))
    assert verify(path).certificate.reading == done
    if chosen:
        hidden = [name for name in data["also_reveals"] if name not in chosen]
        stated = [
            each | {"reveals": [name for name in each["reveals"] if name not in chosen]} for each in data["guarantees"]
        ]
        path.write_text(json.dumps(data | {"also_reveals": hidden, "guarantees": stated}), "utf-8")
        with pytest.raises(DataError, match="does not follow from its settings"):
            verify(path)
    data |= {"reading": ["all is well"]}
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ConfigError, match="not a certificate"):
        verify(path)
    memory = dp.privatize([None, "good"], spec.fit(), empty_nulls=True).certificate
    assert memory.reading == ("empty_nulls",)
    assert "the setting that null texts were read as empty ones" in memory.guarantees[-1].reveals
