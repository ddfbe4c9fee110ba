"""A run of which no record is left: nothing is charged, written or certified, through every door."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
import kept_words
import many_files
from commands import dptext
from dptext.errors import BrokenFileError, DataError
from dptext.text.reading import OnError

BAD = "{broken\n[]\n"
SKIP: dict[str, Any] = {"on_error": OnError.SKIP}


@pytest.fixture
def books(tmp_path: Path) -> dp.Ledger:
    found = dp.Ledger.create(tmp_path / "books.db")
    found.open_account("all", dp.Guarantee(6.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE))
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / "in" / name).write_text(BAD)
    return tmp_path / "in"


def test_where_all_records_are_skipped_nothing_is_charged(source: Path, books: dp.Ledger, tmp_path: Path) -> None:
    paid: dict[str, Any] = {"payment": dp.Payment(books, "all"), "plan": many_files.plan(**SKIP)}
    one, mechanism = source / "a.jsonl", many_files.mechanism()
    acts: list[Callable[[], object]] = [
        lambda: dp.privatize_file(one, tmp_path / "out.jsonl", mechanism, **paid),
        lambda: dp.privatize_dataset(source, tmp_path / "out", mechanism, dataset=many_files.here(), **paid),
        lambda: dp.privatize([], mechanism, label="label", payment=paid["payment"]),
        lambda: dp.privatize([], mechanism, label="label").certificate,
        lambda: dp.privatize(iter([]), mechanism, label="label").write(tmp_path / "out.jsonl"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for act in acts:
        with pytest.raises(DataError, match="no record can be read, so nothing is released"):
            act()
        assert sorted(tmp_path.rglob("*")) == before
    assert books.balance("all").charges == 0
    assert list(dp.privatize([], mechanism, label="label")) == []


def test_a_header_or_first_record_that_cannot_be_read_is_not_paid_for(books: dp.Ledger, tmp_path: Path) -> None:
    paid: dict[str, Any] = {"payment": dp.Payment(books, "all"), "plan": many_files.plan()}
    before = None
    for name, held in (("a.csv", "text,id\na,1\n"), ("a.jsonl", BAD), ("b.csv", ""), ("c.csv", "text,id,label\n")):
        (tmp_path / name).write_text(held)
        before = sorted(tmp_path.iterdir())
        with pytest.raises(DataError):
            dp.privatize_file(tmp_path / name, tmp_path / "out.csv", many_files.mechanism(), **paid)
        assert sorted(tmp_path.iterdir()) == before
    assert books.balance("all").charges == 0


def test_the_command_ends_with_4(source: Path, tmp_path: Path) -> None:
    how = (*kept_words.OPTIONS, "--on-error", "skip")
    for command in (("privatize", source, tmp_path / "out"), ("privatize", source / "a.jsonl", tmp_path / "out.jsonl")):
        for more in ((), ("--dry-run",)):
            done = dptext(*command, *how, *more)
            assert done.returncode == 4, done.stderr
            assert "no record can be read" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_an_empty_file_among_others_adds_nothing(tmp_path: Path) -> None:
    source = many_files.shards(tmp_path / "in", 3, 2)
    (source / "s00.jsonl").write_text("")
    (source / "s9.jsonl").write_text("\n \n")
    for keep in (False, True):
        out = tmp_path / f"out{keep}"
        dataset = many_files.here(keep_shards=keep)
        found = dp.privatize_dataset(source, out, many_files.mechanism(), plan=many_files.plan(), dataset=dataset)
        assert found.records == 5
        dp.verify(out / "manifest.json.guarantee.json")
    for path in source.iterdir():
        path.write_text("")
    with pytest.raises(BrokenFileError, match="no record can be read"):
        dp.privatize_dataset(
            source, tmp_path / "o", many_files.mechanism(), plan=many_files.plan(), dataset=many_files.here()
        )
