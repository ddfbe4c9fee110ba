"""`dptext utility corpus`: verdicts that were wrong, or rested on a comparison that they did not name."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import dptext as dp
from dptext.cli.app import app, config
from dptext.errors import ConfigError
from dptext.text.labels import in_words

Row = dict[str, object]
JUDGE = ["utility", "corpus", "private.jsonl", "corpus.jsonl", "--public", "pool.jsonl", "--label-field", "topic"]
NAMES = ("sport", "trade", "music")


@functools.cache
def hashed(letters: str) -> int:
    return hashlib.sha256(letters.encode()).digest()[0]


class HashedSyllables:
    """Stands in for the sentence encoder: letters by two, hashed to coordinates."""

    name, dim, digest, network = "hashed syllables", 32, "1" * 64, None

    def embed(self, texts: Sequence[str], *, on_progress: object = None) -> np.ndarray:
        found = np.zeros((len(texts), self.dim))
        for row, text in zip(found, texts, strict=True):
            for i in range(len(text)):
                row[hashed(text[i : i + 2]) % self.dim] += 1
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    from dptext.embeddings import sentence_encoder

    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: HashedSyllables())
    monkeypatch.chdir(tmp_path)
    config.cache_clear()
    yield
    config.cache_clear()


def texts(n: int, seed: int, *, wrong: float = 0.0, weights: Sequence[float] = (1, 1, 1)) -> list[Row]:
    """Texts of eight words, three of them of their topic; this share has another label."""
    rng = np.random.default_rng(seed)
    shares, found = np.array(weights) / sum(weights), list[Row]()
    for topic in rng.choice(3, n, p=shares).tolist():
        words = [f"{NAMES[topic]}{i}" for i in rng.integers(0, 40, 3)] + [f"word{i}" for i in rng.integers(0, 200, 5)]
        given = (topic + int(rng.integers(1, 3))) % 3 if rng.random() < wrong else topic
        found.append({"text": " ".join(rng.permutation(words)), "topic": NAMES[given]})
    return found


def write(**files: Sequence[Row]) -> None:
    for name, rows in files.items():
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def judge(*more: str) -> Result:
    return CliRunner().invoke(app, [*JUDGE, "--seed", "1", *more])


def data(*more: str) -> dict[str, dict[str, str]]:
    done = judge("--json", *more)
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_dry_run_names_the_command_that_says_what_a_corpus_could_teach() -> None:
    """As the dry run prints it, also with public texts without labels, before anything is charged."""
    pool = [{"text": row["text"]} for row in texts(300, 3)]
    write(private=texts(200, 1), pool=pool)
    run = ["summarize", "private.jsonl", "a.summary", "--public", "pool.jsonl", "--about", "200", "--dry-run"]
    labelled = [*run, "--label-field", "topic", "--labels", "sport,trade,music"]
    for names, by in (
        (
            (),
            "by the words 'music', 'sport', 'trade': --names LABEL=MEANING,... in plain words may make them stronger.",
        ),
        (("--names", "all sport,all trade,all music"), "'music' by 'all music', 'sport' by 'all sport', 'trade' by "),
    ):
        there = CliRunner().invoke(app, [*labelled, *names]).stdout
        said = next(line for line in there.splitlines() if line.startswith("What a corpus could teach"))
        done = CliRunner().invoke(app, shlex.split(said.partition(": dptext ")[2]))
        assert done.exit_code == 0, done.exception
        assert "What a corpus could teach lies between: a classifier that learns from the public texts" in done.stdout
        assert "from originals " in done.stdout
        assert f"Public texts were labelled {by}" in done.stdout, done.stdout  # in the order of nobody's labels
    assert "What a corpus could teach" not in CliRunner().invoke(app, run).stdout


def test_a_small_corpus_that_beats_as_many_public_texts_is_told_to_grow() -> None:
    """Forty good texts lose to 600 bad ones by their number alone."""
    write(private=texts(200, 1), test=texts(300, 2), pool=texts(600, 3, wrong=0.45), corpus=texts(40, 4))
    found = data("--test", "test.jsonl")
    assert found["worth"]["verdict"] == "in part", found["answer"]
    assert "more than as many public texts of the same mix, but" in found["answer"][0]
    assert "more texts may help (write --size)" in found["answer"][0]
    assert "take" not in found["answer"][0]


def test_a_draw_of_public_texts_is_told_to_be_left() -> None:
    pool = texts(400, 3)
    write(private=texts(200, 1), test=texts(200, 2), pool=pool, corpus=pool[:30])
    found = data("--test", "test.jsonl")
    assert found["worth"]["verdict"] == "no"
    assert "less than all 400 public texts: take the public texts." in found["answer"][0]


def test_one_lucky_draw_of_public_texts_does_not_decide() -> None:
    """As many public texts have the mean of some draws: no draw alone has that accuracy."""
    write(private=texts(100, 1), test=texts(100, 2), pool=texts(300, 3), corpus=texts(30, 4))
    rows = data("--test", "test.jsonl")["rows"]
    right = 100 * rows["as many, same mix"]["accuracy"]["value"]  # type: ignore[index,operator]
    assert 8 * right == pytest.approx(round(8 * right))
    assert right != pytest.approx(round(right))
    assert rows["as many, same mix"].keys() == {"accuracy"}  # type: ignore[attr-defined]


def test_public_texts_with_other_labels_are_labelled_by_the_names() -> None:
    """A classifier of foreign labels is never right. That made any corpus look better than public texts."""
    pool = [{**row, "topic": "unknown"} for row in texts(200, 3)]
    write(private=texts(100, 1), test=texts(100, 2), pool=pool, corpus=texts(60, 4))
    found = data("--test", "test.jsonl")
    assert found["rows"]["public-only"]["accuracy"]["value"] > 0.6  # type: ignore[index]
    assert "all 200 public texts" in found["answer"][0]
    assert "(labelled by the names of the labels)" in found["answer"][0]


def test_labels_that_say_nothing_in_words_label_no_public_texts() -> None:
    """By digits they were labelled at random, and any corpus taught more. Labels of their own need no words."""
    stars = {name: i + 1 for i, name in enumerate(NAMES)}
    for name, seed in (("private", 1), ("test", 2), ("pool", 3), ("corpus", 4)):
        write(**{name: [{**row, "topic": stars[str(row["topic"])]} for row in texts(120, seed)]})
    assert data("--test", "test.jsonl")["worth"] is not None
    write(pool=[{"text": row["text"]} for row in texts(120, 3)])
    found, said = data("--test", "test.jsonl"), "These labels say nothing in words, so public texts cannot be labelled:"
    assert found["worth"] is None
    assert "accuracy" in found["rows"]["released"]
    assert not any("accuracy" in row for name, row in found["rows"].items() if "public" in name)
    assert found["answer"][0].count(said) == 1
    assert "teach" not in " ".join(found["answer"])
    done = judge("--test", "test.jsonl", "--out", "page.html")
    assert done.exit_code == 0, (done.output, done.exception)
    page = Path("page.html").read_text("utf-8")
    assert done.stdout.count(said) == page.count(said) == 1
    assert "all public texts, without labels" in page
    named = data("--test", "test.jsonl", "--names", ",".join(f"{i + 1}={name}" for i, name in enumerate(NAMES)))
    assert named["worth"] is not None, "what labels mean is public, and can be said after all was measured"
    assert said not in named["answer"][0]
    assert named["rows"]["public-only"]["accuracy"]["value"] > 0.6  # type: ignore[index]
    for given in ("sport,trade", "sport,trade,music"):  # whose order nobody would know
        assert "no summary has an order of labels: 1=MEANING,2=MEANING,3=MEANING." in str(
            judge("--names", given).exception
        )
    turned = data("--test", "test.jsonl", "--names", "3=music,1=sport,2=trade")
    assert turned["rows"]["public-only"] == named["rows"]["public-only"]
    assert "Public texts were labelled '1' by 'sport', '2' by 'trade', '3' by 'music'." in turned["answer"][0]


@pytest.mark.parametrize(
    ("names", "said"),
    [(("1", "2", "5.0"), False), (("A", "b", "-1"), False), (("1", "good"), True), (("好", "坏"), True),
     (("खेल", "धन"), True), (("é1", "e\u0301"), False), ((), False)],
)  # fmt: skip
def test_words_are_letters_in_a_row_or_signs_that_are_words(names: Sequence[str], *, said: bool) -> None:
    assert in_words(names) is said


def test_a_corpus_of_one_label_is_no_yes_and_random_labels_judge_nothing() -> None:
    weights = (8, 1, 1)
    same = [{**row, "topic": "sport"} for row in texts(100, 4)]
    bad = [row for row in texts(200, 3, wrong=0.9) if row["topic"] != "sport"]
    write(private=texts(200, 1, weights=weights), test=texts(200, 2, weights=weights), pool=bad, corpus=same)
    found = data("--test", "test.jsonl")
    assert found["worth"]["verdict"] == "not shown"
    assert "the most frequent label alone" in found["answer"][0]
    rng = np.random.default_rng(0)
    write(**{name: [{**row, "topic": NAMES[rng.integers(0, 3)]} for row in texts(150, seed)]
             for seed, name in enumerate(("private", "test", "pool", "corpus"))})  # fmt: skip
    assert "are not shown to teach more than the most frequent label" in data("--test", "test.jsonl")["answer"][0]


def test_another_mix_of_the_test_file_is_said() -> None:
    write(private=texts(150, 1), test=texts(100, 2, weights=(8, 1, 1)), pool=texts(150, 3), corpus=texts(150, 4))
    said = data("--test", "test.jsonl")["answer"][0]
    assert "The labels of --test have another mix than those of PRIVATE" in said
    assert "'sport': 8" in said
    write(test=texts(100, 2))
    assert "another mix" not in data("--test", "test.jsonl")["answer"][0]


def test_uneven_labels_of_a_corpus_from_a_summary_name_the_even_mix() -> None:
    """Of 70 in 100 texts of one label a classifier learnt .58, of as many of each .79, from one summary."""
    pool = texts(300, 3, wrong=0.3)
    write(private=texts(300, 1, weights=(8, 1, 1)), test=texts(200, 2), pool=pool)
    made = dp.summarize(
        "private.jsonl", "pool.jsonl", label="topic", labels=NAMES, encoder="glove", epsilon=8.0, about=300, seed=1
    )
    said = "`dptext write --mix music=0.33,sport=0.33,trade=0.33`."
    for mix, uneven in ((None, True), (dict.fromkeys(NAMES, 1 / 3), False)):
        written = dp.write(made, mix=mix, size=100, seed=1)
        written.write("corpus.jsonl", force=True)
        found = data("--test", "test.jsonl")
        assert (said in found["answer"][0]) is uneven, found["answer"]
    Path("corpus.jsonl.guarantee.json").unlink()
    write(corpus=texts(100, 5, wrong=0.5, weights=(8, 1, 1)))
    assert said not in data("--test", "test.jsonl")["answer"][0], "no summary of this corpus is known"


def test_the_field_of_the_labels_is_by_default_that_of_the_measured_file() -> None:
    """The line that `write` prints works as it is, also where the field has its usual name."""
    for field in ("label", "topic"):
        private, pool = ([{"text": r["text"], field: r["topic"]} for r in texts(200, seed)] for seed in (1, 3))
        write(private=private, pool=pool)
        given = ["--public", "pool.jsonl", "--label-field", field, "--labels", "sport,trade,music", "--about", "200"]
        fast = ["--encoder", "glove", "--set", "words=8", "--force"]
        measured = CliRunner().invoke(app, ["summarize", "private.jsonl", "a.summary", *given, *fast])
        assert measured.exit_code == 0, measured.exception
        wrote = CliRunner().invoke(app, ["write", "a.summary", "corpus.jsonl", "--force"])
        typed = wrote.stdout.rpartition("Is it worth sharing? dptext ")[2].replace("PRIVATE", "private.jsonl")
        command = shlex.split(typed.replace("POOL", "pool.jsonl"))
        assert command[command.index("--label-field") + 1] == field
        command = command[: command.index("--label-field")]  # the report is another test's
        done = CliRunner().invoke(app, [*command, "--seed", "1"])
        assert done.exit_code == 0, done.exception
        assert "a classifier that learns from the corpus has " in done.stdout
        assert "No labels are judged" not in done.stderr


def test_what_is_not_judged_is_said_before_it_is_read() -> None:
    write(private=texts(100, 1), pool=texts(100, 3), corpus=texts(100, 4))
    done = CliRunner().invoke(app, [part for part in JUDGE if part not in ("--label-field", "topic")])
    assert done.stderr.splitlines()[1] == "No labels are judged: --label-field NAME names their field in PRIVATE."


def test_public_texts_are_not_judged_as_a_corpus_beside_themselves() -> None:
    write(private=texts(100, 1), pool=texts(100, 3))
    done = CliRunner().invoke(app, [part.replace("corpus.jsonl", "pool.jsonl") for part in JUDGE])
    assert "A classifier tells public text from real texts with AUC " in done.stdout
    assert "tells the corpus from" not in done.stdout


def test_labels_of_the_test_file_are_those_of_private_however_they_are_spelled() -> None:
    codes = {name: i for i, name in enumerate(NAMES)}
    parts = {"private": texts(100, 1), "test": texts(80, 2), "pool": texts(100, 3), "corpus": texts(100, 4)}
    for name, rows in parts.items():
        spelling = "{}.0" if name == "test" else "{}"
        write(**{name: [{**row, "topic": spelling.format(codes[str(row["topic"])])} for row in rows]})
    assert data("--test", "test.jsonl")["rows"]["original"]["accuracy"]["value"] > 0.8  # type: ignore[index]


def table(n: int, seed: int) -> list[Row]:
    return [{**row, "stars": 1 + i % 5} for i, row in enumerate(texts(n, seed))]


STARS = ("--column", "stars: 1..5 by 1")


def test_a_test_file_without_the_columns_is_refused_with_a_remedy_that_works() -> None:
    """Of JSON each row seemed to have an empty cell; of CSV the remedy named an option that does not help."""
    write(private=table(60, 1), test=texts(60, 2), pool=texts(60, 3), corpus=table(60, 4), whole=table(60, 2))
    with Path("test.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "topic"), *((row["text"], row["topic"]) for row in texts(60, 2))])
    for name in ("test.jsonl", "test.csv"):
        refused = judge("--test", name, *STARS)
        assert isinstance(refused.exception, ConfigError)
        said = str(refused.exception)
        assert "'stars' in --test" in said
        assert "leave --test out" in said
        assert "columns=" not in said
    assert judge("--test", "whole.jsonl", *STARS).exit_code == 0
    assert judge(*STARS).exit_code == 0
    write(private=texts(60, 1))
    assert "'stars' in PRIVATE" in str(judge(*STARS).exception)
    Path("corpus.jsonl").rename("corpus.txt")
    text = CliRunner().invoke(app, ["corpus.txt" if each == "corpus.jsonl" else each for each in JUDGE] + [*STARS])
    assert isinstance(text.exception, ConfigError)


def test_a_verdict_on_a_table_says_that_it_is_not_on_columns() -> None:
    """The column of labels may be declared, too."""
    write(private=table(100, 1), test=table(80, 2), pool=texts(100, 3), corpus=table(100, 4))
    done = judge("--test", "test.jsonl", *STARS, "--column", f"topic: {'|'.join(NAMES)}", "--out", "page.html")
    assert done.exit_code == 0, (done.output, done.exception)
    said = "This verdict is on texts and their label alone: public texts have no such columns. Columns are judged below"
    page = Path("page.html").read_text("utf-8")
    assert f"{said} (stars)." in done.stdout
    assert said in page
    assert page.index("<h2>Columns</h2>") < page.index("<h2>All numbers</h2>")
    assert "A column is " in page
    assert page.index("<h2>Columns</h2>") < page.index("<h2>Columns: means</h2>") < page.index("<h2>All numbers</h2>")
    assert "<tr><th scope='row'>stars</th><td>topic</td><td>sport</td><td>" in page
    said = next(line for line in done.stdout.splitlines() if line.startswith("The mean of stars by topic: "))
    assert said in page
    assert json.loads(Path("page.json").read_text("utf-8"))["means"][0]["by"] == "topic"
    assert "Not judged: stars (--column)." in data()["answer"][0]


def test_page_and_screen_have_the_same_intervals_and_the_page_explains_each_row() -> None:
    write(private=texts(100, 1), test=texts(80, 2), pool=texts(150, 3), corpus=texts(40, 4))
    given = ("--test", "test.jsonl", "--out", "page.html")
    done = judge(*given, "--details")
    assert done.exit_code == 0, (done.output, done.exception)
    page, found = Path("page.html").read_text("utf-8"), json.loads(Path("page.json").read_text("utf-8"))
    assert found["rows"] == data("--test", "test.jsonl")["rows"]
    lines = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ") and "[" in line]
    assert lines
    for cells in lines:
        assert all(each.strip(" |") in page for each in cells if "[" in each)
    explained = page.partition("<h2>The rows</h2>")[2]
    for row in found["rows"]:
        assert f"<th scope='row'>{row}</th><td>" in explained
        assert f"\n{row}: " in done.stdout
