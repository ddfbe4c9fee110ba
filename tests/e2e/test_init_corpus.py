"""`dptext init` for a corpus under one epsilon: what it asks and writes, and that `summarize` and `write` read it."""

from __future__ import annotations

import csv
import json
import os
import pty
import shlex
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import dptext as dp
from commands import dptext, in_turn
from dptext.runs.summarizing import column_lines
from dptext.text.declarations import schema_of

CORPUS = ("init", "in.jsonl", "--text-field", "letter", "--public", "pool.jsonl")


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """Private letters with topics and authors, and a pool with topics."""
    records = dp.sample_records(300)
    for name, part in (("pool.jsonl", records[:120]), ("in.jsonl", records[120:])):
        rows = [json.dumps({"letter": each.text, "topic": each.label, "who": each.author}) for each in part]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    return tmp_path


def commands(told: str) -> list[list[str]]:
    """The commands that the screen shows."""
    return [shlex.split(line)[1:] for line in told.splitlines() if line.startswith("  dptext ")]


def test_the_commands_that_it_shows_read_what_it_writes(letters: Path) -> None:
    done = dptext(*CORPUS, "--label-field", "topic", "--about", "200", "--epsilon", "2", cwd=letters)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()
    assert first[0].startswith("A corpus under one epsilon: at epsilon 2 it taught a classifier more than public texts")
    assert "epsilon 2" in first[1]
    assert first[2].startswith("The legal page of such a release")
    written = tomllib.loads((letters / "dptext.toml").read_text())
    assert written["summary"] == {"epsilon": 2.0, "about": 200, "labels": ["health", "leisure", "money", "travel"]}
    assert [each[0] for each in commands(done.stdout)] == ["utility", "summarize", "summary", "write"]
    quick = {"utility": ("--encoder", "glove"), "summarize": ("--encoder", "glove", "--set", "words=8")}
    for each in commands(done.stdout):
        ran = dptext(*each, *quick.get(each[0], ()), cwd=letters)
        assert ran.returncode == 0, (each, ran.stderr)
        assert ("What a corpus could teach lies between" in ran.stdout) == (each[0] == "utility")
    certificate = json.loads((letters / "in.summary.guarantee.json").read_text())
    assert certificate["settings"]["labels"] == ["health", "leisure", "money", "travel"]
    assert (certificate["settings"]["epsilon"], certificate["settings"]["about"]) == (2.0, 200)
    assert (letters / "in.written.csv").read_text().splitlines()[0] == "id,letter,topic"
    like = ("summarize", "in.jsonl", "other.summary", "--like", "in.summary")
    ran = dptext(*like, cwd=letters)  # the pool of dptext.toml gives way to that of the summary
    assert ran.returncode == 0, ran.stderr


def test_without_a_terminal_what_lacks_is_named_by_its_option(letters: Path) -> None:
    """stdin is /dev/null or a pipe: nothing is asked, and that is said."""
    (letters / "other.jsonl").write_text('{"words": "a public text"}\n')
    for given, code, wanted in (
        (("init",), 2, "Missing argument 'FILE|FOLDER'"),
        (("init", "in.jsonl"), 2, "Expected --text-field NAME with in.jsonl, found 'letter', 'topic', 'who'"),
        (("init", "in.jsonl", "--text-field", "letter"), 2, "--public FILE"),
        (("init", "in.jsonl", "--text-field", "letter", "--public", "other.jsonl"), 4, "--public-text-field"),
        (("init", "--help"), 0, ""),
    ):
        done = dptext(*given, cwd=letters)
        assert done.returncode == code, done.stderr
        assert wanted in done.stderr
        assert ("--for is corpus" in done.stderr) is ("in.jsonl" in given)
    assert not (letters / "dptext.toml").exists()
    done = dptext(*CORPUS, "--for", "corpus", cwd=letters)
    assert (done.returncode, "--for is corpus" in done.stderr) == (0, False)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Private and public letters, each in a file of plain text, in two folders."""
    records = dp.sample_records(200)
    for name, part in (("posts", records[:100]), ("public", records[100:])):
        (tmp_path / name).mkdir()
        for i, each in enumerate(part):
            (tmp_path / name / f"{i:03}.txt").write_text(each.text)
    return tmp_path


def test_folders_of_files_are_read_as_files_are(folders: Path) -> None:
    done = dptext("init", "posts", "--public", "public", "--about", "100", cwd=folders)
    assert done.returncode == 0, done.stderr
    written = tomllib.loads((folders / "dptext.toml").read_text())
    assert written["public"] == "public"
    assert written["with"] == "topics"
    assert written["summary"] == {"epsilon": 1.0, "about": 100}
    quick = ("--encoder", "glove", "--set", "words=8")
    for each in commands(done.stdout):
        ran = dptext(*each, *(quick if each[0] == "summarize" else ()), cwd=folders)
        assert ran.returncode == 0, (each, ran.stderr)
        assert "Take fewer" not in ran.stderr  # a hundred texts have a few topics, whose numbers noise leaves readable
    fewer = (folders / "dptext.toml").read_text().replace("about = 100", "about = 5000")
    (folders / "dptext.toml").write_text(fewer)
    ran = dptext("summarize", "posts", "more.summary", *quick, "--dry-run", cwd=folders)
    assert "Take fewer" not in ran.stderr + ran.stdout, ran.stderr
    assert {*folders.iterdir()} >= {folders / "posts.summary", folders / "posts.written.csv"}
    assert len([*(folders / "posts").iterdir()]) == 100  # what is written does not stand among the private files
    texts = {each.read_text() for each in (folders / "public").iterdir()}
    rows = [*csv.DictReader((folders / "posts.written.csv").read_text().splitlines())]
    assert rows
    assert {row["text"] for row in rows} <= texts
    judged = ("utility", "corpus", "posts", "posts.written.csv", "--public", "public", "--encoder", "glove")
    ran = dptext(*judged, cwd=folders)
    assert ran.returncode == 0, ran.stderr
    for same in ("posts", "posts/000.txt"):
        ran = dptext("init", "posts", "--public", same, "--force", cwd=folders)
        assert ran.returncode == 2
        assert "other than the private corpus" in ran.stderr
    texts = dptext("init", "posts", "--public", "public", "--for", "texts", "--force", cwd=folders).stdout
    assert "dptext privatize posts posts.released" in texts


def test_how_many_there_are_is_for_the_user_to_say(letters: Path) -> None:
    """Without a terminal nothing is assumed: the command has a gap, which is refused until it is filled."""
    done = dptext(*CORPUS, cwd=letters)
    assert done.returncode == 0, done.stderr
    assert "about" not in tomllib.loads((letters / "dptext.toml").read_text())["summary"]
    assert "(N: about how many documents there are, a round number, which is public." in done.stdout
    measure = commands(done.stdout)[0]
    assert measure[-2:] == ["--about", "N"]
    assert dptext(*measure, cwd=letters).returncode == 2
    assert not (letters / "in.summary").exists()


def test_an_option_overrules_the_file(letters: Path) -> None:
    assert dptext(*CORPUS, "--about", "200", cwd=letters).returncode == 0
    quick = ("--encoder", "glove", "--set", "words=8", "--epsilon", "0.5", "--dry-run")
    ran = dptext("summarize", "in.jsonl", "in.summary", *quick, cwd=letters)
    assert ran.returncode == 0, ran.stderr
    assert "epsilon 0.5" in ran.stdout


def test_labels_are_those_of_public_texts_or_of_the_user(letters: Path) -> None:
    """A label that stands in the private file alone is never written."""
    with (letters / "in.jsonl").open("a") as file:
        file.write('{"letter": "so", "topic": "zq9canary"}\n')
    assert dptext(*CORPUS, "--label-field", "topic", cwd=letters).returncode == 0
    assert "zq9canary" not in (letters / "dptext.toml").read_text()
    own = ("--label-field", "topic", "--labels", "bill,parcel", "--force")
    assert dptext(*CORPUS, *own, cwd=letters).returncode == 0
    assert tomllib.loads((letters / "dptext.toml").read_text())["summary"]["labels"] == ["bill", "parcel"]
    (letters / "pool.jsonl").write_text("".join(f'{{"letter": "letter {i}"}}\n' for i in range(40)))
    done = dptext(*CORPUS, "--label-field", "topic", "--force", cwd=letters)
    assert done.returncode == 2
    assert "Expected --labels A,B,... with --label-field" in done.stderr


def test_authors_and_tables_and_numbers(letters: Path) -> None:
    author = ("--unit", "author", "--author-field", "who", "--about", "30")
    done = dptext(*CORPUS, "--for", "table", *author, cwd=letters)
    assert done.returncode == 0, done.stderr
    assert "No column is declared yet: dptext.toml has examples. `dptext check in.jsonl` proposes lines" in done.stdout
    written = tomllib.loads((letters / "dptext.toml").read_text())
    assert written["author-field"] == "who"
    assert written["summary"] == {"epsilon": 1.0, "about": 30, "unit": "author"}
    assert written["with"] == "topics"
    few = ("--label-field", "topic", "--labels", "health,money", "--column", "who: a|b|c", "--force")
    done = dptext(*CORPUS, "--for", "table", "--about", "30", *few, cwd=letters)
    assert "about 15 documents for each of 2 labels are few" in done.stdout  # as the dry run says
    done = dptext(*CORPUS, "--for", "numbers", "--force", cwd=letters)
    assert [each[0] for each in commands(done.stdout)] == ["summarize", "summary"]


REFUSED = {
    ("--for", "corpus", "--column", "topic: health|money"): "Expected no --column with --for corpus",
    ("--for", "table", "--column", "topic"): "Expected a column to look like 'NAME: WHAT', found 'topic'",
    ("--for", "table", "--column", "size: s|l"): "Expected --column 'size' to be a field of in.jsonl",
    ("--for", "table", "--column", "letter: a|b"): "Expected the field 'letter' of the texts to be no other field",
    ("--for", "everything"): "'everything' to be one of corpus, table, numbers, texts",
    ("--unit", "token"): "--for texts",
    ("--unit", "author"): "Expected --author-field NAME with --unit author",
    ("--author-field", "who"): "Expected --unit author with --author-field",
    ("--labels", "a,b"): "Expected --label-field NAME with --labels",
    ("--label-field", "topic", "--labels", "a"): "at least two different labels",
    ("--about", "0"): "Expected --about to be about how many there are",
    ("--epsilon", "-1"): "Expected --epsilon to be a number above 0",
    ("--task", "meaning"): "Expected no --task with --for corpus",
    ("--for", "texts", "--about", "7"): "Expected no --about with --for texts",
}


def test_what_cannot_be_is_refused_and_nothing_is_written(letters: Path) -> None:
    lines = [(*CORPUS, *more) for more in REFUSED]
    for done, (more, words) in zip(in_turn(*lines, cwd=letters), REFUSED.items(), strict=True):
        assert done.returncode == 2, more
        assert words in done.stderr
    assert not (letters / "dptext.toml").exists()


def test_a_corpus_needs_public_texts(letters: Path) -> None:
    done = dptext(*CORPUS[:4], cwd=letters)
    assert done.returncode == 2
    assert "Expected public texts of the same kind, from which a corpus is written: --public FILE." in done.stderr


def test_it_asks_what_readers_need(letters: Path) -> None:
    ours, theirs = pty.openpty()
    answers = ("all", "corpus", "letter", "pool.jsonl", "topic", "author", "whom", "who", "", "2", "about 20", "20")
    os.write(ours, "".join(f"{each}\n" for each in answers).encode())
    done = dptext("init", "in.jsonl", cwd=letters, stdin=os.ttyname(theirs))
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Error: ") == 3
    written = tomllib.loads((letters / "dptext.toml").read_text())
    assert written["summary"]["unit"] == "author"
    assert (written["summary"]["epsilon"], written["summary"]["about"]) == (2.0, 20)
    assert written["summary"]["labels"] == ["health", "leisure", "money", "travel"]


def test_a_table_has_examples_of_columns_until_some_are_declared(letters: Path) -> None:
    (letters / "pool.jsonl").write_text(
        "".join(json.dumps({"letter": each.text}) + "\n" for each in dp.sample_records(200, seed=3))
    )
    quick = ("--encoder", "glove", "--set", "words=8", "--set", "topics=4")

    def measured(*given: str) -> list[str]:
        done = dptext(*CORPUS, "--for", "table", "--about", "200", "--epsilon", "8", *given, "--force", cwd=letters)
        assert done.returncode == 0, done.stderr
        for each in commands(done.stdout):
            more = {"summarize": (*quick, "--force"), "write": ("--force",)}.get(each[0], ())
            ran = dptext(*each, *more, cwd=letters)
            assert ran.returncode == 0, (each, ran.stderr)
        return (letters / "in.written.csv").read_text().splitlines()[0].split(",")

    assert measured() == ["id", "letter"]  # the commands work before anything is declared
    written = (letters / "dptext.toml").read_text()
    assert "# Beside the texts, in.jsonl has 'topic', 'who'.\n# [columns]\n" in written
    examples = written.replace("\n# [columns]", "\n[columns]")
    for line in written.splitlines():
        if line.startswith("# ") and " = " in line:
            examples = examples.replace(line, line.removeprefix("# "))
    declared = tomllib.loads(examples)["columns"]
    assert len(schema_of(column_lines(declared))) == len(declared) == 5  # each example is a declaration
    assert measured("--column", "topic: health|travel|money|leisure") == ["id", "letter", "topic"]
    told = tomllib.loads((letters / "dptext.toml").read_text())
    assert told["columns"] == {"topic": "health|travel|money|leisure"}
    assert "with" not in told
    assert measured() == ["id", "letter", "topic"]  # what stands there stays
    assert "# [columns]" not in (letters / "dptext.toml").read_text()


def test_a_second_run_reads_nothing_of_the_first_but_the_columns(letters: Path) -> None:
    """A file of another form or use leaves no option behind. What its owner declared stays."""
    first = ("--for", "table", "--unit", "author", "--author-field", "who", "--label-field", "topic")
    assert dptext(*CORPUS, *first, cwd=letters).returncode == 0
    with (letters / "dptext.toml").open("a") as file:
        file.write('\n[columns]\n"priority?" = "low|high, very"\n')
    done = dptext(*CORPUS, "--about", "70", "--force", cwd=letters)
    assert done.returncode == 0, done.stderr
    written = tomllib.loads((letters / "dptext.toml").read_text())
    assert not {"author-field", "label-field"} & {*written}
    assert "unit" not in written["summary"]
    assert written["columns"] == {"priority?": "low|high, very"}
    done = dptext(*CORPUS[:2], "--for", "texts", *CORPUS[2:], "--force", cwd=letters)
    assert done.returncode == 0, done.stderr


def test_labels_of_public_texts_may_hold_commas(letters: Path) -> None:
    names = ('a, "b"', "it's")
    for name in ("pool.jsonl", "in.jsonl"):
        rows = [json.loads(line) for line in (letters / name).read_text().splitlines()]
        lines = [json.dumps({**row, "topic": names[i % 2]}) for i, row in enumerate(rows)]
        (letters / name).write_text("\n".join(lines) + "\n")
    assert dptext(*CORPUS, "--label-field", "topic", cwd=letters).returncode == 0
    assert tomllib.loads((letters / "dptext.toml").read_text())["summary"]["labels"] == [*names]


def test_what_was_not_measured_is_said(letters: Path) -> None:
    done = dptext(*CORPUS, "--for", "numbers", cwd=letters)
    assert "taught a classifier" not in done.stdout
    done = dptext(*CORPUS, "--label-field", "topic", "--epsilon", "10", "--about", "300", "--force", cwd=letters)
    first = done.stdout.splitlines()[0]
    assert first.startswith("A corpus under one epsilon: at epsilon 4 it taught a classifier more")
    assert first.endswith(" Nothing was measured at epsilon 10 per document: the numbers are of epsilon 4 or less.")
    assert "(N: about how many" not in done.stdout


def test_two_forms_that_summarize_cannot_read_together_are_refused(letters: Path) -> None:
    (letters / "in.csv").write_text("letter;topic\nso it is;travel\n")
    (letters / "pool.csv").write_text("letter,topic\nso it was,travel\n")
    done = dptext("init", "in.csv", "--text-field", "letter", "--public", "pool.csv", cwd=letters)
    assert done.returncode == 2
    assert "Expected both files to have one delimiter" in done.stderr
    (letters / "bare.jsonl").write_text('{"letter": "so"}\n' * 20)
    given = ("--for", "texts", "--text-field", "letter", "--label-field", "topic", "--public", "bare.jsonl")
    done = dptext("init", "in.jsonl", *given, cwd=letters)
    assert done.returncode == 2
    assert "or leave --label-field out" in done.stderr


def answered(folder: Path, *answers: str, given: tuple[str, ...] = ()) -> CompletedProcess[str]:
    """`init in.jsonl` at a terminal, where somebody types these answers."""
    ours, theirs = pty.openpty()
    os.write(ours, "".join(f"{each}\n" for each in answers).encode())
    done = dptext("init", "in.jsonl", *given, cwd=folder, stdin=os.ttyname(theirs))
    os.close(ours)
    os.close(theirs)
    return done


def test_an_answer_that_is_refused_is_asked_for_again_and_the_others_stay(letters: Path) -> None:
    (letters / "bare.csv").write_text("letter\nso\n")
    first = ("corpus", "letter", "", "nowhere.jsonl", "in.jsonl", "pool.jsonl", "letter", "topic")
    labels = ("health,health,travel", "health", "health,travel")
    done = answered(letters, *first, "author", "", "letter", "who", *labels, "1e-9", "2", "0", "30")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Error: ") == 10
    for words in (
        "from which a corpus is written: --public FILE",
        "Name another one with --public",
        "Expected the field 'letter' of the texts to be no other field",
        "Expected --author-field NAME with --unit author: whose texts are added up ('who' may name authors)",
        "to be different, each named once",
        "with commas between them, in --labels",
        "Choose a larger epsilon",
        "Expected --about",
    ):
        assert words in done.stderr
    written = tomllib.loads((letters / "dptext.toml").read_text())
    assert "Protect each document or each author ('who' may name authors) [document]:" in done.stderr
    assert written["author-field"] == "who"
    assert written["summary"]["labels"] == ["health", "travel"]
    assert (written["summary"]["epsilon"], written["summary"]["about"]) == (2.0, 30)


def test_fields_of_the_public_file_are_asked_for_if_they_have_other_names(letters: Path) -> None:
    rows = [json.loads(line) for line in (letters / "pool.jsonl").read_text().splitlines()]
    (letters / "pool.jsonl").write_text(
        "".join(json.dumps({"body": row["letter"], "about": row["topic"]}) + "\n" for row in rows)
    )
    done = answered(letters, "texts", "letter", "pool.jsonl", "boddy", "body", "topic", "about", "token", "9")
    assert done.returncode == 0, done.stderr
    assert "pool.jsonl has no 'letter'. Its field of the text, of 'body', 'about'" in done.stderr
    assert "pool.jsonl has no 'topic'. Its field of labels" in done.stderr
    done = answered(letters, "texts", "letter", "", "", "document", "token", "9", given=("--force",))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Error: Expected public texts of the same kind") == 1
    assert "[token]" in done.stderr


def test_tags_are_taken_out_if_a_sensible_share_of_the_public_texts_has_some_and_it_is_said(letters: Path) -> None:
    rows = [json.loads(line) for line in (letters / "pool.jsonl").read_text().splitlines()]

    def told(n: int) -> tuple[str, bool]:
        tagged = [
            {**row, "letter": f"<b>{row['letter']}</b>" if i < n else row["letter"]} for i, row in enumerate(rows)
        ]
        (letters / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tagged))
        done = dptext(*CORPUS, "--about", "200", "--force", cwd=letters)
        assert done.returncode == 0, done.stderr
        return done.stdout, tomllib.loads((letters / "dptext.toml").read_text()).get("strip-html", False)

    said, strips = told(1)
    assert (strips, "Tags stay in the texts: 0.8% look like HTML in pool.jsonl, fewer than 5%." in said) == (
        False,
        True,
    )
    said, strips = told(60)
    assert strips
    assert "Taken from pool.jsonl, for both files: strip-html (50.0% look like HTML: tags are taken out)." in said
    said, strips = told(0)
    assert "HTML" not in said


def test_a_column_that_may_name_authors_is_named(letters: Path) -> None:
    said = "'who' of in.jsonl may name authors: --unit author --author-field who protects all texts of one."
    assert said in dptext(*CORPUS, cwd=letters).stderr
    assert "may name authors" not in dptext(*CORPUS, "--unit", "document", "--force", cwd=letters).stderr


def test_each_text_without_public_texts_has_an_answer_that_is_taken(letters: Path) -> None:
    """The default was refused again and again."""
    done = answered(letters, "texts", "letter", *[""] * 12)
    assert (
        "Protect each document or each token (documents need public texts: begin again with --public FILE) [token]:"
        in (" ".join(done.stderr.split()))
    )
    assert done.returncode == 0, done.stderr
    assert "Expected public texts" not in done.stderr
