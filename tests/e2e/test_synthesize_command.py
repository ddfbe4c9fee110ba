"""`dptext synthesize` from the shell: what it prints, writes, refuses, and never tells."""

import json
import re
from pathlib import Path

import pytest

from commands import dptext
from dptext import sample_records

LABELS = 'labels=["health", "travel", "money", "leisure"]'
SMALL = ("--set", "encoder=glove", "--set", "words=8", "--set", "topics=4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private corpus of 317 records, and a pool."""
    found = tmp_path_factory.mktemp("synthesis")
    for name, n, seed in (("private", 317, 1), ("pool", 200, 2)):
        rows = [{"text": r.text, "label": r.label, "who": r.author} for r in sample_records(n, seed=seed)]
        (found / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return found


def test_a_corpus_with_its_certificate_and_report(folder: Path) -> None:
    given = ("synthesize", "private.jsonl", "out.csv", "--public", "pool.jsonl", *SMALL, "--set", "epsilon=2")
    done = dptext(*given, "--set", LABELS, "--label-field", "label", "--about", 300, cwd=folder)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()
    assert "epsilon 2" in first[0]
    assert first[1] == "Each text is a public text of the pool, word for word."
    assert first[2].startswith("Labels, in documents, with 95% intervals: ")
    assert "Next: dptext explain out.csv; open out.csv.topics.html." in done.stdout
    assert len(first) < 24
    assert "317" not in done.stderr  # the number of private records; numbers on stdout are noisy
    rows = (folder / "out.csv").read_text("utf-8").splitlines()
    assert rows[0] == "id,text,label"
    for name in ("out.csv.guarantee.json", "out.csv.topics.json", "out.csv.topics.html"):
        assert (folder / name).is_file()
    certificate = json.loads((folder / "out.csv.guarantee.json").read_text("utf-8"))
    assert certificate["records"] == len(rows) - 1
    assert certificate["also_reveals"] == []
    assert 317 not in certificate.values()
    explained = dptext("explain", "out.csv", cwd=folder)
    assert explained.returncode == 0, explained.stderr
    assert "who trains the model, or sums up the corpus" in explained.stdout
    legal = dptext("explain", "out.csv", "--for", "legal", cwd=folder)
    assert "Nothing of the originals, not even their number" in legal.stdout.replace("\n  ", " ")
    again = dptext(*given, "--set", LABELS, "--label-field", "label", cwd=folder)
    assert again.returncode == 2
    assert "Expected no file" in again.stderr
    (folder / "out.csv").write_text("id,text,label\n", "utf-8")
    assert dptext("explain", "out.csv", cwd=folder).returncode == 4


def test_a_pool_that_lacks_labels_is_named_and_the_noisy_mix_leaves(folder: Path) -> None:
    """With more epsilon fewer pool texts passed for labels that the pool lacks: fewer left, or another mix."""
    rows = [r for r in sample_records(600, seed=3) if r.label in ("health", "travel")]
    rows += [r for r in sample_records(200, seed=4) if r.label not in ("health", "travel")][:4]
    (folder / "lacking.jsonl").write_text("".join(json.dumps({"text": r.text}) + "\n" for r in rows), "utf-8")
    given = ("synthesize", "private.jsonl", "--public", "lacking.jsonl", *SMALL[:4], "--epsilon", "8", "--set", LABELS)
    done = dptext(*given, "out.lacking.jsonl", "--label-field", "label", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"money: \d+% wanted, (\d+%|none|under 1%) of the pool is read as money", done.stdout)
    assert "are the nearest ones, probably of other kinds" in done.stdout
    report = json.loads((folder / "out.lacking.jsonl.topics.json").read_text("utf-8"))
    made = [json.loads(line)["label"] for line in (folder / "out.lacking.jsonl").read_text("utf-8").splitlines()]
    assert {"money", "leisure"} <= set(report["pool_shortage"]["others"])
    assert len(made) == int(0.9 * len({row.text for row in rows}))
    told = dict(zip(report["labels"], report["estimates"]["by_label"]["numbers"], strict=True))
    shares = [(made.count(name) / len(made), n / sum(told.values())) for name, n in told.items()]
    assert sum(abs(a - b) for a, b in shares) < 0.15
    assert report["warnings"][0] in (folder / "out.lacking.jsonl.topics.html").read_text("utf-8")


@pytest.mark.slow
def test_a_record_that_adds_nothing_moves_no_byte(folder: Path) -> None:
    """Under one seed the noise is the same, so whatever else told of such a record would show, printed or written."""
    lines = (folder / "private.jsonl").read_text("utf-8").splitlines(keepends=True)
    nothing = [
        '{"text": "zqsecret", "label": "zqlabel", "who": "x"}\n', '{"text": "", "label": "health", "who": "x"}\n',
        '{"text": " \\t", "label": "health", "who": "x"}\n', '{"text": "zqsecret", "label": 3, "who": "x"}\n',
        '{"text": "zqsecret", "label": null, "who": "x"}\n', '{"text": "zqsecret", "who": "x"}\n',
        '{"text": NaN, "label": "health", "who": "x"}\n', '{"text": "zq\\ud800", "label": "health", "who": "x"}\n',
        '{"text": "zqsecret", "label": "health", "who": " "}\n',
        '{"text": "zqsecret", "label": "health", "who": 1e999}\n',
        '{"text": "zqsecret", "label": ["health"], "who": "x"}\n', "zqbroken\n",
    ]  # fmt: skip
    found = []
    for name, rows in (("without", lines), ("with", [*lines[:100], *nothing, *lines[100:]])):
        (folder / name).mkdir()
        (folder / name / "private.jsonl").write_text("".join(rows), "utf-8")
        done = dptext(
            "synthesize", "private.jsonl", "out.csv", "--public", "../pool.jsonl", *SMALL, "--set", LABELS,
            "--label-field", "label", "--set", "unit=author", "--author-field", "who", "--seed", 1,
            cwd=folder / name,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (folder / name / "private.jsonl").unlink()
        written = {path.name: path.read_bytes() for path in (folder / name).iterdir()}
        found.append((done.stdout, done.stderr, written))
    assert len(found[0][2]) == 4
    assert found[0] == found[1]


def test_a_report_as_json_by_author(folder: Path) -> None:
    done = dptext(
        "synthesize", "private.jsonl", "report.json", "--public", "pool.jsonl", "--mechanism", "topics", *SMALL,
        "--set", "unit=author", "--author-field", "who", "--json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["guarantees"][0]["unit"] == "author"
    assert data["report"]["unit"] == "author"
    assert json.loads((folder / "report.json").read_text("utf-8")) == data["report"]


def test_a_dry_run_reads_nothing(folder: Path) -> None:
    done = dptext(
        "synthesize", "private.jsonl", "dry.csv", "--public", "pool.jsonl", "-m", "votes", "--dry-run", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "Nothing was read, drawn, charged or written." in done.stdout
    assert not (folder / "dry.csv").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "at least two"),
        (("--set", LABELS), "Expected --label-field NAME"),
        (("-m", "votes", "--label-field", "label"), "the set of labels"),
        (("-m", "votes", "--set", "unit=author"), "Expected --author-field NAME"),
        (("-m", "vote",), "did you mean 'votes'"),
        (("-m", "votes", "--set", "epsilon=0"), "epsilon"),
        (("-m", "votes", "--set", "kind=votes"), "not by --set kind"),
        (("-m", "votes", "--account", "a"), "--ledger"),
        (("-m", "votes", "--set", "epsilon=1e-9"), "larger epsilon"),
        (("-m", "topics"), "Expected OUT.json"),
    ],
)  # fmt: skip
def test_what_is_refused(given: tuple[str, ...], said: str, folder: Path) -> None:
    done = dptext("synthesize", "private.jsonl", "no.jsonl", "--public", "pool.jsonl", *SMALL, *given, cwd=folder)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert not (folder / "no.jsonl").exists()


@pytest.mark.parametrize("name", ["no.docx", "no.txt", "no.parquet.gz"])
def test_an_output_that_cannot_be_written_is_refused_before_the_account_is_charged(name: str, folder: Path) -> None:
    given = ("--public", "pool.jsonl", *SMALL, "--set", LABELS, "--label-field", "label")
    done = dptext("synthesize", "private.jsonl", name, *given, cwd=folder)
    assert done.returncode == 2, done.stdout
    assert "Summing up" not in done.stderr


def test_a_seeded_run_promises_nothing(folder: Path) -> None:
    given = (
        "synthesize",
        "private.jsonl",
        "seeded.jsonl",
        "--public",
        "pool.jsonl",
        "-m",
        "votes",
        *SMALL,
        "--seed",
        1,
    )
    assert dptext(*given, cwd=folder).stdout.startswith("Nothing is guaranteed: seeded")
    assert "Nothing is guaranteed: seeded" in dptext(*given, "--dry-run", "--force", cwd=folder).stdout


def test_the_private_corpus_is_never_overwritten(folder: Path) -> None:
    given = ("--public", "pool.jsonl", "-m", "votes", *SMALL, "--force")
    assert dptext("synthesize", "private.jsonl", "private.jsonl", *given, cwd=folder).returncode == 2
    assert dptext("synthesize", "private.jsonl", "pool.jsonl", *given, cwd=folder).returncode == 2


def test_books_pay_before_anything_is_drawn(folder: Path) -> None:
    opened = dptext(
        "budget", "open", "letters", "--dataset", "letters", "--unit", "document", "--epsilon", 2.5, "--delta", 1e-5,
        "--relation", "add_or_remove_one", "--ledger", "books.db", cwd=folder,
    )  # fmt: skip
    assert opened.returncode == 0, opened.stderr
    given = ("--public", "pool.jsonl", "-m", "topics", *SMALL, "--set", "epsilon=2", "--account", "letters")
    for name, code in (("paid.json", 0), ("unpaid.json", 3)):
        done = dptext("synthesize", "private.jsonl", name, *given, "--ledger", "books.db", cwd=folder)
        assert done.returncode == code, done.stderr
        assert (folder / name).exists() == (code == 0)
        assert ("go on with --charge-key " in done.stderr) == ("Reading the pool" in done.stderr) == (code == 0)
    assert dptext("explain", "paid.json", "--ledger", "books.db", cwd=folder).returncode == 0
