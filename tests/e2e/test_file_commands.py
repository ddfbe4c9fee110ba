"""`dptext check`, and `privatize` with stdin, stdout, --dry-run and other layouts: what a new user types."""

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from commands import dptext
from vectors import WORDS

CANARY = "ZEBRA-CANARY-4711"
ROWS = [(f"<p>{WORDS[i % 9]} schön {CANARY}{i} {WORDS[i % 7]}</p>" if i % 3 else "", i % 4, i) for i in range(60)]
EXCEL = "Bewertung;Sterne;Nr\r\n" + "".join(f"{text};{stars};{number}\r\n" for text, stars, number in ROWS)


@pytest.fixture
def work(tmp_path: Path, vectors: Path) -> Path:
    (tmp_path / "excel.csv").write_bytes(EXCEL.encode("cp1252"))
    (tmp_path / "spec.toml").write_text(
        f'kind = "word_metric"\nepsilon = 3.0\nvectors = "{vectors}"\nn_words = 300\n', "utf-8"
    )
    return tmp_path


def piped(work: Path, *arguments: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    code = "import sys; from dptext.cli.app import main; sys.argv[0] = 'dptext'; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=work,
        input=data,
        capture_output=True,
        env=os.environ | {"TMPDIR": str(work / "spool")},
        check=False,
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_check_names_what_works_and_it_works(work: Path) -> None:
    done = dptext("check", "excel.csv", cwd=work)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("excel.csv holds 60 rows that can be read; the texts seem to be in 'Bewertung'.")
    assert "66.7% hold HTML (--strip-html)" in lines[0]
    assert "Decide by how the file was made, not by what its texts hold" in done.stdout
    assert "not protected" in lines[1]
    assert (
        "csv, parted by semicolon, cp1252 (a guess of charset-normalizer: look at a word with an accent)" in done.stdout
    )
    assert "20 empty, 0 repeated" in done.stdout
    assert "\nEmpty  a text like any other" in done.stdout
    assert "\nLong " not in done.stdout
    assert "Keep   not 'Nr' (--keep copies fields as they are): unique in each row" in done.stdout
    assert len(lines) <= 24
    assert CANARY not in done.stdout
    (line,) = (line for line in lines if line.startswith("  dptext summarize"))
    assert shlex.split(line)[-4:] == ["--encoding", "cp1252", "--text-field", "Bewertung"]


def test_check_warns_of_long_texts(work: Path) -> None:
    (work / "long.txt").write_text(f"{CANARY} " * 150_000 + "\nshort\n", "utf-8")
    done = dptext("check", "long.txt", "--record", "line", cwd=work)
    lines = done.stdout.splitlines()
    assert lines[0].endswith("To decide: 1 text of more than 1,500 characters (see Long).")
    assert "largest 2,700,000" in done.stdout
    assert (
        "\nLong   Texts of the pool leave as long as they are: take public texts that are as long, and" in done.stdout
    )
    assert "\nEmpty " not in done.stdout
    assert "refused" not in done.stdout
    assert CANARY not in done.stdout
    assert json.loads(dptext("check", "long.txt", "--record", "line", "--json", cwd=work).stdout)["long"] == 1
    (work / "long.txt").write_text("word " * 1_000_001, "utf-8")
    done = dptext("check", "long.txt", "--record", "line", cwd=work)
    assert done.stdout.startswith("long.txt holds 0 rows that can be read")
    assert "A text of more than 5,000,000 characters is refused" in done.stdout
    assert (
        dptext("privatize", "long.txt", "out.txt", "--record", "line", "--spec", "spec.toml", cwd=work).returncode == 4
    )


def proposed(work: Path, path: str) -> list[list[str]]:
    """The commands that `check` proposes, for a pool of the same form."""
    record = ["--record", "line"] if path.endswith(".txt") else []
    lines = dptext("check", path, *record, cwd=work).stdout.splitlines()
    given = {"PUBLIC": f"pool.{path.partition('.')[2]}", "N": "50"}
    return [[given.get(part, part) for part in shlex.split(line)[1:]] for line in lines if line.startswith("  dptext ")]


@pytest.mark.slow_cases("rows.v2.json", "rows.jsonl", "texts.txt", why="the CSV of Excel stays")
@pytest.mark.parametrize("path", ["excel.csv", "rows.v2.json", "rows.jsonl", "texts.txt"])
def test_both_commands_that_check_proposes_work(work: Path, path: str) -> None:
    rows = [{"review": f"{WORDS[i % 9]} is {i}", "stars": i % 5} for i in range(80)]
    for stem, part in (("rows", rows[:40]), ("pool", rows[40:])):
        (work / f"{stem}.v2.json").write_text(json.dumps(part), "utf-8")
        (work / f"{stem}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part), "utf-8")
    (work / "rows.jsonl").write_text((work / "rows.jsonl").read_text("utf-8") + "{\n", "utf-8")  # a broken line
    for name, part in (("texts.txt", rows[:40]), ("pool.txt", rows[40:])):
        (work / name).write_text("".join(f"{row['review']}\n" for row in part), "utf-8")
    lines = EXCEL.splitlines(keepends=True)
    (work / "pool.csv").write_bytes("".join([lines[0], *lines[30:]]).encode("cp1252"))
    measure, write = proposed(work, path)
    stem = path.partition(".")[0]
    assert (measure[:3], write[:3]) == (
        ["summarize", path, f"{stem}.summary"], ["write", f"{stem}.summary", f"{stem}.written.csv"]
    )  # fmt: skip
    assert not {"--on-error", "--strip-html", "--empty-nulls"} & {
        *measure,
        *write,
    }  # the owner decides
    quick = ["--encoder", "glove", "--set", "words=8", "--set", "topics=4"]
    for command in ([*measure, *quick], write):
        done = dptext(*command, cwd=work)
        assert done.returncode == 0, done.stderr
    column = {"rows": "review", "excel": "Bewertung"}.get(stem, "text")
    assert (work / f"{stem}.written.csv").read_text("utf-8").splitlines()[0] == f"id,{column}"
    assert dptext("explain", f"{stem}.written.csv", cwd=work).returncode == 0


def test_check_as_json(work: Path) -> None:
    (work / "none.csv").write_text(f"{CANARY} is a text,5\nanother,5\n", "utf-8")
    for name, shown in (("excel.csv", ["Bewertung", "Sterne", "Nr"]), ("none.csv", [None, None])):
        done = dptext("check", name, "--json", cwd=work)
        data = json.loads(done.stdout)
        assert [column["name"] for column in data["columns"]] == shown
        assert CANARY not in done.stdout
    assert (data["rows"], data["options"]) == (1, ["--text-field", "NAME"])
    assert CANARY not in dptext("check", "none.csv", cwd=work).stdout
    (work / "two.csv").write_text("I have cancer,food\nHe is well,work\n", "utf-8")
    for command in (("check", "two.csv"), ("privatize", "two.csv", "out.csv", "--spec", "spec.toml")):
        done = dptext(*command, cwd=work)
        assert "cancer" not in done.stdout + done.stderr
        assert "not look like" in done.stdout + done.stderr


def test_check_says_why_a_file_cannot_be_read(work: Path) -> None:
    (work / "lines.json").write_text('{"text": "a"}\n{"text": "b"}\n', "utf-8")
    done = dptext("check", "lines.json", cwd=work)
    assert (done.returncode, done.stdout) == (4, "")
    assert "--format jsonl" in done.stderr
    assert dptext("check", "lines.json", "--format", "jsonl", cwd=work).returncode == 0
    assert dptext("check", "absent.csv", cwd=work).returncode == 2


def test_each_refusal_of_an_excel_file_has_its_remedy(work: Path) -> None:
    options: list[str] = ["--text-field", "Bewertung"]
    for more in (["--delimiter", ";"], ["--encoding", "cp1252"], []):
        done = dptext("privatize", "excel.csv", "out.csv", "--spec", "spec.toml", *options, cwd=work)
        assert (done.returncode == 0) == (not more)
        assert " ".join(more).replace(";", "';'") in done.stderr
        assert CANARY not in done.stderr
        options += more


def test_options_come_from_the_file_of_options(work: Path) -> None:
    (work / "dptext.toml").write_text(
        'text-field = "Bewertung"\ndelimiter = ";"\nencoding = "cp1252"\nstrip-html = true\nempty-nulls = true\n',
        "utf-8",
    )
    done = dptext("privatize", "excel.csv", "out.csv", "--spec", "spec.toml", cwd=work)
    assert done.returncode == 0, done.stderr
    assert "<p>" not in (work / "out.csv").read_text("utf-8")


def test_a_rehearsal_writes_and_charges_nothing(work: Path) -> None:
    ledger = ("--ledger", "books.db", "--account", "a")
    opened = dptext(
        *("budget", "open", "a", "--dataset", "d", "--unit", "document", "--epsilon", "1e6", *ledger[:2]), cwd=work
    )
    assert opened.returncode == 0, opened.stderr
    spec = ("--spec", "spec.toml", "--set", "noise=tem", "--set", "max_tokens=4", "--set", "diameter=12.0")
    layout = ("--text-field", "Bewertung", "--delimiter", ";", "--encoding", "cp1252", "--keep", "Sterne")
    before = names(work)
    done = dptext("privatize", "excel.csv", "out.csv", *spec, *layout, *ledger, "--dry-run", cwd=work)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("A run would release 60 records. Nothing was drawn, charged or written.")
    assert "the field 'Sterne'" in done.stdout
    assert "Cost: epsilon 144.001 alone" in done.stdout
    assert "spent 0 of" in done.stdout
    assert "That takes about 1 s" in done.stdout
    assert names(work) == before
    data = json.loads(
        dptext("privatize", "excel.csv", "out.csv", *spec, *layout, "--dry-run", "--json", cwd=work).stdout
    )
    assert (data["records"], data["charge"]) == (60, None)
    (work / "out.csv").touch()
    there = dptext("privatize", "excel.csv", "out.csv", *spec, *layout, "--dry-run", cwd=work)
    assert there.returncode == 0, there.stderr
    assert "out.csv is there already: a run needs another name, or --force, which overwrites it." in there.stderr
    assert not (work / "out.csv").read_bytes()
    assert dptext("privatize", "excel.csv", "out.csv", *spec, *layout, cwd=work).returncode == 2
    (work / ".out.csv.resume.json").touch()
    unfinished = dptext("privatize", "excel.csv", "out.csv", *spec, *layout, "--dry-run", cwd=work)
    assert unfinished.returncode == 2


def test_a_rehearsal_ends_as_the_run_would_that_cannot_pay(work: Path) -> None:
    ledger = ("--ledger", "books.db", "--account", "a")
    limit = ("--dataset", "d", "--unit", "document", "--epsilon", "200")
    assert dptext("budget", "open", "a", *limit, *ledger[:2], cwd=work).returncode == 0
    spec = ("--spec", "spec.toml", "--set", "noise=tem", "--set", "max_tokens=4", "--set", "diameter=12.0")
    run = ("excel.csv", "out.csv", *spec, *LAYOUT[2:], *ledger)
    assert dptext("privatize", *run, "--dry-run", cwd=work).returncode == 0
    assert dptext("privatize", *run, "--charge-key", "one", cwd=work).returncode == 0
    before, left = names(work), dptext("budget", "log", "a", *ledger[:2], cwd=work).stdout
    rehearsed = dptext("privatize", *run, "--force", "--dry-run", cwd=work)
    assert names(work) - {"books.db-wal", "books.db-shm"} == before
    assert dptext("budget", "log", "a", *ledger[:2], cwd=work).stdout == left
    done = dptext("privatize", *run, "--force", cwd=work)
    assert (rehearsed.returncode, rehearsed.stdout, rehearsed.stderr) == (3, "", done.stderr)
    assert done.returncode == 3
    used = ("privatize", *run, "--force", "--charge-key", "one")
    again, rehearsed = dptext(*used, cwd=work), dptext(*used, "--dry-run", cwd=work)
    assert again.returncode == rehearsed.returncode != 0
    assert again.stderr == rehearsed.stderr


LAYOUT = ("--spec", "spec.toml", "--text-field", "Bewertung", "--delimiter", ";", "--encoding", "cp1252")


def test_stdin_and_stdout_are_spooled_in_private(work: Path) -> None:
    (work / "spool").mkdir()
    made = ("--certificate", "out.csv.guarantee.json")
    done = piped(work, "privatize", "-", "-", *LAYOUT, "--format", "csv", *made, data=EXCEL.encode("cp1252"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"id,Bewertung\r\n")
    assert b"Written: stdout and out.csv.guarantee.json" in done.stderr
    assert names(work / "spool") == set()
    (work / "out.csv").write_bytes(done.stdout)
    assert dptext("explain", "out.csv", cwd=work).returncode == 0
    mode = stat.S_IMODE((work / "excel.csv").stat().st_mode)
    assert stat.S_IMODE((work / "out.csv.guarantee.json").stat().st_mode) == mode


def test_nothing_of_a_stream_is_left_after_an_error(work: Path) -> None:
    (work / "spool").mkdir()
    made = ("--certificate", "out.csv.guarantee.json")
    (work / "bad.csv").write_bytes(EXCEL.encode("cp1252") + b'x";y\r\n')
    given, spool = ("--format", "csv", *made), os.environ | {"TMPDIR": str(work / "spool")}
    bad = dptext("privatize", "-", "-", *LAYOUT, *given, cwd=work, env=spool, stdin=str(work / "bad.csv"))
    assert bad.stderr.startswith("dptext: stdin, record 61: ")
    assert "spool" not in bad.stderr
    assert (bad.returncode, bad.stdout) == (4, "")
    full = dptext("privatize", "excel.csv", "-", *LAYOUT, *made, cwd=work, env=spool, stdout="/dev/full")
    assert full.returncode == 2, full.stderr
    assert "stdout took no more (No space left on device)" in full.stderr
    assert names(work / "spool") == set()
    assert CANARY not in bad.stderr + full.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-", "out.csv"), "--format with IN -"),
        (("excel.csv", "-"), "--certificate NAME.guarantee.json"),
        (("excel.csv", "out.csv", "--certificate", "c.guarantee.json"), "and only there"),
        (("excel.csv", "-", "--certificate", "c.json"), "to end in .guarantee.json"),
        (("excel.csv", "-", "--certificate", "c.csv.guarantee.json", "--resume"), "no --resume"),
        (("excel.csv", "-", "--certificate", "spec.toml"), "to be no input"),
        (("excel.csv", "-", "--certificate", "there.csv.guarantee.json"), "no file at"),
    ],
)
def test_streams_that_lack_something(work: Path, arguments: tuple[str, ...], message: str) -> None:
    (work / "there.csv.guarantee.json").touch()
    before = names(work)
    done = dptext("privatize", *arguments, *LAYOUT, cwd=work)
    assert done.returncode == 2
    assert message in done.stderr
    assert names(work) == before


def test_fit_reads_the_same_files(work: Path) -> None:
    rows = [{"Bewertung": text, "Sterne": stars} for text, stars in (("the good", 0), (None, 1))]
    (work / "public.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    layout = ("--text-field", "Bewertung", "--label-field", "Sterne", "--delimiter", ";", "--encoding", "cp1252")
    fit = ("fit", "--mechanism", "smart_redaction", "--set", "level=0.5", "--set", 'sensitive="1"', "--strip-html")
    for public, code, message in (("excel.csv", 0, ""), ("public.jsonl", 4, "--empty-nulls")):
        done = dptext(*fit, "--public", public, "--out", f"model-{public}", *layout, cwd=work)
        assert done.returncode == code, done.stderr
        assert message in done.stderr
    done = dptext(*fit, "--public", "public.jsonl", "--out", "model", *layout, "--empty-nulls", cwd=work)
    assert done.returncode == 0, done.stderr


PUBLIC = "words,Sterne\n" + "".join(f"{WORDS[i % 9]} and {WORDS[i % 8]} {i},{i % 2}\n" for i in range(40))


def test_the_texts_of_a_public_file_may_be_in_another_column(work: Path) -> None:
    (work / "public.csv").write_text(PUBLIC, "utf-8")
    fit = ("fit", "--mechanism", "candidates", "--set", "epsilon=9", "--set", "ranker=tfidf", "--public", "public.csv")
    refused = dptext(*fit, "--text-field", "Bewertung", "--out", "model", cwd=work)
    assert refused.returncode == 4
    assert "found 'words', 'Sterne': name it with --public-text-field" in refused.stderr
    (work / "dptext.toml").write_text(
        'text-field = "Bewertung"\npublic-text-field = "words"\ndelimiter = ";"\nencoding = "cp1252"\n', "utf-8"
    )
    (work / "public.csv").write_text(PUBLIC.replace(",", ";"), "utf-8")
    for command in ((*fit, "--out", "model"), ("privatize", "excel.csv", "out.csv", "--model", "model")):
        done = dptext(*command, cwd=work)
        assert done.returncode == 0, done.stderr
    done = dptext("utility", "balance", "excel.csv", "out.csv", "--public", "public.csv", cwd=work)
    assert "Expected releases with labels" in done.stderr  # the files were read
    (work / "dptext.toml").unlink()
    options = ("--text-field", "Bewertung", "--public", "public.csv", "--public-text-field", "words")
    done = dptext("init", "excel.csv", "--for", "texts", *options, "--epsilon", "9", cwd=work)
    assert done.returncode == 0, done.stderr
    assert 'public-text-field = "words"' in (work / "dptext.toml").read_text("utf-8")


def test_the_next_line_of_fit_works_as_printed(work: Path) -> None:
    """With the form of the files, and labels of a public file in a column of another name."""
    (work / "public.csv").write_bytes(PUBLIC.replace(",", ";").replace("Sterne", "stars").encode("cp1252"))
    fit = ("fit", "--mechanism", "label_only", "--set", "epsilon=3", "--set", 'labels=["0", "1"]', "--out", "a model")
    layout = ("--text-field", "Bewertung", "--delimiter", ";", "--encoding", "cp1252", "--strip-html")
    public = ("--public", "public.csv", "--public-text-field", "words", "--label-field", "Sterne")
    refused = dptext(*fit, *layout, *public, cwd=work)
    assert "--public-label-field" in refused.stderr
    done = dptext(*fit, *layout, *public, "--public-label-field", "stars", cwd=work)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()[-1]
    assert told.startswith(
        "Next: dptext privatize IN OUT --model 'a model' --label-field Sterne --text-field Bewertung"
    )
    asked = ["excel.csv" if word == "IN" else "next.jsonl" if word == "OUT" else word for word in shlex.split(told)[2:]]
    done = dptext(*asked, cwd=work)
    assert done.returncode == 0, done.stderr
    done = dptext(
        "init", "excel.csv", "--for", "texts", *layout[:2], *public, "--public-label-field", "stars", cwd=work
    )
    assert done.returncode == 0, done.stderr
    assert 'public-label-field = "stars"' in (work / "dptext.toml").read_text("utf-8")
    assert dptext("check", "excel.csv", cwd=work).returncode == 0  # reads dptext.toml


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        (("authorship", "excel.csv", "--author-field", "Sterne"), "fewer for 4 of 4 authors"),
        (("trait", "excel.csv", "excel.csv"), "texts of each set"),
        (("membership", "excel.csv", "--label-field", "Sterne", "--attack", "loss"), "records left out"),
        (("divergence", "excel.csv", "excel.csv", "--public", "excel.csv", "--embedding", "tfidf"), "found 0 of 60"),
    ],
    ids=["authorship", "trait", "membership", "divergence"],
)
def test_audits_read_the_same_files(work: Path, audit: tuple[str, ...], message: str) -> None:
    layout = ("--text-field", "Bewertung", "--delimiter", ";", "--encoding", "cp1252", "--strip-html")
    spec = ("--spec", "spec.toml") if audit[0] in ("authorship", "trait") else ("--details",)
    done = dptext("audit", *audit, *spec, *layout, cwd=work)
    assert message in done.stderr + done.stdout
    assert CANARY not in done.stderr
