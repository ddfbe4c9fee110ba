"""`dptext utility corpus --out`: a page and its JSON that judge a corpus."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from commands import dptext
from dptext import sample_records
from dptext.utility.corpus_page import PageTable, Shares, corpus_page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Private, public and other real texts, and a corpus that copied some private ones."""
    found = tmp_path_factory.mktemp("report")
    every = [*{each.text: each for each in sample_records(900)}.values()]
    parts = {"private": every[:120], "pool": every[120:220], "test": every[220:340]}
    parts["corpus"] = [*every[120:180], *every[:60]]
    for name, records in parts.items():
        rows = [{"text": each.text, **({} if name == "pool" else {"topic": each.label})} for each in records]
        (found / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return found


JUDGE = ("utility", "corpus", "private.jsonl", "corpus.jsonl", "--public", "pool.jsonl", "--label-field", "topic")


def test_a_page_and_its_json_say_what_the_screen_says(folder: Path) -> None:
    done = dptext(*JUDGE, "--test", "test.jsonl", "--out", "report.html", "--seed", 1, cwd=folder)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[:3]
    assert [line.split()[0] for line in first] == ["Useful", "For", "Copies"]
    assert first[2].startswith(
        "Copies of private texts: 60 of 120, of the control 0 of 120. Private texts are told from"
    )
    assert "Texts word for word" in first[2]
    assert "Written: report.html and report.json, which you alone can read." in done.stdout
    page, data = (folder / "report.html").read_text("utf-8"), json.loads((folder / "report.json").read_text("utf-8"))
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("report.html", "report.json")} == {0o600}
    assert data["headline"] == first
    said, closed = first[0], data["gap_closed"]
    assert "intervals at 95% over the 120 real texts that were judged, not over the noise" in said
    assert said in page.replace("&#x27;", "'")
    assert closed["texts"] == 120
    assert {*closed["gap"]} == {"value", "low", "high", "confidence"}
    assert said.startswith(f"Useful for training: {data['worth']['verdict']}. ")
    assert all(line.split(":")[0] in page for line in first)
    assert "not guarantees" in page
    assert "<script" not in page
    assert data["leaving"]["copies"]["of_private"] == [60, 120]
    usual = {"original", "released", "public-only", "public, same mix", "most frequent label"}
    assert usual <= {*data["rows"]} <= usual | {"as many originals", "as many public", "as many, same mix"}
    assert all("accuracy" in row for row in data["rows"].values())  # the pool is labelled by the names of the labels
    assert {*data["shares"]} == {"Labels", "Lengths in words", "Topics of public texts"}
    for each in data["shares"].values():
        for row, own in each.items():
            assert row == "names" or (len(own) == len(each["names"]) and 0.99 < sum(own) < 1.01)
    for title, each in data["words"].items():
        assert [*each] == ["names", "original", "released"]
        assert 1 <= len(each["names"]) == len(each["original"]) <= 16
        assert all(0 <= share <= 1 for row in ("original", "released") for share in each[row])
        assert title in page
    again = dptext(*JUDGE, "--out", "report.html", cwd=folder)
    assert again.returncode == 2
    assert "report.html" in again.stderr


def test_without_other_real_texts_no_attack_is_shown(folder: Path) -> None:
    done = dptext(*JUDGE[:6], "--out", "bare.html", "--seed", 1, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Copies of private texts: 60 of 120 that are no public text, without a control. Attacks: not" in done.stdout
    assert "Useful for training: not measured" in done.stdout
    data = json.loads((folder / "bare.json").read_text("utf-8"))
    assert (data["leaving"], data["copies"]) == (None, [60, 120])


def test_the_private_file_is_no_control_and_a_small_one_is_refused_first(folder: Path) -> None:
    (folder / "copy.jsonl").write_bytes((folder / "private.jsonl").read_bytes())
    few = (folder / "test.jsonl").read_text("utf-8").splitlines(keepends=True)[:4]
    (folder / "few.jsonl").write_text("".join(few), "utf-8")
    for name, said in (("copy.jsonl", "found the same file"), ("few.jsonl", "at least 8 records in each file")):
        done = dptext(*JUDGE, "--test", name, "--out", "no.html", cwd=folder)
        assert done.returncode == 2
        assert said in done.stderr
        assert "embedding" not in done.stderr


@pytest.mark.parametrize(
    ("out", "said"),
    [("report.txt", "Expected --out to end in .html"), ("private.html", "private.json"), ("nowhere/a.html", "nowhere")],
)
def test_a_page_that_cannot_be_written_is_refused_first(folder: Path, out: str, said: str) -> None:
    """Also one whose JSON would replace an input."""
    (folder / "private.json").write_bytes((folder / "private.jsonl").read_bytes())
    given = ("utility", "corpus", "private.json", "corpus.jsonl", "--public", "pool.jsonl", "--format", "jsonl")
    done = dptext(*given, "--out", out, "--force", cwd=folder)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (folder / out).exists()


def test_names_and_words_are_text_on_the_page() -> None:
    evil = "<img src=x onerror=alert(1)>"
    shares = Shares(evil, (evil,), {evil: (0.5,)})
    page = corpus_page(evil, [evil], [shares, PageTable(evil, (evil,), [[evil, evil]], evil)], [evil])
    assert "<img" not in page
    assert page.count("&lt;img") >= 9
