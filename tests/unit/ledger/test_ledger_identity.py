"""Books in a file that is gone, or that another file has taken the name of: nothing is charged, settled or told."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ledger_tools import KEY, limit, request

from dptext.errors import LedgerGoneError
from dptext.ledger.books import Ledger

Do = Callable[[Ledger], object]

OPERATIONS: dict[str, Do] = {
    "charge": lambda ledger: ledger.charge("a", request(1.0), key="new"),
    "charge again": lambda ledger: ledger.charge("a", request(1.0), key="first"),
    "charge subjects": lambda ledger: ledger.charge("a", request(1.0), subjects=["Ann"]),
    "settle": lambda ledger: ledger.settle("a", "first", "release"),
    "balance": lambda ledger: ledger.balance("a"),
    "weigh": lambda ledger: ledger.weigh("a", request(1.0)),
    "account": lambda ledger: ledger.account("a"),
    "accounts": lambda ledger: ledger.accounts(),
    "open": lambda ledger: ledger.open_account("b", limit()),
    "find": lambda ledger: ledger.find(1),
    "log": lambda ledger: list(ledger.log("a")),
    "naming": lambda ledger: ledger.naming("a"),
    "verify": lambda ledger: ledger.verify("a"),
    "upgrade": lambda ledger: ledger.upgrade(),
}


def _deleted(path: Path) -> None:
    path.unlink()


def _moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _replaced_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def _replaced_by_new_books(path: Path) -> None:
    path.unlink()
    other = Ledger.create(path, key=KEY)
    other.open_account("a", limit(), by_subject=True)
    other.close()


def _deleted_with_all(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def _without_its_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def _without_its_index(path: Path) -> None:
    path.with_name(path.name + "-shm").unlink()


def _folder_moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name(f"{path.parent.name} elsewhere"))
    path.parent.mkdir()


HARMS = [
    _deleted, _moved, _replaced_by_a_copy, _replaced_by_new_books, _deleted_with_all, _without_its_log,
    _without_its_index, _folder_moved,
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(fast_folder: Path) -> Path:
    path = fast_folder / "whole.db"
    ledger = Ledger.create(path, key=KEY)
    ledger.open_account("a", limit(), by_subject=True)
    ledger.charge("a", request(1.0), key="first")
    ledger.close()
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    found = whole.with_name(tmp_path.name) / "budget.db"
    found.parent.mkdir()
    return Path(shutil.copy(whole, found))


@pytest.fixture
def books(path: Path) -> Iterator[Ledger]:
    ledger = Ledger.at(path, key=KEY)
    ledger.balance("a")
    yield ledger
    ledger.close()


@pytest.mark.parametrize("harm", HARMS)
def test_books_that_are_gone_refuse_all(books: Ledger, path: Path, harm: Callable[[Path], None]) -> None:
    harm(path)
    for name, do in OPERATIONS.items():
        with pytest.raises(LedgerGoneError, match=r"found (none|another) of this name\.") as caught:
            do(books)
        assert not caught.value.unsure, name


def test_books_that_are_brought_back_pay(books: Ledger, path: Path) -> None:
    aside = path.with_name("aside")
    path.rename(aside)
    with pytest.raises(LedgerGoneError):
        books.balance("a")
    aside.rename(path)
    assert books.charge("a", request(1.0)).number == 2
    assert books.balance("a").charges == 2


def test_a_link_that_leads_elsewhere_is_another_file(tmp_path: Path) -> None:
    real, copy, link = tmp_path / "real.db", tmp_path / "copy.db", tmp_path / "link.db"
    link.symlink_to(real)
    real.touch()
    ledger = Ledger.create(link)
    ledger.open_account("a", limit())
    ledger.charge("a", request(1.0))
    shutil.copy(real, copy)
    link.unlink()
    link.symlink_to(copy)
    with pytest.raises(LedgerGoneError, match="found another"):
        ledger.charge("a", request(1.0))
    ledger.close()


@pytest.mark.parametrize("harm", HARMS)
def test_a_charge_during_which_the_file_goes_is_undone(
    books: Ledger, path: Path, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction goes on with the open file, up to its commit."""
    from dptext.ledger import standings

    write = standings.write_whole

    def written(*given: object) -> object:
        found = write(*given)  # type: ignore[arg-type]
        harm(path)
        return found

    monkeypatch.setattr(standings, "write_whole", written)
    with pytest.raises(LedgerGoneError) as caught:
        books.charge("a", request(1.0))
    assert not caught.value.unsure


def test_a_file_that_goes_during_the_commit_is_noticed(
    books: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the charge may be in the file that is gone."""
    import sqlalchemy as sa

    sa.event.listen(books._database._engine, "commit", lambda _: path.unlink(missing_ok=True))
    with pytest.raises(LedgerGoneError) as caught:
        books.charge("a", request(1.0))
    assert caught.value.unsure


def test_a_new_connection_is_not_made_to_another_file(books: Ledger, path: Path) -> None:
    """One thread holds the only connection while another asks for a new one."""
    found: list[str] = []

    def ask() -> None:
        try:
            books.balance("a")
        except LedgerGoneError:
            found.append("gone")

    with contextlib.suppress(LedgerGoneError), books._database.reading():
        _replaced_by_new_books(path)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert found == ["gone"]


def test_a_log_of_changes_that_others_made_anew_is_not_trusted(books: Ledger, path: Path) -> None:
    """The file is the same, but what was written last stands in the log that was deleted."""
    _without_its_log(path)
    _without_its_index(path)
    reads = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM accounts'); print(); input()"
    words = [sys.executable, "-c", reads, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(LedgerGoneError, match=r"-(wal|shm) to be .* found another"):
            books.charge("a", request(1.0))
        other.communicate("\n")


def test_what_sqlite_removes_itself_is_not_missed(books: Ledger, path: Path) -> None:
    """A stop in the middle of a statement closes the connection, and with the last one its files go."""
    with books._database._engine.connect() as connection:
        connection.invalidate()
    assert not path.with_name(path.name + "-wal").exists()
    assert books.charge("a", request(1.0)).number == 2
    books.close()
    assert not path.with_name(path.name + "-wal").exists()
    assert books.charge("a", request(1.0)).number == 3


def test_books_that_are_closed_take_what_lies_there(books: Ledger, path: Path) -> None:
    books.close()
    _replaced_by_a_copy(path)
    assert books.balance("a").charges == 1


def test_books_of_another_journal_pay(books: Ledger, path: Path) -> None:
    """Where many made one ledger at once it may not have a write-ahead log."""
    books.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    books.charge("a", request(1.0))
    assert books.balance("a").charges == 2
    _deleted(path)
    with pytest.raises(LedgerGoneError):
        books.charge("a", request(1.0))


def test_another_folder_of_the_process_is_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is one of the folder in which the ledger was named."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    ledger = Ledger.create("budget.db")
    ledger.open_account("a", limit())
    unused = Ledger.at("budget.db")
    monkeypatch.chdir(tmp_path / "two")
    ledger.charge("a", request(1.0))
    assert unused.balance("a").charges == 1
    assert os.listdir() == []
    for each in (ledger, unused):
        each.close()
