"""An error about a column names the option that asked for it, and in Python the argument."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

import dptext as dp
from commands import dptext
from dptext.errors import BrokenFileError, ConfigError, DataError, HeaderError
from dptext.text.records import ASKED, Fields
from dptext.text.survey import survey

PRIVATE: Final = ("--text-field", "body")
CORPUS: Final = ("--public", "public.csv", *PRIVATE, "--labels", "health,money", "--about", 100)
TIM: Final = "no column 'tim', found 'body', 'team', 'note': name it with "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("options")
    for name, n, seed in (("private", 60, 1), ("public", 60, 2)):
        rows = [f'"{each.text}",{each.label},n' for each in dp.sample_records(n, seed=seed)]
        (found / f"{name}.csv").write_text("\n".join(["body,team,note", *rows]) + "\n", "utf-8")
    fast = ("--set", "encoder=glove", "--set", "words=8")
    done = dptext("summarize", "private.csv", "a.summary", *CORPUS, "--label-field", "team", *fast, cwd=found)
    assert done.returncode == 0, done.stderr
    return found


WORDS: Final = ("-m", "word_metric", "-s", "epsilon=3", "-s", "n_words=50")
GIVEN: Final = [
    (("check", "private.csv", "--text-field", "tim"), "--text-field on the command line, text= in Python"),
    (("check", "private.csv", "--label-field", "tim"), "--label-field on the command line, label= in Python"),
    (("check", "private.csv", "--id-field", "tim"), "--id-field on the command line, id= in Python"),
    (("privatize", "private.csv", "o.csv", *WORDS, "--text-field", "tim"), "--text-field on the command line"),
    (("privatize", "private.csv", "o.csv", *WORDS, *PRIVATE, "--id-field", "tim"), "--id-field on the command line"),
    (("privatize", "private.csv", "o.csv", *WORDS, *PRIVATE, "--keep", "tim"), "--keep on the command line, keep="),
    (("audit", "authorship", "private.csv", *PRIVATE, "--author-field", "tim", *WORDS), "--author-field on the"),
    (("utility", "corpus", "private.csv", "public.csv", "--public", "public.csv", *PRIVATE, "--column", "tim: a|b"),
     "--column on the command line, columns= in Python"),
    (("summarize", "private.csv", "o.summary", *CORPUS, "--label-field", "team", "--public-text-field", "tim"),
     "--public-text-field on the command line"),
    (("write", "a.summary", "o.csv", "--writer", "pool", "--public", "public.csv", "--carry", "tim"),
     "--carry on the command line, carry= in Python"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "named"), GIVEN)
def test_a_column_that_is_lacking_comes_with_its_option_alone(
    given: tuple[object, ...], named: str, folder: Path
) -> None:
    done = dptext(*given, cwd=folder)
    assert done.returncode in (2, 4)
    assert TIM + named in done.stderr
    others = {option for option, _ in ASKED.values()} - {named.partition(" ")[0]}
    assert not any(f" {option} " in done.stderr or f" {option}," in done.stderr for option in others)


def test_the_private_corpus_names_all_that_was_asked_for_and_not_what_is_lacking(folder: Path) -> None:
    """Which keys the first record has is private; what the user typed is not."""
    named = "Named were 'body' by --text-field, 'tim' by --label-field, 'size' by --column on the command line, text="
    for lines in ('{"body": "a", "team": "health", "size": "s"}\n', '{"body": "a", "tim": "health"}\n'):
        (folder / "rows.jsonl").write_text(lines, "utf-8")
        done = dptext("summarize", "rows.jsonl", "o.summary", *CORPUS, "--label-field", "tim", "--column", "size: s|l",
                      cwd=folder)  # fmt: skip
        assert done.returncode == 4
        assert named in done.stderr


CARRIED: Final = {
    "id": "Expected --carry (carry= in Python) to name columns under names of their own, found 'id' twice: what is "
    "written has id, body, team.",
    "team": "found 'team' twice",
    "body": "--carry",
    "note,note": "found 'note' twice",
}


@pytest.mark.parametrize("carry", list(CARRIED))
def test_columns_that_cannot_be_carried_are_refused_in_the_words_of_the_command_line(carry: str, folder: Path) -> None:
    (folder / "ids.csv").write_text("body,team,note,id\n" + "a letter,x,n,1\n" * 30, "utf-8")
    pool = ("--public", "ids.csv", "--carry", carry)
    for given in (
        ("write", "a.summary", "o.csv", "--writer", "pool", *pool),
        ("synthesize", "private.csv", "o.csv", *CORPUS[2:], "--label-field", "team", "-m", "prototypes", *pool),
    ):
        if (given[0], carry) == ("write", "team"):
            continue  # the labels leave under their usual name then
        done = dptext(*given, cwd=folder)
        assert done.returncode == 2
        assert CARRIED[carry] in done.stderr
        assert "keep" not in done.stderr


def test_kept_fields_are_refused_in_the_words_of_the_command_line(folder: Path) -> None:
    for keep, said in (
        ("id", "Expected --keep (keep= in Python) to name no field twice and none of the columns that are written"),
        ("note,note", "Expected --keep (keep= in Python) to name each field once, found 'note' twice."),
        ("body", "found it named by --text-field and --keep (text= and keep= in Python)"),
    ):
        typed = [part for each in keep.split(",") for part in ("--keep", each)]
        done = dptext("privatize", "private.csv", "o.csv", *WORDS, *PRIVATE, *typed, cwd=folder)
        assert done.returncode == 2
        assert said in done.stderr


def test_python_names_the_argument(folder: Path) -> None:
    private, public = folder / "private.csv", folder / "public.csv"
    rows = [{"body": each.text} for each in dp.sample_records(30)]
    with pytest.raises(HeaderError, match="name it with --public-text-field on the command line, public_text= in Py"):
        dp.summarize(private, public, text="body", public_text="tim", topics=2)
    with pytest.raises(DataError, match="public_text= in Python"):
        dp.summarize(private, rows, text="body", public_text="tim", topics=2)
    with pytest.raises(HeaderError, match="carry= in Python"):
        dp.write(folder / "a.summary", public=public, writer="pool", carry=["tim"])
    with pytest.raises(ConfigError, match=r"--carry \(carry= in Python\)"):
        dp.synthesize(private, public, text="body", label="team", labels=["a", "b"], carry=["id"])
    frame = pytest.importorskip("pandas").DataFrame(rows)
    with pytest.raises(ConfigError, match=r"Expected the column 'tim', found 'body': name it with --label-field on"):
        list(dp.read_records(frame, Fields("body", label="tim")))


def test_a_row_without_a_field_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"body": "a", "who": "b"}) + "\n" for _ in range(3)), "utf-8")
    for fields, named in ((Fields("tim"), "--text-field"), (Fields("body", author="tim"), "--author-field"),
                          (Fields("body", subject="tim"), "--subject-field"),
                          (Fields("body", id="tim", label="tim"), "--id-field and --label-field")):  # fmt: skip
        with pytest.raises(DataError, match=f"name it with {named} on the command line"):
            list(dp.read_records(path, fields))
    found: dict[str, Any] = {"label": "tim"}
    with pytest.raises(BrokenFileError, match="name it with --label-field on the command line"):
        survey(path, text="body", **found)
