"""What one record of plain text is: as is said, never guessed, the same through every door, and stated."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
import kept_words
import many_files
from commands import dptext
from dptext.cli.utility import read_back
from dptext.errors import ConfigError, DataError
from dptext.registry import MECHANISMS
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.legal import legal_page
from dptext.text.reading import as_records, read_released

NOTES = ["Dear Ann,\nI am ill.\n\nYours\nTom\n", "One line\n", "", "\ufeffA\r\nB\r\n\r\n \t\r\nC"]
POOL = "".join(f"a public text {i}\n" for i in range(9))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for i, text in enumerate(NOTES):
        (folder / f"n{i}.txt").write_bytes(text.encode())
    (tmp_path / "pool.txt").write_text(POOL)
    return folder


@pytest.fixture
def unchanged(monkeypatch: pytest.MonkeyPatch) -> kept_words.KeptWordsMechanism:
    monkeypatch.setitem(MECHANISMS.brought, *kept_words.BROUGHT)
    return kept_words.KeptWords().fit()


def texts(path: Path, **how: Any) -> list[str]:
    return [record.text for record in dp.read_records(path, **how)]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("file", [["Dear Ann,\nI am ill.\n\nYours\nTom"], ["One line"], [""], ["A\nB\n\n \t\nC"]]),
        ("line", [["Dear Ann,", "I am ill.", "", "Yours", "Tom"], ["One line"], None, ["A", "B", "", " \t", "C"]]),
        ("block", [["Dear Ann,\nI am ill.", "Yours\nTom"], ["One line"], None, ["A\nB", "C"]]),
    ],
)
def test_a_record_is_what_is_said(notes: Path, record: str, expected: list[list[str] | None]) -> None:
    for path, found in zip(sorted(notes.iterdir()), expected, strict=True):
        packed = path.with_suffix(".txt.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        for each in (path, packed):
            if found is None:
                with pytest.raises(DataError, match="holds no records"):
                    texts(each, record=record)
            else:
                assert texts(each, record=record) == found


def test_a_file_by_itself_has_to_say_it(notes: Path, unchanged: Any, tmp_path: Path) -> None:
    path, asked = notes / "n0.txt", r"Expected --record for '.*n0\.txt': file, line, or block"
    plan = dp.Plan(without_guarantee=True)
    for act in (
        lambda: dp.read_records(path),
        lambda: as_records(path),
        lambda: dp.privatize(path, unchanged, without_guarantee=True),
        lambda: dp.privatize_file(path, tmp_path / "out.txt", unchanged, plan=plan),
        lambda: dp.fit(dp.Candidates(epsilon=4.0, ranker="tfidf"), path),
        lambda: dp.synthesize(path, dp.sample_records(40), kind="topics", epsilon=1.0),
        lambda: dp.privatize_dataset(path, tmp_path / "out", unchanged, plan=plan, dataset=many_files.here()),
    ):
        with pytest.raises(ConfigError, match=asked):
            act()
    for wrong, said in (("lines", "record='lines' to be one of file, line, block"), ("", "to be one of")):
        with pytest.raises(ConfigError, match=said):
            dp.read_records(path, record=wrong)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    for source in (tmp_path / "a.jsonl", ["a text"]):
        with pytest.raises(ConfigError, match=r"Expected no (--)?record"):
            list(dp.read_records(source, record="line"))
    assert {each.name for each in tmp_path.iterdir()} == {"notes", "pool.txt", "a.jsonl"}


@pytest.mark.parametrize("keep", [False, True])
def test_of_a_folder_each_file_is_one_and_the_certificate_says_so(
    notes: Path, unchanged: Any, tmp_path: Path, keep: bool
) -> None:
    plan, dataset = dp.Plan(without_guarantee=True), many_files.here(keep_shards=keep)
    found = dp.privatize_dataset(notes, tmp_path / "out", unchanged, plan=plan, dataset=dataset)
    assert (found.records, found.record) == (4, "file")
    assert "Of plain text, a record was a file." in found.explain()
    parts = sorted((tmp_path / "out").glob("*.txt"))
    assert [path.name for path in parts] == ([f"n{i}.txt" for i in range(4)] if keep else ["part-000000.txt"])
    released = [record.text for path in parts for record in read_released(path, dp.Fields())]
    assert ["".join(text.split()) for text in released] == ["DearAnn,Iamill.YoursTom", "Oneline", "", "ABC"]
    assert dp.verify(certificate_path(tmp_path / "out" / "manifest.json")).certificate.record == "file"


def test_what_people_do_not_expect_of_a_folder_is_said(notes: Path, tmp_path: Path) -> None:
    how = (*kept_words.OPTIONS, "--workers", "1")
    for out, more, become, breaks in (
        ("o.txt", (), True, True),
        ("o1", ("--record", "block"), False, True),
        ("o2", ("--record", "line"), False, False),
        ("o3", ("--output-format", "jsonl"), False, False),
    ):
        done = dptext("privatize", notes, out, *how, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (f"{out} becomes a folder" in done.stderr) is become
        assert ("line breaks become blanks. --output-format jsonl" in done.stderr) is breaks
    refused = dptext("utility", "fidelity", notes, notes, "--public", "pool.txt", cwd=tmp_path)
    assert refused.returncode == 2
    assert "to be a folder that `privatize` wrote, found no manifest.json in it." in refused.stderr


def test_the_legal_page_names_the_forms_of_files(notes: Path, tmp_path: Path) -> None:
    """Of a release of each text, and of a corpus, whose dry run says the same."""
    (notes / "rows.jsonl").write_text('{"text": "a row"}\n')
    public = dp.sample_records(80, seed=2)
    mechanism = dp.fit(dp.Candidates(epsilon=3, ranker="tfidf"), public)
    plan, said = dp.Plan(output_format="jsonl"), "of plain text a file, of jsonl a row"
    dp.privatize_dataset(notes, tmp_path / "out", mechanism, plan=plan, dataset=many_files.here())
    page = legal_page(dp.verify(tmp_path / "out"))
    assert f"Protected: each record ({said})" in " ".join(page.text().split())
    corpus = dp.synthesize_dataset(
        notes,
        dp.Votes(encoder="glove", words=8, topics=4).fit(public=public),
        plan=plan,
        workers=many_files.here().workers,
    )
    assert corpus.certificate.forms == ("jsonl", "text")
    assert f"A record was {said}." in corpus.certificate.explain()
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps({"text": each.text}) + "\n" for each in public))
    done = dptext("synthesize", notes, "o.csv", "--public", "pool.jsonl", "-m", "votes", "--dry-run", cwd=tmp_path)
    assert f"A record is {said}." in done.stdout


def test_a_data_set_is_verified_by_its_folder(notes: Path, unchanged: Any, tmp_path: Path) -> None:
    plan, out = dp.Plan(without_guarantee=True), tmp_path / "out"
    found = dp.privatize_dataset(notes, out, unchanged, plan=plan, dataset=many_files.here())
    for path in (out, str(out), out / "manifest.json", certificate_path(out / "manifest.json")):
        assert dp.verify(path).certificate == found
    (out / "part-000000.txt").write_text("other\n")
    with pytest.raises(DataError, match="not the part"):
        dp.verify(out)


def test_of_several_files_lines_are_records_where_that_is_said(notes: Path, unchanged: Any, tmp_path: Path) -> None:
    (notes / "n2.txt").write_text("x\n")
    (notes / "rows.jsonl").write_text('{"text": "a row"}\n')
    plan = dp.Plan(without_guarantee=True, record="line", output_format="jsonl")
    found = dp.privatize_dataset(notes, tmp_path / "out", unchanged, plan=plan, dataset=many_files.here())
    assert (found.records, found.record) == (13, "line")
    portion = "of plain text a line of a file, of jsonl a row"  # the row was no line of plain text
    assert f"were read; that there were some of each is taken for public. A record was {portion}." in found.explain()
    assert found.forms == ("jsonl", "text")
    assert Certificate.from_json(found.to_json()) == found
    forged = found.to_json().replace('"jsonl",\n    "text"', '"text",\n    "jsonl"')
    with pytest.raises(ConfigError, match="not a certificate"):
        Certificate.from_json(forged)
    (notes / "rows.jsonl").rename(tmp_path / "rows.jsonl")
    with pytest.raises(ConfigError, match=r"no file at .* is plain text"):
        dp.privatize_dataset(
            tmp_path / "*.jsonl", tmp_path / "o2", unchanged, plan=dp.Plan(record="line"), dataset=many_files.here()
        )


def test_an_old_certificate_says_nothing_of_it_and_a_wrong_one_is_refused(unchanged: Any, tmp_path: Path) -> None:
    result = dp.privatize([{"text": "a"}], unchanged, without_guarantee=True)
    result.write(tmp_path / "out.jsonl")
    path = certificate_path(tmp_path / "out.jsonl")
    data = json.loads(path.read_text())
    assert "record" not in data
    assert "a record was" not in Certificate.from_json(path.read_text()).explain()
    with pytest.raises(ConfigError, match="not a certificate"):
        Certificate.from_json(json.dumps({**data, "record": "page"}))


def test_what_is_too_long_or_not_utf8_is_one_bad_record(tmp_path: Path) -> None:
    path, told = tmp_path / "a.txt", []
    long, odd = b"word " * 300_000, b"sch\xf6n\n"
    path.write_bytes(b"one\n\n" + long + b"\nmore of it\n\n" + odd + b"\nlast\nof all\n")
    how: dict[str, Any] = {"max_characters": 1000, "on_error": "skip", "on_skip": lambda *skipped: told.append(skipped)}
    assert texts(path, record="block", **how) == ["one", "last\nof all"]
    assert told == [(2, "the block is longer than 1060576 bytes"), (3, "the block is not UTF-8")]
    told.clear()
    assert texts(path, record="file", **how) == []
    path.write_bytes(odd)
    assert texts(path, record="file", **how) == []
    assert told == [(1, "the file is longer than 1060576 bytes"), (1, "the file is not UTF-8")]


def test_the_commands_from_init_to_utility(notes: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{text}\n" for text in ("so it is", "the end", "well then") * 4))

    def run(*command: object, code: int = 0) -> str:
        done = dptext(*command, cwd=tmp_path)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout if not code else done.stderr

    for command in (
        ("check", "lines.txt"),
        ("init", "lines.txt", "--for", "texts", "--unit", "token"),
        ("privatize", "lines.txt", "out.txt", *kept_words.OPTIONS),
    ):
        assert "Expected --record for 'lines.txt'" in run(*command, code=2)
    fit = ("fit", "-m", "candidates", "-s", "epsilon=4", "-s", "ranker=tfidf", "--public", "pool.txt", "--out", "model")
    assert "Expected --public-record for 'pool.txt'" in run(*fit, code=2)
    checked = run("check", "lines.txt", "--record", "line")
    assert "lines.txt holds 12 rows" in checked
    assert "; a record is a line of a file\n" in checked
    public = ("--public", "pool.txt", "--public-record", "line")
    run("init", "lines.txt", "--for", "texts", "--record", "line", *public, "--epsilon", "10")
    written = (tmp_path / "dptext.toml").read_text()
    assert 'record = "line"' in written
    assert 'public-record = "line"' in written
    (tmp_path / "dptext.toml").unlink()
    run(*fit, "--record", "line")
    planned = run("privatize", "lines.txt", "no.txt", "--model", "model", "--record", "line", "--dry-run")
    assert "\nA record is a line of a file.\n" in planned
    assert "\nA record is a file.\n" in run("privatize", "notes", "no", "--model", "model", "--dry-run")
    measured = ("summarize", "notes", "no.summary", *public, "--with", "topics", "--set", "topics=2")
    assert "\nA record is a file.\n" in run(*measured, "--encoder", "glove", "--dry-run")
    said = run("privatize", "lines.txt", "out.txt", "--model", "model", "--record", "line")
    assert "Of plain text, a record was a line of a file." in said
    assert "Of plain text, a record was a line of a file." in run("explain", "out.txt")
    released = read_back(tmp_path / "out.txt", list(dp.read_records(lines, record="line")), labelled=False)
    assert {each.output for each in released} <= set(POOL.splitlines())
    run("utility", "fidelity", "lines.txt", "out.txt", *public)  # the certificate says how the originals were read
    said = run("privatize", "notes", "out", "--model", "model", "--workers", "1")
    assert "manifest.json: 4 records" in said
    assert "Of plain text, a record was a file." in said
