"""What `summarize`, `synthesize` and `write` say while they run, in this process: a tiny language model writes."""

from __future__ import annotations

import csv
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("numba")

import dptext as dp
import tiny_language
from dptext.cli import corpus_runs
from dptext.cli.app import app
from dptext.cli.terminal import counted
from dptext.errors import MissingExtraError
from dptext.language.reading import INSTALL
from dptext.mechanism import FitProgress
from dptext.runs import synthesizing
from dptext.runs.summarizing import read_summary
from dptext.runs.synthesized import text_columns
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.text.formats import Format

PRIVATE_N: Final = 137
WEIGHTS: Final = "5" * 64  # sha256
POOL: Final = ("--public", "pool.csv", "--text-field", "letter", "--label-field", "topic")
LABELLED: Final = (*POOL, "--labels", "travel,money", "--about", "130")
FAST: Final = ("--set", "encoder=glove", "--set", "words=8", "--epsilon", "3")  # so that noise hides no label
TINY: Final = ("--set", "drafts=6", "--set", "tokens=8", "--set", "vocabulary=80", "--set", "examples=0")
PROGRESS: Final = re.compile(r"^(fitting|writing): ([\d,]+) of ([\d,]+) ([a-z ]+), \d+ s", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private corpus and a pool, in the folder in which commands run. The model is tiny, each call shows progress."""
    for name, n, seed in (("private", PRIVATE_N, 1), ("pool", 80, 2)):
        records = dp.sample_records(n, seed=seed)
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("letter", "topic"), *((each.text, each.label) for each in records)])
    model = replace(tiny_language.model(), digest=WEIGHTS)
    for module in tiny_language.LOADING:
        monkeypatch.setattr(f"{module}.load_language_model", lambda _: model)
    tiny_language.writes_here(monkeypatch)
    monkeypatch.setattr("dptext.synthesis.writer.is_readable", bool)  # this model writes few spaces
    monkeypatch.setattr(corpus_runs, "counted", partial(counted, every=0.0))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(*given: object) -> Result:
    done = CliRunner().invoke(app, [*map(str, given)])
    assert done.exit_code == 0, (done.stderr, done.exception)
    return done


def progress(said: str) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Done and whole of each line of progress, by its title and what is counted."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for title, done, whole, what in PROGRESS.findall(said):
        found.setdefault((title, what), []).append((int(done.replace(",", "")), int(whole.replace(",", ""))))
    return found


def test_progress_is_shown_while_drafts_are_written_and_public_texts_are_read(folder: Path) -> None:
    done = ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "words", *TINY)
    found = progress(done.stderr)
    drafts, read = found["fitting", "public drafts written"], found["fitting", "public texts read"]
    assert [whole for _, whole in drafts] == [12] * len(drafts)
    assert len(drafts) > 8  # more often than once a label
    assert drafts == sorted(drafts)
    assert (drafts[0][0], drafts[-1][0]) == (0, 12)
    assert read[-1][0] == read[-1][1]
    assert [*found] == [("fitting", "public drafts written"), ("fitting", "public texts read")]
    assert " s more" in done.stderr
    assert str(PRIVATE_N) not in done.stderr  # progress tells nothing of the private corpus
    assert done.stderr.splitlines()[-1].startswith("Summing up the private corpus. No progress is shown")


def test_progress_is_shown_while_steering_writes_after_the_private_corpus_is_summed_up(folder: Path) -> None:
    steering = ("--set", "size=10", "--set", "matches=1", "--set", "options=40", "--set", "temperature=2.0")
    done = ran("synthesize", "private.csv", "out.csv", "-m", "steering", *LABELLED, "--set", "encoder=glove", *TINY,
               *steering, "--epsilon", 8)  # fmt: skip
    before, _, after = done.stderr.partition("Summing up the private corpus.")
    assert [*progress(before)] == [("fitting", "public drafts written")]
    found = progress(after)
    assert [*found] == [("writing", "texts and drafts")]
    texts = found["writing", "texts and drafts"]
    assert len(texts) > 8
    assert texts == sorted(texts)
    assert texts[0][0] == 0
    assert texts[-1] == (2 * 6 * 2 + 10,) * 2


def test_a_synthesis_without_a_callback_is_fitted_without_progress(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A synthesis of another package need not take `on_progress`."""
    fit = Prototypes.fit
    monkeypatch.setattr(Prototypes, "tells", False)
    monkeypatch.setattr(Prototypes, "fit", lambda self, *, public, seed=None: fit(self, public=public, seed=seed))
    done = ran("synthesize", "private.csv", "out.csv", *LABELLED, *FAST)
    assert not progress(done.stderr)
    assert Path("out.csv").is_file()


def test_drafts_are_announced_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def load(name: str) -> None:
        told.append(name)
        raise MissingExtraError("no weights")

    monkeypatch.setattr("dptext.synthesis.drafting.load_language_model", load)
    spec = SummarySpec(labels=("a", "b"), points=False, marks=2, drafts=6, encoder="glove")
    for there, first in ((True, [FitProgress(0, 12, "public drafts written"), "smollm2"]), (False, ["smollm2"])):
        told.clear()
        monkeypatch.setattr("dptext.synthesis.drafting.is_there", lambda _, there=there: there)
        spec.fit(public=dp.sample_records(20), on_progress=told.append)
        assert told == first


def absent(name: str) -> None:
    raise MissingExtraError("A language model needs weights.")


@pytest.mark.parametrize("installed", [True, False])
def test_words_without_public_drafts_are_warned_of_before_anything_is_measured(
    installed: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    run = synthesizing.run
    monkeypatch.setattr(corpus_runs, "say", said.append)
    monkeypatch.setattr(corpus_runs, "run", lambda *given, **more: (said.append("measured"), run(*given, **more))[1])
    if not installed:
        monkeypatch.setattr("dptext.synthesis.drafting.load_language_model", absent)
    drafts = (*TINY[4:], *(("--set", "drafts=0") if installed else ()))
    ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "words", *drafts)
    warning = "\n".join(said[: said.index("measured")])
    assert not any("\n" in line for line in said)  # `say` prints one line
    why = "drafts=0" if installed else "no language model is installed"
    assert f"Warning: No public drafts are written ({why})." in warning
    assert "dptext summary show reads the summary, and --writer pool writes from it" in warning
    assert "--writer builtin needs an installed language model" in warning
    assert (f"run: {INSTALL}" in warning) == (not installed)
    # What the warning says is so.
    ran("summary", "show", "a.summary")
    read, of_bytes = list[int](), Summary.of_bytes
    monkeypatch.setattr(Summary, "of_bytes", lambda data: (read.append(len(data)), of_bytes(data))[1])
    ran("write", "a.summary", "pool_wrote.csv", "--size", 9)  # the pool is the default
    assert len(read) == 1  # the file is read once
    builtin = ("write", "a.summary", "new.csv", "--writer", "builtin", "--size", 5, *TINY[:4], "--set", "options=40")
    ran(*builtin, "--set", "temperature=2.0", "--set", "matches=1")
    monkeypatch.setattr("dptext.synthesis.from_model.load_language_model", absent)
    done = CliRunner().invoke(app, [*map(str, builtin), "--force"])
    assert isinstance(done.exception, MissingExtraError)


def test_no_warning_comes_with_drafts_or_without_words(folder: Path) -> None:
    for target, more in (("a.summary", ("--with", "words", *TINY)), ("b.summary", ())):
        assert "No public drafts" not in ran("summarize", "private.csv", target, *LABELLED, *FAST, *more).stderr


def test_the_next_line_works_as_it_is_printed(folder: Path) -> None:
    done = ran("summarize", "private.csv", "a b.summary", *LABELLED, *FAST)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("Next: "))
    show, write = line.removeprefix("Next: ").removesuffix(".").split("; ")
    assert shlex.split(show) == ["dptext", "summary", "show", "a b.summary"]
    assert shlex.split(write)[:3] == ["dptext", "write", "a b.summary"]
    assert "--text-field" not in write  # the summary knows the names of the columns
    for command in (show, write):
        ran(*shlex.split(command)[1:])
    (written,) = folder.glob("a b.*.csv")
    assert written.read_text("utf-8").startswith("id,letter,topic\n")


def test_the_next_line_names_no_column_that_has_its_usual_name(folder: Path) -> None:
    text = (folder / "private.csv").read_text("utf-8").replace("letter,topic", "text,label", 1)
    (folder / "private.csv").write_text(text, "utf-8")
    pool = (
        "--public",
        "pool.csv",
        "--public-text-field",
        "letter",
        "--label-field",
        "label",
        "--labels",
        "travel,money",
    )
    done = ran("summarize", "private.csv", "a.summary", *pool, "--about", 130, *FAST)
    assert "; dptext write a.summary a.written.csv.\n" in done.stdout


def test_a_size_above_the_pool_is_said_in_the_first_lines(folder: Path) -> None:
    ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST)
    there = len(read_summary("a.summary")[0].public.pool.texts)
    said = ran("write", "a.summary", "o.csv", "--writer", "pool", "--size", 500).stdout.splitlines()
    assert said[1] == f"500 texts are wanted, and the pool has {there} different ones: no more leave."
    assert " texts are wanted" not in ran("write", "a.summary", "p.csv", "--writer", "pool", "--size", there).stdout
    for kind, so in (("prototypes", "no more leave"), ("votes", "some leave more than once")):
        more = ("-m", kind, *LABELLED, *FAST, "--set", "size=100")
        done = ran("synthesize", "private.csv", f"{kind}.csv", *more, *(("--set", "topics=4") * (kind == "votes")))
        assert f"100 texts are wanted, and the pool has 80: {so}.\n" in done.stderr
        texts = [row["letter"] for row in csv.DictReader(Path(f"{kind}.csv").read_text("utf-8").splitlines())]
        assert (len(texts), len(set(texts)) < len(texts)) == ((100, True) if kind == "votes" else (there, False))


def test_the_largest_shares_of_labels_are_said_unless_a_mix_is_given(folder: Path) -> None:
    labels = ["travel", "money", *(f"label {i}" for i in range(8))]
    ran("summarize", "private.csv", "a.summary", *POOL, "--labels", ",".join(labels), "--about", 130, *FAST)
    summary = read_summary("a.summary")[0]
    shares = summary.shares
    said = ran("write", "a.summary", "o.csv", "--writer", "pool").stdout.splitlines()
    (line,) = (each for each in said if each.startswith("Wanted shares of labels, pulled towards equal by "))
    *parts, last = line.split(": ", 1)[1].removesuffix(".").split(", ")
    assert last == "and 2 more"
    order = np.argsort(-shares, kind="stable").tolist()
    assert parts == [f"{labels[i]}: {shares[i]:.0%}" for i in order[:8]]
    assert said.index("Each text is a public text of the pool, word for word.") < 4  # what is worst comes first
    assert "read" not in "".join(each for each in said if "word for word" in each)  # they were chosen by these numbers
    with_mix = ran("write", "a.summary", "p.csv", "--writer", "pool", "--mix", "travel=.5").stdout
    assert "Wanted shares of labels, those without a number, pulled towards equal by " in with_mix


def test_write_begins_with_what_was_written_and_repeats_nothing_of_the_summary(folder: Path) -> None:
    ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "words,topics", "--set", "topics=4", *TINY)
    report = read_summary("a.summary")[0].report
    for n, said in ((1, "1 text"), (9, "9 texts")):
        lines = ran("write", "a.summary", f"{n}.csv", "--writer", "pool", "--size", n).stdout.splitlines()
        files = f"{n}.csv, {n}.csv.guarantee.json, {n}.csv.topics.json and {n}.csv.topics.html"
        assert lines[0] == f"Written: {said} to {files}, by the writer pool. It cost nothing."
        assert lines[-3] == read_summary("a.summary")[1].guarantees[-1].sentence()
        assert not {*lines} & {*report.sentences()} - {*report.warnings}
        assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 24


def test_what_was_written_is_listed_whole_with_what_to_do_next(folder: Path) -> None:
    done = ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST)
    files = "a.summary, a.summary.guarantee.json, a.summary.topics.json and a.summary.topics.html"
    assert f"\nWritten: {files}.\n" in done.stdout
    like = ("--text-field", "letter", "--label-field", "topic")
    ran("summarize", "private.csv", "b.summary", "--like", "a.summary", *like)
    *_, written, apart, following = ran("summary", "add", "a.summary", "b.summary", "c.summary").stdout.splitlines()
    assert "--disjoint keeps the epsilon of one" in apart
    assert written == f"Written: {files.replace('a.', 'c.')}. It cost nothing more."
    assert following == "Next: dptext summary show c.summary; dptext write c.summary c.written.csv."
    assert ran("summary", "show", "c.summary").stdout.splitlines()[-1] == "Next: dptext write c.summary c.written.csv."


def test_a_file_that_is_no_summary_is_said_to_be_none_whatever_lies_beside_it(folder: Path) -> None:
    done = CliRunner().invoke(app, ["summary", "show", "private.csv"])
    assert isinstance(done.exception, dp.errors.DataError)
    assert str(done.exception).startswith("private.csv: This is not a summary that dptext wrote. Name a file that ")


@pytest.mark.parametrize("name", ["o.foo", "o.xlsx", "o.json", "o.txt", "o.parquet.gz"])
def test_an_ending_that_cannot_hold_the_corpus_is_refused_with_those_that_can(name: str) -> None:
    ends = r"to end in one of \.jsonl, \.ndjson, \.csv, \.tsv, \.parquet \(each but \.parquet also with \.gz\)"
    with pytest.raises(dp.errors.ConfigError, match=ends):
        text_columns(Path(name), None, ("a", "b"))
    assert text_columns(Path("o.txt"), None, ())[0] is Format.TEXT  # without labels


@pytest.mark.parametrize("end", ["csv", "jsonl", "tsv"])
@pytest.mark.parametrize("command", ["summarize", "synthesize"])
def test_a_pool_of_another_column_is_refused_with_its_own_option(command: str, end: str, folder: Path) -> None:
    between = "\t" if end == "tsv" else ","
    bare = '{"letter": "so it is", "topic": "money"}\n' if end == "jsonl" else f"letter{between}topic\nso it is,money\n"
    Path(f"pool.{end}").write_text(bare, "utf-8")
    text = Path("private.csv").read_text("utf-8").replace("letter,topic", "body,topic", 1)
    Path("private.csv").write_text(text, "utf-8")
    target = "o.summary" if command == "summarize" else "o.csv"
    fields = ("--text-field", "body", "--label-field", "topic", "--labels", "travel,money")
    done = CliRunner().invoke(app, [command, "private.csv", target, "--public", f"pool.{end}", *fields])
    assert "name it with --public-text-field on the command line" in str(done.exception)


def test_the_certificate_names_the_weights_of_the_model_that_wrote(folder: Path) -> None:
    ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "words", *TINY)
    given = (
        "--set",
        "drafts=4",
        "--set",
        "matches=1",
        "--set",
        "options=40",
        "--set",
        "temperature=2.0",
        "--set",
        "tokens=8",
    )
    ran("write", "a.summary", "new.csv", "--writer", "builtin", "--size", 6, *given)
    certificate = dp.verify("new.csv.guarantee.json").certificate
    assert certificate.derived["weights"] == WEIGHTS
    assert certificate.derived["writer"] == "builtin"
    assert (
        f"written by builtin with a language model (sha256 of its weights {WEIGHTS[:12]}...)" in certificate.explain()
    )
    in_python = dp.write(
        "a.summary", writer="builtin", size=6, drafts=4, matches=1, options=40, temperature=2.0, tokens=8
    )
    assert in_python.certificate.derived["weights"] == WEIGHTS
    ran("write", "a.summary", "pool_wrote.csv", "--writer", "pool")
    assert "weights" not in dp.verify("pool_wrote.csv.guarantee.json").certificate.derived


def test_a_computer_without_the_model_says_how_to_get_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, more in (("a", ()), ("words", ("--without", "points"))):
        ran("summarize", "private.csv", f"{name}.summary", *LABELLED, *FAST, "--with", "words", *more, *TINY)
    monkeypatch.setattr("dptext.runs.writing.is_there", lambda _: False)
    ran("write", "a.summary", "o.csv")
    assert dp.verify("o.csv.guarantee.json").certificate.derived["writer"] == "pool"
    for given, both in ((("a.summary", "n.csv", "--writer", "builtin"), True), (("words.summary", "n.csv"), False)):
        done = CliRunner().invoke(app, ["write", *given])
        assert isinstance(done.exception, MissingExtraError)
        assert INSTALL in str(done.exception)
        assert ("take --writer pool (writer='pool' in Python), or run: " in str(done.exception)) == both
        assert not Path("n.csv").exists()


def test_the_pool_writes_where_words_were_measured_too(folder: Path) -> None:
    said = ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "words", *TINY).stdout
    assert "--writer builtin writes new texts: they mostly teach less" in said
    ran("write", "a.summary", "o.csv")
    assert dp.verify("o.csv.guarantee.json").certificate.derived["writer"] == "pool"
    done = CliRunner().invoke(app, ["write", "a.summary", "n.csv", "--set", "drafts=2"])
    assert "is a setting of the writer builtin: add --writer builtin" in str(done.exception)


def test_a_folder_of_a_model_that_is_not_here_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptext.runs.writing.is_there", lambda name: name == "smollm2")
    ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "words", *TINY, "--set", "model=far/off")
    done = CliRunner().invoke(app, ["write", "a.summary", "n.csv", "--writer", "builtin"])
    assert isinstance(done.exception, dp.errors.ConfigError)
    assert "give its place with --set model=PATH" in str(done.exception)


def test_writing_is_named_next_only_if_it_can_be_done(folder: Path) -> None:
    for more, can in (
        (("--without", "points"), False), (("--without", "points", "--with", "words", "--set", "drafts=0"), False),
        (("--without", "points", "--with", "words", *TINY), True),
    ):  # fmt: skip
        last = ran(
            "summarize", "private.csv", "n.summary", *LABELLED, *FAST, *more, "--force", "--seed", "3"
        ).stdout.splitlines()[-1]
        assert last.startswith("Next: dptext summary show n.summary")
        assert ("; dptext write n.summary " in last) == can
        assert ("`dptext write` has no writer for it by itself: the pool needs points of labelled texts" in last) != can
        assert (CliRunner().invoke(app, ["write", "n.summary", "o.csv", "--force"]).exit_code == 0) == can


def test_a_summary_like_another_repeats_what_it_measures_and_is_about_one_part_of_a_sum(folder: Path) -> None:
    ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "topics", "--set", "topics=4")
    like = ("--text-field", "letter", "--label-field", "topic", "--with", "topics")
    ran("summarize", "private.csv", "b.summary", "--like", "a.summary", *like, "--about", "70")
    ran("summary", "add", "a.summary", "b.summary", "both.summary")
    ran("summarize", "private.csv", "c.summary", "--like", "both.summary", *like)
    assert [read_summary(f"{name}.summary")[0].spec.about for name in ("both", "c")] == [200, 100]
    for more, said in (
        (
            ("--with", "words"),
            "Expected --with to repeat at most what the summary of --like measures, which lacks words",
        ),
        (("--without", "points"), "Expected no --without points: the summary of --like measures them."),
        (("--set", "topics=3"), "Expected topics as in the summary of --like: only epsilon, delta, about, shares, and"),
    ):
        done = CliRunner().invoke(
            app, ["summarize", "private.csv", "n.summary", "--like", "a.summary", *like[:4], *more]
        )
        assert said in str(done.exception)


def test_wrong_shares_and_mixes_are_refused_with_what_is_wrong(folder: Path) -> None:
    ran("summarize", "private.csv", "a.summary", *POOL[:4], *FAST, "--with", "topics", "--set", "topics=4")
    ran("summarize", "private.csv", "b.summary", *LABELLED, *FAST)
    for given, said in (
        (("write", "a.summary", "o.csv", "--mix", "a=.5"), "Expected no shares of labels: this summary has no labels."),
        (("write", "b.summary", "o.csv", "--mix", "colour=.5"), "Expected shares of travel, money, found 'colour'."),
        (
            ("summarize", "private.csv", "n.summary", *LABELLED, "--shares", "counts=.5,points=.6"),
            "Expected shares of rho that add up to at most 0.99, found 1.1 for points + counts.",
        ),
        (
            (
                "summarize",
                "private.csv",
                "n.summary",
                *LABELLED,
                "--with",
                "topics",
                "--shares",
                "counts=.4,points=.59",
            ),
            "at most 0.99, and leave some for topics, found 0.99 for points + counts.",
        ),
    ):
        assert said in str(CliRunner().invoke(app, [*given]).exception)
    ran("write", "b.summary", "o.csv", "--mix", "travel=0")
    with Path("o.csv").open(encoding="utf-8") as file:
        assert {row["topic"] for row in csv.DictReader(file)} == {"money"}
