"""SQLite files that fail: a clear error, nothing charged, nothing released, and all well later."""

import contextlib
import os
import random
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_faults import SHORT, Faulty, at, create
from ledger_processes import Children, request

import postgres as server_of_tests
from dptext.errors import ConfigError, LedgerError
from dptext.ledger.books import Ledger


@pytest.mark.parametrize("how", [pytest.param("IMMEDIATE", marks=pytest.mark.slow), "EXCLUSIVE"])  # no reader either
def test_a_locked_file(path: Path, faulty: Callable[..., Faulty], how: str) -> None:
    found = faulty(str(path))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {how}")
        began = time.monotonic()
        found.refuses_to_write("is locked by another program; wait")
        assert time.monotonic() - began < 7 * (SHORT + 1)
        found.reads()
        other.execute("ROLLBACK")
    found.is_well_again()


def test_a_lock_is_waited_for(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.15, other.execute, ["ROLLBACK"])
        timer.start()
        with contextlib.closing(at(str(path), wait=20.0)) as ledger:
            assert ledger.charge("account", request(0.5)).number == 31
        timer.join()


def test_a_database_that_may_not_grow(path: Path, faulty: Callable[..., Faulty]) -> None:
    ledger = at(str(path))

    def as_large_as_it_is(connection: sqlite3.Connection, _: object) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sa.event.listen(ledger._database._engine, "connect", as_large_as_it_is)
    found = faulty(ledger)
    many = [f"person {n}" for n in range(2000)]
    found.refuses(lambda: ledger.charge("account", request(0.5), subjects=many), "cannot be written: the disk is full")
    found.reads()
    found.is_well_again(at(str(path)))


def test_a_disk_that_is_full(
    path: Path,
    faulty: Callable[..., Faulty],
    source: Path,
    vectors: Path,
    children: Children,
) -> None:
    found = faulty(str(path))
    told = children.do(
        "on_a_full_disk",
        location=str(path),
        account="account",
        source=str(source),
        target=str(found.folder / "out.jsonl"),
        vectors=str(vectors),
    )
    assert told["balance"] == ""
    assert "cannot be read or written: the disk reports an error" in told["charge"]
    assert "cannot be read or written: the disk reports an error" in told["run"]
    assert not (found.folder / "out.jsonl").exists()
    for left in found.folder.iterdir():
        assert "--resume" in told["run"]
        left.unlink()
    found.is_well_again()


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o755), (0o644, 0o555), (0o444, 0o777), (0o600, 0o755)], ids=oct)
def test_a_file_that_may_not_be_written(
    whole: Path,
    source: Path,
    vectors: Path,
    children: Children,
    file: int,
    folder: int,
) -> None:
    """By its owner or, where the tests run as root, whom no permissions bind, by somebody else."""
    owner = os.geteuid() != 0
    if owner and file == 0o600:
        pytest.skip("the owner may use the file")
    place = Path(tempfile.mkdtemp(prefix="dptext-ledger-", dir=server_of_tests._searchable_folder()))
    try:
        place.chmod(0o755)
        (place / "books").mkdir()
        (place / "out").mkdir()
        (place / "out").chmod(0o777)
        path = Path(shutil.copy(whole, place / "books" / "ledger.db"))
        before = path.read_bytes()
        path.chmod(file)
        path.parent.chmod(folder)
        told = children.do(
            "as_nobody",
            location=str(path),
            account="account",
            source=shutil.copy(source, place),
            target=str(place / "out" / "out.jsonl"),
            vectors=str(vectors),
        )
        words = r"cannot be (written|opened): check the .*permissions of the file and of its folder"
        for what in ("charge", "run"):
            assert re.search(words, told[what]), told
        assert "no ledger" not in told["balance"]
        assert not told["balance"] or re.search(words, told["balance"])
        left = list((place / "out").iterdir())
        assert "out.jsonl" not in {each.name for each in left}
        assert not left or "--resume" in told["run"]
        assert path.read_bytes() == before
        path.parent.chmod(0o755)
        path.chmod(0o644)
        ledger = at(str(path))
        assert ledger.balance("account").charges == 30
        ledger.charge("account", request(0.5))
        assert ledger.verify("account").problems == ()
        ledger.close()
    finally:
        (place / "books").chmod(0o755)
        shutil.rmtree(place)


def _no_database(path: Path) -> None:
    path.write_text("This is a text of somebody. " * 1000)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _absent(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _damaged(path: Path) -> None:
    """All pages but the first, which holds the schema."""
    data = path.read_bytes()
    path.write_bytes(data[:4096] + random.Random(0).randbytes(len(data) - 4096))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 5 * 4096])


def _other(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE letters (text TEXT)")


def _newer(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'next'")


def _older(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")


@pytest.mark.parametrize(
    ("harm", "words", "to_create"),
    [
        (_no_database, "is not a SQLite database", "is not a SQLite database"),
        (_empty, "There is no ledger in .*: make one with `dptext budget open`", None),
        (_absent, "There is no ledger .*: make one with `dptext budget open`", None),
        (_folder, "cannot be opened: check the path and the permissions", "cannot be opened: check the path"),
        (_damaged, "is damaged: restore a copy", "is damaged: restore a copy"),
        (_cut, "is damaged: restore a copy", None),
        (_other, "There is no ledger in .*: make one with `dptext budget open`", "holds other tables"),
        (_newer, "to have the schema 0.2.0, found next: use the version of dptext that wrote it", None),
        (_older, "to have the schema 0.2.0, found 0003: use the version of dptext that wrote it", None),
    ],
)
def test_a_file_that_is_no_ledger_of_today(
    path: Path,
    whole: Path,
    faulty: Callable[..., Faulty],
    harm: Callable[[Path], None],
    words: str,
    to_create: str | None,
) -> None:
    harm(path)
    before = path.read_bytes() if path.is_file() else None
    found = faulty(str(path))
    found.refuses_everything(words)
    found.refuses(found.ledger.upgrade, words)
    if to_create is not None:
        found.refuses(lambda: create(str(path)), to_create)
    found.ledger.close()
    assert path.exists() == (before is not None or harm is _folder)
    assert before is None or path.read_bytes() == before
    if harm is _folder:
        path.rmdir()
    shutil.copy(whole, path)
    found.is_well_again()


def test_a_ledger_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be made: No such file or directory"):
        Ledger.create(tmp_path / "absent" / "ledger.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 40), marks=pytest.mark.slow)], ids=["few", "more"])
def test_damage_anywhere_is_said_in_plain_words(seeds: range, whole: Path, tmp_path: Path) -> None:
    """Bytes that are overwritten may go unnoticed, but for `verify`; what is noticed is an error of dptext."""
    data, path = whole.read_bytes(), tmp_path / "ledger.db"
    surprises = []
    for seed in seeds:
        rng, damaged = random.Random(seed), bytearray(data)
        for _ in range(rng.choice([1, 20, 200])):
            damaged[rng.randrange(4096, len(data))] = rng.randrange(256)
        path.write_bytes(damaged)
        ledger = at(str(path))
        for attempt in (
            lambda ledger=ledger: ledger.balance("account"),
            lambda ledger=ledger: list(ledger.log("account")),
            lambda ledger=ledger: ledger.charge("account", request(0.5), subjects=["a", "new"]),
            lambda ledger=ledger: ledger.charge("account", request(0.5)),
            lambda ledger=ledger: ledger.verify("account"),
        ):
            try:
                attempt()
            except ConfigError:
                pass
            except ValueError as error:
                surprises.append((seed, repr(error)))
        ledger.close()
        for each in tmp_path.glob("ledger.db*"):
            each.unlink()
    assert surprises == []
